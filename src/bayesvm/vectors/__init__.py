"""Sparse kernel machines: which rows become vectors, and with what weight."""

from . import folds, laplace, learn, power, process, relevance, thinning, tune, widths
from .folds import fold_count, held_out
from .machine import OnColumns, Sparse
from .newton import Penalty, em_step, maximise, newton
from .nnls import nnls

__all__ = [
    "folds",
    "laplace",
    "learn",
    "power",
    "process",
    "relevance",
    "thinning",
    "tune",
    "widths",
    "OnColumns",
    "Penalty",
    "Sparse",
    "em_step",
    "fold_count",
    "held_out",
    "maximise",
    "newton",
    "nnls",
]
