"""Likelihoods: how a label sees the linear predictor."""

from .hinge import Hinge
from .logistic import Logistic
from .probit import Probit
from .tight import Tight

__all__ = ["Hinge", "Logistic", "Probit", "Tight"]
