"""Designs: how input becomes columns of the linear predictor."""

from .columns import Intercept, Standardised, fit_columns

__all__ = ["Intercept", "Standardised", "fit_columns"]
