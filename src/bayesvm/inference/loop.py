"""Run a monotone step until its bound settles, with guarded extrapolation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from numbers import Integral, Real
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..designs import latent
from ..designs.latent import Latents
from ..model import Model, States
from ..types import Array, Coef

LONGEST_STEP = 256.0
FIRST_CAUTION = 2.0**-6  # share of the safe curvature in a bold step, after the first that failed
LEAST_CAUTION = 1e-4  # less counts as none


class State(NamedTuple):
    """Where a deterministic scheme stands: q(theta), the hyperparameters, latent rows if any."""

    coef: Coef
    priors: States
    latents: Latents = ()


class Progress(NamedTuple):
    """What a callback is told.  Returning ``True`` from a callback stops the fit there."""

    stage: str
    iteration: int
    total: int
    bound: float
    change: float


Watch = Callable[[Progress, Any], bool]


class History(list[float]):
    """Values as they come, and the seconds since the first was asked for.

    A safe file keeps the values only.
    """

    def __init__(self, values: Iterable[float] = (), seconds: Iterable[float] = ()) -> None:
        super().__init__(values)
        self.start, self.seconds = perf_counter(), list(seconds)

    def append(self, value: float) -> None:
        super().append(value)
        self.seconds.append(perf_counter() - self.start)

    def __reduce__(self) -> Any:  # copies are not appended to again
        return History, (list(self), list(self.seconds))


def silent(progress: Progress, state: Any) -> bool:
    return False


@dataclass(frozen=True)
class Ascent:
    """Where an ascent ended; ``bound`` belongs to ``state`` exactly."""

    state: State
    bound: float
    path: list[float] = field(default_factory=list)
    n_iter: int = 0
    converged: bool = False
    change: float = np.nan


class BoundFell(RuntimeError):
    """A bound fell: an error in a component, or columns so large that rounding is to blame."""


def pack(model: Model, state: State) -> Array:
    """The state as one unconstrained vector."""
    priors = [t.prior.vector(s) for t, s in zip(model.terms, state.priors, strict=True)]
    latents = latent.vectors(model, state.latents)
    return np.concatenate(
        [state.coef.mean, *priors, *latents[:1], state.coef.cov.vector(), *latents[1:]]
    )


def unpack(model: Model, like: State, vector: Array) -> State:
    """The state that a vector stands for, shaped like another."""
    sizes = [t.prior.vector(s).size for t, s in zip(model.terms, like.priors, strict=True)]
    params, cells = (x.size for x in latent.vectors(model, like.latents))
    rest = vector.size - model.width - sum(sizes) - params - cells
    ends = np.cumsum([model.width, *sizes, params, rest])
    mean, *priors, own, cov, rows = np.split(vector, ends)
    return State(
        Coef(mean, like.coef.cov.restore(cov)),
        tuple(t.prior.restore(x) for t, x in zip(model.terms, priors, strict=True)),
        latent.restored(model, like.latents, own, rows),
    )


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


class Pace(NamedTuple):
    """Rate of a step that may overshoot: halved when it does, and slow to forget how far it got."""

    rate: float = 1.0
    ceiling: float = 1.0

    def slower(self) -> Pace:
        return Pace(0.5 * self.rate, 0.5 * self.rate)

    def faster(self) -> Pace:
        return Pace(min(1.5 * self.rate, self.ceiling), min(1.1 * self.ceiling, 1.0))


class Step(NamedTuple):
    """Steps from a state, made when called for, and the bound of the state itself.

    The safe one cannot lower the bound.  A bold one, where there is one, is by the curvature of the
    bound, of which a share (its argument) is replaced by the larger one of the safe step.
    """

    bound: float
    safe: Callable[[], State]
    bold: Callable[[float], State | None] | None = None


def ascend(
    step: Callable[[State], Step],
    model: Model,
    state: State,
    *,
    max_iter: int,
    tol: float,
    shift_tol: float,
    rounding: float = 0.0,
    accelerate: bool = True,
    watch: Watch = silent,
    stage: str = "",
) -> Ascent:
    """Climb ``step`` until bound and mean settle.

    The bound of a state becomes known on the pass that leaves it, so a bold step and an
    extrapolation are judged by a pass that would have been made anyway; one that lowered the bound
    is dropped for the safe step and leaves no trace.  The climb ends when a step raises the bound
    by less than ``tol`` of its size and moves no coefficient by more than ``shift_tol`` posterior
    standard deviations.  ``rounding`` is that of the bound itself, which rows of very large weight
    may have.
    """
    path = History()
    change = np.inf
    x0, from0, n_iter = state, step(state), 1  # from0 leaves x0 and knows its bound
    if np.isfinite(from0.bound):
        path.append(from0.bound)
    trail: list[State] = []
    caution = 0.0  # share of the safe curvature in a bold step
    while n_iter < max_iter:
        bound0 = from0.bound
        bold = _bold(from0, caution)
        rose = bold is None
        if bold is not None:
            x1, from1, n_iter = bold, _try(step, bold), n_iter + 1
            rose = from1.bound >= bound0
        if bold is None or not rose:
            x1 = from0.safe()
            from1, n_iter = step(x1), n_iter + 1
        caution = _cautious(caution, rose)
        bound1, size = from1.bound, max(1.0, abs(from1.bound))
        change = bound1 - bound0
        if not change >= -1e-8 * size - rounding:
            if getattr(x1.coef.cov, "patched", False):  # singular: no further
                return Ascent(x0, bound0, path, n_iter, False, change)
            raise BoundFell(
                f"the bound fell from {bound0!r} to {bound1!r} in a step that cannot lower it. "
                "Very large columns can do that by rounding: let them be standardised "
                "(standardize=True). If they are, a likelihood, prior or design has an error."
            )
        path.append(bound1)
        x2 = _bold(from1, caution) or from1.safe()
        settled = change < tol * size and _shift(x1.coef, x2.coef) < shift_tol
        stop = watch(Progress(stage, n_iter, max_iter, bound1, change), x1)
        if settled or stop:
            return Ascent(x1, bound1, path, n_iter, settled, change)
        trail = [*trail, x0] if np.isfinite(bound0) else []
        if accelerate and trail and n_iter < max_iter:
            # a bold step takes mean and covariance each by the other's last value, so that iterates
            # come in two series: every other one shows the way
            apart = 1 if from1.bold is None else 2
            last = [*trail, x1, x2][::-apart][:3]
            long = None
            if len(last) == 3:
                with np.errstate(all="ignore"):  # it may lead anywhere
                    long = _long_step(model, *last[::-1])
            if long is not None:
                trail, after, n_iter = [], _try(step, long), n_iter + 1
                if after.bound >= bound1:
                    path.append(after.bound)
                    x0, from0 = long, after
                    continue
        x0, from0 = x1, from1
    if not np.isfinite(from0.bound):  # stopped at the start, which is a point: go one step on
        x0 = from0.safe()
        return Ascent(x0, step(x0).bound, path, n_iter, False, change)
    return Ascent(x0, from0.bound, path, n_iter, False, change)


def _bold(step: Step, caution: float) -> State | None:
    """The bold step, where there is one that is bolder than the safe one."""
    return None if step.bold is None or caution >= 1.0 else step.bold(caution)


def _cautious(caution: float, rose: bool) -> float:
    """More after a bold step that failed, less after one that did not."""
    if rose:
        return caution / 4.0 if caution > LEAST_CAUTION else 0.0
    return min(max(8.0 * caution, FIRST_CAUTION), 1.0)


def require(owner: object, least: dict[str, float], most: dict[str, float] | None = None) -> None:
    """Refuse fields of a scheme that are not numbers of at least (and at most) so much."""
    for name, low in least.items():
        value = getattr(owner, name)
        whole = isinstance(low, int)
        kind = "whole number" if whole else "number"
        high = (most or {}).get(name, np.inf)
        good = isinstance(value, Integral if whole else Real) and low <= float(value) <= high
        if not good or isinstance(value, bool):
            bounds = f"of at least {low}" + (f" and at most {high}" if high < np.inf else "")
            raise ValueError(
                f"{type(owner).__name__}({name}) must be a {kind} {bounds}; got {value!r}."
            )


def _try(step: Callable[[State], Step], state: State) -> Step:
    """A step from a state that may be absurd; an impossible one has a bound of minus infinity."""
    try:
        with np.errstate(all="ignore"):
            out = step(state)
    except (np.linalg.LinAlgError, ArithmeticError, ValueError):
        return Step(-np.inf, lambda: state)
    return out if np.isfinite(out.bound) else out._replace(bound=-np.inf)


def _long_step(model: Model, x0: State, x1: State, x2: State) -> State | None:
    a, b, c = (pack(model, x) for x in (x0, x1, x2))
    # coordinates that belong to rows would make a row of weight two differ from the row twice
    lead = a.size - (x2.coef.cov.vector().size if x2.coef.cov.by_rows else 0)
    lead -= latent.vectors(model, x2.latents)[1].size
    if not a.size == b.size == c.size:  # sparse products of factors drop what rounds to zero
        return None
    vector = extrapolate(a, b, c, lead)
    return None if vector is None else unpack(model, x2, vector)


def _shift(old: Coef, new: Coef) -> float:
    """Largest move of a coefficient in posterior standard deviations (or absolutely at a point)."""
    move = np.abs(new.mean - old.mean)
    if new.cov.is_point:
        return float(np.max(move / np.maximum(1.0, np.abs(new.mean))))
    return float(np.max(move / np.sqrt(new.cov.diag())))
