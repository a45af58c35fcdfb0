"""Gibbs sampling: the same pass with draws."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..distributions import slice_sample
from ..engines import Serial
from ..gaussian import Point, covariance
from ..model import Problem, States
from ..types import Array, Coef
from .loop import Progress, State, Watch, silent
from .vb import VB


class Draws(NamedTuple):
    """Kept draws: coefficients ``(chains, draws, K)`` and hyperparameters by term."""

    theta: Array
    hyper: dict[str, Array]
    log_prob: Array  # (chains, draws), pseudo-likelihood of each kept draw


class Link(NamedTuple):
    """Where a chain stands."""

    theta: Array
    priors: States


@dataclass(frozen=True)
class Gibbs:
    r"""Gibbs sampling by data augmentation.

    A sweep draws the latent weights :math:`w \mid \theta` row by row, then
    :math:`\theta \mid w \sim N(Q^{-1}r, Q^{-1})` with :math:`Q = S + P`, then stretches all scaled
    coefficients together with their scales (a slice move with the weights integrated out, which
    is what lets the chain move when the classes nearly separate), then draws the scales.

    Parameters
    ----------
    draws : int, default=1000
        Draws kept from each chain.
    burn_in : int, default=500
        Sweeps thrown away first.
    chains : int, default=4
        Independent chains, started around the variational answer and run in parallel.
    thin : int, default=1
        Keep every thin-th sweep.
    scale_move : bool, default=True
        Make the stretching move.

    References
    ----------
    Luts & Ormerod (2014), Appendix A; Polson & Scott (2011), section 4.1.
    """

    draws: int = 1000
    burn_in: int = 500
    chains: int = 4
    thin: int = 1
    scale_move: bool = True

    def fit(
        self,
        problem: Problem,
        rng: np.random.Generator,
        start: State | None = None,
        watch: Watch = silent,
        n_jobs: int | None = None,
        saved: dict[str, Any] | None = None,
    ) -> Draws:
        if start is None:
            start = VB(tol=1e-5).fit(problem, rng).state
        seed = int(rng.integers(2**32))
        if self.chains > 1 and problem.n * problem.model.width < 2**22:
            problem = replace(problem, engine=Serial())
            if not problem.blocks.ready and problem.n * problem.model.width < 2**21:
                problem = problem.assembled()  # columns are built once, not once a sweep
        else:
            n_jobs = 1  # rows, not chains, share the cores

        def chain(k: int) -> Draws:
            return self._chain(problem, start, seed, k, watch)

        if n_jobs == 1:
            parts = [chain(k) for k in range(self.chains)]
        else:
            with ThreadPoolExecutor(n_jobs) as pool:
                parts = list(pool.map(chain, range(self.chains)))
        return Draws(
            np.stack([p.theta for p in parts]),
            {name: np.stack([p.hyper[name] for p in parts]) for name in parts[0].hyper},
            np.stack([p.log_prob for p in parts]),
        )

    def _chain(
        self, problem: Problem, start: State, seed: int, k: int, watch: Watch
    ) -> Draws:
        model = problem.model
        rng = np.random.default_rng((seed, k))
        coef = start.coef
        link = Link(coef.mean + coef.cov.sample(1, rng)[0], start.priors)
        total = self.burn_in + self.draws * self.thin
        theta = np.empty((self.draws, model.width))
        log_prob = np.empty(self.draws)
        hyper = {
            t.name: np.empty((self.draws, len(s)))
            for t, s in zip(model.terms, link.priors, strict=True)
            if len(s)
        }
        for t in range(total):
            link, fit = self.sweep(problem, link, rng, (seed, k, t))
            kept, odd = divmod(t - self.burn_in, self.thin)
            if kept >= 0 and odd == 0:
                theta[kept], log_prob[kept] = link.theta, fit
                for term, s in zip(model.terms, link.priors, strict=True):
                    if len(s):
                        hyper[term.name][kept] = s
            if watch(Progress(f"gibbs, chain {k + 1}", t + 1, total, fit, np.nan), link):
                keep = max(kept + 1, 1)
                return Draws(theta[:keep], {n: h[:keep] for n, h in hyper.items()}, log_prob[:keep])
        return Draws(theta, hyper, log_prob)

    def sweep(
        self, problem: Problem, link: Link, rng: np.random.Generator, key: tuple[int, ...]
    ) -> tuple[Link, float]:
        """One sweep; also the log pseudo-likelihood of the draw it was given."""
        model = problem.model
        stats = problem.draw(link.theta, key)  # w | theta
        P = model.precision(link.priors)
        cov = covariance(stats.S, P)
        theta = link.theta + cov.solve(stats.g - P * link.theta) + cov.sample(1, rng)[0]
        priors = link.priors
        if self.scale_move:
            theta, priors = stretch(problem, theta, priors, rng)
        coef = Coef(theta, Point(model.width))
        return Link(theta, tuple(model.each("draw", priors, coef, rng))), stats.bound


def stretch(
    problem: Problem, theta: Array, priors: States, rng: np.random.Generator
) -> tuple[Array, States]:
    """Scale move: theta and its scales times e^t, with the latent weights integrated out.

    It must follow the draw of theta and precede the next draw of the weights.
    """
    model = problem.model
    coef = Coef(theta, Point(model.width))
    lik, y, c = model.likelihood, problem.blocks.y, problem.blocks.c
    f = problem.predictor(theta)

    def log_density(t: float) -> float:
        fit = float(c @ lik.log_prob(y, np.exp(t) * f))
        return fit + sum(model.each("stretch", priors, coef, t))

    t = slice_sample(log_density, 0.0, rng)
    grown = tuple(
        term.prior.stretched(s, t) for term, s in zip(model.terms, priors, strict=True)
    )
    return np.exp(t) * theta, grown


