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
USEFUL = 0.05  # share of trials that nine in ten draws of the burn-in must accept


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
    """A batch of evaluated proposals, the place in it, and what the chain's position weighs."""

    proposal: Proposal
    theta: Array
    fit: Array  # log pseudo-likelihood
    here: float  # log density of the proposal where the chain stands
    used: int = 0

    def __post_init__(self) -> None:
        self.square = self.theta**2
        self.weight = self.fit - self.proposal.log_density(self.theta)

    @classmethod
    def load(
        cls, problem: Problem, proposal: Proposal, theta: Array, n: int, rng: np.random.Generator
    ) -> Leaper:
        """A fresh batch for a chain that stands at ``theta``."""
        offers = proposal.sample(n, rng)
        here = float(proposal.log_density(theta[None])[0])
        return cls(proposal, offers, problem.log_likelihoods(offers), here)

    def leap(
        self, theta: Array, fit: float, P: Array, tries: int, rng: np.random.Generator
    ) -> tuple[Array, float]:
        """Offer the next few proposals to a chain; return where it stands then, and its fit."""
        first = self.used
        self.used = last = first + tries
        offers = self.weight[first:last] - 0.5 * (self.square[first:last] @ P)
        level = fit - self.here - 0.5 * float(theta * theta @ P)
        taken = -1
        for j, (offer, dice) in enumerate(
            zip(offers.tolist(), rng.standard_exponential(tries).tolist(), strict=True)
        ):
            if level - offer < dice:
                taken, level = first + j, offer
        if taken >= 0:
            theta, fit = self.theta[taken], float(self.fit[taken])
            self.here = fit - float(self.weight[taken])
        return theta, fit

    def arrays(self) -> dict[str, Array]:
        """For a checkpoint: the proposal and what is left of the batch."""
        left = slice(self.used, None)
        return {
            "leaps/mean": self.proposal.mean,
            "leaps/L": self.proposal.L,
            "leaps/theta": self.theta[left],
            "leaps/fit": self.fit[left],
            "leaps/here": np.array(self.here),
        }

    @classmethod
    def restore(cls, held: dict[str, Array]) -> Leaper:
        proposal = Proposal(held["leaps/mean"], held["leaps/L"])
        here = float(held["leaps/here"])
        return cls(proposal, held["leaps/theta"], held["leaps/fit"], here)


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
    trial = Leaper.load(problem, proposal, theta[-1], TRIALS, rng)
    offers = trial.weight - 0.5 * (trial.square @ P)
    levels = fit - proposal.log_density(theta) - 0.5 * (theta**2 @ P)
    accepted = np.exp(np.minimum(offers[:, None] - levels, 0.0)).mean(axis=0)
    # not the average: a chain sticks where it is that few proposals tempt it away
    return trial if np.quantile(accepted, 0.1) >= USEFUL else None
