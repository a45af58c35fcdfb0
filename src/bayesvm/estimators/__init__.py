"""scikit-learn estimators."""

from .factor import FactorSVC
from .kernel import BayesianSVC
from .linear import BayesianLinearSVC
from .pcvm import PCVC
from .rvm import RVC

__all__ = ["BayesianLinearSVC", "BayesianSVC", "FactorSVC", "PCVC", "RVC"]
