r"""The convex machine: a one-sided Laplace prior, its tail Gaussian if asked.

.. math::

    \max_{x \ge 0,\, b}\; \sum_i c_i \log\Phi(y_i z_i)
        - \tau\sum_j x_j - \tfrac12\rho\,\tau^2\sum_j x_j^2 .

The maximiser is unique.  The rate :math:`\tau` is the scale of the prior; :math:`\rho` is its
shape, free of units.  With :math:`\rho = 0` two vectors that say the same compete, and one of them
dies; a trace of the quadratic lets them share, which costs vectors and averages noise.
"""

from __future__ import annotations

import numpy as np

from ..types import Array
from .machine import Sparse
from .newton import BIAS, Penalty, local, maximise, objective, with_bias


def penalty(K: int, rate: float, ridge: float) -> Penalty:
    """Minus the log prior of ``K - 1`` weights and a flat bias."""
    return with_bias(np.full(K - 1, rate), np.full(K - 1, ridge * rate**2))


def fit(A: Array, y: Array, c: Array, rate: float, ridge: float, x: Array | None = None) -> Sparse:
    """Maximise, and approximate the posterior of the survivors.

    ``A`` holds signed columns, the constant last; coefficients come back signed as ``A`` is.
    """
    x = np.zeros(A.shape[1]) if x is None else x
    p = penalty(A.shape[1], rate, ridge)
    x, steps = maximise(A, y, c, p, x)
    value = objective(A, y, c, p, x)
    return survivors(A, y, c, x, rate / x[:-1][x[:-1] > 0] + ridge * rate**2, value, [value], steps)


def survivors(
    A: Array,
    y: Array,
    c: Array,
    x: Array,
    alpha: Array,
    value: float,
    path: list[float],
    n_iter: int,
    converged: bool = True,
    change: float = 0.0,
) -> Sparse:
    r"""Laplace's approximation at the survivors given the precisions of their mixture.

    :math:`\Sigma^{-1} = A_a^\top D A_a + \mathrm{diag}(\alpha, \beta)`, with
    :math:`\alpha_j = \tau/x_j` for the Laplace prior: its own second derivative is zero.
    """
    columns = np.flatnonzero(x[:-1] > 0)
    kept = np.append(columns, x.size - 1)
    row = local(A[:, kept], y, c, x[kept])
    B = A[:, kept] * np.sqrt(row.h)[:, None]
    Q = B.T @ B
    Q.flat[:: kept.size + 1] += np.append(alpha, BIAS)
    return Sparse(columns, x[kept], Q, value, path, n_iter, converged, change)
