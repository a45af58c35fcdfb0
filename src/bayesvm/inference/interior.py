r"""Exact finish where the penalty has corners: a primal-dual interior point method.

With :math:`\tilde x_i = s_i c_i`, weights :math:`k_i`, corners :math:`\lambda_j` (the lasso's
:math:`1/\nu`) and precisions :math:`P_j` elsewhere, the point estimate is

.. math::

    \min_\theta\; 2\sum_i k_i u_i^+ + \sum_j \lambda_j|\theta_j| + \tfrac12\sum_j P_j\theta_j^2 ,
    \qquad u_i = t_i - \tilde x_i^\top\theta ,

with signs and margins of hinges as in :mod:`.active_set`.

Write :math:`\xi_i \ge u_i, 0` with multipliers :math:`\phi_i, 2k_i - \phi_i` and
:math:`t_j \ge \pm\theta_j` with multipliers :math:`a_j, \lambda_j - a_j`.  Newton's equations for
the products of slack and multiplier leave, once all else is eliminated, the system of every other
scheme here: :math:`(\sum_i w_i c_i c_i^\top + P)\,d\theta = \text{slope}`, with other weights of
rows and precisions of corners.  Two dozen passes reach rounding error from any start.

References: Mehrotra (1992); Boyd & Vandenberghe (2004), chapter 11.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.precision import Precision, masked
from ..core.types import Array
from ..gaussian.covariances import covariance
from ..model.problem import Problem
from .active_set import Certificate, certificate, cost, hinges, pull, residuals, rounding, sizes
from .loop import State

STEPS = 100
START = 1.0  # products of slack and multiplier at the start, per unit of weight
TARGET = 1e-12  # relative duality gap


class _Place(NamedTuple):
    """Primal and dual variables: coefficients, hinge slacks, duals, corner slacks, their duals."""

    theta: Array
    xi: Array
    phi: Array
    t: Array
    a: Array

    def moved(self, move: _Place, k: float) -> _Place:
        return _Place(*(x + k * dx for x, dx in zip(self, move, strict=True)))


def finish_with_corners(
    problem: Problem, state: State, corner: Array
) -> tuple[Array, Certificate, Array] | None:
    """Coefficients, certificate and duals from any start; ``None`` if the duality gap stays."""
    bent = corner > 0
    P, lam = masked(problem.model.precision(state.priors), ~bent), corner[bent]
    c = hinges(problem).c.ravel()
    at = _centred(problem, c, state.coef.mean, bent, lam)
    least, size = np.inf, sizes(problem)
    flat = 1e-8 * max(1.0, float(lam.max(initial=0.0))) + rounding(c, size)
    for _ in range(STEPS):
        u = residuals(problem, at.theta)
        products = _products(at, u, bent, c, lam)
        value = cost(problem, at.theta, u, P, corner)
        slope = pull(problem, at.phi) - P * at.theta
        slope[bent] -= 2.0 * at.a - lam
        still, share = np.all(np.abs(slope) <= flat), _total(products) / max(1.0, value)
        if still and (share <= TARGET or (share < 1e-9 and share > 0.5 * least)):
            break  # closed, or as closed as rounding lets it be
        least = share
        try:
            at = _step(problem, at, u, slope, products, bent, lam, P)
        except np.linalg.LinAlgError:
            return None
    # coefficients whose multiplier is strictly inside its corner are zero, in units of the columns
    mean, inside = at.theta.copy(), lam - np.abs(2.0 * at.a - lam)
    mean[bent] = np.where(np.abs(mean[bent]) * size[bent] ** 2 < inside, 0.0, mean[bent])
    if cost(problem, mean, residuals(problem, mean), P, corner) > value + 1e-7 * max(1.0, value):
        mean = at.theta
    cert = certificate(problem, mean, at.phi, P, corner)
    return (mean, cert, at.phi) if cert.kkt < 1e-5 and not abs(cert.gap) > 1e-7 else None


def _centred(problem: Problem, c: Array, theta: Array, bent: Array, lam: Array) -> _Place:
    """The centre of all slacks and multipliers at given coefficients."""
    u = residuals(problem, theta)
    mu = START * c
    root = np.sqrt((c * u) ** 2 + mu**2)
    xi = (c * u + mu + root) / (2.0 * c)
    phi = 2.0 * c * mu / (mu - c * u + root)
    corner_mu, x = START * float(c.mean()), theta[bent]
    t = (corner_mu + np.sqrt(corner_mu**2 + (lam * x) ** 2)) / lam
    return _Place(theta.copy(), xi, phi, t, corner_mu / (t - x))


def _products(at: _Place, u: Array, bent: Array, c: Array, lam: Array) -> tuple[Array, ...]:
    """Slacks times multipliers, all zero at the solution."""
    x = at.theta[bent]
    return (
        at.phi * (at.xi - u),
        (2.0 * c - at.phi) * at.xi,
        at.a * (at.t - x),
        (lam - at.a) * (at.t + x),
    )


def _total(products: tuple[Array, ...]) -> float:
    return sum(float(p.sum()) for p in products)


def _step(
    problem: Problem,
    at: _Place,
    u: Array,
    slope: Array,
    products: tuple[Array, ...],
    bent: Array,
    lam: Array,
    P: Precision,
) -> _Place:
    """Mehrotra's predictor and corrector."""
    s, _, c = hinges(problem)
    shape, c = s.shape, c.ravel()
    x, psi, b = at.theta[bent], 2.0 * c - at.phi, lam - at.a
    D = at.phi * at.xi / psi + at.xi - u
    E = at.a * (at.t + x) / b + at.t - x
    more = np.zeros(at.theta.size)
    more[bent] = 4.0 * at.a / E
    weights = (at.phi / D).reshape(shape).sum(axis=0)
    if not np.all(weights >= 0.0):
        raise np.linalg.LinAlgError("slacks have lost all digits")
    cov = covariance(problem.gram(weights), P + more)

    def newton(aims: tuple[Array, ...]) -> tuple[_Place, Array]:
        """The move that changes the products by ``aims`` to first order, and that of u."""
        r1, r2, r3, r4 = aims
        q = (r1 - at.phi * r2 / psi) / D
        e = (r3 - at.a * r4 / b) / E
        rhs = slope + pull(problem, q)
        rhs[bent] -= 2.0 * e
        d = cov.solve(rhs)
        du = -(s * problem.predictor(d)).ravel()
        dphi, da = q + at.phi / D * du, e + 2.0 * at.a / E * d[bent]
        dxi = (r2 + at.xi * dphi) / psi
        dt = (r4 + (at.t + x) * da - b * d[bent]) / b
        return _Place(d, dxi, dphi, dt, da), du

    def longest(move: _Place, du: Array) -> float:
        """How far along a move all slacks and multipliers stay positive."""
        d, dxi, dphi, dt, da = move
        values = (at.phi, psi, at.xi, at.xi - u, at.a, b, at.t - x, at.t + x)
        moves = (dphi, -dphi, dxi, dxi - du, da, -da, dt - d[bent], dt + d[bent])
        z, dz = np.concatenate(values), np.concatenate(moves)
        falling = dz < 0
        return float(np.min(-z[falling] / dz[falling], initial=np.inf))

    aims = tuple(-p for p in products)
    guess, du = newton(aims)
    k = min(1.0, longest(guess, du))
    mu = _total(products)
    left = _total(_products(at.moved(guess, k), u + k * du, bent, c, lam))
    target = mu / sum(p.size for p in products) * (left / mu) ** 3
    d, dxi, dphi, dt, da = guess
    second = (-dphi * (dxi - du), dphi * dxi, -da * (dt - d[bent]), da * (dt + d[bent]))
    move, du = newton(tuple(a + target + s for a, s in zip(aims, second, strict=True)))
    return at.moved(move, min(1.0, 0.995 * longest(move, du)))
