"""The prior of the intercept: from its standard deviation, or the default of a model."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from . import Fixed

WIDE_INTERCEPT = Fixed(1e-4)  # the default: a standard deviation of 100


def intercept_prior(scale: Any, default: Fixed = WIDE_INTERCEPT) -> Fixed:
    """The prior of an intercept from its standard deviation; flat if that is infinite."""
    if scale is None:
        return default
    number = isinstance(scale, Real) and not isinstance(scale, bool)
    if not (number and float(scale) > 0):
        raise ValueError(f"intercept_scale must be a positive number or None; got {scale!r}.")
    if not (1e-6 <= float(scale) <= 1e6 or np.isinf(scale)):
        raise ValueError(f"intercept_scale must lie between 1e-06 and 1e+06; got {scale!r}.")
    return Fixed(1.0 / (float(scale) * float(scale)))
