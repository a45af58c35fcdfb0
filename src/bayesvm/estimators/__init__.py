"""scikit-learn estimators."""

from .additive import AdditiveSVC
from .kernel import BayesianSVC
from .linear import BayesianLinearSVC
from .pcvm import PCVC
from .rvm import RVC

__all__ = ["AdditiveSVC", "BayesianLinearSVC", "BayesianSVC", "PCVC", "RVC"]
