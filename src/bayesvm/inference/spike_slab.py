"""Sweeps of the augmented bound where some coefficients have gates (selection priors)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..core.types import Coef
from ..linalg.covariances import covariance
from ..linalg.spike_slab import OPEN, best_subset, gated_coef, through_gates, update_gates
from .latent import update_latents
from .model import State, States
from .problem import Problem


class Sweep(NamedTuple):
    """The bound of a state, and the next state.

    ``fast`` may be tried first: it moves the scale of a selection prior further, and can lower the
    bound.
    """

    bound: float
    state: State
    fast: State | None = None


def gated_sweep(problem: Problem, state: State, frozen: bool) -> Sweep:
    """A sweep of coordinate ascent with a selection prior (Luts & Ormerod, Algorithm 3).

    With ``frozen``, inclusion probabilities stay as they are.
    """
    model, (coef, priors, _) = problem.model, state
    gate, odds = model.gates(priors), model.odds(priors)
    assert gate is not None
    assert odds is not None
    view = gated_coef(coef, gate)
    stats = problem.stats(view)
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
    # columns that are out only repeat the scale: where rows are few it would hardly move, and its
    # fixed point is tried as soon as inclusion probabilities are still
    after = np.asarray(model.gates(plain.priors))
    if coef.cov.is_point or not np.allclose(after, gate, rtol=0.0, atol=1e-5):
        return Sweep(bound, plain)
    each = model.each(priors, plain.coef)
    return Sweep(bound, plain, at_scales(tuple(p.at_fixed_point(s, own) for p, s, own in each)))


def searched(problem: Problem, state: State) -> State:
    """Gates opened or shut by a greedy search at the present weights of rows.

    A mean-field factor of a coefficient behind an open gate is narrow and keeps it open; here the
    coefficients are integrated out.
    """
    model, (coef, priors, latents) = problem.model, state
    gate, odds = model.gates(priors), model.odds(priors)
    assert gate is not None
    assert odds is not None
    view = gated_coef(coef, gate)
    start = np.where(gate > 0.5, view.mean, 0.0)
    stats = replace(problem, latents=latents).stats(view)
    active = best_subset(stats, model.precision(priors), odds, start, view.mean)
    return state._replace(priors=model.gated(priors, np.where(active, OPEN, -OPEN)))
