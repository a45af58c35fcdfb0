"""Sparse kernel machines: probabilistic classification vector machines and relevance vectors."""

from . import candidates, folds, pcvm_laplace, pcvm_power, process_mode, rvm
from .candidates import MergedRows
from .journal import Journal
from .nnls import nnls
from .sparse import Found, Sparse, SparsePosterior

__all__ = [
    "Found",
    "Journal",
    "MergedRows",
    "Sparse",
    "SparsePosterior",
    "candidates",
    "folds",
    "nnls",
    "pcvm_laplace",
    "pcvm_power",
    "process_mode",
    "rvm",
]
