"""Sparse kernel machines: probabilistic classification vector machines and relevance vectors."""

from . import folds, pcvm_laplace, pcvm_power, process_mode, rvm
from .journal import Journal
from .nnls import nnls
from .sparse import Sparse, SparsePosterior
from .training import Training

__all__ = [
    "Journal",
    "Sparse",
    "SparsePosterior",
    "Training",
    "folds",
    "nnls",
    "pcvm_laplace",
    "pcvm_power",
    "process_mode",
    "rvm",
]
