"""scikit-learn estimators."""

from .additive import AdditiveSVC
from .kernel import BayesianSVC
from .linear import BayesianLinearSVC
from .mixed import MixedSVC
from .pcvm import PCVC
from .rvm import RVC

__all__ = ["AdditiveSVC", "BayesianLinearSVC", "BayesianSVC", "MixedSVC", "PCVC", "RVC"]
