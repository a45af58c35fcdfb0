"""Fitted models for other programs: ONNX."""

from . import functions, special
from .model import to_onnx

__all__ = ["functions", "special", "to_onnx"]
