"""Gibbs sampling by data augmentation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from ..core.distributions import slice_sample
from ..core.parameters import require
from ..core.types import Array, Coef
from ..likelihoods import Likelihood
from ..linalg.covariances import Point, covariance
from ..linalg.spike_slab import draw_subset
from .draws import Draws, Position, Record, Run, for_chains, run_chains
from .inclusion_moves import Guide, can_move, move_indicators
from .independence_metropolis import can_leap, leap, learn
from .latent import rotate_latents, sample_latents, start_latents, update_latents
from .model import State, States
from .problem import Problem
from .progress import Monitor, Progress, Watch, silent, stream
from .vb import VB, learn_scale, scale_sums


@dataclass(frozen=True)
class Gibbs:
    r"""Gibbs sampling by data augmentation.

    A sweep draws the latent weights :math:`w \mid \theta` row by row, then
    :math:`\theta \mid w \sim N(Q^{-1}r, Q^{-1})` with :math:`Q = S + P`, then stretches
    coefficients together with their scales (a slice move with the weights integrated out, without
    which the chain mixes slowly if the classes are nearly separable), then draws the scales.  After
    the burn-in, if acceptance rates permit, 99 % of the draws are cheaper *leaps*
    (:mod:`bayesvm.inference.independence_metropolis`): they have the same posterior and give
    several times as many effective draws per second.
    Missing entries are drawn after the coefficients, then the parameters of their distribution
    (Appendix C); such models make no leaps.

    Parameters
    ----------
    draws : int, default=1000
        Draws kept from each chain.
    burn_in : int, default=500
        Number of initial sweeps to discard.
    chains : int, default=4
        Number of chains, started around the variational posterior; ``n_jobs`` of the estimator
        runs them in parallel.
    thin : int, default=1
        Keep every ``thin``-th sweep.
    scale_move : bool, default=True
        Whether to stretch coefficients together with their scales.
    leaps : int, default=4
        Number of proposals for each draw between sweeps; 0 for plain Gibbs sampling.
    moves : int, default=4
        Number of proposals per sweep to include, exclude or exchange a column with the latent
        weights integrated out, for selection priors.  Each costs about fifty evaluations of the
        likelihood; 0 turns them off.
    rao_blackwell : bool, default=False
        Report means and variances of coefficients as averages of their conditional moments given
        the latent weights and the scales, :math:`E[\theta \mid y] \approx \frac1G\sum_g b_g` and
        :math:`\mathrm{Var}[\theta \mid y] \approx \frac1G\sum_g \{\mathrm{diag}\,B_g + b_g^2\}
        - \bar b^2`, which vary less between chains than means and variances of the draws.
        Intervals and predictions still use the draws.  Every draw is then a sweep.  Only for linear
        machines without a selection prior.

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
    moves: int = 4
    rao_blackwell: bool = False

    is_tight: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require(self, {"draws": 1, "burn_in": 0, "chains": 1, "thin": 1, "leaps": 0, "moves": 0})
        if not isinstance(self.rao_blackwell, bool | np.bool_):
            raise ValueError(
                f"Gibbs(rao_blackwell) must be True or False; got {self.rao_blackwell!r}."
            )

    def fit(
        self,
        problem: Problem,
        rng: np.random.Generator,
        start: State | None = None,
        watch: Watch = silent,
        n_jobs: int | None = None,
    ) -> Draws:
        """Draws of all chains."""
        model, known = problem.model, problem
        if self.rao_blackwell and model.has_gates:
            raise ValueError(
                "Gibbs(rao_blackwell=True) is for priors without selection; inclusion "
                "probabilities of selection priors are averages of conditional ones anyway."
            )
        if start is None and model.has_gates:  # starts with no columns, and with many columns
            start = State(model.start(), model.init(), start_latents(problem))
        if model.likelihood.is_learned:
            known, near = learn_scale(problem, VB(tol=1e-5), rng)
            start = near if start is None else start
        if start is None:
            start = VB(tol=1e-5).fit(problem, rng).state
        if model.is_latent and not start.latents:
            start = start._replace(latents=start_latents(problem))
        drawn = known.model.likelihood if model.likelihood.is_learned else None
        problem, shared = for_chains(problem)
        return self.run(problem, self.sweep, start, rng, watch, None if shared else n_jobs, drawn)

    def run(
        self,
        problem: Problem,
        sweep: Callable[..., Position],
        start: State,
        rng: np.random.Generator,
        watch: Watch = silent,
        n_jobs: int | None = None,
        likelihood: Likelihood | None = None,
    ) -> Draws:
        """Run chains that start around a state; a checkpoint stores them during the run."""
        seed, store = int(rng.integers(2**32)), watch.store if isinstance(watch, Monitor) else None
        chain = partial(self._chain, problem, sweep, start, likelihood, seed)
        parts = run_chains(chain, self.chains, n_jobs if store is None else None, watch, store)
        return Draws.joined(parts, start)

    def _chain(
        self,
        problem: Problem,
        sweep: Callable[..., Position],
        start: State,
        likelihood: Likelihood | None,
        seed: int,
        k: int,
        watch: Watch = silent,
        store: Any = None,
    ) -> tuple[Draws, bool]:
        """Run a chain; returns whether it was stopped.  With leaps 1 % of the draws are sweeps."""
        rng, model = stream(seed, "chain", k), problem.model
        theta = start.coef.mean + start.coef.cov.sample(1, rng)[0]
        latents = sample_latents(start.latents, rng)
        if k % 2 and model.has_gates:
            theta = crowded(replace(problem, latents=latents), theta)
        at = Position(theta, start.priors, latents=latents, likelihood=likelihood)
        sizes = (self.burn_in, self.draws, self.thin, self.chains)
        record = Record(model, start.priors, *sizes)
        total = self.burn_in + self.draws * self.thin
        plain = likelihood is not None or self.rao_blackwell or not can_leap(problem)
        leaps = 0 if plain or not self.burn_in else self.leaps
        moves, tries = self.moves > 0 and can_move(problem), leaps
        guide, proposal, stop, key = None, None, False, f"gibbs/chain{k}"
        if held := {} if store is None else store.get(key):
            at = record.load(held, at, rng)
        while record.t < total and not stop:
            ahead = (self.burn_in - record.t) % 100  # draws before the next sweep is due
            # learned from early draws of the chain, again in a resumed chain
            if moves and guide is None and record.t >= self.burn_in // 2:
                guide = Guide.learn(replace(problem, latents=at.latents), record.early())
            if tries and record.t >= self.burn_in:
                burnt, tries = record.burnt(at.priors), 0
                proposal = learn(problem, start.coef, burnt, stream(seed, "leaps", k))
            if proposal is None or ahead == 0:
                at = sweep(problem, at, rng, (seed, k, record.t), guide)
                record.add(Run.of(at), at)
            else:
                run = leap(problem, proposal, at, min(ahead, total - record.t), leaps, rng)
                at = run.position(-1)
                record.add(run)
            stop = watch(Progress(f"gibbs, chain {k + 1}", record.t, total, at.fit, np.nan), at)
            if store is not None:
                make = partial(record.arrays, at, rng)
                store.put(key, make, now=stop or record.t == total)
        return record.draws(at), stop

    def sweep(
        self,
        problem: Problem,
        at: Position,
        rng: np.random.Generator,
        key: tuple[int, ...],
        guide: Guide | None = None,
    ) -> Position:
        """One sweep; with a ``guide``, indicators of selection priors are moved in addition."""
        if at.likelihood is not None:
            problem = problem.with_likelihood(at.likelihood)
        model, problem = problem.model, replace(problem, latents=at.latents)
        stats = problem.draw(at.theta, key)  # w | theta
        P, odds, inclusion = model.precision(at.priors), model.odds(at.priors), None
        moments = None
        if odds is None:
            cov = covariance(stats.S, P)
            mean = at.theta + cov.solve(stats.g - P * at.theta)
            theta = mean + cov.sample(1, rng)[0]
            if self.rao_blackwell:
                moments = np.stack([mean, cov.diag() + mean**2])
        else:
            theta, inclusion = draw_subset(stats, P, odds, at.theta, rng)
            if guide is not None:
                theta = move_indicators(problem, guide, theta, at.priors, rng, self.moves)
        priors, latents, likelihood = at.priors, at.latents, at.likelihood
        if self.scale_move:
            theta, priors = stretch(problem, theta, priors, rng)
            for k in model.grouped:  # random effects also separately
                theta, priors = stretch(problem, theta, priors, rng, only=k)
        if latents:
            coef = Coef(theta, Point(theta.size))
            latents = update_latents(problem, coef, coef, rng, key)
            theta, latents = rotate_latents(model, theta, latents, priors, rng)
            problem = replace(problem, latents=latents)
        fit = float(problem.log_likelihoods(theta[None])[0])
        if likelihood is not None:  # its scale, given theta with weights integrated out
            sums = scale_sums(problem, Coef(theta, Point(model.width)), fit)
            likelihood = likelihood.redraw(*sums, rng)
            fit = float(problem.with_likelihood(likelihood).log_likelihoods(theta[None])[0])
        drawn = model.draw(priors, theta, rng)
        return Position(theta, drawn, fit, inclusion, latents, likelihood, moments)


def stretch(
    problem: Problem,
    theta: Array,
    priors: States,
    rng: np.random.Generator,
    only: int | None = None,
) -> tuple[Array, States]:
    """Scale move: theta and its scales times e^t, with the latent weights integrated out.

    It must follow the draw of theta and precede the next draw of the weights.  ``only`` selects
    one term to stretch; the default is all terms.
    """
    model, moving = problem.model, theta
    if only is not None:
        moving = np.zeros_like(theta)
        moving[model.slices[only]] = theta[model.slices[only]]
    lik, y, c, f = model.likelihood, problem.y, problem.c, problem.matvec(moving)
    rest = 0.0 if only is None else problem.matvec(theta - moving)
    each = model.each(priors, Coef(theta, Point(model.width)))
    along = [p.stretch(s, moments) for k, (p, s, moments) in enumerate(each) if only in (None, k)]

    def log_density(t: float) -> float:
        fit = float(c @ lik.log_prob(y, rest + math.exp(t) * f))
        return fit + sum(prior(t) for prior in along)

    t = slice_sample(log_density, 0.0, rng)
    grown = tuple(
        prior.stretched(s, t) if only in (None, k) else s
        for k, (prior, s, _) in enumerate(model.parts(priors))
    )
    return theta + math.expm1(t) * moving, grown


def crowded(problem: Problem, theta: Array) -> Array:
    """A start with many columns: all, or the expected number, chosen by the largest gradients.

    With more columns than rows a large set of columns can separate the classes, and a chain that
    starts with such a set does not leave it.
    """
    model, K = problem.model, theta.size
    slope = problem.expectations(Coef(np.zeros(K), Point(K))).g
    odds = model.odds(model.init())
    assert odds is not None
    size = K if problem.n >= K else round(float(expit(odds).sum()))
    some = np.argsort(-np.where(np.isinf(odds), np.inf, np.abs(slope)))[:size]
    out = np.zeros(K)
    out[some] = 1e-3 * np.where(slope[some] < 0, -1.0, 1.0)
    return out
