"""Numbers to predict, as users give them, and training rows with them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import column_or_1d

from ..core import arrays
from ..core.types import Array
from .labels import check_weights
from .levels import absent
from .reading import kind_of

LARGEST = 1e150  # whose square can be computed


class Numbered(NamedTuple):
    """Training rows of positive weight with the numbers to predict, and weights."""

    X: Any
    y: Array
    c: Array
    rows: Array  # numbers of the rows in the input

    @classmethod
    def of(cls, X: Any, y: Array, sample_weight: Any) -> Numbered:
        """Checked rows and numbers, with weights."""
        c = check_weights(sample_weight, None, y, None, X)
        some = np.flatnonzero(c > 0)
        if some.size == c.size:
            return cls(X, y, c, some)
        return cls(arrays.pick(X, some), y[some], c[some], some)


def read_numbers(y: Any, X: Any) -> Array:
    """Finite numbers, one for each of the rows X."""
    if kind_of(X) != "memory":
        raise ValueError(
            "regression takes rows in memory: NumPy, SciPy sparse, pandas or polars; got "
            f"{type(X).__name__}. Rows read in blocks, on a device or of Dask are for classifiers."
        )
    if y is None:
        raise ValueError(
            "fitting requires y to be passed, but the target y is None; give a number for each row."
        )
    if isinstance(y, np.ma.MaskedArray) and np.ma.is_masked(y):
        raise ValueError("Input y contains NaN: some of its values are masked. Leave rows out.")
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] > 1:
        raise ValueError(
            f"y should be a 1d array, got an array of shape {y.shape} instead. BayesianSVR "
            "predicts one number a row; fit one model for each column of y."
        )
    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: y must be real numbers; its type is {y.dtype}."
        )
    if y.dtype.kind not in "biuf":
        y = _from_objects(y)
    y = np.asarray(y, dtype=float)
    if y.shape[0] != X.shape[0]:
        raise ValueError(
            f"inconsistent numbers of samples: X has {X.shape[0]} rows but y has {y.shape[0]} "
            "numbers."
        )
    if gone := int(np.isnan(y).sum()):
        raise ValueError(
            f"Input y contains NaN: {gone} of {y.size} numbers are missing. Leave such rows out."
        )
    if np.any(np.abs(y) > LARGEST):
        raise ValueError(
            "Input y contains infinity or a value too large: y must be finite, at most "
            f"{LARGEST:g} in size. Use another unit, or leave such rows out."
        )
    return y


def _from_objects(y: Array) -> Array:
    """Numbers among objects; missing ones are NaN."""
    try:
        return np.array([np.nan if gone else float(v) for v, gone in zip(y, absent(y))])
    except (TypeError, ValueError) as error:
        wrong = next(v for v in y if not _is_real(v))
        raise ValueError(
            f"Unknown label type: y must be numbers; got {wrong!r:.60}. Classes are for "
            "BayesianLinearSVC and BayesianSVC."
        ) from error


def _is_real(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
