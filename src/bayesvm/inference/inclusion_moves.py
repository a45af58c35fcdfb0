r"""Metropolis moves of inclusion indicators with the latent weights integrated out.

A sweep draws indicators given the latent weights, which keep f of every row near its current
value: a column with large entries in few rows then seldom enters or leaves.  Here a column
enters, leaves or takes the place of another by a Metropolis step on the pseudo-likelihood itself.
Column *k* moves along a line,

.. math::

    \theta(v) = \phi + v t, \qquad t_k = 1, \qquad t_B = -(R + P)_{BB}^{-1} R_{Bk},

so that the other included columns *B* compensate.  *R* is a fixed Gram matrix.  The proposal
density :math:`q` on the line approximates the posterior density, piecewise constant between about
forty points that depend on :math:`\phi` alone.  With

.. math::

    \log A_k(v) = \mathrm{logit}\,\pi_k + \ell\{\theta(v)\} - \ell(\phi)
        + \log\frac{p\{\theta(v)\}}{p(\phi)} - \log q(v)

an excluded column enters at :math:`v \sim q` with probability :math:`\min\{1, A_k(v)\}`, a column
included at *v* leaves, for :math:`\phi = \theta - v t`, with probability
:math:`\min\{1, 1/A_k(v)\}`, and column *j* takes the place of *k*, from the same
:math:`\phi`, with probability :math:`\min\{1, A_j(v_j)/A_k(v_k)\}`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from ..core.distributions import LOG_2PI
from ..core.precision import scaled_cholesky
from ..core.types import Array
from .model import States
from .problem import Problem


@dataclass(frozen=True)
class Guide:
    """Parameters of the proposals: sums over rows, and how often each column is tried."""

    S: Any
    chance: Array

    @classmethod
    def learn(cls, problem: Problem, draws: Array, smooth: float = 0.25) -> Guide:
        """From early draws ``(m, K)``; half of all tries are for columns whose inclusion varied.

        Row weights are curvatures averaged over a variance ``smooth`` of f, because of kinks.
        """
        model, (y, c) = problem.model, (problem.y, problem.c)
        mean = draws.mean(axis=0) if len(draws) else np.zeros(model.width)
        f = problem.matvec(mean)
        S = problem.gram(c * model.likelihood.tight(y, f, smooth + 0.0 * f).w)
        odds = model.odds(model.init())
        assert odds is not None
        free = np.isfinite(odds).astype(float)
        share = (draws != 0).mean(axis=0) if len(draws) else np.zeros(model.width)
        doubt = free * share * (1.0 - share)
        chance = free / free.sum() + doubt / max(float(doubt.sum()), 1e-300)
        return cls(S, chance / chance.sum())

    def partner(self, k: int, rng: np.random.Generator) -> int:
        """A random column, with higher probability if it is correlated with column *k*.

        Probabilities are proportional to the fourth power of the squared correlation, plus 1 % in
        total for uniform choices.
        """
        own, row = self.S.diag(), self.S.rows(np.array([k]))[0]
        weight = (row**2 / np.maximum(own[k] * own, 1e-300)) ** 4 + 0.01 / own.size
        weight *= self.chance > 0
        weight[k] = 0.0
        return int(rng.choice(own.size, p=weight / weight.sum()))


def can_move(problem: Problem) -> bool:
    """Whether indicators can be moved: rows are in this process, without random effects."""
    model = problem.model
    here = not problem.blocks.remote and problem.form in ("dense", "factored")
    return model.has_gates and here and model.likelihood.implements("tight")


class Line(NamedTuple):
    """The line of a column, and its piecewise constant proposal density."""

    t: Array  # (K,), derivative of theta in the coefficient of the column
    d: Array  # (n,), derivative of f
    log_prior: float  # log of the odds and of the normaliser of the slab,
    slope: float  # -slope v - bend v^2 / 2
    bend: float
    knots: Array
    mass: Array  # probability of a proposal between two knots

    def log_weight(self, v: float) -> float:
        """Log ratio of prior and proposal at *v*, without the likelihood."""
        j = int(np.searchsorted(self.knots, v)) - 1
        if not 0 <= j < self.mass.size:
            return np.inf
        log_density = math.log(self.mass[j] / (self.knots[j + 1] - self.knots[j]))
        return self.log_prior - self.slope * v - 0.5 * self.bend * v * v - log_density


def move_indicators(
    problem: Problem,
    guide: Guide,
    theta: Array,
    priors: States,
    rng: np.random.Generator,
    count: int = 4,
    fine: int = 22,
    depth: float = 15.0,
) -> Array:
    """Coefficients after a number of tried columns, every second try with an exchange.

    The density on a line is evaluated at .25 to 1,024 conditional standard deviations on both
    sides, then at ``fine`` points where its logarithm is less than ``depth`` below the maximum.
    The weights must be drawn again after the moves.
    """
    model, S = problem.model, guide.S
    P: Any = model.precision(priors)
    odds: Any = model.odds(priors)

    def log_likelihood(f: Array) -> float:
        return float(problem.c @ model.likelihood.log_prob(problem.y, f))

    def direction(k: int, others: Array) -> tuple[Array, Array]:
        t = np.zeros_like(theta)
        t[k] = 1.0
        if others.size:
            near = np.append(others, k)
            R = S.rows(near)[:, near]
            Q = R[:-1, :-1] + np.diag(P[others])
            t[others] = -cho_solve((scaled_cholesky(Q)[0], True), R[:-1, -1], check_finite=False)
        return t, problem.matvec(t)

    def line(k: int, t: Array, d: Array, phi: Array, f: Array) -> Line:
        """The line from ``phi``, where column *k* is excluded and the linear predictor is ``f``."""
        bend, slope = float(P @ (t * t)), float(P @ (t * phi))

        def log_density(v: Array) -> Array:
            fit = np.array([log_likelihood(f + x * d) for x in v])
            return np.asarray(fit - slope * v - 0.5 * bend * v * v)

        coarse = np.geomspace(0.25, 1024.0, 12) / math.sqrt(bend + float(t @ (S @ t)))
        v = np.concatenate([-coarse[::-1], [0.0], coarse])
        logs = log_density(v)
        near = np.flatnonzero(logs > logs.max() - depth)
        low, high = v[max(near[0] - 1, 0)], v[min(near[-1] + 1, v.size - 1)]
        more = np.linspace(low, high, fine)[1:-1]
        v, logs = np.append(v, more), np.append(logs, log_density(more))
        inside = np.flatnonzero((low <= v) & (v <= high))
        order = inside[np.argsort(v[inside], kind="stable")]
        knots, height = v[order], np.exp(logs[order] - logs.max())
        mass = np.diff(knots) * (height[:-1] + height[1:])
        log_prior = float(odds[k]) + 0.5 * (math.log(P[k]) - LOG_2PI)
        return Line(t, d, log_prior, slope, bend, knots, mass / mass.sum())

    f = problem.matvec(theta)
    fit, exchange = log_likelihood(f), np.count_nonzero(guide.chance) > 1
    for i, k in enumerate(map(int, rng.choice(theta.size, count, p=guide.chance))):
        out, new = (k, -1) if theta[k] != 0 else (-1, k)  # which column leaves, and which enters
        if i % 2 and exchange:
            j = guide.partner(k, rng)
            if (theta[j] != 0) == (theta[k] != 0):
                continue
            out, new = (k, j) if theta[k] != 0 else (j, k)
        others = np.flatnonzero(theta)
        others = others[others != out]
        phi, g, gain = theta, f, -fit
        if out >= 0:
            v, (t, d) = float(phi[out]), direction(out, others)
            phi, g = phi - v * t, g - v * d
            phi[out] = 0.0
            gain -= line(out, t, d, phi, g).log_weight(v)
        if new >= 0:
            way = line(new, *direction(new, others), phi, g)
            at = int(rng.choice(way.mass.size, p=way.mass))
            v = float(rng.uniform(way.knots[at], way.knots[at + 1]))
            phi, g = phi + v * way.t, g + v * way.d
            gain += way.log_weight(v)
        moved = log_likelihood(g)
        if -rng.standard_exponential() < gain + moved:
            theta, f, fit = phi, g, moved
    return theta
