"""scikit-learn estimators."""

from .kernel import BayesianSVC
from .linear import BayesianLinearSVC
from .pcvm import PCVC
from .rvm import RVC

__all__ = ["BayesianLinearSVC", "BayesianSVC", "PCVC", "RVC"]
