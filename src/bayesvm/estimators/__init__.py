"""scikit-learn estimators."""

from .linear import BayesianLinearSVC

__all__ = ["BayesianLinearSVC"]
