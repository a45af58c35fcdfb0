"""Sweeps of the augmented bound where some coefficients have gates (selection priors)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.types import Array, Coef
from ..gaussian.covariances import covariance, mode
from ..gaussian.gates import OPEN, best_subset, gated_coef, through_gates, update_gates
from ..model.latent import update_latents
from ..model.problem import Problem
from .loop import State, Step, newton_mean

STILL = 1e-5  # largest change of a gate in a sweep at which Newton's mean is tried


def gated_sweep(problem: Problem, state: State, bold: bool, curved: bool, frozen: bool) -> Step:
    """A sweep where some coefficients have gates, frozen or not (Luts & Ormerod, Algorithm 3).

    Bold steps are tried only while gates do not change: a long step of the mean can shut a gate for
    good that small ones would have left open.  With many rows the mean is Newton's.  With few, the
    scale of the prior is what is slow: coefficients that are out only repeat it.
    """
    model, (coef, priors, _) = problem.model, state
    gate, odds = model.gates(priors), model.odds(priors)
    assert gate is not None
    assert odds is not None
    view = gated_coef(coef, gate)
    stats = problem.stats(view, curved=curved)
    bound = -np.inf if coef.cov.is_point else float(stats.bound + model.bound(*state))
    P, inner = model.precision(priors), through_gates(stats, gate, coef.mean)
    cov = covariance(inner.S, P)

    def reach(mean: Array, spread: Any, scales: Any) -> State:
        new = Coef(mean, spread)
        updated = model.update(scales, new)
        if not frozen:
            updated = model.gated(updated, update_gates(stats, view.mean, new, odds, gate))
        latents = ()
        if state.latents:
            latents = update_latents(problem, view, gated_coef(new, model.gates(updated)))
        return State(new, updated, latents)

    safe = reach(mode(cov, inner.g, P, coef.mean), cov, priors)
    singular = coef.cov.patched
    after = model.gates(safe.priors)
    if not bold or after is None or np.max(np.abs(after - gate)) > STILL:
        return Step(bound, lambda: safe, singular=singular)

    def hastened(new: State, scales: Any) -> tuple[Any, ...]:
        return tuple(prior.at_fixed_point(s, own) for prior, s, own in model.each(scales, new.coef))

    def newton(caution: float) -> State:
        new = reach(newton_mean(inner, coef.mean, P, caution), cov, priors)
        return new._replace(priors=hastened(new, new.priors))

    def rescaled(caution: float) -> State | None:
        if caution > 0:  # there is no shorter one
            return None
        quick = hastened(safe, priors)  # from the scales that made its spread
        R = model.precision(quick)
        spread = covariance(inner.S, R)
        return reach(mode(spread, inner.g, R, coef.mean), spread, quick)

    return Step(bound, lambda: safe, newton if curved else rescaled, singular)


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
    stats = problem.at(latents).stats(view)
    active = best_subset(stats, model.precision(priors), odds, start, view.mean)
    return state._replace(priors=model.gated(priors, np.where(active, OPEN, -OPEN)))
