"""Folds of weighted rows, such that a row of weight two is treated as two rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

from ..core.types import Array
from ..predictive.links import CalibratedLink

MOST_PIECES = 10**6  # of the rows of a class

Held = tuple[
    Array, Array, Array, Array
]  # of held-out rows: labels, mean and variance of f, weights


class Fold(NamedTuple):
    """Rows fitted, rows held out, candidates among the rows fitted, and weights."""

    rows: Array
    out: Array
    keep: Array  # numbers of candidates
    left: Array  # weights of the rows fitted
    held: Array  # of the rows held out, effective ones


def held_out(
    y: Array, c: Array, count: int, rng: np.random.Generator, unit: Array | float = 1.0
) -> Array:
    """Weights held out in each fold, ``(n, count)``, stratified by label; rows sum to ``c``.

    A row of weight seven is cut into seven pieces, as if it were seven rows, and the pieces are
    distributed at random; one of class weight seven, ``unit``, is not cut.  The rest of each row,
    ``c[:, None] - H``, is fitted.
    """
    _, code = np.unique(y, return_inverse=True)
    given, c = c, c / unit
    size = np.maximum(piece(c), np.bincount(code, c)[code] / MOST_PIECES)
    copies = np.maximum(np.ceil(c / size - 1e-9), 1).astype(int)
    pieces = np.repeat(np.arange(y.size), copies)
    split = StratifiedKFold(count, shuffle=True, random_state=int(rng.integers(2**31)))
    folds = [pieces[out] for _, out in split.split(pieces, y[pieces])]
    H = np.stack([np.bincount(fold, minlength=y.size) for fold in folds], axis=1)
    H = H * (given / copies)[:, None]
    whole = (1.0 - 1e-9) * given[:, None] < H  # a row held out leaves no rounding behind
    return np.where(whole, given[:, None], H)


def piece(c: Array) -> float:
    """The weight of one row: rows of weights below one are not cut."""
    return min(1.0, float(c.mean()))


def fold_count(y: Array, c: Array, most: int) -> int:
    """The number of folds, at most ``most``, that all contain every class; else zero."""
    _, code = np.unique(y, return_inverse=True)
    weights = np.bincount(code, c)
    count = min(most, int(np.floor(weights.min() / piece(c) + 1e-9)))
    return count if count >= 2 and weights.size >= 2 else 0


def row_losses(y: Array, m: Array, v: Array, c: Array) -> Array:
    """Log loss of each row, counted once, under the link fitted to all of them."""
    p = CalibratedLink.fit(y, m, v, c).proba(m, v)
    out: Array = -np.log(np.where(y > 0, p, 1.0 - p))
    return out
