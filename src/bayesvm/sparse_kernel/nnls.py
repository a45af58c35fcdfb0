"""Least squares with nonnegative coefficients, from the normal equations."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dposv

from ..core.types import Array

TRIES = 3  # exchanges of whole blocks without progress; after them, one index at a time


def nnls(G: Array, r: Array, free: Array, start: Array | None = None) -> Array:
    r"""Minimise :math:`\frac12 x^\top G x - r^\top x` subject to :math:`x_j \ge 0`.

    Block principal pivoting: solve for the coefficients of a set of columns; remove the columns
    whose coefficients are negative and add those whose gradient is positive, all at once.  Where
    that makes no progress, exchange only the last such column (Murty's rule), which terminates.
    ``scipy.optimize.nnls`` needs the rows; this function needs their Gram matrix only, allows free
    coefficients and starts from a known set.

    Parameters
    ----------
    G : array of shape (K, K)
        Positive definite matrix.
    r : array of shape (K,)
        Linear part.
    free : boolean array of shape (K,)
        Coefficients without a constraint.
    start : boolean array of shape (K,), optional
        Columns of the first set; all by default.

    Returns
    -------
    x : array of shape (K,)
        The minimiser.  Coefficients outside the final set are exactly zero.

    References
    ----------
    Portugal, Judice & Vicente (1994); Kim & Park (2011).

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.sparse_kernel import nnls
    >>> nnls(np.eye(3), np.array([1.0, -1.0, -2.0]), np.array([False, False, True]))
    array([ 1.,  0., -2.])
    """
    K = r.size
    inside = np.ones(K, dtype=bool) if start is None else start | free
    tol = 1e-12 * (np.abs(r).max(initial=0.0) + np.finfo(float).tiny)
    fewest, left = K + 1, TRIES
    x = np.zeros(K)
    for _ in range(50 + 10 * K):
        at = np.flatnonzero(inside)
        x = np.zeros(K)
        x[at] = solve(G[np.ix_(at, at)], r[at])
        wrong = np.where(inside, (x < 0) & ~free, r - G @ x > tol)
        count = int(wrong.sum())
        if not count:
            return x
        if count < fewest:
            fewest, left = count, TRIES
        else:
            left -= 1
        if left < 0:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        inside ^= wrong
    return np.where(free, x, np.maximum(x, 0.0))


def solve(G: Array, r: Array) -> Array:
    """Solve a positive definite system; jitter is added only if rounding made it singular."""
    if not r.size:
        return r
    jitter = 0.0
    for _ in range(12):
        _, x, info = dposv(G + jitter * np.eye(r.size) if jitter else G, r)
        if info == 0 and np.all(np.isfinite(x)):
            return x
        jitter = max(10.0 * jitter, 1e-14 * float(np.trace(G)) / r.size + np.finfo(float).tiny)
    return np.linalg.lstsq(G, r, rcond=None)[0]
