"""Least squares with signs: the exact M-step of a truncated prior."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dposv

from ..core.types import Array

TRIES = 3  # exchanges of whole blocks that need not make progress; then one at a time


def nnls(G: Array, r: Array, free: Array, start: Array | None = None) -> Array:
    r"""Minimise :math:`\frac12 x^\top G x - r^\top x` subject to :math:`x_j \ge 0`.

    Block principal pivoting: solve on a set of columns, let those that came out negative leave and
    those that would gain from entering enter, all at once; where that makes no progress, one at a
    time, the last first, which terminates.

    Parameters
    ----------
    G : array of shape (K, K)
        Positive definite; a trace of jitter is added if rounding has made it singular.
    r : array of shape (K,)
        Linear part.
    free : boolean array of shape (K,)
        Columns without a constraint.
    start : boolean array of shape (K,), optional
        Columns to begin with; all of them by default.

    Returns
    -------
    x : array of shape (K,)
        The minimiser; what is not in the final set is exactly zero.

    References
    ----------
    Portugal, Judice & Vicente (1994); Kim & Park (2011).

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.vectors import nnls
    >>> nnls(np.eye(3), np.array([1.0, -1.0, -2.0]), np.array([False, False, True]))
    array([ 1.,  0., -2.])
    """
    K = r.size
    inside = np.ones(K, dtype=bool) if start is None else start | free
    scale = np.abs(r).max(initial=0.0) + np.finfo(float).tiny
    tol = 1e-12 * scale
    fewest, left = K + 1, TRIES
    x = np.zeros(K)
    for _ in range(50 + 10 * K):
        at = np.flatnonzero(inside)
        x = np.zeros(K)
        x[at] = solve(G[np.ix_(at, at)], r[at])
        slope = r - G @ x
        bad = np.where(inside, (x < 0) & ~free, slope > tol)
        count = int(bad.sum())
        if not count:
            return x
        if count < fewest:
            fewest, left = count, TRIES
        else:
            left -= 1
        if left >= 0:
            inside ^= bad
        else:  # the last bad index alone: Murty's rule, finite
            last = np.flatnonzero(bad)[-1]
            inside[last] = ~inside[last]
    return np.where(free, x, np.maximum(x, 0.0))


def solve(G: Array, r: Array) -> Array:
    """Solve a positive definite system, with jitter only if it is needed."""
    if not r.size:
        return r
    jitter = 0.0
    for _ in range(12):
        _, x, info = dposv(G + jitter * np.eye(r.size) if jitter else G, r)
        if info == 0 and np.all(np.isfinite(x)):
            return x
        jitter = max(10.0 * jitter, 1e-14 * float(np.trace(G)) / r.size + np.finfo(float).tiny)
    return np.linalg.lstsq(G, r, rcond=None)[0]
