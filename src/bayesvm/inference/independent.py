r"""A start for models of very many columns, whose coefficients are independent in q(theta).

Of S only the diagonal is kept.  In turn

1. variances of coefficients are :math:`1 / (S_{jj} + P_j)`;
2. hyperparameters move to where updates would lead, by Newton's method.  One update is a small part
   of the way where rows inform little about most coefficients.  What coefficients would be at other
   hyperparameters is computed as if S were diagonal;
3. the mean is found at these variances, by the limited-memory BFGS method with the variances in
   place of an inverse curvature.  f is linear along a direction, so that a step takes two products
   with vectors, however its length is found.

References
----------
Nocedal (1980), *Updating quasi-Newton matrices with limited storage*.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array, Coef, Local
from ..gaussian.covariances import DiagonalCovariance, covariance
from ..model.model import Model, States
from ..model.problem import Problem
from .loop import State, hyper_vector, restored
from .progress import Progress, Watch, silent

# Chosen by the number of products that fits of 5,000 to 40,000 sparse rows and 20,000 to 200,000
# columns took, which hardly differed between neighbouring values but for a shorter memory.
ROUNDS = 20  # of variances, hyperparameters and mean, at most
STEPS = 5  # of the mean in a round, at most,
ENOUGH = 0.03  # or until one gains less than this share of what the first did
MEMORY = 10  # steps that are remembered, those of earlier rounds among them
NUDGE = 0.01  # of hyperparameters, to see how updates change with them
MOST_RATE = 0.999  # of two updates, one after the other
LONGEST = 1.5  # change of the log of a hyperparameter in a round
LEFT = -1.0, 0.5  # share of the way that such a step leaves, at least and at most
LAST_RISE = 30.0  # of the bound in a round after which there is no other, in tolerances,
LAST_STEP = 0.1  # if hyperparameters have moved by less

Pairs = deque[tuple[Array, Array]]  # changes of the mean, and of minus the gradient over rows


class Place(NamedTuple):
    """A mean of theta, and what rows contribute there."""

    mean: Array
    m: Array  # mean of f at every row
    local: Local
    g: Array  # gradient over rows

    def value(self, P: Array) -> float:
        """The bound, as far as the mean has a part in it."""
        return float(self.local.bound.sum() - 0.5 * self.mean @ (P * self.mean))


def near_top(
    problem: Problem, state: State, tol: float, watch: Watch = silent
) -> tuple[State, bool]:
    """A state near the top of the augmented bound from any other; whether it was reached."""
    model, (coef, priors, _) = problem.model, state
    here, v = _placed(problem, coef)
    if coef.cov.is_point:
        S = problem.gram(here.local.w)
        each = np.full(model.width, here.local.w.sum() / S.d.sum())  # gives f a variance of one
        priors = model.update(priors, Coef(coef.mean, DiagonalCovariance(each)))
        coef = Coef(coef.mean, covariance(S, model.precision(priors)))
    bound, pairs, steps = -np.inf, Pairs(maxlen=MEMORY), Steps()
    for k in range(ROUNDS):
        here, v = _placed(problem, coef)
        old, bound = bound, float(here.local.bound.sum() + model.bound(coef, priors))
        still = np.all(np.abs(steps.taken) < LAST_STEP)
        if still and abs(bound - old) < LAST_RISE * tol * max(1.0, abs(bound)):
            return State(coef, priors), True
        if watch(Progress("start", k + 1, ROUNDS, bound, bound - old), State(coef, priors)):
            break
        here = _settled(problem, here, v, model.precision(priors), coef.cov.diag(), pairs)
        at = Ahead(model, problem.gram(here.local.w), here.mean, priors)
        steps = steps.next(at.step(), bound >= old)
        coef, priors = at(at.x + steps.taken)
    return (State(coef, priors) if np.all(np.isfinite(coef.mean)) else state), False


class Ahead:
    """Coefficients and hyperparameters ahead, as if S were diagonal."""

    def __init__(self, model: Model, S: Any, mean: Array, priors: States) -> None:
        self.model, self.S, self.mean, self.priors = model, S, mean, priors
        self.P, self.x = model.precision(priors), hyper_vector(model, priors)

    def __call__(self, x: Array) -> tuple[Coef, States]:
        """What coefficients would be at other hyperparameters, and these."""
        priors = restored(self.model, self.priors, x)
        d, P = self.S.d, self.model.precision(priors)
        return Coef(self.mean * (d + self.P) / (d + P), covariance(self.S, P)), priors

    def _move(self, x: Array) -> Array:
        """What an update would change at other hyperparameters."""
        coef, priors = self(x)
        return hyper_vector(self.model, self.model.update(priors, coef)) - x

    def step(self) -> Array:
        """The way to where updates of both would lead."""
        move = self._move(self.x)
        rate = 1.0 + (self._move(self.x + NUDGE) - move) / NUDGE
        out: Array = move / (1.0 - np.clip(rate, 0.0, MOST_RATE))
        return out


class Steps(NamedTuple):
    """Steps of hyperparameters: as computed, and as taken; and the longest that may be taken."""

    last: Array | None = None
    taken: Array | float = 0.0
    longest: float = LONGEST

    def next(self, step: Array, rose: bool) -> Steps:
        """The next step, longer if the last one has left a share of the way, shorter if less.

        It is much shorter after a round in which the bound fell.
        """
        rate: Array | float = 0.0
        if self.last is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                rate = np.nan_to_num(1.0 - (self.last - step) / self.taken)
        whole = step / (1.0 - np.clip(rate, *LEFT))
        longest = min(2.0 * self.longest, LONGEST)
        if not rose:
            longest = 0.25 * float(np.max(np.abs(self.taken), initial=0.0))
        return Steps(step, np.clip(whole, -longest, longest), longest)


def _placed(problem: Problem, coef: Coef) -> tuple[Place, Array]:
    """What rows contribute under a distribution of theta, and variances of f."""
    m, v = problem.moments(coef)
    return Place(coef.mean, m, *problem.contributions(m, v)), v


def _settled(problem: Problem, here: Place, v: Array, P: Array, s: Array, pairs: Pairs) -> Place:
    """The mean near the top for given variances; ``pairs`` of steps are added."""
    most, bends = 0.0, [Bend.of(*pair, P) for pair in pairs]
    for _ in range(STEPS):
        slope = here.g - P * here.mean
        d = direction(slope, s, bends)
        rise = float(slope @ d)
        if not rise > 0.0:
            break
        new = _along(problem, here, v, P, d, rise)
        pairs.append((new.mean - here.mean, here.g - new.g))
        bends = [*bends, Bend.of(*pairs[-1], P)][-MEMORY:]
        gain, here = new.value(P) - here.value(P), new
        most = max(most, gain)
        if not gain > ENOUGH * most:
            break
    return here


class Bend(NamedTuple):
    """A step of the mean, the change of minus the slope in it, and their product."""

    dx: Array
    dy: Array
    across: float

    @staticmethod
    def of(dx: Array, dg: Array, P: Array) -> Bend:
        """From the change over rows; the penalty may be another one than in that step."""
        dy = dg + P * dx
        return Bend(dx, dy, float(dx @ dy))


def direction(slope: Array, s: Array, bends: list[Bend]) -> Array:
    """A step of the mean: an inverse curvature, ``s`` corrected by earlier steps, times a slope."""
    bends = [each for each in bends if each.across > 0.0]
    d, shares = slope.copy(), []
    for dx, dy, across in reversed(bends):
        shares.append(float(dx @ d) / across)
        d -= shares[-1] * dy
    d *= s
    if bends:
        _, dy, across = bends[-1]
        d *= across / float(dy @ (s * dy))
    for (dx, dy, across), share in zip(bends, reversed(shares), strict=True):
        d += (share - float(dy @ d) / across) * dx
    return d


def _along(problem: Problem, here: Place, v: Array, P: Array, d: Array, slope: float) -> Place:
    """The top along a direction by the curvature of the bound, or else by that of its minorant.

    The step by the latter cannot lower the bound.
    """
    df, own = problem.predictor(d), float(P @ (d * d))
    for bend in (here.local.h, here.local.w):
        length = slope / (float(bend @ (df * df)) + own)
        m = here.m + length * df
        new = Place(here.mean + length * d, m, *problem.contributions(m, v))
        if new.value(P) >= here.value(P):
            break
    return new
