"""Stochastic variational inference: leaky sums of minibatch statistics."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from ..core.types import Array, Coef
from ..gaussian.covariances import FullCovariance, scaled_cholesky
from ..gaussian.precision import add_precision
from ..model.model import Model, Problem, States
from .local import Effects, minibatches, remembered, settle, some_groups
from .loop import State, bound_of, require
from .progress import Ascent, History, Mark, Page, Progress, Watch, page_of, silent

SETTLED = 1e-2  # a last epoch that moves the bound by more of its size was not the last


WARM_UP = 10  # minibatches whose gradients are averaged before they set the rate


class Drift(NamedTuple):
    """Averages over recent minibatches of the natural gradient and of its square."""

    precision: Array  # (K, K)
    potential: Array  # (K,)
    square: float
    window: float  # minibatches that the averages remember
    seen: int  # minibatches; in the warm-up averages are plain means

    def with_gradient(self, precision: Array, potential: Array) -> Drift:
        seen = self.seen + 1
        window = float(seen) if seen <= WARM_UP else self.window
        k, square = 1.0 / window, float(np.vdot(precision, precision) + potential @ potential)
        return Drift(
            (1 - k) * self.precision + k * precision,
            (1 - k) * self.potential + k * potential,
            (1 - k) * self.square + k * square,
            window,
            seen,
        )

    @property
    def rate(self) -> float:
        """Share of the gradient's square that is drift and not noise."""
        drift = float(np.vdot(self.precision, self.precision) + self.potential @ self.potential)
        return min(1.0, drift / max(self.square, 1e-300))


class Leaky(NamedTuple):
    """Natural parameters of q(theta), hyperparameters, and the number of steps taken."""

    precision: Array  # (K, K)
    potential: Array  # (K,)
    priors: States
    t: int
    drift: Drift | None = None  # where the rate adapts


class Epoch(NamedTuple):
    """What the next epoch depends on; a checkpoint keeps it."""

    leaky: Leaky
    effects: Effects | None = None  # of groups
    dice: str = ""  # state of the generator


class Epochs:
    """Epochs that have been made, and where they are kept."""

    def __init__(self, page: Page, start: Epoch, rng: np.random.Generator, adaptive: bool) -> None:
        self.page, self.rng, self.at, self.path = page, rng, start, History()
        self.count, self.change, self.converged, self.ended = 0, np.inf, False, False
        precision, potential, *_ = start.leaky
        drift = Drift(precision, potential, 0.0, 1.0, 0) if adaptive else None
        held = page.recall(lambda: start._replace(leaky=start.leaky._replace(drift=drift)))
        if held is not None:
            self.at, self.path, self.ended = held.state, held.path, held.ended
            count, self.change, converged = held.numbers
            self.count, self.converged = int(count), bool(converged)
            rng.bit_generator.state = json.loads(self.at.dice)

    def add(self, leaky: Leaky, effects: Effects | None, bound: float, tol: float) -> None:
        """Count an epoch that has ended at a bound."""
        self.at, self.count = Epoch(leaky, effects), self.count + 1
        self.change = bound - self.path[-1] if self.path else np.inf
        self.path.append(bound)
        still = abs(self.change) / max(1.0, abs(bound))
        self.converged, self.ended = still < max(tol, SETTLED), still < tol

    def keep(self, now: bool) -> None:
        if self.page.store is not None:
            at = self.at._replace(dice=json.dumps(self.rng.bit_generator.state))
            numbers = (self.count, self.change, self.converged)
            self.page.keep(Mark(at, numbers, self.path, len(self.path), ended=self.ended), now)

    def ascent(self, state: State) -> Ascent:
        end = (self.path, self.count, self.converged, self.change)
        return Ascent(state, self.path[-1], *end)


@dataclass(frozen=True)
class SVI:
    r"""Stochastic variational inference with natural gradients.

    A minibatch, scaled up to all rows, gives :math:`\hat S` and :math:`\hat r`; then

    .. math::

        \Lambda \leftarrow (1-\rho_t)\Lambda + \rho_t (E[P] + \hat S), \qquad
        \eta \leftarrow (1-\rho_t)\eta + \rho_t \hat r, \qquad
        \rho_t = \max(1, t + t_0)^{-\kappa}, \quad t = 0, 1, \dots,

    and :math:`\mu = \Lambda^{-1}\eta`.  Scales of the prior follow with the same rate.  The
    adaptive rate is the share of drift in recent natural gradients
    :math:`G_t = (E[P] + \hat S - \Lambda, \hat r - \eta)`,

    .. math::

        \rho_t = \|\bar G\|^2 / \overline{\|G\|^2}, \qquad
        \tau \leftarrow \tau(1 - \rho_t) + 1,

    with averages over the last :math:`\tau` of them; its first ten steps are those of the fixed
    rate.

    Where rows have groups, a minibatch is made of whole groups, and their effects are found
    locally, given the coefficients that all groups share.

    Parameters
    ----------
    batch_size : int, default=50
        Rows per minibatch.
    max_iter : int, default=8
        Passes over the data (epochs).
    kappa : float, default=0.6
        Decay of the rate, in (0.5, 1].
    delay : float, default=5
        :math:`t_0`, which damps the first steps; with 0 the first minibatch replaces the start.
    adaptive : bool, default=False
        Let the gradients' own noise set the rate; ``kappa`` and ``delay`` then only begin it.
    tol : float, default=0
        Stop when an epoch changes the bound by less than this fraction of its size.

    References
    ----------
    Wenzel et al. (2017), section 4.2; Hoffman et al. (2013); Ranganath et al. (2013) for the
    adaptive rate.
    """

    batch_size: int = 50
    max_iter: int = 8
    kappa: float = 0.6
    delay: float = 5.0
    tol: float = 0.0
    adaptive: bool = False

    is_tight: ClassVar[bool] = False  # the bound climbed, where there is one, is augmented

    def __post_init__(self) -> None:
        least = {"batch_size": 1, "max_iter": 1, "kappa": 0.5, "delay": 0.0, "tol": 0.0}
        require(self, least, {"kappa": 1.0})

    def rate(self, t: int) -> float:
        return max(1.0, t + self.delay) ** -self.kappa

    def begin(self, model: Model) -> Leaky:
        return Leaky(np.eye(model.width), np.zeros(model.width), model.init(), 0)

    def step(self, problem: Problem, leaky: Leaky) -> Leaky:
        """Learn from one minibatch whose weights already speak for all rows."""
        model = problem.model
        coef = coefficients(leaky)
        stats = problem.stats(coef)
        target = stats.S.M + np.diag(model.precision(leaky.priors))
        potential = stats.g + stats.S @ coef.mean
        moved, rho = self._move(leaky, target, potential)
        new = tuple(model.each("update", leaky.priors, coef))
        return moved._replace(priors=averaged(leaky.priors, new, rho))

    def _move(self, leaky: Leaky, target: Array, potential: Array) -> tuple[Leaky, float]:
        """Natural parameters moved towards those of a minibatch, and the rate of the move."""
        rho, drift = self.rate(leaky.t), None
        if self.adaptive:
            drift = leaky.drift or Drift(0.0 * target, 0.0 * potential, 0.0, 1.0, 0)
            drift = drift.with_gradient(target - leaky.precision, potential - leaky.potential)
            if drift.seen > WARM_UP:
                rho = drift.rate
                drift = drift._replace(window=drift.window * (1 - rho) + 1)
        precision = (1 - rho) * leaky.precision + rho * target
        potential = (1 - rho) * leaky.potential + rho * potential
        return Leaky(precision, potential, leaky.priors, leaky.t + 1, drift), rho

    def fit(
        self,
        problem: Problem,
        rng: np.random.Generator,
        start: State | None = None,
        watch: Watch = silent,
    ) -> Ascent:
        model = problem.model
        if problem.form == "arrow":
            return self._fit_groups(problem, rng, start, watch)
        leaky = self.begin(model)
        if start is not None and not start.coef.cov.is_point:
            L = np.linalg.inv(start.coef.cov.dense())
            leaky = Leaky(L, L @ start.coef.mean, start.priors, 0)
        epochs = Epochs(page_of(watch), Epoch(leaky), rng, self.adaptive)
        leaky = epochs.at.leaky
        state, stop = State(coefficients(leaky), leaky.priors), False
        while not (epochs.ended or stop):
            for batch in problem.blocks.minibatches(self.batch_size, rng):
                leaky = self.step(replace(problem, blocks=batch), leaky)
            state = State(coefficients(leaky), leaky.priors)
            # one full pass an epoch: exact
            epochs.add(leaky, None, bound_of(problem, state), self.tol)
            stop = self._reported(epochs, state, watch)
        return epochs.ascent(state)

    def _reported(self, epochs: Epochs, state: State, watch: Watch) -> bool:
        """Report an epoch and keep it; whether a callback ends the fit."""
        bound, change = epochs.path[-1], epochs.change
        stop = watch(Progress("svi", epochs.count, self.max_iter, bound, change), state)
        epochs.ended = epochs.ended or epochs.count >= self.max_iter
        epochs.keep(now=epochs.ended or stop)
        return stop

    def _fit_groups(
        self, problem: Problem, rng: np.random.Generator, start: State | None, watch: Watch
    ) -> Ascent:
        """Effects of the widest factor are local: see :mod:`bayesvm.inference.local`."""
        model = problem.model
        design, where = model.terms[-1].design, model.slices[-1]
        q, r = where.start, design.r
        leaky = Leaky(np.eye(q), np.zeros(q), model.init(), 0)
        effects = Effects(np.zeros((design.G, r)), np.tile(np.eye(r), (design.G, 1, 1)))
        if start is not None and not start.coef.cov.is_point:
            held = start.coef.cov
            L = np.linalg.inv(held.solve(np.eye(model.width, q))[:q])
            mean = start.coef.mean
            leaky = Leaky(L, L @ mean[:q], start.priors, 0)
            effects = Effects(mean[q:].reshape(-1, r), held.blocks(where, r))  # type: ignore[attr-defined]
        epochs = Epochs(page_of(watch), Epoch(leaky, effects), rng, self.adaptive)
        leaky, stop = epochs.at.leaky, False
        assert epochs.at.effects is not None
        # copies: the effects are overwritten below, and the start belongs to an earlier fit
        effects = Effects(*(x.copy() for x in epochs.at.effects))

        def reached() -> State:
            P = model.precision(leaky.priors)
            whole = settle(problem.stats, leaky.precision, leaky.potential, P, effects.mean)
            return State(whole.coef, leaky.priors)

        state = reached() if epochs.ended else None
        while not (epochs.ended or stop):
            for chosen, see in minibatches(problem, self.batch_size, rng):
                P = some_groups(model.precision(leaky.priors), q, r, chosen)
                seen = settle(see, leaky.precision, leaky.potential, P, effects.mean[chosen])
                effects.mean[chosen] = seen.coef.mean[q:].reshape(-1, r)
                effects.cov[chosen] = seen.coef.cov.blocks(slice(q, P.size), r)  # type: ignore[attr-defined]
                scale, corner = design.G / chosen.size, np.zeros((q, q))
                add_precision(corner, P)
                target = corner + scale * seen.S
                leaky, rho = self._move(leaky, target, scale * seen.potential)
                owns = remembered(problem, coefficients(leaky), effects)
                each = zip(model.terms, leaky.priors, owns, strict=True)
                new = tuple(t.prior.update(s, own) for t, s, own in each)
                leaky = leaky._replace(priors=averaged(leaky.priors, new, rho))
            state = reached()
            epochs.add(leaky, effects, bound_of(problem, state), self.tol)
            stop = self._reported(epochs, state, watch)
        assert state is not None
        return epochs.ascent(state)


def averaged(old: States, new: States, rho: float) -> States:
    """States of priors a part of the way from old to new."""
    return tuple(
        type(a)(*((1 - rho) * x + rho * y for x, y in zip(a, b, strict=True)))
        for a, b in zip(old, new, strict=True)
    )


def coefficients(leaky: Leaky) -> Coef:
    """q(theta) from its natural parameters."""
    cov = FullCovariance(*scaled_cholesky(leaky.precision))
    return Coef(cov.solve(leaky.potential), cov)
