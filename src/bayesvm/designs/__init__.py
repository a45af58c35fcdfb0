"""Designs: transformations of input to columns of the design matrix."""

from .columns import Basis, Chosen, Intercept, Standardised, fit_columns
from .groups import Grouped, Table
from .imputation import Factors, Unstructured
from .missing import Filled, Missing

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
