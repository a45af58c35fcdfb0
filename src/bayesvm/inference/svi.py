"""Stochastic variational inference with minibatches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from ..core.parameters import require
from ..core.precision import Blocked, Precision, add_precision, scaled_cholesky, split
from ..core.types import Array, Coef, Rows, TermMoments
from ..data.blocks import even_parts
from ..linalg.arrow import ArrowCovariance, eliminate
from ..linalg.columns import Arrow, Factor
from ..linalg.covariances import FullCovariance, Point
from .cavi import bound_of
from .model import Model, State, States
from .problem import Problem
from .progress import Ascent, Monitor, Progress, Watch, silent


class Drift(NamedTuple):
    """Averages over recent minibatches of the natural gradient and of its square."""

    mean: Array  # (K, K + 1): for the precision, and for the potential in the last column
    square: float = 0.0
    window: float = 1.0  # number of minibatches in the averages
    seen: int = 0  # number of minibatches; during the warm-up averages are plain means


class Leaky(NamedTuple):
    """Natural parameters of q(theta), hyperparameters, and the number of steps taken."""

    precision: Array  # (K, K)
    potential: Array  # (K,)
    priors: States
    t: int = 0
    drift: Drift | None = None  # with an adaptive rate
    # latest means (G, r) and covariances (G, r, r) of groups, which steps overwrite
    effects: tuple[Array, Array] | None = None


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

    with averages over the last :math:`\tau` gradients; the first ten steps use the fixed rate.

    For grouped rows, :math:`q(\theta)\prod_g q(u_g \mid \theta)` has natural parameters only for
    the fixed effects (and random effects of factors other than the widest).  A minibatch *B*
    consists of whole groups.  Given :math:`q(\theta)`, the effects of its groups and the weights of
    their rows are computed by a few sweeps; then the effects are integrated out,

    .. math::

        \hat S = \frac{G}{|B|}\sum_{g \in B}\big(X_g^\top W_g X_g - E_g^\top D_g^{-1} E_g\big).

    Parameters
    ----------
    batch_size : int, default=50
        Rows per minibatch.
    max_iter : int, default=8
        Number of passes over the data (epochs).
    kappa : float, default=0.6
        Decay of the rate, in (0.5, 1].
    delay : float, default=5
        :math:`t_0`, which damps the first steps; with 0 the first minibatch overwrites the start.
    adaptive : bool, default=False
        Adapt the rate to the noise of the gradients; ``kappa`` and ``delay`` then only apply to
        the first steps.
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

    is_tight: ClassVar[bool] = False

    def __post_init__(self) -> None:
        least = {"batch_size": 1, "max_iter": 1, "kappa": 0.5, "delay": 0.0, "tol": 0.0}
        require(self, least, {"kappa": 1.0})

    def rate(self, t: int) -> float:
        return max(1.0, t + self.delay) ** -self.kappa

    def fit(
        self,
        problem: Problem,
        rng: np.random.Generator,
        start: State | None = None,
        watch: Watch = silent,
    ) -> Ascent:
        """Epochs of minibatches; converged if the last epoch changes the bound by less than 1 %."""
        watch, leaky = Monitor.of(watch), self.begin(problem, start)
        run, state, stop = Ascent((leaky, ""), -np.inf, [], change=np.inf), None, False
        if (held := watch.begin(run.state)) is not None:
            run, (leaky, dice) = held, held.state
            rng.bit_generator.state, state = json.loads(dice), reached(problem, leaky)
        path = run.path
        minibatches = minibatches_of_groups if problem.form == "arrow" else minibatches_of_rows
        while not (stop or run.n_iter >= self.max_iter or is_settled(path, self.tol)):
            for batch, chosen in minibatches(problem, self.batch_size, rng):
                leaky = self.step(batch, leaky, chosen)
            state = reached(problem, leaky)
            bound = bound_of(problem, state)  # one full pass an epoch: exact
            change = bound - path[-1] if path else np.inf
            path.append(bound)
            count, converged = run.n_iter + 1, is_settled(path, max(self.tol, 1e-2))
            stop = watch(Progress("svi", count, self.max_iter, bound, change), state)
            top = (leaky, json.dumps(rng.bit_generator.state))
            run = Ascent(top, bound, path, count, converged, change)
            watch.keep(run)
        watch.keep(run, now=True)
        return replace(run, state=state)

    def begin(self, problem: Problem, start: State | None = None) -> Leaky:
        """The natural parameters of a start, or of a standard normal distribution."""
        model, effects = problem.model, None
        q, priors, grouped = model.width, model.init(), problem.form == "arrow"
        if grouped:
            design, where = model.terms[-1].design, model.slices[-1]
            q, G, r = where.start, design.G, design.r
            effects = (np.zeros((G, r)), np.tile(np.eye(r), (G, 1, 1)))
        precision, mean = np.eye(q), np.zeros(q)
        if start is not None and not start.coef.cov.is_point:
            (mean, cov), priors = start.coef, start.priors
            whole = cov.solve(np.eye(model.width, q))[:q] if grouped else cov.dense()
            precision = np.linalg.inv(whole)
            if grouped:  # copies, because the start belongs to an earlier fit
                effects = (mean[q:].reshape(-1, r).copy(), cov.blocks(where, r).copy())
        drift = Drift(np.zeros((q, q + 1))) if self.adaptive else None
        return Leaky(precision, precision @ mean[:q], priors, 0, drift, effects)

    def step(
        self, problem: Problem, leaky: Leaky, chosen: Array | None = None, warm_up: int = 10
    ) -> Leaky:
        """Learn from a minibatch (Wenzel et al., section 4.2), of the groups ``chosen`` if given.

        The gradients of the first ``warm_up`` minibatches are averaged before they set the rate.
        """
        model, (precision, potential, priors, t, drift, effects) = problem.model, leaky
        coef = coefficients(leaky)
        if chosen is None:
            stats = problem.expectations(coef, gram=True)
            target, aim = stats.S.M.copy(), stats.g + stats.S @ coef.mean
            add_precision(target, model.precision(priors))
        else:
            target, aim = without_effects(problem, leaky, chosen)
        rho = self.rate(t)
        if drift is not None:
            gradient = np.column_stack([target - precision, aim - potential])
            seen = drift.seen + 1
            window = float(seen) if seen <= warm_up else drift.window
            mean = drift.mean + (gradient - drift.mean) / window
            square = drift.square + (float(np.vdot(gradient, gradient)) - drift.square) / window
            if seen > warm_up:  # the share of drift in the squared gradient
                rho = min(1.0, float(np.vdot(mean, mean)) / max(square, 1e-300))
                window = window * (1 - rho) + 1
            drift = Drift(mean, square, window, seen)
        precision = (1 - rho) * precision + rho * target
        potential = (1 - rho) * potential + rho * aim
        moved = Leaky(precision, potential, priors, t + 1, drift, effects)
        new = model.update(priors, coef) if chosen is None else _updated(model, moved)
        each = (zip(a, b, strict=True) for a, b in zip(priors, new, strict=True))
        mixed = [[(1 - rho) * x + rho * y for x, y in pairs] for pairs in each]
        return moved._replace(priors=tuple(type(s)(*x) for s, x in zip(new, mixed, strict=True)))


def coefficients(leaky: Leaky) -> Coef:
    """q(theta) from its natural parameters."""
    cov = FullCovariance(*scaled_cholesky(leaky.precision))
    return Coef(cov.solve(leaky.potential), cov)


def is_settled(path: Sequence[float], tol: float) -> bool:
    """Whether the last epoch changed the bound by less than ``tol`` of its size."""
    return len(path) > 1 and abs(path[-1] - path[-2]) < tol * max(1.0, abs(path[-1]))


def reached(problem: Problem, leaky: Leaky) -> State:
    """The state of all coefficients; random effects are computed given the fixed effects."""
    if leaky.effects is None:
        return State(coefficients(leaky), leaky.priors)
    P = problem.model.precision(leaky.priors)
    return State(given_shared(problem, leaky, P, leaky.effects[0])[0], leaky.priors)


# ---------------------------------------------------------------------------------------------
# Groups


def minibatches_of_rows(
    problem: Problem, size: int, rng: np.random.Generator
) -> Iterator[tuple[Problem, None]]:
    """Random minibatches of an epoch, with weights scaled up to all rows."""
    for rows, blocks in problem.blocks.minibatches(size, rng):
        unit = problem.unit if isinstance(problem.unit, float) else problem.unit[rows]
        c = problem.c[rows] * (problem.n / rows.size)
        yield replace(problem, blocks=blocks, y=problem.y[rows], c=c, unit=unit), None


def minibatches_of_groups(
    problem: Problem, size: int, rng: np.random.Generator
) -> Iterator[tuple[Problem, Array]]:
    """Random sets of whole groups with about ``size`` rows, and the numbers of these groups."""
    design = problem.model.terms[-1].design
    codes = problem.blocks.X.codes[:, design.factor]
    order = np.argsort(codes, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=design.G))])
    count = max(1, round(size * design.G / problem.n))
    for turn in even_parts(rng.permutation(design.G), count):
        chosen = np.sort(turn)
        rows = np.concatenate([order[ends[g] : ends[g + 1]] for g in chosen])
        few = problem.blocks.take(rows)
        C = problem.model.rows(few.X).C
        last = C.factors[-1]
        own = Factor(np.searchsorted(chosen, last.codes), last.Z, chosen.size)
        blocks = few.with_columns(Rows(Arrow(C.A, (*C.factors[:-1], own))))
        yield replace(problem, blocks=blocks, y=problem.y[rows], c=problem.c[rows]), chosen


def without_effects(batch: Problem, leaky: Leaky, chosen: Array) -> tuple[Array, Array]:
    """A minibatch estimate of the natural parameters of the fixed effects.

    The random effects of the minibatch are computed first, and overwritten in ``leaky``.
    """
    assert leaky.effects is not None
    (mean, cov), q = leaky.effects, leaky.potential.size
    G, r = mean.shape
    P = batch.model.precision(leaky.priors)
    d, parts = split(P)
    d = np.concatenate([d[:q], d[q:].reshape(-1, r)[chosen].ravel()])
    fewer = slice(q, q + r * chosen.size)
    few = Blocked(d, tuple((fewer if at.start == q else at, B) for at, B in parts)) if parts else d
    coef, S, potential = given_shared(batch, leaky, few, mean[chosen])
    mean[chosen] = coef.mean[q:].reshape(-1, r)
    cov[chosen] = coef.cov.blocks(slice(q, d.size), r)
    scale, corner = G / chosen.size, np.zeros((q, q))
    add_precision(corner, few)
    return corner + scale * S, scale * potential


def given_shared(
    problem: Problem,
    leaky: Leaky,
    P: Precision,
    effects: Array,
    sweeps: int = 12,
    still: float = 0.02,
) -> tuple[Coef, Array, Array]:
    """Alternate between random effects and weights of rows, given the fixed effects.

    Makes up to ``sweeps`` sweeps, until no effect changes by ``still`` posterior standard
    deviations.  Also returns S ``(q, q)`` and the potential ``(q,)`` with effects integrated out.
    """
    L, _ = scaled_cholesky(leaky.precision)
    mean = cho_solve((L, True), leaky.potential)
    q, theta = mean.size, np.concatenate([mean, effects.ravel()])
    cov: Any = Point(theta.size, 1.0)  # for the first pass: any variance suffices
    for _ in range(sweeps):
        stats = problem.expectations(Coef(theta, cov), gram=True)
        groups, S = eliminate(stats.S, P)
        half = groups.inverse @ (stats.g - P * theta)[q:]
        step = groups.follow(half, np.zeros(q))
        theta = np.concatenate([mean, theta[q:] + step])
        cov = ArrowCovariance(L, groups)
        if np.max(np.abs(step) / np.sqrt(cov.diag()[q:])) < still:
            break
    g = stats.g[:q] - groups.U.T @ half
    return Coef(theta, cov), S, g + S @ mean


def _updated(model: Model, leaky: Leaky) -> States:
    """States of priors given the current fixed effects and the latest random effects."""
    assert leaky.effects is not None
    coef, (mean, cov), q = coefficients(leaky), leaky.effects, leaky.potential.size
    mean = np.concatenate([coef.mean, mean.ravel()])
    var = np.concatenate([coef.cov.diag(), np.einsum("gjj->gj", cov).ravel()])
    new = []
    for prior, s, at in model.parts(leaky.priors):
        blocks = None
        if prior.is_blocked:
            blocks = cov if at.start >= q else coef.cov.blocks(at, prior.size)
        new.append(prior.update(s, TermMoments(mean[at], var[at], blocks)))
    return tuple(new)
