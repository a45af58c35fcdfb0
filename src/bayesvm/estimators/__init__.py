"""scikit-learn estimators."""

from .additive import AdditiveSVC
from .factor import FactorSVC
from .kernel import BayesianSVC
from .linear import BayesianLinearSVC
from .mixed import MixedSVC
from .pcvm import PCVC
from .rvm import RVC

__all__ = [
    "AdditiveSVC",
    "BayesianLinearSVC",
    "BayesianSVC",
    "FactorSVC",
    "MixedSVC",
    "PCVC",
    "RVC",
]
