"""Least squares with nonnegative coefficients, from the normal equations."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..core.types import Array


def nnls(G: Array, r: Array, free: Array, start: Array | None = None, patience: int = 3) -> Array:
    r"""Minimise :math:`\frac12 x^\top G x - r^\top x` subject to :math:`x_j \ge 0`.

    Block principal pivoting: solve for the coefficients of a set of columns; remove all columns
    with negative coefficients and add all columns with positive gradients.  If this makes no
    progress, exchange only the last such column (Murty's rule), which terminates.
    ``scipy.optimize.nnls`` needs the rows; this function needs only their Gram matrix, allows free
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
        Initial set of columns; all by default.
    patience : int, default=3
        Number of block exchanges without progress, after which columns are exchanged one by one.

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
    fewest, left = K + 1, patience
    x = np.zeros(K)
    for _ in range(50 + 10 * K):
        at = np.flatnonzero(inside)
        x, part = np.zeros(K), G[np.ix_(at, at)]
        try:
            x[at] = cho_solve(cho_factor(part, check_finite=False), r[at]) if at.size else 0.0
        except np.linalg.LinAlgError:  # equal columns
            x[at] = np.linalg.lstsq(part, r[at], rcond=None)[0]
        wrong = np.where(inside, (x < 0) & ~free, r - G @ x > tol)
        count = int(wrong.sum())
        if not count:
            return x
        if count < fewest:
            fewest, left = count, patience
        else:
            left -= 1
        if left < 0:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        inside ^= wrong
    return np.where(free, x, np.maximum(x, 0.0))
