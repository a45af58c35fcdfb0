"""scikit-learn estimators."""

from .kernel import BayesianSVC
from .linear import BayesianLinearSVC

__all__ = ["BayesianLinearSVC", "BayesianSVC"]
