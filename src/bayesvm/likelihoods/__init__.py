"""Likelihoods of a label given the linear predictor."""

from .base import Likelihood
from .hinge import Hinge
from .logistic import Logistic
from .probit import Probit
from .skewed_laplace import SkewedLaplace
from .soft_hinge import SoftHinge

__all__ = ["Hinge", "Likelihood", "Logistic", "Probit", "SkewedLaplace", "SoftHinge"]
