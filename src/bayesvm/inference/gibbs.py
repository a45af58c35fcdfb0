"""Gibbs sampling: the same pass with draws."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from ..distributions import slice_sample
from ..engines import Serial
from ..gaussian import Point, covariance
from ..model import Model, Problem, States
from ..types import Array, Coef
from .leaps import Leaper, learn
from .loop import Progress, State, Watch, require, silent
from .vb import VB

CYCLE = 20  # one draw in so many is a sweep, where leaps are made


class Draws(NamedTuple):
    """Kept draws: coefficients ``(chains, draws, K)`` and hyperparameters by term."""

    theta: Array
    hyper: dict[str, Array]
    log_prob: Array  # (chains, draws), pseudo-likelihood of each kept draw
    start: Any = None  # the state the chains were started around


class Position(NamedTuple):
    """Where a chain stands."""

    theta: Array
    priors: States


@dataclass(frozen=True)
class Gibbs:
    r"""Gibbs sampling by data augmentation.

    A sweep draws the latent weights :math:`w \mid \theta` row by row, then
    :math:`\theta \mid w \sim N(Q^{-1}r, Q^{-1})` with :math:`Q = S + P`, then stretches all scaled
    coefficients together with their scales (a slice move with the weights integrated out, which
    is what lets the chain move when the classes nearly separate), then draws the scales.  After the
    burn-in, and where it pays, all but one in twenty draws are cheaper *leaps*
    (:mod:`bayesvm.inference.leaps`): same posterior, several times the effective draws per second.

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
    leaps : int, default=8
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
    leaps: int = 8

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
        if start is None:
            start = VB(tol=1e-5).fit(problem, rng).state
        seed = int(rng.integers(2**32))
        if store is not None:
            seed = int(store.get("gibbs").get("seed", seed))
            store.put("gibbs", lambda: {"seed": np.array(seed)}, now=True)
        size = problem.n * problem.model.width
        if size < 2**21 and not problem.blocks.ready:
            problem = problem.assembled()  # columns are built once, not once a sweep
        if size < 2**22:
            problem = replace(problem, engine=Serial())  # chains, not rows, share the cores
        if n_jobs in (None, 1) or size >= 2**22 or store is not None:
            parts = [self._chain(problem, start, seed, k, watch, store) for k in range(self.chains)]
        else:
            parts = Parallel(n_jobs=n_jobs)(
                delayed(self._chain)(problem, start, seed, k, silent, None)
                for k in range(self.chains)
            )
        shortest = min(p.theta.shape[0] for p in parts)  # a callback may have stopped one early
        return Draws(
            np.stack([p.theta[:shortest] for p in parts]),
            {name: np.stack([p.hyper[name][:shortest] for p in parts]) for name in parts[0].hyper},
            np.stack([p.log_prob[:shortest] for p in parts]),
            start,
        )

    def _chain(
        self, problem: Problem, start: State, seed: int, k: int, watch: Watch, store: Any
    ) -> Draws:
        model = problem.model
        rng = np.random.default_rng((seed, k))
        at = Position(start.coef.mean + start.coef.cov.sample(1, rng)[0], start.priors)
        total = self.burn_in + self.draws * self.thin
        kept = Draws(
            np.empty((self.draws, model.width)),
            {
                t.name: np.empty((self.draws, _flat(s).size))
                for t, s in zip(model.terms, at.priors, strict=True)
                if len(s)
            },
            np.empty(self.draws),
        )
        key, first, count = f"gibbs/chain{k}", 0, 0
        early = Draws(np.empty((self.burn_in, model.width)), {}, np.empty(self.burn_in))
        leaper, fit = None, np.nan
        held = store.get(key) if store is not None else {}
        if held:
            first, count, at, fit, leaper = _recall(model, held, kept, early, rng)
        for t in range(first, total):
            rest = (t - self.burn_in) % CYCLE
            if leaper is not None and rest:
                theta, fit = leaper.leap(at.theta, fit, model.precision(at.priors), self.leaps, rng)
                coef = Coef(theta, Point(model.width))
                at = Position(theta, tuple(model.each("draw", at.priors, coef, rng)))
            else:
                at, fit = self.sweep(problem, at, rng, (seed, k, t))
                if t < self.burn_in:
                    early.theta[t], early.log_prob[t] = at.theta, fit
                if leaper is not None and rest == 0:
                    batch = self.leaps * (CYCLE - 1)
                    leaper = Leaper.load(problem, leaper.proposal, at.theta, batch, rng)
            if t + 1 == self.burn_in and self.leaps:
                half, P = self.burn_in // 2, model.precision(at.priors)
                burnt = early.theta[half:], early.log_prob[half:]
                leaper = learn(problem, start.coef, P, *burnt, rng)
            if t >= self.burn_in and (t - self.burn_in) % self.thin == 0:
                _keep(model, kept, count, at, fit)
                count += 1
            stop = watch(Progress(f"gibbs, chain {k + 1}", t + 1, total, fit, np.nan), at)
            if store is not None:
                state = partial(_remember, model, t + 1, count, at, fit, kept, early, leaper, rng)
                store.put(key, state, now=stop or t + 1 == total)
            if stop:
                break
        if count == 0:  # stopped before any draw was due: the last one made stands for it
            _keep(model, kept, 0, at, fit)
            count = 1
        return Draws(
            kept.theta[:count],
            {name: h[:count] for name, h in kept.hyper.items()},
            kept.log_prob[:count],
        )

    def sweep(
        self, problem: Problem, at: Position, rng: np.random.Generator, key: tuple[int, ...]
    ) -> tuple[Position, float]:
        """One sweep; also the log pseudo-likelihood of the draw it makes."""
        model = problem.model
        stats = problem.draw(at.theta, key)  # w | theta
        P = model.precision(at.priors)
        cov = covariance(stats.S, P)
        theta = at.theta + cov.solve(stats.g - P * at.theta) + cov.sample(1, rng)[0]
        priors = at.priors
        if self.scale_move:
            theta, priors = stretch(problem, theta, priors, rng)
        coef, blocks = Coef(theta, Point(model.width)), problem.blocks
        fit = float(blocks.c @ model.likelihood.log_prob(blocks.y, problem.predictor(theta)))
        return Position(theta, tuple(model.each("draw", priors, coef, rng))), fit


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

    along = model.each("stretch", priors, coef)

    def log_density(t: float) -> float:
        return float(c @ lik.log_prob(y, math.exp(t) * f)) + sum(prior(t) for prior in along)

    t = slice_sample(log_density, 0.0, rng)
    grown = tuple(term.prior.stretched(s, t) for term, s in zip(model.terms, priors, strict=True))
    return math.exp(t) * theta, grown


def _flat(s: tuple[Any, ...]) -> Array:
    """A prior's state as one row of numbers."""
    return np.concatenate([np.ravel(x) for x in s]) if len(s) else np.empty(0)


def _keep(model: Model, kept: Draws, count: int, at: Position, fit: float) -> None:
    kept.theta[count], kept.log_prob[count] = at.theta, fit
    for term, s in zip(model.terms, at.priors, strict=True):
        if len(s):
            row = kept.hyper[term.name][count]
            row[:] = s if row.size == len(s) else _flat(s)


def _remember(
    model: Model,
    t: int,
    count: int,
    at: Position,
    fit: float,
    kept: Draws,
    early: Draws,
    leaper: Leaper | None,
    rng: np.random.Generator,
) -> dict[str, Array]:
    """A chain as plain arrays."""
    priors = [term.prior.vector(s) for term, s in zip(model.terms, at.priors, strict=True)]
    burnt = min(t, early.log_prob.size)
    return {
        "position": np.array([t, count]),
        "generator": np.array(json.dumps(rng.bit_generator.state)),
        "at": np.concatenate([at.theta, *priors]),
        "theta": kept.theta[:count],
        "log_prob": kept.log_prob[:count],
        **{f"hyper/{name}": h[:count] for name, h in kept.hyper.items()},
        "early": np.column_stack([early.theta[:burnt], early.log_prob[:burnt]]),
        "fit": np.array(fit),
        **({} if leaper is None else leaper.arrays()),
    }


def _recall(
    model: Model, held: dict[str, Array], kept: Draws, early: Draws, rng: np.random.Generator
) -> tuple[int, int, Position, float, Leaper | None]:
    """Undo :func:`_remember`: fills the draws, sets the generator, says where the chain stood."""
    t, count = (int(x) for x in held["position"])
    rng.bit_generator.state = json.loads(str(held["generator"]))
    kept.theta[:count], kept.log_prob[:count] = held["theta"], held["log_prob"]
    for name, h in kept.hyper.items():
        h[:count] = held[f"hyper/{name}"]
    burnt = held["early"].shape[0]
    early.theta[:burnt], early.log_prob[:burnt] = held["early"][:, :-1], held["early"][:, -1]
    sizes = [model.width, *(t.prior.vector(t.prior.init(t.design.width)).size for t in model.terms)]
    theta, *priors = np.split(held["at"], np.cumsum(sizes)[:-1])
    states = tuple(term.prior.restore(x) for term, x in zip(model.terms, priors, strict=True))
    leaper = Leaper.restore(held) if "leaps/L" in held else None
    return t, count, Position(theta, states), float(held["fit"]), leaper
