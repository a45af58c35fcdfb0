r"""Exact finish where the penalty has corners: a primal-dual interior point method.

With :math:`\tilde x_i = y_i c_i`, weights :math:`k_i`, corners :math:`\lambda_j` (the lasso's
:math:`1/\nu`) and precisions :math:`P_j` elsewhere, the point estimate is

.. math::

    \min_\theta\; 2\sum_i k_i u_i^+ + \sum_j \lambda_j|\theta_j| + \tfrac12\sum_j P_j\theta_j^2 ,
    \qquad u_i = 1 - \tilde x_i^\top\theta .

Write :math:`\xi_i \ge u_i, 0` with multipliers :math:`\phi_i, 2k_i - \phi_i` and
:math:`t_j \ge \pm\theta_j` with multipliers :math:`a_j, \lambda_j - a_j`.  Newton's equations for
the products of slack and multiplier leave, once all else is eliminated, the system of every other
scheme here: :math:`(\sum_i w_i c_i c_i^\top + P)\,d\theta = \text{slope}`, with its own weights of
rows and precisions of corners.  Two dozen passes reach rounding error from anywhere.

References: Mehrotra (1992); Boyd & Vandenberghe (2004), chapter 11.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.types import Array
from ..gaussian.covariances import covariance
from ..gaussian.precision import Precision, masked
from ..model.model import Problem
from .active_set import Certificate, certificate, margins, pull
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


def finish_with_corners(
    problem: Problem, state: State, corner: Array
) -> tuple[Array, Certificate, Array] | None:
    """Solve exactly from any start; ``None`` unless the duality gap closes."""
    model, y, c = problem.model, problem.blocks.y, problem.blocks.c
    bent = corner > 0
    P = masked(model.precision(state.priors), ~bent)
    lam = corner[bent]
    at = _centred(problem, state.coef.mean, bent, lam)
    least = np.inf
    for _ in range(STEPS):
        u = 1.0 - y * problem.predictor(at.theta)
        theta = at.theta[bent]
        products = _products(at, u, theta, c, lam)
        gap = sum(float(p.sum()) for p in products)
        value = _value(at.theta, u, c, corner, P)
        slope = pull(problem, at.phi) - P * at.theta
        slope[bent] -= 2.0 * at.a - lam
        still = np.max(np.abs(slope)) <= 1e-8 * max(1.0, float(lam.max(initial=0.0)))
        share = gap / max(1.0, value)
        if still and (share <= TARGET or (share < 1e-9 and share > 0.5 * least)):
            break  # closed, or as closed as rounding lets it be
        least = share
        try:
            at = _step(problem, at, u, slope, products, bent, lam, P)
        except np.linalg.LinAlgError:
            return None
    zeroed = _snap(at, bent, lam)
    u = margins(problem, zeroed)[0]
    if _value(zeroed, u, c, corner, P) > value + 1e-7 * max(1.0, value):
        zeroed = at.theta
        u = margins(problem, zeroed)[0]
    cert = certificate(problem, zeroed, u, c, at.phi, P, corner)
    good = cert.kkt < 1e-5 and not abs(cert.gap) > 1e-7
    return (zeroed, cert, at.phi) if good else None


def _value(theta: Array, u: Array, c: Array, corner: Array, P: Precision) -> float:
    return float(2.0 * c @ np.maximum(u, 0.0) + corner @ np.abs(theta) + 0.5 * theta @ (P * theta))


def _centred(problem: Problem, theta: Array, bent: Array, lam: Array) -> _Place:
    """The centre of all slacks and multipliers at given coefficients."""
    u, _, c = margins(problem, theta)
    mu = START * c
    root = np.sqrt((c * u) ** 2 + mu**2)
    xi = (c * u + mu + root) / (2.0 * c)
    phi = 2.0 * c * mu / (mu - c * u + root)
    corner_mu, x = START * float(c.mean()), theta[bent]
    t = (corner_mu + np.sqrt(corner_mu**2 + (lam * x) ** 2)) / lam
    return _Place(theta.copy(), xi, phi, t, corner_mu / (t - x))


def _products(at: _Place, u: Array, theta: Array, c: Array, lam: Array) -> tuple[Array, ...]:
    return (
        at.phi * (at.xi - u),
        (2.0 * c - at.phi) * at.xi,
        at.a * (at.t - theta),
        (lam - at.a) * (at.t + theta),
    )


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
    y, c = problem.blocks.y, problem.blocks.c
    theta, psi, b = at.theta[bent], 2.0 * c - at.phi, lam - at.a
    D = at.phi * at.xi / psi + at.xi - u
    E = at.a * (at.t + theta) / b + at.t - theta
    more = np.zeros(at.theta.size)
    more[bent] = 4.0 * at.a / E
    cov = covariance(problem.gram(at.phi / D), P + more)

    def newton(aims: tuple[Array, ...]) -> tuple[Array, ...]:
        r1, r2, r3, r4 = aims
        q = (r1 - at.phi * r2 / psi) / D
        e = (r3 - at.a * r4 / b) / E
        rhs = slope + pull(problem, q)
        rhs[bent] -= 2.0 * e
        d = cov.solve(rhs)
        du = -y * problem.predictor(d)
        dphi = q + at.phi / D * du
        da = e + 2.0 * at.a / E * d[bent]
        dxi = (r2 + at.xi * dphi) / psi
        dt = (r4 + (at.t + theta) * da - b * d[bent]) / b
        return d, du, dphi, da, dxi, dt

    def longest(move: tuple[Array, ...]) -> float:
        d, du, dphi, da, dxi, dt = move
        pairs = (
            (at.phi, dphi), (psi, -dphi), (at.xi, dxi), (at.xi - u, dxi - du),
            (at.a, da), (b, -da), (at.t - theta, dt - d[bent]), (at.t + theta, dt + d[bent]),
        )  # fmt: skip
        return min(_room(x, dx) for x, dx in pairs)

    def after(move: tuple[Array, ...], k: float) -> _Place:
        d, _, dphi, da, dxi, dt = move
        return _Place(
            at.theta + k * d, at.xi + k * dxi, at.phi + k * dphi, at.t + k * dt, at.a + k * da
        )

    count = sum(p.size for p in products)
    mu = sum(float(p.sum()) for p in products) / count
    aims = tuple(-p for p in products)
    guess = newton(aims)
    k = min(1.0, longest(guess))
    d, du, dphi, da, dxi, dt = guess
    ahead = after(guess, k)
    left = _products(ahead, u + k * du, ahead.theta[bent], c, lam)
    target = mu * (sum(float(p.sum()) for p in left) / count / mu) ** 3
    second = (
        -dphi * (dxi - du),
        dphi * dxi,
        -da * (dt - d[bent]),
        da * (dt + d[bent]),
    )
    move = newton(tuple(a + target + s for a, s in zip(aims, second, strict=True)))
    return after(move, min(1.0, 0.995 * longest(move)))


def _room(x: Array, dx: Array) -> float:
    """How far along dx every x stays positive."""
    falling = dx < 0
    return float(np.min(-x[falling] / dx[falling], initial=np.inf))


def _snap(at: _Place, bent: Array, lam: Array) -> Array:
    """Coefficients whose multiplier is strictly inside its corner are zero."""
    theta = at.theta.copy()
    inside = 1.0 - np.abs(2.0 * at.a - lam) / lam
    theta[bent] = np.where(np.abs(theta[bent]) * lam < inside, 0.0, theta[bent])
    return theta
