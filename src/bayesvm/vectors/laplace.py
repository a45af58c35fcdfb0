r"""The convex machine: a one-sided Laplace prior of weights, a Gaussian process prior of f.

.. math::

    \max_{x \ge 0,\, b}\; \sum_i c_i \log\Phi(y_i z_i)
        - \tau\sum_j x_j - \tfrac12\lambda\, w^\top K w, \qquad w_j = y_j x_j .

The two say different things.  The norm of *f* in the kernel's space, of weight :math:`\lambda`,
makes it smooth; without the rate :math:`\tau` the answer is the mode of a Gaussian process, whose
weights :math:`w_j = g_j/\lambda` are on their labels' sides anyway, and none of them is zero.  The
rate makes most of them zero.  It also shrinks the others, which the norm has done already: so once
it has chosen the vectors, their weights are found again without it (as the relaxed lasso does).
With :math:`\lambda = 0` the rate has both tasks, and its weights stay.
"""

from __future__ import annotations

import numpy as np

from ..core.types import Array
from .machine import Sparse
from .newton import BIAS, Gram, Penalty, local, maximise, newton, objective, with_bias


def penalty(K: int, rate: float, gram: Gram | None = None) -> Penalty:
    """Minus the log prior of ``K - 1`` weights and a flat bias."""
    return with_bias(np.full(K - 1, rate), np.zeros(K - 1), gram)


def fit(A: Array, y: Array, c: Array, rate: float, gram: Gram | None = None) -> Sparse:
    """Maximise, and approximate the posterior of the survivors.

    ``A`` holds signed columns, the constant last; coefficients come back signed as ``A`` is.
    """
    p = penalty(A.shape[1], rate, gram)
    x, steps = maximise(A, y, c, p, np.zeros(A.shape[1]))
    if gram is not None:
        return among(A, y, c, gram, x, steps)
    value = objective(A, y, c, p, x)
    return survivors(A, y, c, x, curvature(x, rate), value, [value], steps)


def among(A: Array, y: Array, c: Array, gram: Gram, x: Array, steps: int = 0) -> Sparse:
    """The machine of those vectors that have a weight, found again without the rate."""
    x, more = relaxed(A, y, c, gram, x)
    return at(A, y, c, gram, x, steps + more)


def at(A: Array, y: Array, c: Array, gram: Gram, x: Array, steps: int = 0) -> Sparse:
    """The machine of such weights, without a rate."""
    value = objective(A, y, c, penalty(x.size, 0.0, gram), x)
    return survivors(A, y, c, x, curvature(x, 0.0, gram), value, [value], steps)


def relaxed(
    A: Array, y: Array, c: Array, gram: Gram, x: Array, tol: float = 1e-9
) -> tuple[Array, int]:
    """The weights of those that a rate has chosen, without it; also the steps made."""
    work = np.flatnonzero(np.append(x[:-1] > 0, True))
    out = np.zeros_like(x)
    p = penalty(x.size, 0.0, gram).of(work)
    out[work], steps = newton(A[:, work], y, c, p, x[work], tol)
    return out, steps


def curvature(x: Array, rate: float, gram: Gram | None = None) -> Array:
    r"""Precision of the survivors' prior: :math:`\lambda K`, or :math:`\mathrm{diag}(\tau/x)`.

    The Laplace prior's own second derivative is zero: that of the Gaussian of its mixture stands
    for it.
    """
    on = np.flatnonzero(x[:-1] > 0)
    return np.diag(rate / x[on]) if gram is None else gram.of(on).matrix()


def survivors(
    A: Array,
    y: Array,
    c: Array,
    x: Array,
    prior: Array,
    value: float,
    path: list[float],
    n_iter: int,
    converged: bool = True,
    change: float = 0.0,
) -> Sparse:
    r"""Laplace's approximation at the survivors, :math:`\Sigma^{-1} = A_a^\top D A_a + P`.

    ``prior`` is the matrix *P* without the bias.
    """
    columns = np.flatnonzero(x[:-1] > 0)
    kept = np.append(columns, x.size - 1)
    row = local(A[:, kept], y, c, x[kept])
    B = A[:, kept] * np.sqrt(row.h)[:, None]
    Q = B.T @ B
    Q[:-1, :-1] += prior
    Q[-1, -1] += BIAS
    return Sparse(columns, x[kept], Q, value, path, n_iter, converged, change)
