"""Designs: how input becomes columns."""

from .basis import Basis, Chosen
from .columns import Intercept, Standardised, fit_columns
from .gp import Whitened, choose_points, whiten
from .groups import Grouped
from .table import Table

__all__ = [
    "Basis",
    "Chosen",
    "Grouped",
    "Intercept",
    "Standardised",
    "Table",
    "Whitened",
    "choose_points",
    "fit_columns",
    "whiten",
]
