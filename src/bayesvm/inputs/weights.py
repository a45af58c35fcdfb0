"""Weights of rows and of classes, wherever the rows are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.types import Array


def real_weights(sample_weight: Any) -> Array:
    """Weights of rows as floats: one for each, or one for all."""
    try:
        values = np.asarray(sample_weight)
        if values.dtype.kind == "O" and not any(isinstance(c, str | complex) for c in values.flat):
            values = np.asarray(sample_weight, dtype=float)
    except (TypeError, ValueError):  # what cannot be an array of numbers
        values = np.empty(0, dtype=object)
    if isinstance(sample_weight, np.ma.MaskedArray) and np.ma.is_masked(sample_weight):
        raise ValueError("sample_weight has masked values; give a number for every row.")
    if values.dtype.kind not in "biuf":
        hint = ""
        if isinstance(sample_weight, str | Mapping):
            hint = f" To weigh classes instead, set class_weight={sample_weight!r:.60}."
        got = f"{sample_weight!r:.60}" if values.ndim == 0 or not values.size else values.dtype
        raise ValueError(f"sample_weight must be real numbers, one for each row; got {got}.{hint}")
    return np.asarray(values, dtype=float)


def class_factors(class_weight: Any, masses: Array, classes: Array) -> Array:
    """What ``class_weight`` makes of each class, whose rows have these total weights."""
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(
                f"class_weight={class_weight!r} is not known; use 'balanced', a dict or None."
            )
        with np.errstate(divide="ignore"):
            return np.where(masses > 0, masses.sum() / (len(classes) * masses), 0.0)
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be 'balanced', a dict or None; got {class_weight!r}.")
    unknown = [k for k in class_weight if k not in set(classes.tolist())]
    if unknown:
        plain = [k.item() if isinstance(k, np.generic) else k for k in unknown]
        raise ValueError(
            f"class_weight names {plain[:3]}, but the classes are {classes.tolist()[:10]}."
        )
    factors = np.array([float(class_weight.get(k, 1.0)) for k in classes])
    if np.any(factors < 0) or not np.all(np.isfinite(factors)):
        raise ValueError("class weights must be finite and at least 0.")
    return factors
