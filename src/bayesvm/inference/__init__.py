"""Inference schemes: VB, EM, SVI and Gibbs sampling."""

from .em import EM
from .gibbs import Gibbs
from .progress import Progress
from .svi import SVI
from .vb import VB

__all__ = ["EM", "SVI", "VB", "Gibbs", "Progress"]
