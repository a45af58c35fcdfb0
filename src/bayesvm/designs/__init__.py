"""Designs: how input becomes columns."""

from .basis import Basis, Chosen
from .columns import Intercept, Standardised, fit_columns
from .gp import Mixture, Whitened, choose_points, whiten

__all__ = [
    "Basis",
    "Chosen",
    "Intercept",
    "Mixture",
    "Standardised",
    "Whitened",
    "choose_points",
    "fit_columns",
    "whiten",
]
