r"""Exact finish of the hinge's quadratic programme, and certificates of optimality.

With :math:`\tilde x_i = y_i c_i` and weights :math:`k_i` the minimiser of
:math:`2\sum_i k_i u_i^+ + \frac12\theta^\top P\theta` satisfies, with duals
:math:`\phi_i \in [0, 2k_i]`,

.. math:: P\theta = \sum_i \phi_i \tilde x_i, \qquad
    u_i > 0 \Rightarrow \phi_i = 2k_i, \quad u_i < 0 \Rightarrow \phi_i = 0 .

Given which rows lie on the margin this is one linear system; the set is corrected until it holds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..model import Problem
from ..types import Array
from .loop import State

STEPS = 60
LARGEST = 3000  # rows on the margin that one linear system may hold


class Certificate(NamedTuple):
    """How far from optimal: relative residual of the stationarity and relative duality gap."""

    kkt: float
    gap: float


def margins(problem: Problem, mean: Array) -> tuple[Array, Array, Array]:
    """``u = 1 - y f``, labels and weights of every row."""
    u = 1.0 - problem.blocks.y * problem.predictor(mean)
    return u, problem.blocks.y, problem.blocks.c


def pull(problem: Problem, phi: Array) -> Array:
    r""":math:`\sum_i \phi_i \tilde x_i`."""
    size = problem.blocks.size

    def visit(b):  # type: ignore[no-untyped-def]
        at = slice(b.number * size, b.number * size + b.y.shape[0])
        return problem.rows(b).C.T @ (b.y * phi[at])

    return problem.engine.sum(visit, problem.blocks)  # type: ignore[no-any-return]


def certify(problem: Problem, state: State, eps: float) -> tuple[Certificate, Array]:
    """Certificate of a smoothed solution, with the duals it implies."""
    u, y, c = margins(problem, state.coef.mean)
    phi = c * (1.0 + u / np.sqrt(u * u + eps * eps))
    return _certificate(problem, state, u, c, phi), phi


def _certificate(problem: Problem, state: State, u: Array, c: Array, phi: Array) -> Certificate:
    P, mean = problem.model.precision(state.priors), state.coef.mean
    force = pull(problem, phi)
    residual = np.max(np.abs(force - P * mean)) / max(1.0, float(np.max(np.abs(force))))
    primal = 2.0 * c @ np.maximum(u, 0.0) + 0.5 * mean @ (P * mean)
    if np.any(P == 0):  # a flat direction: the dual is finite only if its force vanishes
        return Certificate(float(residual), float("nan"))
    dual = phi.sum() - 0.5 * force @ (force / P)
    return Certificate(float(residual), float((primal - dual) / max(1.0, abs(primal))))


def exact_finish(
    problem: Problem, state: State, eps: float
) -> tuple[Array, Certificate, Array] | None:
    """Solve on the margin set, correcting it; ``None`` unless every condition holds."""
    P = problem.model.precision(state.priors)
    K = P.size
    u, _, c = margins(problem, state.coef.mean)
    phi = c * (1.0 + u / np.sqrt(u * u + eps * eps))
    on = (phi > 0.02 * c) & (phi < 1.98 * c)
    over = (u > 0) & ~on & (c > 0)
    seen: set[bytes] = set()
    for _ in range(STEPS):
        if on.sum() > min(10 * K + 100, LARGEST):
            return None  # K coefficients hold about K distinct rows to the margin, and their copies
        mean, phi_on = _solve(problem, P, on, over, c)
        u, _, _ = margins(problem, mean)
        phi = np.where(over, 2.0 * c, 0.0)
        phi[on] = phi_on
        tiny = 1e-9 * max(1.0, float(np.max(np.abs(u))))
        if np.max(np.abs(u[on]), initial=0.0) > 1e-7:
            return None  # the system had no solution: the set is impossible
        low, high = on & (phi < -1e-9 * c), on & (phi > (2.0 + 1e-9) * c)
        crossed = ~on & (over & (u < -tiny) | ~over & (c > 0) & (u > tiny))
        if not (low.any() or high.any() or crossed.any()):
            phi = np.clip(phi, 0.0, 2.0 * c)
            moved = State(state.coef._replace(mean=mean), state.priors)
            cert = _certificate(problem, moved, u, c, phi)
            return (mean, cert, phi) if cert.kkt < 1e-7 else None
        on = (on & ~low & ~high) | crossed
        over = (over | high) & ~crossed
        key = np.packbits(on).tobytes() + np.packbits(over).tobytes()
        if key in seen:
            return None
        seen.add(key)
    return None


def _solve(problem: Problem, P: Array, on: Array, over: Array, c: Array) -> tuple[Array, Array]:
    """Coefficients and duals with rows ``on`` held to the margin and rows ``over`` at their cap.

    Penalised coefficients are eliminated, so the system has one unknown per margin row and one per
    nearly flat coefficient.
    """
    q = pull(problem, np.where(over, 2.0 * c, 0.0))  # (K,)
    rows = np.flatnonzero(on)
    X = (
        problem.model.rows(problem.blocks.X[rows]).C
        if not problem.blocks.ready
        else (problem.blocks.X[rows])
    )
    X = np.asarray(X.toarray() if sparse.issparse(X) else X) * problem.blocks.y[rows, None]
    flat = 1e-3 * P.max() > P
    firm = ~flat
    A = X[:, firm] / np.sqrt(P[firm])
    n_on, n_flat = rows.size, int(flat.sum())
    M = np.zeros((n_on + n_flat, n_on + n_flat))
    M[:n_on, :n_on] = A @ A.T
    M[:n_on, n_on:] = X[:, flat]
    M[n_on:, :n_on] = X[:, flat].T
    M[n_on:, n_on:] = -np.diag(P[flat])
    rhs = np.concatenate([1.0 - X[:, firm] @ (q[firm] / P[firm]), -q[flat]])
    answer = np.linalg.lstsq(M, rhs, rcond=1e-13)[0] if rhs.size else rhs
    phi, theta = answer[:n_on], np.empty(P.size)
    theta[flat] = answer[n_on:]
    theta[firm] = (q[firm] + X[:, firm].T @ phi) / P[firm]
    return theta, phi
