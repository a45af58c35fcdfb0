"""One length scale, or one per column."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..core import arrays
from ..core.types import Array

Scale = float | tuple[float, ...]


def check_scales(owner: Any) -> None:
    """Check a length scale, or one per column, and keep it hashable."""
    given = owner.length_scale
    try:
        value = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        value = np.array(np.nan)
    if value.ndim > 1 or value.size == 0 or not np.all(np.isfinite(value)) or np.any(value <= 0):
        raise ValueError(
            f"{type(owner).__name__}(length_scale) needs a positive number or one per column; "
            f"got {given!r}."
        )
    kept = tuple(value.tolist()) if value.ndim else float(value)
    object.__setattr__(owner, "length_scale", kept)


def divided(A: Array, scale: Scale) -> Array:
    """Columns over their length scales."""
    A = arrays.double(A)
    if isinstance(scale, tuple) and len(scale) != A.shape[1]:
        raise ValueError(
            f"the kernel has {len(scale)} length scales but the rows have {A.shape[1]} columns; "
            "give one length scale or one per column."
        )
    return A / arrays.like(np.asarray(scale), A)


def log_scales(scale: Scale) -> Array:
    return np.log(np.atleast_1d(np.asarray(scale, dtype=float)))


def from_logs(scale: Scale, logs: Array) -> Scale:
    values = np.exp(logs)
    return tuple(values.tolist()) if isinstance(scale, tuple) else float(values[0])


def scale_names(scale: Scale) -> tuple[str, ...]:
    if isinstance(scale, tuple):
        return tuple(f"length_scale[{d}]" for d in range(len(scale)))
    return ("length_scale",)


def column_scales(kernel: Any, p: int) -> Array:
    """How far along each column the kernel reaches: its shortest length scale, or one if none."""
    if hasattr(kernel, "length_scale"):
        return np.broadcast_to(np.asarray(kernel.length_scale), (p,))
    parts = [getattr(kernel, k) for k in ("kernel", "left", "right") if hasattr(kernel, k)]
    return np.min([column_scales(part, p) for part in parts], axis=0) if parts else np.ones(p)


def with_columns(kernel: Any, p: int) -> Any:
    """The kernel with every length scale repeated, one per column."""
    if hasattr(kernel, "length_scale") and not isinstance(kernel.length_scale, tuple):
        return replace(kernel, length_scale=(kernel.length_scale,) * p)
    parts = {
        k: with_columns(getattr(kernel, k), p)
        for k in ("kernel", "left", "right")
        if hasattr(kernel, k)
    }
    return replace(kernel, **parts) if parts else kernel
