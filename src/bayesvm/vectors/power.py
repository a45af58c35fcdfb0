r"""The paper's machine: truncated Gaussians whose precisions have Gamma(c, 0) priors.

The prior of a weight is :math:`p(w) \propto |w|^{-(2c + 1)}` on its label's side, and
:math:`\bar\alpha = (2c + 1)/w^2`.  The density is unbounded at zero, so what is sought is a local
maximum reached from large weights; where one starts matters.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core.types import Array
from ..inference.progress import Progress, Watch, silent
from .laplace import survivors
from .machine import Sparse
from .newton import PROBIT, em_step, newton, objective, with_bias

SMALL = 1e-6  # |w| / sqrt(2c + 1) below which a weight has died: alpha above 1e12
WIDTH_AFTER = 5  # iterations before the kernel moves
WIDTH_STEP = 0.3  # largest move of the log width


def log_prior(x: Array, shape: float) -> float:
    """Log density of the surviving weights, up to a constant that each death changes."""
    return float(-(2.0 * shape + 1.0) * np.log(x).sum())


def fit(
    A: Array,
    y: Array,
    c: Array,
    x: Array,
    shape: float,
    *,
    solver: str = "newton",
    tol: float = 1e-5,
    max_iter: int = 500,
    move: Callable[[Array, Array], Array | None] | None = None,
    watch: Watch = silent,
) -> Sparse:
    r"""Alternate :math:`\bar\alpha` and a maximisation over weights, pruning what dies.

    ``solver="em"`` makes one EM step for each :math:`\bar\alpha`, as the paper does but with the
    exact M-step; ``"newton"`` maximises.  Both ascend.  ``move(columns, coefficients)`` may change
    the kernel: it returns new signed columns for the survivors, or ``None``.

    Returns
    -------
    sparse : Sparse
        The machine; its columns are numbered as those of ``A``.
    """
    weight = 2.0 * shape + 1.0
    columns = np.flatnonzero(x[:-1] > 0)
    x = x[np.append(columns, x.size - 1)]
    A = A[:, np.append(columns, A.shape[1] - 1)]
    path: list[float] = []
    converged, change, n_iter = False, np.inf, 0
    for n_iter in range(1, max_iter + 1):
        alpha = weight / x[:-1] ** 2
        penalty = with_bias(np.zeros(alpha.size), alpha)
        new = (
            em_step(A, y, c, penalty, x)
            if solver == "em"
            else newton(A, y, c, penalty, x, 1e-10)[0]
        )
        alive = np.append(new[:-1] > SMALL * np.sqrt(weight), True)
        change = float(np.max(np.abs(new - x)[alive] / np.maximum(1.0, np.abs(new[alive]))))
        x, A, columns = new[alive], A[:, alive], columns[alive[:-1]]
        if move is not None and n_iter > WIDTH_AFTER and columns.size:
            moved = move(columns, x)
            if moved is not None:
                A = moved
        flat = with_bias(np.zeros(columns.size), np.zeros(columns.size))
        path.append(objective(A, y, c, flat, x) + log_prior(x[:-1], shape))
        if alive.all() and change < tol:
            converged = True
            break
        if watch(Progress("iterations", n_iter, max_iter, path[-1], change), x):
            break
    alpha = weight / x[:-1] ** 2
    sparse = survivors(A, y, c, x, np.diag(alpha), path[-1], path, n_iter, converged, change)
    return sparse._replace(columns=columns)


def width_step(at: Callable[[float], Array], y: Array, c: Array, x: Array, slope: float) -> float:
    r"""A Gauss-Newton step of the log width that raises the likelihood, or zero.

    ``at(step)`` gives the signed columns at a width multiplied by :math:`e^{step}`; ``slope`` is
    :math:`\partial\log p/\partial\log\ell = \sum_{ij} g_i w_j\,\partial\phi_{ij}`, Chen et al.,
    eq. 10, with its sign and bias corrected.
    """
    e = 1e-4
    dz = (at(e) @ x - at(-e) @ x) / (2 * e)
    z = at(0.0) @ x
    h = c * PROBIT.expected(y, z, 0.0).h
    curvature = float(h @ dz**2)
    if not curvature > 0:
        return 0.0
    value = float(c @ PROBIT.log_prob(y, z))
    step = float(np.clip(slope / curvature, -WIDTH_STEP, WIDTH_STEP))
    for _ in range(10):
        if float(c @ PROBIT.log_prob(y, at(step) @ x)) > value:
            return step
        step *= 0.5
    return 0.0
