"""Priors: how a term's coefficients are shrunk."""

from .bridge import Bridge, Lasso
from .fixed import Fixed
from .inverse_wishart import InverseWishart
from .laplace_zero import LaplaceZero
from .ridge import Ridge
from .spike_slab import SpikeSlab

__all__ = ["Bridge", "Fixed", "InverseWishart", "LaplaceZero", "Lasso", "Ridge", "SpikeSlab"]
