"""Likelihoods: how a label sees the linear predictor."""

from .hinge import Hinge
from .logistic import Logistic
from .probit import Probit

__all__ = ["Hinge", "Logistic", "Probit"]
