"""Inference schemes: four ways round the same loop."""

from .em import EM
from .gibbs import Gibbs
from .progress import Progress
from .svi import SVI
from .vb import VB

__all__ = ["EM", "SVI", "VB", "Gibbs", "Progress"]
