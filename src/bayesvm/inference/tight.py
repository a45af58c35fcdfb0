r"""Natural-gradient ascent with a guard, for bounds whose unit step may overshoot.

With *S* and *g* from rows that answer without augmentation, a step of rate :math:`\rho` is

.. math::

    \Sigma_{new}^{-1} = (1 - \rho)\,\Sigma^{-1} + \rho\,(S + P), \qquad
    \mu_{new} = \mu + \rho\,\Sigma_{new}\,(g - P\mu) .

The rate is halved until the bound does not fall; the guard is needed, for where the variance of a
row is small its precision is a spike.
"""

from __future__ import annotations

import numpy as np

from ..core.types import Coef, Stats
from ..gaussian.covariances import blended, mode
from ..model.model import Problem
from .loop import Ascent, Pace, State, bound_of, page_of
from .progress import History, Progress, Watch, silent

SMALLEST_RATE = 1e-5


def climb(
    problem: Problem,
    state: State,
    pace: Pace,
    *,
    max_iter: int,
    tol: float,
    watch: Watch = silent,
    stage: str = "vb",
) -> Ascent:
    """Climb until a full step raises the bound by less than ``tol`` of its size."""
    page, start = page_of(watch), state
    held = page.recall(lambda: start)
    if held is not None and held.ended:
        return held.ascent()

    def ended(converged: bool, change: float, stopped: bool = False) -> Ascent:
        return page.end(Ascent(state, bound, path, n_iter, converged, change, stopped))

    path, n_iter, change = History(), 1, np.inf
    if held is not None:
        state, path, (count, change, *rates) = held.state, held.path, held.numbers
        n_iter, pace = int(count), Pace(*rates)
    stats = problem.stats(state.coef)
    bound = known(bound_of(problem, state, stats))
    if held is None:
        path.append(bound)
    while n_iter < max_iter:
        top = (state, (n_iter, change, *pace), path, len(path))
        page.keep(*top)
        new = _step(problem, state, stats, pace.rate)
        after = problem.stats(new.coef)
        reached, n_iter = bound_of(problem, new, after), n_iter + 1
        size = max(1.0, abs(bound))
        if not reached >= bound - 1e-11 * size:
            pace = pace.slower()
            if pace.rate < SMALLEST_RATE:  # nothing above rounding is left to gain, if numbers are
                return ended(*exhausted(reached))
            continue
        change = reached - bound
        settled = change < tol * pace.rate * size
        state, stats, bound = new, after, reached
        path.append(bound)
        pace = pace.faster()
        stop = watch(Progress(stage, n_iter, max_iter, bound, change), state)
        if stop:
            page.keep(*top, now=True)
        if settled or stop:
            return ended(settled, change, stop)
    return ended(False, change)


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


def _step(problem: Problem, state: State, stats: Stats, rate: float) -> State:
    model, coef, priors = problem.model, state.coef, state.priors
    P = model.precision(priors)
    cov = blended(coef.cov, stats.S, P, rate)
    new = Coef(mode(cov, rate * stats.g, rate * P, coef.mean), cov)
    return State(new, tuple(model.each("update", priors, new)))
