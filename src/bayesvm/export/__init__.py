"""Fitted models for other programs: ONNX."""

from . import special
from .model import to_onnx

__all__ = ["special", "to_onnx"]
