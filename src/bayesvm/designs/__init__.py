"""Designs: transformations of input to columns of the design matrix."""

from .columns import Basis, Chosen, Intercept, Standardised, fit_columns
from .groups import Grouped
from .imputation import Factors, Unstructured
from .missing import Filled, Missing
from .table import Table

__all__ = [
    "Basis",
    "Chosen",
    "Factors",
    "Filled",
    "Grouped",
    "Intercept",
    "Missing",
    "Standardised",
    "Table",
    "Unstructured",
    "fit_columns",
]
