"""Folds of weighted rows, such that a row of weight two is treated as two rows."""

from __future__ import annotations

import numpy as np
from scipy.special import log_expit

from ..core.types import Array
from ..machines.calibration import fit_link

MOST_PIECES = 10**6  # of a class; beyond, counts are drawn instead

Held = tuple[
    Array, Array, Array, Array
]  # of held-out rows: labels, mean and variance of f, weights


def held_out(y: Array, c: Array, count: int, rng: np.random.Generator) -> Array:
    r"""Weights held out in each fold, ``(n, count)``, stratified by label; rows sum to ``c``.

    A row of weight seven is cut into seven pieces, as if it stood there seven times; the pieces of
    a class are shuffled and dealt to the folds in turn.  Copies go their own ways at random: spread
    evenly, they would make the rows held out resemble those fitted more than new rows do.

    Parameters
    ----------
    y : array of shape (n,)
        Labels; each distinct value is a class.
    c : array of shape (n,)
        Weights.
    count : int
        Number of folds.
    rng : numpy.random.Generator
        Order of pieces.

    Returns
    -------
    H : array of shape (n, count)
        Weights held out; the rest of each row, ``c[:, None] - H``, is fitted.
    """
    H = np.zeros((y.size, count))
    unit = piece(c)
    copies = np.maximum(np.ceil(c / unit - 1e-9), 1).astype(int)
    dealt = 0
    first = np.sort(np.unique(y, return_index=True)[1])
    for label in y[first]:  # in the order of rows, so that other names of classes change nothing
        rows = np.flatnonzero(y == label)
        if copies[rows].sum() > MOST_PIECES:
            share = rng.multinomial(copies[rows], np.full(count, 1.0 / count))
            H[rows] = share * (c[rows] / copies[rows])[:, None]
            continue
        pieces = rng.permutation(np.repeat(rows, copies[rows]))
        np.add.at(H, (pieces, (dealt + np.arange(pieces.size)) % count), (c / copies)[pieces])
        dealt += pieces.size
    whole = (1.0 - 1e-9) * c[:, None] < H  # a row held out leaves no rounding behind
    return np.where(whole, c[:, None], H)


def piece(c: Array) -> float:
    """What counts as one row: weights below one are not copies, and are cut no finer."""
    return min(1.0, float(c.mean()))


def fold_count(y: Array, c: Array, most: int) -> int:
    """As many folds as leave both classes in every one; zero if there are not two."""
    weights = [c[y == label] for label in np.unique(y)]
    if len(weights) < 2:
        return 0
    unit = piece(c)
    fewest = min(int(np.floor(w.sum() / unit + 1e-9)) for w in weights)
    return min(most, fewest) if min(most, fewest) >= 2 else 0


def row_losses(y: Array, m: Array, v: Array, c: Array) -> Array:
    """Log loss of each row, counted once, under the link fitted to all of them."""
    link = fit_link(y, m, v, c)
    out: Array = -log_expit(y * link.logit(m, v))
    return out
