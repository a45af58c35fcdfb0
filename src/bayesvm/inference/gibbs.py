"""Gibbs sampling: the same pass with draws."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit

from ..core.distributions import slice_sample
from ..core.random import stream
from ..core.types import Array, Coef
from ..engines import Serial
from ..gaussian.covariances import Point, covariance
from ..gaussian.gates import draw_subset
from ..model.latent import begin, redrawn, thrown, turned
from ..model.model import Problem, States
from .draws import Draws, Position, Record, Run, worth_keeping
from .leaps import Proposal, can_leap, leap, learn
from .loop import State, require
from .progress import Progress, Watch, silent
from .vb import VB, learned, standing

CYCLE = 100  # one draw in so many is a sweep, where leaps are made


@dataclass(frozen=True)
class Gibbs:
    r"""Gibbs sampling by data augmentation.

    A sweep draws the latent weights :math:`w \mid \theta` row by row, then
    :math:`\theta \mid w \sim N(Q^{-1}r, Q^{-1})` with :math:`Q = S + P`, then stretches all scaled
    coefficients together with their scales (a slice move with the weights integrated out, which
    is what lets the chain move when the classes nearly separate), then draws the scales.  After the
    burn-in, and where it pays, all but one in a hundred draws are cheaper *leaps*
    (:mod:`bayesvm.inference.leaps`): same posterior, several times the effective draws per second.
    Entries of rows that are not known are drawn after the coefficients, then the parameters of
    their own distribution (Appendix C); such models make no leaps.

    Parameters
    ----------
    draws : int, default=1000
        Draws kept from each chain.
    burn_in : int, default=500
        Sweeps thrown away first.
    chains : int, default=4
        Independent chains, started around the variational answer; ``n_jobs`` of the estimator
        runs them in parallel.
    thin : int, default=1
        Keep every thin-th sweep.
    scale_move : bool, default=True
        Make the stretching move.
    leaps : int, default=4
        Proposals offered for each draw between sweeps; 0 for plain Gibbs, every draw a sweep.

    References
    ----------
    Luts & Ormerod (2014), Appendix A; Polson & Scott (2011), section 4.1.
    """

    draws: int = 1000
    burn_in: int = 500
    chains: int = 4
    thin: int = 1
    scale_move: bool = True
    leaps: int = 4

    is_tight: ClassVar[bool] = False  # the bound climbed, where there is one, is augmented

    def __post_init__(self) -> None:
        require(self, {"draws": 1, "burn_in": 0, "chains": 1, "thin": 1, "leaps": 0})

    def fit(
        self,
        problem: Problem,
        rng: np.random.Generator,
        start: State | None = None,
        watch: Watch = silent,
        n_jobs: int | None = None,
        store: Any = None,
    ) -> Draws:
        """Run the chains; ``store`` keeps them in a checkpoint as they grow."""
        model = problem.model
        if start is None and model.odds(model.init()) is not None:
            # from no columns at all, and from many
            start = State(model.start(), model.init(), begin(problem))
        known = problem
        if model.likelihood.is_learned:
            known, near = learned(problem, VB(tol=1e-5), rng)
            start = near if start is None else start
        if start is None:
            start = VB(tol=1e-5).fit(problem, rng).state
        if model.is_latent and not start.latents:
            start = start._replace(latents=begin(problem))
        first = None if known is problem else known.model.likelihood
        seed = int(rng.integers(2**32))
        size = problem.n * problem.model.width
        if size < 2**21 and not problem.blocks.ready and not model.is_latent:
            problem = problem.assembled()  # columns are built once, not once a sweep
        remote = problem.blocks.remote
        if size < 2**22 and not remote:
            problem = replace(problem, engine=Serial())  # chains, not rows, share the cores
        if n_jobs in (None, 1) or size >= 2**22 or remote or store is not None:
            parts = []
            for k in range(self.chains):
                part, stopped = self._chain(problem, start, first, seed, k, watch, store)
                parts.append(part)
                if stopped:
                    break
        else:
            chains = Parallel(n_jobs=n_jobs)(
                delayed(self._chain)(problem, start, first, seed, k, silent, None)
                for k in range(self.chains)
            )
            parts = [part for part, _ in chains]
        return Draws.joined(worth_keeping(parts, [c.log_prob.size for c in parts]), start)

    def _chain(
        self,
        problem: Problem,
        start: State,
        likelihood: Any,
        seed: int,
        k: int,
        watch: Watch,
        store: Any,
    ) -> tuple[Draws, bool]:
        """One chain, and whether a callback has stopped it."""
        rng = stream(seed, "chain", k)
        theta = start.coef.mean + start.coef.cov.sample(1, rng)[0]
        latents = thrown(start.latents, rng)
        at = Position(theta, start.priors, latents=latents, likelihood=likelihood)
        if k % 2 and problem.model.odds(start.priors) is not None:
            at = at._replace(theta=crowded(problem.at(at.latents), at.theta))
        sizes = (self.burn_in, self.draws, self.thin, self.chains)
        record = Record(problem.model, start.priors, *sizes)
        total = self.burn_in + self.draws * self.thin
        proposal, stop, key = None, False, f"gibbs/chain{k}"
        held = store.get(key) if store is not None else {}
        if held:
            at, proposal = record.load(held, at, rng), Proposal.restore(held)
        while record.t < total and not stop:
            ahead = (self.burn_in - record.t) % CYCLE  # draws before the next sweep is due
            if proposal is None or ahead == 0:
                at = self.sweep(problem, at, rng, (seed, k, record.t))
                record.add(Run.of(at))
                record.note(at)
            else:
                run = leap(problem, proposal, at, min(ahead, total - record.t), self.leaps, rng)
                at = run.position(-1)
                record.add(run)
            settled = likelihood is None and can_leap(problem)
            if record.t == self.burn_in and self.leaps and settled:
                proposal = learn(problem, start.coef, record.burnt(at.priors), rng)
            stop = watch(Progress(f"gibbs, chain {k + 1}", record.t, total, at.fit, np.nan), at)
            if store is not None:
                state = partial(_remember, record, at, proposal, rng)
                store.put(key, state, now=stop or record.t == total)
        return record.draws(at), stop

    def sweep(
        self, problem: Problem, at: Position, rng: np.random.Generator, key: tuple[int, ...]
    ) -> Position:
        """One sweep."""
        if at.likelihood is not None:
            problem = problem.with_likelihood(at.likelihood)
        model, problem = problem.model, problem.at(at.latents)
        stats = problem.draw(at.theta, key)  # w | theta
        P, odds = model.precision(at.priors), model.odds(at.priors)
        inclusion = None
        if odds is None:
            cov = covariance(stats.S, P)
            theta = at.theta + cov.solve(stats.g - P * at.theta) + cov.sample(1, rng)[0]
        else:
            theta, inclusion = draw_subset(stats, P, odds, at.theta, rng)
        priors = at.priors
        if self.scale_move:
            theta, priors = stretch(problem, theta, priors, rng)
            for k in model.grouped:  # effects of groups also by themselves
                theta, priors = stretch(problem, theta, priors, rng, only=k)
        latents = at.latents
        if latents:
            latents = redrawn(problem, Coef(theta, Point(theta.size)), rng, key)
            theta, latents = turned(model, theta, latents, priors, rng)
            problem = problem.at(latents)
        fit, likelihood = float(problem.log_likelihoods(theta[None])[0]), at.likelihood
        if likelihood is not None:  # its scale, given theta alone
            sums = standing(problem, Coef(theta, Point(model.width)), fit)
            likelihood = likelihood.redraw(*sums, rng)
            fit = float(problem.with_likelihood(likelihood).log_likelihoods(theta[None])[0])
        drawn = model.draw(priors, theta, rng)
        return Position(theta, drawn, fit, inclusion, latents, likelihood)


def stretch(
    problem: Problem,
    theta: Array,
    priors: States,
    rng: np.random.Generator,
    only: int | None = None,
) -> tuple[Array, States]:
    """Scale move: theta and its scales times e^t, with the latent weights integrated out.

    It must follow the draw of theta and precede the next draw of the weights.  ``only`` one term is
    stretched, or all of them.
    """
    model = problem.model
    coef = Coef(theta, Point(model.width))
    lik, y, c = model.likelihood, problem.blocks.y, problem.blocks.c
    some = range(len(model.terms)) if only is None else [only]
    moving = theta
    if only is not None:
        moving = np.zeros_like(theta)
        moving[model.slices[only]] = theta[model.slices[only]]
    still = theta - moving
    remote = problem.blocks.remote
    f = None if remote else problem.predictor(moving)
    rest = 0.0 if remote or only is None else problem.predictor(still)

    def fit(t: float) -> float:
        if f is None:  # as large as the rows, which are elsewhere
            return float(problem.log_likelihoods((still + math.exp(t) * moving)[None])[0])
        return float(c @ lik.log_prob(y, rest + math.exp(t) * f))

    along = [
        p.stretch(s, own) for k, (p, s, own) in enumerate(model.each(priors, coef)) if k in some
    ]

    def log_density(t: float) -> float:
        return fit(t) + sum(prior(t) for prior in along)

    t = slice_sample(log_density, 0.0, rng)
    grown = tuple(
        prior.stretched(s, t) if k in some else s
        for k, (prior, s, _) in enumerate(model.parts(priors))
    )
    return theta + math.expm1(t) * moving, grown


def crowded(problem: Problem, theta: Array) -> Array:
    """A start with many columns in: all of them, or as many as expected, those that say most.

    (With more columns than rows, some large set of them separates the classes, and a chain that
    starts there does not find out again.)
    """
    model, K = problem.model, theta.size
    slope = problem.stats(Coef(np.zeros(K), Point(K))).g
    odds = model.odds(model.init())
    assert odds is not None
    size = K if problem.n >= K else round(float(expit(odds).sum()))
    free = np.argsort(-np.where(np.isinf(odds), np.inf, np.abs(slope)))
    out = np.zeros(K)
    out[free[:size]] = 1e-3 * np.where(slope[free[:size]] < 0, -1.0, 1.0)
    return out


def _remember(
    record: Record, at: Position, proposal: Proposal | None, rng: np.random.Generator
) -> dict[str, Array]:
    """A chain as plain arrays."""
    return record.arrays(at, rng) | ({} if proposal is None else proposal.arrays())
