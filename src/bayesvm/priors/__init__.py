"""Priors: how a term's coefficients are shrunk."""

from .fixed import Fixed
from .ridge import Ridge

__all__ = ["Fixed", "Ridge"]
