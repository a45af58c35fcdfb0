"""scikit-learn estimators."""

from .kernel import BayesianSVC
from .linear import BayesianLinearSVC
from .mixed import MixedSVC
from .pcvm import PCVC
from .rvm import RVC

__all__ = ["BayesianLinearSVC", "BayesianSVC", "MixedSVC", "PCVC", "RVC"]
