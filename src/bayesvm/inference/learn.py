"""The scale of a likelihood that has one to learn, by the bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..core.types import Coef
from ..gaussian.gates import seen
from ..model.model import Problem
from .loop import State
from .progress import Watch, silent
from .vb import VB

ROUNDS = 200
STILL = 1e-4  # change of the log scale, or error left in it, that ends the search


def with_likelihood(problem: Problem, likelihood: Any) -> Problem:
    return replace(problem, model=replace(problem.model, likelihood=likelihood))


def standing(problem: Problem, coef: Coef, fit: float | None = None) -> tuple[float, float, float]:
    """Sums over rows of what they say, of their mean margin residuals, and of their weights."""
    y, c = problem.blocks.y, problem.blocks.c
    lean = float(c @ (1.0 - y * problem.predictor(coef.mean)))
    return problem.stats(coef).bound if fit is None else fit, lean, float(c.sum())


def learned(
    problem: Problem,
    scheme: Any,
    rng: np.random.Generator,
    start: State | None = None,
    watch: Watch = silent,
) -> tuple[Problem, State | None]:
    """The problem with the scale of its likelihood known, and a state to go on from.

    Fit and scale take turns, neither of which can lower the bound, by ``scheme`` if that has a
    bound and by :class:`VB` else; the fits after the first start where the last one ended.  Of two
    steps in a row the third is guessed, for the turns close in at a steady rate.
    """
    likelihood: Any = problem.model.likelihood
    if not likelihood.is_learned:
        return problem, start
    climber = scheme if isinstance(scheme, VB) else VB(tol=1e-7)
    last = np.inf
    for k in range(ROUNDS):
        now = with_likelihood(problem, likelihood)
        run = climber.fit(now, rng, start, watch)
        state = run.state
        seen_by_rows = seen(state.coef, now.model.gates(state.priors))
        new = likelihood.update(*standing(now.at(state.latents), seen_by_rows))
        step, start = float(np.log(new.scale / likelihood.scale)), state
        rate = min(step / last, 0.9) if k % 3 == 2 and 0 < step / last < 1 else 0.0
        left = step / (1.0 - rate)
        likelihood = new if rate == 0 else likelihood.with_scale(likelihood.scale * np.exp(left))
        if abs(step) < STILL or run.stopped:
            break
        last = step
    return with_likelihood(problem, likelihood), start
