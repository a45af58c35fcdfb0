"""Designs: how input becomes columns."""

from .basis import Basis, Chosen
from .columns import Intercept, Standardised, fit_columns
from .factors import FactorScores
from .filled import Filled
from .gp import Mixture, Whitened, choose_points, whiten
from .groups import Grouped
from .imputation import Factors, Unstructured
from .missing import Missing
from .table import Table

__all__ = [
    "Basis",
    "Chosen",
    "FactorScores",
    "Factors",
    "Grouped",
    "Intercept",
    "Filled",
    "Missing",
    "Mixture",
    "Standardised",
    "Table",
    "Unstructured",
    "Whitened",
    "choose_points",
    "fit_columns",
    "whiten",
]
