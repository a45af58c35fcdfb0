r"""Leaps: Metropolis steps between Gibbs sweeps, with the latent weights integrated out.

A proposal that does not depend on where the chain stands can be evaluated in advance, many at a
time: one product of the rows with a matrix of proposals, where a sweep needs a product of the rows
with themselves.  The proposals come from a Student distribution around the Gaussian closest to the
posterior.  They change only :math:`\theta` given the hyperparameters, so

.. math::

    \log\alpha = \big[\ell(\theta^*) + \log p(\theta^* \mid s) - \log q(\theta^*)\big]
               - \big[\ell(\theta) + \log p(\theta \mid s) - \log q(\theta)\big],

with :math:`\ell` the log pseudo-likelihood itself.  Where the posterior is far from elliptical few
are accepted; then none are made, and the chain is plain Gibbs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from ..gaussian import FullCovariance, scaled_cholesky
from ..model import Problem
from ..types import Array, Coef, Local

TRIALS = 64  # proposals tried on the burn-in before any is trusted
USEFUL = 0.1  # smallest share of trials accepted at which leaps pay


@dataclass(frozen=True)
class Proposal:
    """Student distribution of the coefficients: centre, and lower factor of its precision matrix.

    Its tails are heavier than the posterior's, which keeps the ratio bounded.
    """

    mean: Array
    L: Array

    @property
    def freedom(self) -> float:
        return 10.0 + 2.0 * self.mean.size

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        z = rng.standard_normal((n, self.mean.size))
        stretch = np.sqrt(self.freedom / rng.chisquare(self.freedom, size=n))
        step = solve_triangular(self.L, z.T, lower=True, trans=1, check_finite=False).T
        out: Array = self.mean + step * stretch[:, None]
        return out

    def log_density(self, theta: Array) -> Array:
        """Up to a constant, for rows of ``theta``."""
        z = (theta - self.mean) @ self.L
        power = 0.5 * (self.freedom + self.mean.size)
        out: Array = -power * np.log1p(np.einsum("ij,ij->i", z, z) / self.freedom)
        return out


@dataclass
class Leaper:
    """A batch of evaluated proposals and the place in it."""

    proposal: Proposal
    theta: Array
    fit: Array  # log pseudo-likelihood
    log_q: Array
    used: int = 0

    @classmethod
    def load(cls, problem: Problem, proposal: Proposal, n: int, rng: np.random.Generator) -> Leaper:
        theta = proposal.sample(n, rng)
        fit = problem.log_likelihoods(theta)
        return cls(proposal, theta, fit, proposal.log_density(theta))

    def reload(self, problem: Problem, n: int, rng: np.random.Generator) -> Leaper:
        return Leaper.load(problem, self.proposal, n, rng)

    def arrays(self) -> dict[str, Array]:
        """For a checkpoint: the proposal and what is left of the batch."""
        left = slice(self.used, None)
        return {
            "leaps/mean": self.proposal.mean,
            "leaps/L": self.proposal.L,
            "leaps/theta": self.theta[left],
            "leaps/fit": self.fit[left],
        }

    @classmethod
    def restore(cls, held: dict[str, Array]) -> Leaper:
        proposal = Proposal(held["leaps/mean"], held["leaps/L"])
        theta = held["leaps/theta"]
        return cls(proposal, theta, held["leaps/fit"], proposal.log_density(theta))

    def leap(
        self, theta: Array, fit: float, P: Array, tries: int, rng: np.random.Generator
    ) -> tuple[Array, float]:
        """Offer the next few proposals to a chain; return where it stands then, and its fit."""
        some = slice(self.used, self.used + tries)
        self.used += tries
        offers = self.fit[some] - self.log_q[some] - 0.5 * (self.theta[some] ** 2 @ P)
        level = fit - float(self.proposal.log_density(theta[None])[0]) - 0.5 * float(theta**2 @ P)
        for j, dice in enumerate(np.log(rng.random(tries))):
            if dice < offers[j] - level:
                theta, fit, level = self.theta[some][j], float(self.fit[some][j]), offers[j]
        return theta, fit


@dataclass(frozen=True)
class _Tight:
    """A likelihood seen without its augmentation."""

    likelihood: Any

    def expected(self, y: Array, m: Array, v: Array | float) -> Local:
        out: Local = self.likelihood.tight(y, m, v)
        return out


def tight_gaussian(problem: Problem, coef: Coef, P: Array, passes: int = 40) -> Coef:
    """The Gaussian closest to the posterior at given prior precisions, by damped passes.

    Augmentation makes a variational posterior too narrow; without it the spread is right to a few
    per cent, which is what a proposal needs.
    """
    model = replace(problem.model, likelihood=_Tight(problem.model.likelihood))  # type: ignore[arg-type]
    problem = replace(problem, model=model, form="dense")
    Q = np.linalg.inv(coef.cov.dense())
    r = Q @ coef.mean
    for _ in range(passes):
        stats = problem.stats(coef)
        new_Q = stats.S.M + np.diag(P)
        new_r = stats.g + stats.S @ coef.mean
        Q, r = 0.5 * (Q + new_Q), 0.5 * (r + new_r)
        L, _ = scaled_cholesky(Q, retry=False)
        cov = FullCovariance(L)
        old, coef = coef.mean, Coef(cov.solve(r), cov)
        if np.max(np.abs(coef.mean - old) / np.sqrt(cov.diag())) < 1e-2:
            break
    return coef


def learn(
    problem: Problem,
    start: Coef,
    P: Array,
    theta: Array,
    fit: Array,
    rng: np.random.Generator,
) -> Leaper | None:
    """Proposals for the posterior; ``None`` if draws of the burn-in would seldom accept them."""
    try:
        coef = tight_gaussian(problem, start, P)
    except (np.linalg.LinAlgError, AttributeError):  # singular, or a likelihood without tight rows
        return None
    proposal = Proposal(coef.mean, coef.cov.L)  # type: ignore[attr-defined]
    trial = Leaper.load(problem, proposal, TRIALS, rng)
    offers = trial.fit - trial.log_q - 0.5 * (trial.theta**2 @ P)
    levels = fit - proposal.log_density(theta) - 0.5 * (theta**2 @ P)
    share = np.exp(np.minimum(offers[:, None] - levels, 0.0)).mean()
    return trial if share >= USEFUL else None
