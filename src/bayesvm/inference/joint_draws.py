"""Gibbs sampling of the coefficients of all classes together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..core.distributions import slice_sample
from ..core.precision import split
from ..core.random import stream
from ..core.types import Array, Coef, Own
from ..gaussian.covariances import Point, covariance
from ..likelihoods.multinomial import log_prob
from ..model.joint import Joint, pooled
from ..model.model import States
from .draws import Draws, Position, Record, Run, for_chains, run_chains
from .gibbs import Gibbs
from .joint import ascend_vb
from .loop import State
from .progress import Monitor, Progress, Watch, silent
from .vb import VB

Positions = list[Position]  # one for each class


def draw_together(
    joint: Joint,
    scheme: Gibbs,
    rng: np.random.Generator,
    starts: Sequence[State | None] = (),
    watch: Watch = silent,
    n_jobs: int | None = None,
) -> list[Draws]:
    r"""Draws for each class, of differences to the mean of all classes.

    A sweep draws the coefficients of one class after the other, each by a Polya-Gamma variable for
    every row given the others (Holmes & Held 2006; Polson, Scott & Windle 2013).  Then it
    draws what the classes have in common, which the likelihood does not see, stretches all
    coefficients with their scales, and draws the scales.
    """
    if scheme.rao_blackwell:
        raise ValueError(
            "Gibbs(rao_blackwell=True) is for two classes, or for likelihoods with a machine for "
            "each class; leave it out."
        )
    problem, store = joint.problem, watch.store if isinstance(watch, Monitor) else None
    begun = tuple(state for state in starts if state is not None)
    if len(begun) != joint.classes or begun[0].coef.cov.is_point:
        begun = ascend_vb(joint, VB(tol=1e-7), None, silent).state
    seed, (problem, shared) = int(rng.integers(2**32)), for_chains(problem)
    chain = partial(_chain, replace(joint, problem=problem), scheme, begun, seed)
    alone = n_jobs if not shared and store is None else None
    parts = run_chains(chain, scheme.chains, alone, watch, store)
    return [Draws.joined([part[k] for part in parts], state) for k, state in enumerate(begun)]


def _chain(
    joint: Joint,
    scheme: Gibbs,
    starts: Sequence[State],
    seed: int,
    number: int,
    watch: Watch = silent,
    store: Any = None,
) -> tuple[list[Draws], bool]:
    """One chain, and whether a callback has stopped it."""
    rng, model, stop = stream(seed, "chain", number), joint.problem.model, False
    at = [Position(s.coef.mean + s.coef.cov.sample(1, rng)[0], s.priors) for s in starts]
    sizes = (scheme.burn_in, scheme.draws, scheme.thin, scheme.chains)
    records = [Record(model, state.priors, *sizes) for state in starts]
    total, key = scheme.burn_in + scheme.draws * scheme.thin, f"gibbs/chain{number}"
    held = store.get(key) if store is not None else {}
    if held:
        at = [_loaded(records[k], held, at[k], rng, k) for k in range(joint.classes)]
    while records[0].t < total and not stop:
        at = sweep(joint, scheme, at, rng, (seed, number, records[0].t))
        for record, here in zip(records, at, strict=True):
            record.add(Run.of(here))
        shown = Progress(f"gibbs, chain {number + 1}", records[0].t, total, at[0].fit, np.nan)
        stop = watch(shown, at)
        if store is not None:
            make = partial(_arrays, records, at, rng)
            store.put(key, make, now=stop or records[0].t == total)
    kept = [record.draws(here) for record, here in zip(records, at, strict=True)]
    mean = np.mean([draws.theta for draws in kept], axis=0)
    return [draws._replace(theta=draws.theta - mean) for draws in kept], stop


def _arrays(records: Sequence[Record], at: Positions, rng: np.random.Generator) -> dict[str, Array]:
    """A chain as plain arrays."""
    each = [record.arrays(here, rng) for record, here in zip(records, at, strict=True)]
    return {f"class{k}/{name}": x for k, one in enumerate(each) for name, x in one.items()}


def _loaded(
    record: Record, held: dict[str, Array], at: Position, rng: np.random.Generator, k: int
) -> Position:
    first = f"class{k}/"
    own = {name.removeprefix(first): x for name, x in held.items() if name.startswith(first)}
    return record.load(own, at, rng)


def sweep(
    joint: Joint, scheme: Gibbs, at: Positions, rng: np.random.Generator, key: tuple[int, ...]
) -> Positions:
    """One sweep over all classes."""
    model, priors = joint.problem.model, [here.priors for here in at]
    thetas, P = np.stack([here.theta for here in at]), [model.precision(s) for s in priors]
    for k in range(joint.classes):
        stats = joint.draw(thetas, k, key)
        cov = covariance(stats.S, P[k])
        step = cov.solve(stats.g - P[k] * thetas[k])
        thetas[k] = thetas[k] + step + cov.sample(1, rng)[0]
    thetas = thetas + shift(thetas, P, rng)
    f = None if joint.problem.blocks.remote else joint.predictors(thetas)
    t = 0.0
    if scheme.scale_move:
        t = slice_sample(_along(joint, thetas, priors, f), 0.0, rng)
        thetas = math.exp(t) * thetas
        parts = [model.parts(each) for each in priors]
        priors = [tuple(prior.stretched(s, t) for prior, s, _ in one) for one in parts]
    fit = _fit(joint, thetas, None if f is None else math.exp(t) * f)
    drawn = _hyper(joint, thetas, priors, rng)
    return [Position(theta, each, fit) for theta, each in zip(thetas, drawn, strict=True)]


def shift(thetas: Array, P: Sequence[Any], rng: np.random.Generator) -> Array:
    """A draw of what is added to all classes alike, given their differences."""
    parts = split(P[0])[1]
    total = np.sum([split(each)[0] for each in P], axis=0)
    pull = np.sum([each * theta for each, theta in zip(P, thetas, strict=True)], axis=0)
    z, out = rng.standard_normal(total.size), np.zeros(total.size)
    some = total > 0  # along a flat prior there is no such draw
    out[some] = -pull[some] / total[some] + z[some] / np.sqrt(total[some])
    for where, B in parts:  # the same for all classes
        r, K = B.shape[0], len(P)
        noise = np.linalg.solve(np.linalg.cholesky(K * B).T, z[where].reshape(-1, r).T).T
        out[where] = noise.ravel() - thetas[:, where].mean(axis=0)
    return out


def _fit(joint: Joint, thetas: Array, f: Array | None) -> float:
    """Log likelihood, by f of all rows where it is known."""
    if f is None:
        return joint.log_likelihood(thetas)
    blocks = joint.problem.blocks
    return float(blocks.c @ log_prob(blocks.y, f))


def _along(
    joint: Joint, thetas: Array, priors: Sequence[States], f: Array | None
) -> Callable[[float], float]:
    """Log density of all coefficients times e^t, with the latent weights integrated out."""
    terms = joint.problem.model.terms
    along = []
    for j, owns in enumerate(_owns(joint, thetas)):
        prior = terms[j].prior
        if prior.is_pooled:
            along.append(prior.stretch(priors[0][j], pooled(owns)))
        else:
            along += [prior.stretch(s[j], own) for s, own in zip(priors, owns, strict=True)]

    def log_density(t: float) -> float:
        grow = math.exp(t)
        fit = _fit(joint, grow * thetas, None if f is None else grow * f)
        return fit + sum(prior(t) for prior in along)

    return log_density


def _owns(joint: Joint, thetas: Array) -> list[list[Own]]:
    """Coefficients by term and class."""
    model = joint.problem.model
    each = [model.each(model.init(), Coef(x, Point(x.size))) for x in thetas]
    return [list(owns) for owns in zip(*([own for *_, own in one] for one in each))]


def _hyper(
    joint: Joint, thetas: Array, priors: Sequence[States], rng: np.random.Generator
) -> list[States]:
    """Hyperparameters drawn given the coefficients; one draw for all classes where that can be."""
    model, new = joint.problem.model, []
    for j, (term, at) in enumerate(zip(model.terms, model.slices, strict=True)):
        if term.prior.is_pooled:
            one = term.prior.draw(priors[0][j], thetas[:, at].ravel(), rng)
            new.append([one] * joint.classes)
        else:
            pairs = zip(priors, thetas, strict=True)
            new.append([term.prior.draw(s[j], theta[at], rng) for s, theta in pairs])
    return [tuple(one) for one in zip(*new, strict=True)]
