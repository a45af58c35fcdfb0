"""Fitted models for other programs: ONNX."""

from .model import to_onnx

__all__ = ["to_onnx"]
