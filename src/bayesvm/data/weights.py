"""Weights of rows and of classes as users give them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from ..core.types import Array
from .sources import DaskRows

LEAST_WEIGHT, MOST_WEIGHT = 1e-15, 1e15  # of a row: sums of their squares keep their digits


def check_weights(sample_weight: Any, rows: Any) -> Array:
    """Weights of rows as floats, one for each, checked."""
    if isinstance(rows, DaskRows) and np.ndim(sample_weight):
        sample_weight = rows.aligned(sample_weight, "sample_weight").compute()
    n = rows.shape[0]
    if sample_weight is None:
        return np.ones(n)
    if isinstance(sample_weight, np.ma.MaskedArray) and np.ma.is_masked(sample_weight):
        raise ValueError("sample_weight has masked values; give a number for every row.")
    c = np.asarray(sample_weight)
    if c.dtype.kind == "O":
        with suppress(TypeError, ValueError):
            c = c.astype(float)
    if c.dtype.kind not in "biuf":
        hint = ""
        if isinstance(sample_weight, str | Mapping):
            hint = f" To weigh classes instead, set class_weight={sample_weight!r:.60}."
        got = c.dtype if c.ndim else f"{sample_weight!r:.60}"
        raise ValueError(f"sample_weight must be real numbers, one for each row; got {got}.{hint}")
    c = np.full(n, c, dtype=float) if c.ndim == 0 else np.asarray(c, dtype=float)
    if c.shape != (n,):
        raise ValueError(
            f"sample_weight must have shape ({n},), one number per row; got {c.shape}."
        )
    if not np.all(np.isfinite(c)):
        raise ValueError("sample_weight contains NaN or infinity; give finite numbers.")
    if np.any(c < 0):
        raise ValueError(
            f"sample_weight contains negative values (the smallest is {c.min():g}); weights are "
            "numbers of repetitions, so they must be at least 0."
        )
    if not np.any(c > 0):
        raise ValueError("all sample weights are zero, so no row is left to learn from.")
    if np.any((c > 0) & (c < LEAST_WEIGHT)) or np.any(c > MOST_WEIGHT):
        raise ValueError(
            f"sample_weight must be 0 or between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}; got values "
            f"from {c[c > 0].min():g} to {c.max():g}. Divide all by a common factor."
        )
    return c


def class_factors(class_weight: Any, masses: Array, classes: Array) -> Array:
    """Weights of classes whose rows have these total weights."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        with np.errstate(divide="ignore"):
            return np.where(masses > 0, masses.sum() / (len(classes) * masses), 0.0)
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be 'balanced', a dict or None; got {class_weight!r}.")
    known = classes.tolist()
    if unknown := [getattr(k, "item", lambda k=k: k)() for k in class_weight if k not in known]:
        raise ValueError(f"class_weight names {unknown[:3]}, but the classes are {known[:10]}.")
    factors = np.array([float(class_weight.get(k, 1.0)) for k in known])
    if np.any(factors < 0) or not np.all(np.isfinite(factors)):
        raise ValueError("class weights must be finite and at least 0.")
    return factors


def check_positive_weights(c: Any) -> None:
    if not np.all(c > 0):
        raise ValueError(
            "rows that are read in blocks need positive weights; leave rows of weight zero out."
        )


def whole(copies: Array, why: str = "") -> Array:
    """Whole numbers of copies of rows: a chain draws each copy's scores."""
    if np.any(copies != np.round(copies)):
        why = why or (
            "with inference='gibbs', sample_weight must be whole numbers: each copy of a row has "
            "separate scores."
        )
        raise ValueError(f"{why} Use inference='vb', or round the weights.")
    return copies.astype(int)
