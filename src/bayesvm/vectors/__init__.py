"""Sparse kernel machines: probabilistic classification vector machines and relevance vectors."""

from .nnls import nnls

__all__ = ["nnls"]
