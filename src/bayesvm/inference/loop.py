"""Run a monotone step until its bound settles, with guarded extrapolation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..gaussian import DualCovariance
from ..model import Model, States
from ..types import Array, Coef

LONGEST_STEP = 256.0


class State(NamedTuple):
    """Where a deterministic scheme stands: q(theta) and the hyperparameters."""

    coef: Coef
    priors: States


class Progress(NamedTuple):
    """What a callback is told.  Returning ``True`` from a callback stops the fit there."""

    stage: str
    iteration: int
    total: int
    bound: float
    change: float


Watch = Callable[[Progress, Any], bool]


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
    """A bound fell beyond rounding: an error in a component, never in the data."""


def pack(model: Model, state: State) -> Array:
    """The state as one unconstrained vector."""
    priors = [t.prior.vector(s) for t, s in zip(model.terms, state.priors, strict=True)]
    return np.concatenate([state.coef.mean, *priors, state.coef.cov.vector()])


def unpack(model: Model, like: State, vector: Array) -> State:
    """The state that a vector stands for, shaped like another."""
    sizes = [t.prior.vector(s).size for t, s in zip(model.terms, like.priors, strict=True)]
    mean, *priors, cov = np.split(vector, np.cumsum([model.width, *sizes]))
    return State(
        Coef(mean, like.coef.cov.restore(cov)),
        tuple(t.prior.restore(x) for t, x in zip(model.terms, priors, strict=True)),
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


def ascend(
    step: Callable[[State], tuple[State, float]],
    model: Model,
    state: State,
    *,
    max_iter: int,
    tol: float,
    shift_tol: float,
    accelerate: bool = True,
    watch: Watch = silent,
    stage: str = "",
) -> Ascent:
    """Climb ``step`` until bound and mean settle.

    ``step`` maps a state to the next one and tells the bound of the state it was given, so a long
    step is judged by the pass that would have been made anyway, and a rejected one leaves no trace.
    It ends when a plain step raises the bound by less than ``tol`` of its size and moves no
    coefficient by more than ``shift_tol`` posterior standard deviations.
    """
    path: list[float] = []
    change = np.inf

    def enter(x: State) -> tuple[State, float]:
        new, bound = step(x)
        if np.isfinite(bound):
            path.append(bound)
        return new, bound

    x0 = state
    x1, bound0 = enter(x0)
    n_iter = 1
    while n_iter < max_iter:
        x2, bound1 = enter(x1)
        n_iter += 1
        change = bound1 - bound0
        size = max(1.0, abs(bound1))
        if change < -1e-8 * size:
            raise BoundFell(
                f"the bound fell from {bound0!r} to {bound1!r} in a step that cannot lower it"
            )
        settled = change < tol * size and _shift(x1.coef, x2.coef) < shift_tol
        stop = watch(Progress(stage, n_iter, max_iter, bound1, change), x1)
        if settled or stop:
            return Ascent(x1, bound1, path, n_iter, settled, change)
        if accelerate and np.isfinite(bound0) and n_iter < max_iter:
            long = _long_step(step, model, x0, x1, x2, bound1)
            if long is not None:
                n_iter += 1
                x0, x1, bound0, accepted = long
                if accepted:
                    path.append(bound0)
                continue
        x0, x1, bound0 = x1, x2, bound1
    # bound0 belongs to x0, the newest state whose bound is known
    return Ascent(x0, bound0, path, n_iter, False, change)


def _long_step(
    step: Callable[[State], tuple[State, float]],
    model: Model,
    x0: State,
    x1: State,
    x2: State,
    bound1: float,
) -> tuple[State, State, float, bool] | None:
    a, b, c = (pack(model, x) for x in (x0, x1, x2))
    # coordinates that belong to rows would make a row of weight two differ from the row twice
    by_rows = isinstance(x2.coef.cov, DualCovariance)
    lead = a.size - (x2.coef.cov.vector().size if by_rows else 0)
    vector = extrapolate(a, b, c, lead)
    if vector is None:
        return None
    try:
        with np.errstate(all="ignore"):
            trial = unpack(model, x2, vector)
            after, bound = step(trial)
    except (np.linalg.LinAlgError, FloatingPointError, ValueError):
        bound = -np.inf
    if np.isfinite(bound) and bound >= bound1:
        return trial, after, bound, True
    return x1, x2, bound1, False


def _shift(old: Coef, new: Coef) -> float:
    """Largest move of a coefficient in posterior standard deviations (or absolutely at a point)."""
    var = new.cov.diag()
    move = np.abs(new.mean - old.mean)
    scale = np.where(var > 0, np.sqrt(var), np.maximum(1.0, np.abs(new.mean)))
    return float(np.max(move / scale))
