"""Likelihoods of labels and of regression targets given the linear predictor."""

from .base import Likelihood
from .epsilon_insensitive import EpsilonInsensitive
from .hinge import Hinge
from .logistic import Logistic
from .probit import Probit
from .skewed_laplace import SkewedLaplace
from .soft_hinge import SoftHinge

__all__ = [
    "EpsilonInsensitive",
    "Hinge",
    "Likelihood",
    "Logistic",
    "Probit",
    "SkewedLaplace",
    "SoftHinge",
]
