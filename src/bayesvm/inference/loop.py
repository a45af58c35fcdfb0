"""One monotone iteration for every deterministic scheme, and the state that most of them have."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cache, partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg.blas import dtrmm

from ..core.precision import Precision
from ..core.types import Array, Coef, Stats
from ..gaussian.covariances import FullCovariance, blended, covariance, mode
from ..gaussian.gates import gated_coef
from ..model import latent
from ..model.latent import sum_latents
from ..model.model import Latents, Model, States
from ..model.problem import Problem, Product
from .progress import Ascent, History, Mark, Progress, Watch, page_of, silent

LONGEST_STEP = 256.0
LAST_STEP = 100.0  # what a step of Newton's kind divides the gain that is left by, at least
ROUNDING = 1e-14  # of f at a row, and so of a row's part in the bound


class BoundFell(RuntimeError):
    """A bound fell: an error in a component, or rounding, where columns are very large."""


class Step(NamedTuple):
    """The bound of a state, and the states to go to from it, made when they are needed.

    ``safe()`` cannot lower the bound; ``bold(x)`` may, and x is what the pace is about.
    A bold step that cannot be made is ``None``, or its matrix is singular: few rows may have any
    curvature.
    """

    bound: float
    safe: Callable[[], Any] | None = None
    bold: Callable[[float], Any] | None = None
    singular: bool = False  # the covariance is rounded so much that the bound may fall
    left: Callable[[], float] | None = None  # gain of the next step, where it can be predicted,
    is_last: Callable[[], bool] = bool  # and whether that is the last one for certain
    sums: Stats | None = None  # over rows, at the state
    rest: Callable[[], float] | None = None  # all that is left to gain, where it can be predicted


@dataclass(frozen=True)
class Pace:
    """Rate of a natural-gradient step: halved where the bound falls, then raised slowly."""

    rate: float = 1.0
    ceiling: float = 1.0
    most: float = 1.0

    slack: ClassVar[float] = 1e-11  # share of the bound's size by which a bold step may lower it

    def slower(self) -> Pace:
        return type(self)(0.5 * self.rate, 0.5 * self.rate, self.most)

    def faster(self) -> Pace:
        ceiling = min(1.1 * self.ceiling, self.most)
        return type(self)(min(1.5 * self.rate, self.ceiling), ceiling, self.most)

    @property
    def bold(self) -> float | None:
        """The argument of the next bold step; ``None`` for the safe one."""
        return self.rate

    @property
    def is_spent(self) -> bool:
        return self.rate < 1e-5


@dataclass(frozen=True)
class SinglePace(Pace):
    """The same where the bound is computed in single precision."""

    slack: ClassVar[float] = 2e-6


@dataclass(frozen=True)
class Caution:
    """Share of the safe step's curvature in a bold one: more after a failure, then less.

    A bold step that failed is followed by the safe one.
    """

    share: float = 0.0
    failed: float = False

    rate: ClassVar[float] = 1.0
    slack: ClassVar[float] = 0.0
    is_spent: ClassVar[bool] = False

    def slower(self) -> Caution:
        return Caution(min(max(8.0 * self.share, 2.0**-6), 1.0), True)

    def faster(self) -> Caution:
        if self.failed:
            return Caution(self.share)
        return Caution(self.share / 4.0 if self.share > 1e-4 else 0.0)

    @property
    def bold(self) -> float | None:
        return None if self.failed or self.share >= 1.0 else self.share


def maximise(
    step: Callable[[Any], Step],
    state: Any,
    settled: Callable[..., bool],
    pace: Pace | Caution,
    *,
    max_iter: int,
    watch: Watch = silent,
    stage: str = "vb",
    longer: Callable[[Any, Any, Any], Any] | None = None,
    rounding: float = 0.0,
) -> Ascent:
    """Take steps until ``settled(gain, bound, old, new, ahead)``; the bound never falls.

    The bound of a state is known from the pass that leaves it.  So a bold step, and the
    extrapolation of three states by ``longer``, are judged by a pass that is made anyway; one
    that lowers the bound is dropped.  ``gain`` is that of a step of rate one; ``ahead()`` is the
    next state and whether it is a safe one, ``rounding`` the error of the bound itself.  Where the
    gain of the next step can be predicted, it ends with that step, without a pass for its bound, as
    soon as a small share of the gain is all that would be left after it.  Where all that is left to
    gain can be predicted, it ends at a state that leaves too little.

    All that an iteration depends on is kept at its top: one that is resumed from a checkpoint
    makes the same steps, bit for bit.
    """
    page = page_of(watch)
    mark = page.recall(lambda: _ahead(step(state), pace)()[0])
    if mark is not None and mark.ended:
        return mark.ascent
    x, path, n_iter, change = state, History(), 1, np.inf
    trail: list[Any] = []  # states before x
    if mark is not None:
        x, path, trail = mark.state, mark.path, list(mark.before)
        n_iter, change, pace = int(mark.numbers[0]), mark.numbers[1], type(pace)(*mark.numbers[2:])
    here = step(x)
    if mark is None and np.isfinite(here.bound):
        path.append(here.bound)
    elif here.safe is None and not np.isfinite(here.bound):
        raise ValueError(
            f"the bound of the fit is {here.bound} where it starts, so no step can be compared "
            "with it. Kernel values, weights of rows or the prior's variances are too large or too "
            "small for floating point: bring them nearer to one. If they are, the likelihood has "
            "an error."
        )
    ahead = _ahead(here, pace)

    def ended(converged: bool, change: float, stopped: bool = False) -> Ascent:
        final, bound = x, here.bound
        if converged and here.left is not None and pace.rate == 1.0:
            final, bound = ahead()[0], bound + here.left()
            path.append(bound)
        if not stopped:
            numbers = (bound, n_iter, converged, change)
            page.keep(Mark(final, numbers, path, len(path), ended=True), now=True)
        return Ascent(final, bound, path, n_iter, converged, change, stopped, sums=here.sums)

    def left(there: Step, gain: float) -> float:
        if there.left is None or there.is_last():
            return gain if there.left is None else 0.0
        return there.left() / (LAST_STEP if pace.rate == 1.0 else 1.0)

    def is_top(there: Step) -> bool:
        return there.rest is not None and settled(there.rest(), there.bound, x, x, ahead)

    if here.left is not None and settled(left(here, np.inf), here.bound, x, x, ahead):
        return ended(True, change)
    if here.rest is not None and is_top(here):
        return ended(True, here.rest())
    while n_iter < max_iter:
        top = Mark(x, (n_iter, change, *astuple(pace)), path, len(path), trail)
        if x is not state:
            page.keep(top)
        new, safe = ahead()
        there, n_iter = step(new) if safe else _tried(step, new), n_iter + 1
        gain = there.bound - here.bound
        slack = pace.slack * max(1.0, abs(here.bound))
        if safe:
            slack = 1e-8 * max(1.0, abs(there.bound)) + rounding
        if not gain >= -slack:
            if safe and there.singular:
                return ended(False, gain)
            if safe:
                raise BoundFell(
                    f"the bound fell from {here.bound!r} to {there.bound!r} in a step that cannot "
                    "lower it. Very large columns can do that by rounding: let them be "
                    "standardised (standardize=True). If they are, a likelihood, prior or design "
                    "has an error."
                )
            pace = pace.slower()
            if pace.is_spent:  # nothing above rounding is left to gain, if the bound is a number
                return ended(*((True, 0.0) if np.isfinite(there.bound) else (False, np.nan)))
            ahead = _ahead(here, pace)
            continue
        gain, change, pace = gain / pace.rate, gain, pace.faster()
        ahead = _ahead(there, pace)
        converged = settled(left(there, gain), there.bound, x, new, ahead) or is_top(there)
        path.append(there.bound)
        stop = watch(Progress(stage, n_iter, max_iter, there.bound, change), new)
        if stop and x is not state:
            page.keep(top, now=True)
        trail = [*trail, x] if longer is not None and np.isfinite(here.bound) else []
        x, here = new, there
        if converged or stop:
            return ended(converged, change, stop)
        if longer is None or not trail or n_iter >= max_iter:
            continue
        # a bold step takes mean and covariance each by the other's last value, so that states come
        # in two series: every other one shows the direction
        last = [*trail, x, ahead()[0]][:: -1 if here.bold is None else -2][:3]
        trail = trail[-2:]
        with np.errstate(all="ignore"):  # it may lead anywhere
            long = longer(*last[::-1]) if len(last) == 3 else None
        if long is not None:
            trail, after, n_iter = [], _tried(step, long), n_iter + 1
            if after.bound >= here.bound:
                path.append(after.bound)
                x, here, ahead = long, after, _ahead(after, pace)
    if not np.isfinite(here.bound):  # stopped at the start, which is a point: take one step more
        x = ahead()[0]
        here = step(x)
    return ended(False, change)


def _ahead(here: Step, pace: Pace | Caution) -> Callable[[], tuple[Any, bool]]:
    """The next state and whether the step to it is the safe one, made once."""

    @cache
    def make() -> tuple[Any, bool]:
        length, bold, new = pace.bold, here.bold, None
        if here.safe is None:
            assert bold is not None
            assert length is not None
            return bold(length), False
        if bold is not None and length is not None:
            with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):
                new = bold(length)
        return (here.safe(), True) if new is None else (new, False)

    return make


def _tried(step: Callable[[Any], Step], state: Any) -> Step:
    """A step from a state that may be impossible, which has a bound of minus infinity then."""
    try:
        with np.errstate(all="ignore"):
            out = step(state)
    except (np.linalg.LinAlgError, ArithmeticError, ValueError):
        return Step(-np.inf)
    return out if np.isfinite(out.bound) else out._replace(bound=-np.inf)


# ---------------------------------------------------------------------------------------------
# Distributions of coefficients, hyperparameters and latent entries


class State(NamedTuple):
    """Where a deterministic scheme stands: q(theta), the hyperparameters, latent rows if any."""

    coef: Coef
    priors: States
    latents: Latents = ()


def ascend(
    step: Callable[[State], Step],
    problem: Problem,
    state: State,
    *,
    max_iter: int,
    tol: float,
    shift_tol: float,
    accelerate: bool,
    watch: Watch,
    stage: str,
    most: float = np.inf,
) -> Ascent:
    """Maximise until a step gains less than ``tol`` of the bound's size and the mean has converged.

    That is, no coefficient moves by more than ``shift_tol`` posterior standard deviations.  A step
    may gain ``most`` nats in any case.
    """

    def settled(gain: float, bound: float, _: State, new: State, ahead: Any) -> bool:
        small = gain < min(tol * max(1.0, abs(bound)), most)
        return small and shift(new.coef, ahead()[0].coef) < shift_tol

    return maximise(
        step,
        state,
        settled,
        Caution(),
        max_iter=max_iter,
        watch=watch,
        stage=stage,
        longer=partial(long_step, problem.model) if accelerate else None,
        rounding=ROUNDING * problem.weight,
    )


def bound_of(problem: Problem, state: State) -> float:
    """The evidence lower bound of a state, complete with constants."""
    model, (coef, priors, latents) = problem.model, state
    stats = problem.at(latents).stats(gated_coef(coef, model.gates(priors)))
    known = sum_latents(problem, latents) if latents else ()
    return float(stats.bound + model.bound(coef, priors, known))


def summed(
    problem: Problem, coef: Coef, curved: bool
) -> tuple[Stats, Product | None, Product | None]:
    """Sums over rows; where only the diagonal of S is kept, also products with S and H."""
    if problem.form == "diagonal":
        return problem.products(coef)
    return problem.stats(coef, curved=curved), None, None


def natural(coef: Coef, stats: Stats, P: Any, rate: float) -> Coef:
    """A step of q(theta) along the natural gradient."""
    cov = blended(coef.cov, stats.S, P, rate)
    return Coef(mode(cov, rate * stats.g, rate * P, coef.mean), cov)


def predicted_gain(old: Coef, new: Coef, slope: Array, whole: bool = False) -> float:
    r"""Gain of a full step along the natural gradient, exact if rows had Gaussian likelihoods.

    It is then :math:`\mathrm{KL}(q \,\|\, q_{new})`; of covariances the diagonals are compared, or
    the ``whole`` matrices where these are held.
    """
    move = float(slope @ (new.mean - old.mean))
    if whole and isinstance(old.cov, FullCovariance) and isinstance(new.cov, FullCovariance):
        product = dtrmm(1.0, old.cov.root.T, new.cov.L, lower=1)  # of two triangles
        trace = float(np.einsum("ij,ij->", product, product))
        return 0.5 * (move + trace - old.mean.size + new.cov.logdet - old.cov.logdet)
    ratio = old.cov.diag() / new.cov.diag()
    return 0.5 * (move + float(np.sum(ratio - 1.0 - np.log(ratio))))


def newton_mean(
    stats: Stats,
    mean: Array,
    P: Precision,
    share: float,
    by_S: Product | None = None,
    by_H: Product | None = None,
) -> Array:
    """Newton's mean, by a share of S and the rest of H.

    Where only the diagonal of S is summed it preconditions, and products are multiplied with.
    """
    if by_S is None or by_H is None:
        M = stats.S * share + stats.H * (1.0 - share) if share > 0 else stats.H
        return mode(covariance(M, P, retry=False), stats.g, P, mean)
    product = by_H if share == 0 else lambda x: share * by_S(x) + (1.0 - share) * by_H(x)
    return mode(covariance(stats.S, P), stats.g, P, mean, product)


def hyper_vector(model: Model, priors: States) -> Array:
    """Unconstrained coordinates of all hyperparameters, such as logarithms of variances."""
    return np.concatenate([prior.vector(s) for prior, s, _ in model.parts(priors)])


def restored(model: Model, priors: States, x: Array) -> States:
    """Undo :func:`hyper_vector`."""
    parts = model.parts(priors)
    ends = np.cumsum([prior.vector(s).size for prior, s, _ in parts])[:-1]
    each = zip(parts, np.split(x, ends), strict=True)
    return tuple(prior.restore(s, part) for (prior, s, _), part in each)


def shift(old: Coef, new: Coef) -> float:
    """Largest move of a coefficient in posterior standard deviations (or absolutely at a point)."""
    move = np.abs(new.mean - old.mean)
    if new.cov.is_point:
        return float(np.max(move / np.maximum(1.0, np.abs(new.mean))))
    return float(np.max(move / np.sqrt(new.cov.diag())))


NONE = (np.empty(0), np.empty(0))  # parameters and means of latent entries where there are none


def pack(model: Model, state: State) -> Array:
    """The state as one unconstrained vector."""
    hyper = hyper_vector(model, state.priors)
    params, cells = latent.vectors(model, state.latents) if state.latents else NONE
    return np.concatenate([state.coef.mean, hyper, params, state.coef.cov.vector(), cells])


def unpack(model: Model, like: State, vector: Array) -> State:
    """The state of a vector, shaped like another."""
    held = latent.vectors(model, like.latents) if like.latents else NONE
    sizes = [model.width, hyper_vector(model, like.priors).size, held[0].size]
    mean, hyper, own, rest = np.split(vector, np.cumsum(sizes))
    cov, rows = np.split(rest, [rest.size - held[1].size])
    return State(
        Coef(mean, like.coef.cov.restore(cov)),
        restored(model, like.priors, hyper),
        latent.restored(model, like.latents, own, rows) if like.latents else (),
    )


def long_step(model: Model, x0: State, x1: State, x2: State) -> State | None:
    """The extrapolation of three states."""
    a, b, c = (pack(model, x) for x in (x0, x1, x2))
    # coordinates that belong to rows would make a row of weight two differ from the row twice
    lead = a.size - (x2.coef.cov.vector().size if x2.coef.cov.by_rows else 0)
    lead -= latent.vectors(model, x2.latents)[1].size if x2.latents else 0
    if not a.size == b.size == c.size:  # sparse products of factors drop what rounds to zero
        return None
    vector = extrapolate(a, b, c, lead)
    return None if vector is None else unpack(model, x2, vector)


def extrapolate(x0: Array, x1: Array, x2: Array, lead: int) -> Array | None:
    """SQUAREM's long step from three iterates; ``None`` where it would be shorter than a plain one.

    Its length is measured on the first ``lead`` coordinates.  Varadhan & Roland (2008), scheme S3.
    """
    r, q = x1 - x0, x2 - 2.0 * x1 + x0
    length = np.linalg.norm(r[:lead]) / max(float(np.linalg.norm(q[:lead])), 1e-300)
    if not np.isfinite(length) or length <= 1.0:
        return None
    s = -min(float(length), LONGEST_STEP)
    out: Array = x0 - 2.0 * s * r + s * s * q
    return out if np.all(np.isfinite(out)) else None


def require(owner: object, least: dict[str, float], most: dict[str, float] | None = None) -> None:
    """Refuse fields of a scheme that are not numbers of at least (and at most) so much."""
    for name, low in least.items():
        value = vars(owner)[name]
        whole = isinstance(low, int)
        kind = "whole number" if whole else "number"
        high = (most or {}).get(name, np.inf)
        good = isinstance(value, Integral if whole else Real) and low <= float(value) <= high
        if not good or isinstance(value, bool):
            bounds = f"of at least {low}" + (f" and at most {high}" if high < np.inf else "")
            raise ValueError(
                f"{type(owner).__name__}({name}) must be a {kind} {bounds}; got {value!r}."
            )


def bold_mean(problem: Problem) -> bool:
    """Whether to try Newton's mean: with few rows the scale of the prior is what is slow."""
    return problem.weight > 2 * problem.model.width
