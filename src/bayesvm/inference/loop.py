"""Run a monotone step until its bound settles, with guarded extrapolation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from ..core.tree import filled, leaves
from ..core.types import Array, Coef, Stats
from ..gaussian.gates import seen
from ..model import latent
from ..model.latent import latent_bound
from ..model.model import Latents, Model, Problem, States
from .progress import History, Progress, Watch, silent

LONGEST_STEP = 256.0
FIRST_CAUTION = 2.0**-6  # share of the safe curvature in a bold step, after the first that failed
LEAST_CAUTION = 1e-4  # less counts as none


class State(NamedTuple):
    """Where a deterministic scheme stands: q(theta), the hyperparameters, latent rows if any."""

    coef: Coef
    priors: States
    latents: Latents = ()


@dataclass(frozen=True)
class Ascent:
    """Where an ascent ended; ``bound`` belongs to ``state`` exactly.

    ``stopped`` is whether a callback has ended it.
    """

    state: State
    bound: float
    path: list[float] = field(default_factory=list)
    n_iter: int = 0
    converged: bool = False
    change: float = np.nan
    stopped: bool = False


class Kept(NamedTuple):
    """What a checkpoint holds of an ascent: the top of its loop, or where it ended."""

    state: Any
    numbers: list[float]  # the loop's own
    path: History
    ended: bool
    before: list[Any]  # earlier states that the loop needs

    def ascent(self) -> Ascent:
        bound, n_iter, converged, change = self.numbers
        return Ascent(self.state, bound, self.path, int(n_iter), bool(converged), change)


class Page:
    """The place of one ascent in a checkpoint; without a store it holds nothing."""

    def __init__(self, store: Any = None, key: str = "") -> None:
        self.store, self.key = store, key

    def recall(self, like: Callable[[], Any]) -> Kept | None:
        """What is held, its state shaped like another one."""
        held = {} if self.store is None else self.store.get(self.key)
        if not held:
            return None
        try:
            path = History(held["path"].tolist(), held["seconds"].tolist())
            one = like()
            state, pair = filled(one, held, "state"), filled((one, one), held, "before")
            before = [x for x in pair or () if x is not None]
            return Kept(state, held["numbers"].tolist(), path, bool(held["ended"]), before)
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"checkpoint {self.store.path!r} does not hold what this fit has written: {error}. "
                "Delete the file or choose another name."
            ) from error

    def keep(
        self,
        state: Any,
        numbers: tuple[float, ...],
        path: History,
        count: int,
        before: Sequence[Any] = (),
        ended: bool = False,
        now: bool = False,
    ) -> None:
        """Hold a state, the loop's own numbers, so many values of its path, and earlier states."""
        if self.store is None:
            return

        def arrays() -> dict[str, Array]:
            own = {"path": path[:count], "seconds": path.seconds[:count], "numbers": numbers}
            made = {name: np.array(x, dtype=float) for name, x in own.items()}
            states = {**dict(leaves(state, "state")), **dict(leaves(before, "before"))}
            return {**made, "ended": np.array(ended), **states}

        self.store.put(self.key, arrays, now=now)

    def end(self, run: Ascent) -> Ascent:
        """Hold where an ascent ended, unless a callback has stopped it."""
        if not run.stopped:
            numbers = (run.bound, run.n_iter, run.converged, run.change)
            path = run.path if isinstance(run.path, History) else History(run.path)
            self.keep(run.state, numbers, path, len(path), ended=True, now=True)
        return run


class Monitor:
    """Where a fit reports its progress, and where it keeps its ascents.

    A fit makes its ascents in a fixed order, so their numbers are their names: one that goes on
    from a checkpoint makes the same calls, those that had ended return what they had found, and the
    next goes on from the top of its loop.  After a callback has stopped the fit nothing is kept,
    for what follows is not what would have followed.
    """

    def __init__(self, report: Watch, store: Any = None) -> None:
        self.report, self.store = report, store
        self.count, self.stopped = 0, False

    def __call__(self, progress: Progress, state: Any) -> bool:
        self.stopped = self.stopped or bool(self.report(progress, state))
        return self.stopped

    def reporting_to(self, report: Watch) -> Monitor:
        """One that reports otherwise and keeps in the same place, from here on."""
        other = Monitor(report, self.store)
        other.count, other.stopped = self.count, self.stopped
        return other

    def page(self) -> Page:
        self.count += 1
        return Page() if self.stopped else Page(self.store, f"ascent{self.count}")


def page_of(watch: Watch) -> Page:
    """The place for the next ascent; plain functions have none."""
    return watch.page() if isinstance(watch, Monitor) else Page()


class BoundFell(RuntimeError):
    """A bound fell: an error in a component, or columns so large that rounding is to blame."""


def bound_of(problem: Problem, state: State, stats: Stats | None = None) -> float:
    """The evidence lower bound of a state, complete with constants."""
    model, coef, priors = problem.model, state.coef, state.priors
    if stats is None:
        stats = problem.at(state.latents).stats(seen(coef, model.gates(priors)))
    known = stats.bound + sum(model.each("bound", priors, coef)) + model.entropy(coef)
    return float(known + latent_bound(problem, state.latents) if state.latents else known)


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
        tuple(
            t.prior.restore(s, x) for t, s, x in zip(model.terms, like.priors, priors, strict=True)
        ),
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

    What the next turn of the loop depends on is known at its top, and is kept there: a climb that
    goes on from a checkpoint makes the same steps, bit for bit.
    """
    page = page_of(watch)
    held = page.recall(lambda: step(state).safe())
    if held is not None and held.ended:
        return held.ascent()

    def ended(
        x: State, bound: float, converged: bool, change: float, stopped: bool = False
    ) -> Ascent:
        return page.end(Ascent(x, bound, path, n_iter, converged, change, stopped))

    if held is None:
        path, change, x0, n_iter = History(), np.inf, state, 1
        trail: list[State] = []  # iterates before x0, two at most
        caution = 0.0  # share of the safe curvature in a bold step
        from0 = step(x0)  # leaves x0 and has its bound
        if np.isfinite(from0.bound):
            path.append(from0.bound)
    else:
        x0, path, trail = held.state, held.path, held.before
        n_iter, (caution, change) = int(held.numbers[0]), held.numbers[1:]
        from0 = step(x0)
    while n_iter < max_iter:
        top = (x0, (n_iter, caution, change), path, len(path), trail)
        if x0 is not state:
            page.keep(*top)
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
            if x1.coef.cov.patched:  # singular: no further
                return ended(x0, bound0, False, change)
            raise BoundFell(
                f"the bound fell from {bound0!r} to {bound1!r} in a step that cannot lower it. "
                "Very large columns can do that by rounding: let them be standardised "
                "(standardize=True). If they are, a likelihood, prior or design has an error."
            )
        path.append(bound1)
        x2 = _bold(from1, caution) or from1.safe()
        settled = change < tol * size and _shift(x1.coef, x2.coef) < shift_tol
        stop = watch(Progress(stage, n_iter, max_iter, bound1, change), x1)
        if stop and x0 is not state:
            page.keep(*top, now=True)
        if settled or stop:
            return ended(x1, bound1, settled, change, stop)
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
        x0, from0, trail = x1, from1, trail[-2:]
    if not np.isfinite(from0.bound):  # stopped at the start, which is a point: go one step on
        x0 = from0.safe()
        return ended(x0, step(x0).bound, False, change)
    return ended(x0, from0.bound, False, change)


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
