"""First means of k-means in compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from .jit import compiled

Array = Any


@compiled(fastmath={"contract", "reassoc", "nsz"})
def distances(X: Array, at: int, near: Array, out: Array) -> float:
    """Squared distances of the rows, which are columns of X, to one of them or ``near`` if less.

    Their sum is returned.
    """
    out[:] = 0.0
    for j in range(X.shape[0]):
        row, x = X[j], X[j, at]
        for i in range(row.shape[0]):
            gap = row[i] - x
            out[i] += gap * gap
    total = 0.0
    for i in range(out.shape[0]):
        out[i] = min(out[i], near[i])
        total += out[i]
    return total


@compiled()
def first_means(X: Array, first: int, shares: Array, chosen: Array) -> None:
    """Numbers of the rows that k-means begins with, by the steps of scikit-learn's k-means++.

    Rows are the columns of X; ``shares``, ``(means - 1, trials)``, are uniform draws.
    """
    n = X.shape[1]
    near, best, tried = np.full(n, np.inf), np.empty(n), np.empty(n)
    sums = np.empty(n)
    chosen[0] = first
    distances(X, first, near, tried)
    near[:] = tried
    for k in range(shares.shape[0]):
        total = 0.0
        for i in range(n):
            total += near[i]
            sums[i] = total
        least = np.inf
        for j in range(shares.shape[1]):
            at = min(np.searchsorted(sums, shares[k, j] * total), n - 1)
            left = distances(X, at, near, tried)
            if j == 0 or left < least:
                least, chosen[k + 1] = left, at
                best, tried = tried, best
        near, best = best, near
