"""Likelihoods: how a label sees the linear predictor."""

from .hinge import Hinge
from .logistic import Logistic
from .probit import Probit
from .skewed_laplace import SkewedLaplace

__all__ = ["Hinge", "Logistic", "Probit", "SkewedLaplace"]
