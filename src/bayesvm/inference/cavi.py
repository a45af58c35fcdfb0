r"""Coordinate ascent variational inference (Luts & Ormerod, Algorithms 1 to 4).

A sweep sums likelihood contributions at the current moments of f, then updates

.. math::

    \Sigma^{-1} \leftarrow S + E[P], \qquad \mu \leftarrow \mu + \Sigma(g - E[P]\mu),

then the hyperparameters, the inclusion probabilities of a selection prior, and latent entries of
rows.  No sweep decreases the ELBO.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..core.types import Coef
from ..linalg.covariances import covariance
from ..linalg.spike_slab import OPEN, best_subset, gated_coef, through_gates, update_gates
from .latent import start_latents, sum_latents, update_latents
from .model import State, States, shift
from .problem import Problem
from .progress import Ascent, Monitor, Progress, Watch, silent


class BoundFell(RuntimeError):
    """The ELBO decreased: an error in a component, or rounding with very large columns."""


class Sweep(NamedTuple):
    """The bound of a state, and the next state.

    ``fast``, which may be tried first, changes the scale of a selection prior more and can decrease
    the bound.
    """

    bound: float
    state: State
    fast: State | None = None


def bound_of(problem: Problem, state: State) -> float:
    """The ELBO of a state, including constants."""
    model, (coef, priors, latents) = problem.model, state
    stats = replace(problem, latents=latents).expectations(
        gated_coef(coef, model.gates(priors)), gram=True
    )
    known = sum_latents(problem, latents) if latents else ()
    return float(stats.bound + model.bound(coef, priors, known))


def coordinate_ascent(
    problem: Problem,
    state: State,
    max_iter: int,
    tol: float,
    watch: Watch = silent,
    frozen: bool = False,
) -> Ascent:
    """Coordinate ascent of the augmented bound (Luts & Ormerod, Algorithms 1 to 3).

    Stops when a sweep raises the bound by less than ``tol`` of its size and changes no coefficient
    by more than ``10 * sqrt(tol)`` posterior standard deviations.  With ``frozen``, inclusion
    probabilities are fixed.
    """
    if problem.model.is_latent and not state.latents:
        state = state._replace(latents=start_latents(problem))
    watch, here = Monitor.of(watch), sweep(problem, state, frozen)
    run = Ascent(state, here.bound, [], change=np.inf)
    if (held := watch.begin(here.state)) is not None:
        run, here = held, sweep(problem, held.state, frozen)
    while run.n_iter < max_iter and not (run.converged or run.stopped):
        n_iter, path, before, plain = run.n_iter + 1, run.path, here.bound, here.state
        state = plain if here.fast is None else here.fast
        here = sweep(problem, state, frozen)
        if state is not plain and here.bound < before:
            state, here = plain, sweep(problem, plain, frozen)
        bound, change = here.bound, here.bound - before
        if change < -1e-8 * max(1.0, abs(bound)) and not state.coef.cov.patched:
            raise BoundFell(
                f"the bound fell from {before!r} to {bound!r} in a step that cannot lower it. Very "
                "large columns can do that by rounding: let them be standardised "
                "(standardize=True). If they are, a likelihood, prior or design has an error."
            )
        path.append(bound)
        still = shift(state.coef, here.state.coef) < 10.0 * np.sqrt(tol)
        converged = bool(change < tol * max(1.0, abs(bound))) and still
        stop = watch(Progress("vb", n_iter, max_iter, bound, change), state)
        run = Ascent(state, bound, path, n_iter, converged, change, stop)
        watch.keep(run)
    watch.keep(run, now=True)
    return run


def sweep(problem: Problem, state: State, frozen: bool = False) -> Sweep:
    """One sweep of coordinate ascent from a state."""
    if state.latents:
        state = state._replace(latents=sum_latents(problem, state.latents))
        problem = replace(problem, latents=state.latents)
    model, (coef, priors, _) = problem.model, state
    if model.has_gates:
        return gated_sweep(problem, state, frozen)
    stats = problem.expectations(coef, gram=True)
    bound = -np.inf if coef.cov.is_point else float(stats.bound + model.bound(*state))
    P = model.precision(priors)
    cov = covariance(stats.S, P)
    new = Coef(coef.mean + cov.solve(stats.g - P * coef.mean), cov)
    latents = update_latents(problem, coef, new) if state.latents else ()
    return Sweep(bound, State(new, model.update(priors, new), latents))


def gated_sweep(problem: Problem, state: State, frozen: bool) -> Sweep:
    """A sweep of coordinate ascent with a selection prior (Luts & Ormerod, Algorithm 3).

    With ``frozen``, inclusion probabilities are fixed.
    """
    model, (coef, priors, _) = problem.model, state
    gate, odds = model.gates(priors), model.odds(priors)
    assert gate is not None
    assert odds is not None
    view = gated_coef(coef, gate)
    stats = problem.expectations(view, gram=True)
    bound = -np.inf if coef.cov.is_point else float(stats.bound + model.bound(*state))
    inner = through_gates(stats, gate, coef.mean)

    def at_scales(scales: States) -> State:
        P = model.precision(scales)
        cov = covariance(inner.S, P)
        new = Coef(coef.mean + cov.solve(inner.g - P * coef.mean), cov)
        updated = model.update(scales, new)
        if not frozen:
            updated = model.gated(updated, update_gates(stats, view.mean, new, odds, gate))
        latents = ()
        if state.latents:
            latents = update_latents(problem, view, gated_coef(new, model.gates(updated)))
        return State(new, updated, latents)

    plain = at_scales(priors)
    # excluded columns only reproduce the scale, which then hardly changes with few rows; it
    # moves towards its fixed point once inclusion probabilities are stable
    after = np.asarray(model.gates(plain.priors))
    if coef.cov.is_point or not np.allclose(after, gate, rtol=0.0, atol=1e-5):
        return Sweep(bound, plain)
    return Sweep(bound, plain, at_scales(model.update(priors, plain.coef, "fixed_point_update")))


def searched(problem: Problem, state: State) -> State:
    """Include and exclude columns by a greedy search at the current weights of rows.

    The mean-field factor of an included coefficient is narrow, which keeps the column included;
    the search integrates the coefficients out.
    """
    model, (coef, priors, latents) = problem.model, state
    gate, odds = model.gates(priors), model.odds(priors)
    assert gate is not None
    assert odds is not None
    view = gated_coef(coef, gate)
    start = np.where(gate > 0.5, view.mean, 0.0)
    stats = replace(problem, latents=latents).expectations(view, gram=True)
    active = best_subset(stats, model.precision(priors), odds, start, view.mean)
    return state._replace(priors=model.gated(priors, np.where(active, OPEN, -OPEN)))


def search_models(
    problem: Problem, rng: np.random.Generator, max_iter: int, tol: float, watch: Watch = silent
) -> State:
    """The best of several rough fits and of searches from it, because there are local optima."""
    model, latents = problem.model, start_latents(problem)
    rough = (max_iter, max(tol, 1e-5), watch)
    each = [t.prior.starts(t.design.width, rng) for t in model.terms]
    starts = [State(model.start(), states, latents) for states in zip(*each, strict=True)]
    # one more with all coefficients included until they are found
    starts.append(coordinate_ascent(problem, starts[0], *rough, frozen=True).state)
    runs = [coordinate_ascent(problem, x, *rough) for x in starts]
    best = max(runs, key=lambda run: run.bound)
    while True:
        run = coordinate_ascent(problem, searched(problem, best.state), *rough)
        better = run.bound > best.bound + 1e-4 * abs(best.bound)
        best = run if better else best
        if run.stopped or not better:
            state: State = best.state
            return state
