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
from .loop import Progress, State, Watch, silent
from .vb import VB


class Draws(NamedTuple):
    """Kept draws: coefficients ``(chains, draws, K)`` and hyperparameters by term."""

    theta: Array
    hyper: dict[str, Array]
    log_prob: Array  # (chains, draws), pseudo-likelihood of each kept draw
    start: Any = None  # the state the chains were started around


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
        Independent chains, started around the variational answer; ``n_jobs`` of the estimator
        runs them in parallel.
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
        link = Link(start.coef.mean + start.coef.cov.sample(1, rng)[0], start.priors)
        total = self.burn_in + self.draws * self.thin
        kept = Draws(
            np.empty((self.draws, model.width)),
            {
                t.name: np.empty((self.draws, _flat(s).size))
                for t, s in zip(model.terms, link.priors, strict=True)
                if len(s)
            },
            np.empty(self.draws),
        )
        key, first, count = f"gibbs/chain{k}", 0, 0
        held = store.get(key) if store is not None else {}
        if held:
            first, count, link = _recall(model, held, kept, rng)
        for t in range(first, total):
            link, fit = self.sweep(problem, link, rng, (seed, k, t))
            if t >= self.burn_in and (t - self.burn_in) % self.thin == 0:
                kept.theta[count], kept.log_prob[count] = link.theta, fit
                for term, s in zip(model.terms, link.priors, strict=True):
                    if len(s):
                        kept.hyper[term.name][count] = _flat(s)
                count += 1
            stop = watch(Progress(f"gibbs, chain {k + 1}", t + 1, total, fit, np.nan), link)
            if store is not None:
                last = stop or t + 1 == total
                store.put(key, partial(_remember, model, t + 1, count, link, kept, rng), now=last)
            if stop:
                break
        if count == 0:  # stopped before any draw was due: the last one made stands for it
            kept.theta[0], kept.log_prob[0], count = link.theta, fit, 1
            for term, s in zip(model.terms, link.priors, strict=True):
                if len(s):
                    kept.hyper[term.name][0] = _flat(s)
        return Draws(
            kept.theta[:count],
            {name: h[:count] for name, h in kept.hyper.items()},
            kept.log_prob[:count],
        )

    def sweep(
        self, problem: Problem, link: Link, rng: np.random.Generator, key: tuple[int, ...]
    ) -> tuple[Link, float]:
        """One sweep; also the log pseudo-likelihood of the draw it makes."""
        model = problem.model
        stats = problem.draw(link.theta, key)  # w | theta
        P = model.precision(link.priors)
        cov = covariance(stats.S, P)
        theta = link.theta + cov.solve(stats.g - P * link.theta) + cov.sample(1, rng)[0]
        priors = link.priors
        if self.scale_move:
            theta, priors = stretch(problem, theta, priors, rng)
        coef, blocks = Coef(theta, Point(model.width)), problem.blocks
        fit = float(blocks.c @ model.likelihood.log_prob(blocks.y, problem.predictor(theta)))
        return Link(theta, tuple(model.each("draw", priors, coef, rng))), fit


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


def _remember(
    model: Model, t: int, count: int, link: Link, kept: Draws, rng: np.random.Generator
) -> dict[str, Array]:
    """A chain as plain arrays."""
    priors = [term.prior.vector(s) for term, s in zip(model.terms, link.priors, strict=True)]
    return {
        "position": np.array([t, count]),
        "generator": np.array(json.dumps(rng.bit_generator.state)),
        "link": np.concatenate([link.theta, *priors]),
        "theta": kept.theta[:count],
        "log_prob": kept.log_prob[:count],
        **{f"hyper/{name}": h[:count] for name, h in kept.hyper.items()},
    }


def _recall(
    model: Model, held: dict[str, Array], kept: Draws, rng: np.random.Generator
) -> tuple[int, int, Link]:
    """Undo :func:`_remember`: fills ``kept``, sets the generator, returns where the chain stood."""
    t, count = (int(x) for x in held["position"])
    rng.bit_generator.state = json.loads(str(held["generator"]))
    kept.theta[:count], kept.log_prob[:count] = held["theta"], held["log_prob"]
    for name, h in kept.hyper.items():
        h[:count] = held[f"hyper/{name}"]
    sizes = [model.width, *(t.prior.vector(t.prior.init(t.design.width)).size for t in model.terms)]
    theta, *priors = np.split(held["link"], np.cumsum(sizes)[:-1])
    states = tuple(term.prior.restore(x) for term, x in zip(model.terms, priors, strict=True))
    return t, count, Link(theta, states)
