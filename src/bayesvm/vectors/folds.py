"""Rows held out in turn, such that a row of weight two is a row twice."""

from __future__ import annotations

import numpy as np

from ..types import Array


def held_out(y: Array, c: Array, count: int, rng: np.random.Generator) -> Array:
    r"""Weights held out in each fold, ``(n, count)``, stratified by label; rows sum to ``c``.

    Rows of a class are laid on a line in random order, each as long as its weight, and the line is
    cut into unit pieces dealt to the folds in turn.  A row of weight one is in one fold, a row of
    weight seven is spread over all, as seven copies of it would be.

    Parameters
    ----------
    y : array of shape (n,)
        Labels; each distinct value is a class.
    c : array of shape (n,)
        Weights.
    count : int
        Number of folds.
    rng : numpy.random.Generator
        Order of rows.

    Returns
    -------
    H : array of shape (n, count)
        Weights held out; the rest of each row, ``c[:, None] - H``, is fitted.
    """
    H = np.zeros((y.size, count))
    unit = min(1.0, float(c.mean()))  # weights below one are not copies; cut them finer
    dealt = 0
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        ends = np.cumsum(c[rows]) / unit
        starts = ends - c[rows] / unit
        for i, a, b in zip(rows, starts, ends, strict=True):
            pieces = np.arange(np.floor(a + 1e-9), np.ceil(b - 1e-9))
            length = np.minimum(pieces + 1, b) - np.maximum(pieces, a)
            np.add.at(H[i], (pieces.astype(int) + dealt) % count, unit * length)
        dealt += int(np.ceil(ends[-1] - 1e-9))
    whole = H > (1.0 - 1e-9) * c[:, None]  # a row held out leaves no rounding behind
    return np.where(whole, c[:, None], H)


def fold_count(y: Array, c: Array, most: int) -> int:
    """As many folds as leave both classes in every one; zero if there are not two."""
    weights = [c[y == label] for label in np.unique(y)]
    if len(weights) < 2:
        return 0
    unit = min(1.0, float(c.mean()))
    fewest = min(int(np.floor(w.sum() / unit + 1e-9)) for w in weights)
    return min(most, fewest) if min(most, fewest) >= 2 else 0
