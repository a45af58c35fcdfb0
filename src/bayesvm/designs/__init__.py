"""Designs: how input becomes columns."""

from .basis import Basis, Chosen
from .columns import Intercept, Standardised, fit_columns
from .factors import FactorScores
from .gp import Whitened, choose_points, whiten
from .imputation import Factors, Unstructured
from .missing import Missing

__all__ = [
    "Basis",
    "Chosen",
    "FactorScores",
    "Factors",
    "Intercept",
    "Missing",
    "Standardised",
    "Unstructured",
    "Whitened",
    "choose_points",
    "fit_columns",
    "whiten",
]
