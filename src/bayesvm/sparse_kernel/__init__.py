"""Sparse kernel machines: probabilistic classification vector machines and relevance vectors."""

from .nnls import nnls
from .pcvm_power import Power

__all__ = ["Power", "nnls"]
