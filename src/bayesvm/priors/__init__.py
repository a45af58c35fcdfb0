"""Priors of the coefficients."""

from .base import Prior
from .bridge import Bridge, Lasso
from .gaussian import Fixed, Ridge
from .inverse_wishart import InverseWishart
from .selection import LaplaceZero, SpikeSlab

__all__ = [
    "Bridge",
    "Fixed",
    "InverseWishart",
    "LaplaceZero",
    "Lasso",
    "Prior",
    "Ridge",
    "SpikeSlab",
]
