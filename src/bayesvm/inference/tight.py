r"""Natural-gradient ascent with a guard, for bounds whose unit step may overshoot.

With *S* and *g* from rows that answer without augmentation, a step of rate :math:`\rho` is

.. math::

    \Sigma_{new}^{-1} = (1 - \rho)\,\Sigma^{-1} + \rho\,(S + P), \qquad
    \mu_{new} = \mu + \rho\,\Sigma_{new}\,(g - P\mu) .

The rate is halved until the bound does not fall; the guard is needed, for where the variance of a
row is small its precision is a spike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.types import Coef, Stats
from ..gaussian.covariances import blended, mode
from ..model.model import Problem
from .loop import Ascent, Pace, State, bound_of, page_of
from .progress import History, Progress, Watch, silent

SMALLEST_RATE = 1e-5


def climb(
    evaluate: Callable[[Any], tuple[float, Any]],
    step: Callable[[Any, Any, float], Any],
    state: Any,
    pace: Pace,
    *,
    max_iter: int,
    tol: float,
    size: float | None = None,
    watch: Watch = silent,
    stage: str = "vb",
) -> tuple[Ascent, Any]:
    """Climb until a full step raises the bound by less than ``tol`` times ``size``.

    Parameters
    ----------
    evaluate : callable
        The bound of a state, and the values from which the next step is made.
    step : callable
        The state that a step of a given rate leads to.
    size : float, optional
        Unit of ``tol``; by default the size of the bound.

    Returns
    -------
    run : Ascent
        Where it ended.
    value : object
        The values of that state; ``None`` if a checkpoint held the end.
    """
    page, start = page_of(watch), state
    held = page.recall(lambda: start)
    if held is not None and held.ended:
        return held.ascent(), None

    def ended(converged: bool, change: float, stopped: bool = False) -> tuple[Ascent, Any]:
        run = Ascent(state, bound, path, n_iter, converged, change, stopped)
        return page.end(run), value

    path, n_iter, change = History(), 1, np.inf
    if held is not None:
        state, path, (count, change, *rates) = held.state, held.path, held.numbers
        n_iter, pace = int(count), Pace(*rates)
    bound, value = evaluate(state)
    if held is None:
        path.append(known(bound))
    while n_iter < max_iter:
        top = (state, (n_iter, change, *pace), path, len(path))
        page.keep(*top)
        new = step(state, value, pace.rate)
        (reached, after), n_iter = evaluate(new), n_iter + 1
        unit = max(1.0, abs(bound))
        if not reached >= bound - 1e-11 * unit:
            pace = pace.slower()
            if pace.rate < SMALLEST_RATE:  # nothing above rounding is left to gain
                return ended(*exhausted(reached))
            continue
        change = reached - bound
        settled = change < tol * pace.rate * (unit if size is None else size)
        state, value, bound = new, after, reached
        path.append(bound)
        pace = pace.faster()
        stop = watch(Progress(stage, n_iter, max_iter, bound, change), state)
        if stop:
            page.keep(*top, now=True)
        if settled or stop:
            return ended(settled, change, stop)
    return ended(False, change)


def climb_coef(
    problem: Problem, state: State, pace: Pace, *, max_iter: int, tol: float, watch: Watch = silent
) -> Ascent:
    """Climb the bound of a problem by natural-gradient steps on q(theta)."""

    def evaluate(state: State) -> tuple[float, Stats]:
        stats = problem.stats(state.coef)
        return bound_of(problem, state, stats), stats

    def step(state: State, stats: Stats, rate: float) -> State:
        model, coef, priors = problem.model, state.coef, state.priors
        P = model.precision(priors)
        cov = blended(coef.cov, stats.S, P, rate)
        new = Coef(mode(cov, rate * stats.g, rate * P, coef.mean), cov)
        return State(new, tuple(model.each("update", priors, new)))

    return climb(evaluate, step, state, pace, max_iter=max_iter, tol=tol, watch=watch)[0]


def known(bound: float) -> float:
    """The bound of a start, which must be a number."""
    if np.isfinite(bound):
        return bound
    raise ValueError(
        f"the bound of the fit is {bound} where it starts, so nothing can be judged by it. Kernel "
        "values, weights of rows or the prior's variances are too large or too small for floating "
        "point: bring them nearer to one. If they are, the likelihood has an error."
    )


def exhausted(reached: float) -> tuple[bool, float]:
    """Whether a climb has converged that no step could raise any more, and its last change.

    It has not where the bound after the shortest step is not a number.
    """
    return (True, 0.0) if np.isfinite(reached) else (False, np.nan)
