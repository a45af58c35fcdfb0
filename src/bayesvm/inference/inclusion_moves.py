r"""Moves of indicators with the latent weights integrated out, for selection priors.

A sweep decides about columns given the latent weights, which hold every row near its current
predictor: a column with large entries in few rows then seldom enters or leaves.  Here a column
enters, leaves or takes the place of another by a Metropolis step on the pseudo-likelihood itself.
Column *k* moves along a line,

.. math::

    \theta(v) = \phi + v t, \qquad t_k = 1, \qquad t_B = -(R + P)_{BB}^{-1} R_{Bk},

so that the other columns *B* that are in make up for it.  *R* is a matrix of sums over rows that is
held fixed.  Proposals :math:`q` on the line follow its density, evaluated at some forty places that
depend on :math:`\phi` alone, and constant in between.  With

.. math::

    \log A_k(v) = \mathrm{logit}\,\pi_k + \ell\{\theta(v)\} - \ell(\phi)
        + \log\frac{p\{\theta(v)\}}{p(\phi)} - \log q(v)

a column that is out enters at :math:`v \sim q` with probability :math:`\min\{1, A_k(v)\}`, one
that is in at *v* leaves, for :math:`\phi = \theta - v t`, with probability
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
    """What proposals are made from: sums over rows, and how often each column is tried."""

    S: Any
    chance: Array

    @classmethod
    def learn(cls, problem: Problem, draws: Array, smooth: float = 0.25) -> Guide:
        """From early draws ``(m, K)``; half of all tries are for columns that were in and out.

        Weights of rows are curvatures averaged over a variance ``smooth`` of f, for a kink.
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
        """Another column, more often the more it correlates with column *k*.

        By the fourth power of the squared correlation; uncorrelated ones together have 1 %.
        """
        own, row = self.S.diag(), self.S.rows(np.array([k]))[0]
        weight = (row**2 / np.maximum(own[k] * own, 1e-300)) ** 4 + 0.01 / own.size
        weight *= self.chance > 0
        weight[k] = 0.0
        return int(rng.choice(own.size, p=weight / weight.sum()))


def can_move(problem: Problem) -> bool:
    """Whether indicators can be moved: rows are here, and no effects of groups."""
    model = problem.model
    here = not problem.blocks.remote and problem.form in ("dense", "factored")
    return model.has_gates and here and model.likelihood.implements("tight")


class Line(NamedTuple):
    """The line of a column, and the proposal on it: constant between knots."""

    log_prior: float  # log of the odds and of the normaliser of the slab,
    slope: float  # -slope v - bend v^2 / 2
    bend: float
    knots: Array
    mass: Array  # probability of a proposal between two knots

    def propose(self, rng: np.random.Generator) -> float:
        j = int(rng.choice(self.mass.size, p=self.mass))
        return float(rng.uniform(self.knots[j], self.knots[j + 1]))

    def log_weight(self, v: float) -> float:
        """Log of prior over proposal at *v*; the likelihood is left out."""
        j = int(np.searchsorted(self.knots, v)) - 1
        if not 0 <= j < self.mass.size:
            return np.inf
        log_density = math.log(self.mass[j] / (self.knots[j + 1] - self.knots[j]))
        return self.log_prior - self.slope * v - 0.5 * self.bend * v * v - log_density


class Mover:
    """A position that columns enter and leave."""

    def __init__(self, problem: Problem, guide: Guide, theta: Array, priors: States) -> None:
        self.problem, self.guide, self.theta = problem, guide, theta
        self.P: Any = problem.model.precision(priors)
        self.odds: Any = problem.model.odds(priors)
        self.f, self.likelihood = problem.matvec(theta), problem.model.likelihood
        self.fit = self._fit(self.f)

    def _fit(self, f: Array) -> float:
        return float(self.problem.c @ self.likelihood.log_prob(self.problem.y, f))

    def direction(self, k: int, others: Array) -> tuple[Array, Array]:
        """How theta moves with coefficient *k*, and f."""
        t = np.zeros_like(self.theta)
        t[k] = 1.0
        if others.size:
            near = np.append(others, k)
            R = self.guide.S.rows(near)[:, near]
            Q = R[:-1, :-1] + np.diag(self.P[others])
            t[others] = -cho_solve((scaled_cholesky(Q)[0], True), R[:-1, -1], check_finite=False)
        return t, self.problem.matvec(t)

    def line(
        self, k: int, t: Array, d: Array, phi: Array, f: Array, fine: int = 22, depth: float = 15.0
    ) -> Line:
        """The line of column *k* from ``phi``, where it is out and the predictor is ``f``.

        It is evaluated at places of .25 to 1,024 conditional standard deviations on both sides,
        then at ``fine`` places where its logarithm is less than ``depth`` below the largest.
        """
        bend, slope = float(self.P @ (t * t)), float(self.P @ (t * phi))

        def density(v: Array) -> Array:
            fit = np.array([self._fit(f + x * d) for x in v])
            return np.asarray(fit - slope * v - 0.5 * bend * v * v)

        coarse = np.geomspace(0.25, 1024.0, 12) / math.sqrt(bend + float(t @ (self.guide.S @ t)))
        v = np.concatenate([-coarse[::-1], [0.0], coarse])
        logs = density(v)
        near = np.flatnonzero(logs > logs.max() - depth)
        low, high = v[max(near[0] - 1, 0)], v[min(near[-1] + 1, v.size - 1)]
        more = np.linspace(low, high, fine)[1:-1]
        v, logs = np.append(v, more), np.append(logs, density(more))
        inside = np.flatnonzero((low <= v) & (v <= high))
        order = inside[np.argsort(v[inside], kind="stable")]
        knots, height = v[order], np.exp(logs[order] - logs.max())
        mass = np.diff(knots) * (height[:-1] + height[1:])
        log_prior = float(self.odds[k]) + 0.5 * (math.log(self.P[k]) - LOG_2PI)
        return Line(log_prior, slope, bend, knots, mass / mass.sum())

    def move(self, out: int | None, new: int | None, rng: np.random.Generator) -> None:
        """Column ``out`` leaves, ``new`` enters, or both."""
        others = np.flatnonzero(self.theta)
        others = others[others != out] if out is not None else others
        phi, f, gain = self.theta, self.f, -self.fit
        if out is not None:
            v, (t, d) = float(phi[out]), self.direction(out, others)
            phi, f = phi - v * t, f - v * d
            phi[out] = 0.0
            gain -= self.line(out, t, d, phi, f).log_weight(v)
        if new is not None:
            t, d = self.direction(new, others)
            line = self.line(new, t, d, phi, f)
            v = line.propose(rng)
            phi, f = phi + v * t, f + v * d
            gain += line.log_weight(v)
        fit = self._fit(f)
        if -rng.standard_exponential() < gain + fit:
            self.theta, self.f, self.fit = phi, f, fit


def move_indicators(
    problem: Problem,
    guide: Guide,
    theta: Array,
    priors: States,
    rng: np.random.Generator,
    count: int = 4,
) -> Array:
    """Coefficients after so many columns were tried, every other one to be exchanged.

    The weights must be drawn anew.
    """
    mover = Mover(problem, guide, theta, priors)
    exchange = np.count_nonzero(guide.chance) > 1
    for i, k in enumerate(map(int, rng.choice(theta.size, count, p=guide.chance))):
        inside = mover.theta[k] != 0
        if i % 2 and exchange:
            j = guide.partner(k, rng)
            if inside != (mover.theta[j] != 0):
                mover.move(*((k, j) if inside else (j, k)), rng)
        else:
            mover.move(k if inside else None, None if inside else k, rng)
    return mover.theta
