"""Designs: how input becomes columns."""

from .basis import Basis, Chosen
from .columns import Intercept, Standardised, fit_columns
from .filled import Filled
from .groups import Grouped
from .imputation import Factors, Unstructured
from .missing import Missing
from .table import Table

__all__ = [
    "Basis",
    "Chosen",
    "Factors",
    "Grouped",
    "Intercept",
    "Filled",
    "Missing",
    "Standardised",
    "Table",
    "Unstructured",
    "fit_columns",
]
