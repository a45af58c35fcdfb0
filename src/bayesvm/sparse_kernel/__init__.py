"""Sparse kernel machines: probabilistic classification vector machines and relevance vectors."""

from .nnls import nnls
from .pcvm import Power

__all__ = ["Power", "nnls"]
