"""EM and ECME: the point estimate, down to the exact solution of the quadratic programme."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import ClassVar

import numpy as np

from ..core.types import Array, Coef
from ..gaussian.covariances import Point, covariance, mode
from ..model.model import Model
from ..model.problem import Problem
from .active_set import Certificate, certificate, certify, exact_finish, penalty, pull
from .draws import Position
from .gibbs import Gibbs
from .interior import finish_with_corners
from .loop import State, Step, ascend, bold_mean, newton_mean, require, summed
from .progress import Ascent, Progress, Watch, silent
from .vb import VB

MOST = 200  # columns that a narrowed problem may always have
ROUNDS = 30  # of narrowing, and of tangents
SCALES = 50  # rounds of exact solutions and scales of the prior in turn
COLDEST = 1e-3  # last temperature of annealing


@dataclass(frozen=True)
class Mode(Ascent):
    """An ascent to a point, with the certificate of its optimality where there is one."""

    certificate: Certificate | None = None
    dual: Array = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class EM:
    r"""EM, and ECME where the prior has a scale to learn: a point estimate.

    EM is the variational sweep with the variance of every row replaced by :math:`\varepsilon^2`; it
    minimises

    .. math::

        J_\varepsilon(\theta) = \sum_i c_i\Big(u_i + \sqrt{u_i^2 + \varepsilon^2}\Big)
          + \tfrac12\theta^\top P\theta,
        \qquad 0 \le J_\varepsilon - J_0 \le \varepsilon\sum_i c_i ,

    for :math:`\varepsilon = 10^{-1}, 10^{-2}, \dots`, each level started at the last (and a penalty
    :math:`\sum_j|\theta_j/\nu|^\alpha` is smoothed alike).  From :math:`10^{-2}` on, an active-set
    solve tries to finish exactly; where the penalty has corners, or rows have groups, an interior
    point method does, at once.  Either is accepted only if its optimality conditions hold and the
    objective did not rise.

    Parameters
    ----------
    max_iter : int, default=500
        Most passes at each level of smoothing.
    tol : float, default=1e-9
        Stop a level when a step lowers the objective by less than this fraction of its size.
    eps_min : float, default=1e-6
        Last level of smoothing.
    exact : bool, default=True
        Try the exact finish.
    accelerate : bool, default=True
        Extrapolate steps (SQUAREM).
    learn : {"evidence", "mode"}, default="evidence"
        How hyperparameters of the prior are learned.  ``"evidence"`` takes them from a variational
        fit and holds them.  ``"mode"`` maximises over them together with the coefficients (ECME); a
        joint mode can collapse to zero coefficients for any data, which is warned of.
    anneal : int, default=0
        Start with so many Gibbs sweeps at a temperature that falls from 1 to 0.001: for
        :class:`~bayesvm.priors.Bridge` with a power below 1, whose objective has many minima.

    References
    ----------
    Polson & Scott (2011), sections 3.1-3.3.  Their restricted least squares has no rule to release
    a support vector; the active set here has one.
    """

    max_iter: int = 500
    tol: float = 1e-9
    eps_min: float = 1e-6
    exact: bool = True
    accelerate: bool = True
    learn: str = "evidence"
    anneal: int = 0

    is_tight: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require(self, {"max_iter": 1, "tol": 0.0, "eps_min": 1e-12, "anneal": 0}, {"eps_min": 1.0})
        if self.learn not in ("evidence", "mode"):
            raise ValueError(f"EM(learn) must be 'evidence' or 'mode'; got {self.learn!r}.")

    def fit(
        self,
        problem: Problem,
        rng: np.random.Generator,
        start: State | None = None,
        watch: Watch = silent,
    ) -> Mode:
        model = problem.model
        state = start or State(model.start(), model.init())
        if self.learn == "evidence" and any(t.prior.is_learned for t in model.terms):
            warm = start if start is not None and not start.coef.cov.is_point else None
            rough = 1e-4 if problem.form == "factored" else 1e-6  # a scale needs no more digits
            learned = VB(tol=rough).fit(problem, rng, warm, watch).state
            state = State(start.coef if start else learned.coef, learned.priors)
        if self.anneal:
            state = annealed(problem, state, self.anneal, rng, watch)
        corner, duals = model.corner(state.priors), model.likelihood.implements("hinges")
        bent = bool(corner.any()) and model.is_quadratic(state.priors)
        if problem.form == "factored" and bent and duals:
            held = replace(self, learn="evidence")
            run = self._with_scales(problem, state, lambda s: held._narrow(problem, s, watch))
            assert run is not None
        else:
            run = self._ascend(problem, state, watch)
        if self.learn == "mode":
            _warn_if_collapsed(problem, run.state)
        return run

    def _ascend(self, problem: Problem, state: State, watch: Watch) -> Mode:
        """Maximise at falling levels of smoothing, and finish exactly where that can be done."""
        model, form = problem.model, problem.form
        corner, easy = model.corner(state.priors), model.is_quadratic(state.priors)
        smooth = model.likelihood.implements("hinges")  # once smoothed
        bent, steep = bool(corner.any()), smooth and bool(np.isinf(corner).any())
        exact = smooth and easy and self.exact and not (bent and form == "diagonal")
        levels = [0.0]
        if model.likelihood.is_kinked or bent or not easy:
            levels = [10.0**-k for k in range(1, max(1, round(-np.log10(self.eps_min))))]
            levels.append(self.eps_min)
        if steep and self.exact:
            levels = [eps for eps in levels if eps > 1e-4]  # the rest is done exactly
        interior = exact and (bent or form == "arrow")
        if interior:
            levels.insert(0, levels[0])  # roughly, which is all an interior point method needs
        path: list[float] = []
        n_iter = 0
        for k, eps in enumerate(levels):
            rough = interior and k == 0
            smoothed = Coef(state.coef.mean, Point(model.width, eps))
            run = ascend(
                partial(self.sweep, problem),
                problem,
                expecting(model, State(smoothed, state.priors)),
                max_iter=min(self.max_iter, 20) if rough else self.max_iter,
                tol=self.tol,
                shift_tol=1e-4,
                accelerate=self.accelerate,
                watch=watch,
                stage=f"em, smoothing {eps:g}",
            )
            state, path, n_iter = run.state, path + run.path, n_iter + run.n_iter
            if run.stopped:
                break
            if rough or (exact and not interior and eps <= 1e-2):
                done = self._with_scales(problem, state, partial(_exact, problem, eps))
                if done is not None:
                    return replace(done, path=[*path, done.bound], n_iter=n_iter)
        parts = model.parts(state.priors)
        mean = np.concatenate([p.zeroed(s, state.coef.mean[at], eps) for p, s, at in parts])
        state = expecting(model, State(Coef(mean, Point(model.width)), state.priors))
        good = run.converged and not run.stopped
        if not smooth:
            return Mode(state, run.bound, path, n_iter, good, run.change, run.stopped)
        if steep and self.exact and not run.stopped and form not in ("diagonal", "arrow"):
            least = descend_steep(problem, state)
            if least is not None:
                return replace(least, path=[*path, least.bound], n_iter=n_iter)
        cert, dual = certify(problem, state, eps)
        proved = cert.kkt < 1e-3 and not cert.gap > 1e-5  # smoothed duals prove no more than that
        end = (path, n_iter, good and proved, cert.gap, run.stopped)
        return Mode(state, objective(problem, state), *end, cert, dual)

    def sweep(self, problem: Problem, state: State) -> Step:
        """One EM step; its bound is minus the smoothed objective."""
        model, (coef, priors, _) = problem.model, expecting(problem.model, state)
        bold = self.accelerate and bold_mean(problem)
        stats, *by = summed(problem, coef, bold)
        value = float(stats.bound + model.log_prior(priors, coef))
        P = model.precision(priors)

        def reach(mean: Array) -> State:
            new = Coef(mean, coef.cov)
            return State(new, model.mode(priors, new) if self.learn == "mode" else priors)

        @cache
        def safe() -> State:
            return reach(mode(covariance(stats.S, P), stats.g, P, coef.mean, by[0]))

        def newton(caution: float) -> State:
            return reach(newton_mean(stats, coef.mean, P, caution, *by))

        return Step(value, safe, newton if bold else None)

    def _with_scales(
        self, problem: Problem, state: State, solve: Callable[[State], Mode | None]
    ) -> Mode | None:
        """A solution at given scales of the prior and, to learn their mode, the two in turn."""
        for _ in range(SCALES):
            run = solve(state)
            if run is None or run.stopped or self.learn != "mode":
                return run
            coef, priors, _ = run.state
            state = State(coef, problem.model.mode(priors, coef))
            if objective(problem, state) - run.bound <= 1e-10 * max(1.0, abs(run.bound)):
                return run
        return run

    def _narrow(self, problem: Problem, state: State, watch: Watch) -> Mode:
        """Many more columns than rows, most of them zero: fit few, add those with large force."""
        model, corner = problem.model, problem.model.corner(state.priors)
        bent, most = corner > 0, max(2 * problem.n, MOST)
        mean, n_iter = np.zeros(model.width), 0
        force = np.abs(slope(problem, mean))
        path: list[float] = []
        pushing = bent
        while pushing.any() and len(path) < ROUNDS:
            keep = ~bent | (mean != 0) | (pushing if path else False)
            keep[np.argsort(np.where(bent, -force, np.inf))[:most]] = True
            small, priors = problem.narrowed(keep, state.priors)
            start = State(Coef(mean[keep], Point(small.model.width)), priors)
            run = self._ascend(small, start, watch)
            mean = np.zeros(model.width)
            mean[keep], n_iter = run.state.coef.mean, n_iter + run.n_iter
            path.append(run.bound)
            if run.stopped:
                break
            proved = run.certificate is not None
            force = np.abs(pull(problem, run.dual) if proved else slope(problem, mean))
            pushing = bent & ~keep & (force > corner * (1.0 + 1e-9))
        state = expecting(model, State(Coef(mean, Point(model.width)), state.priors))
        bound = objective(problem, state)
        good = run.converged and not pushing.any() and not run.stopped
        found = replace(run, state=state, bound=bound, path=[*path, bound], n_iter=n_iter)
        if run.certificate is None:
            return replace(found, converged=good)
        cert = certificate(problem, mean, run.dual, *penalty(problem, state))
        return replace(found, converged=good, change=cert.gap, certificate=cert)


def slope(problem: Problem, mean: Array) -> Array:
    """Slope of the log likelihood in the coefficients."""
    return problem.stats(Coef(mean, Point(mean.size))).g


def _exact(problem: Problem, eps: float, state: State) -> Mode | None:
    """The exact solution from a smoothed one; ``None`` if it is not found or not better."""
    model = problem.model
    corner, point = model.corner(state.priors), Point(model.width)
    best = objective(problem, State(Coef(state.coef.mean, point), state.priors))
    if corner.any() or problem.form == "arrow":
        found = finish_with_corners(problem, state, corner)
    else:
        found = exact_finish(problem, state, eps)
    if found is None:
        return None
    mean, cert, dual = found
    state = expecting(model, State(Coef(mean, point), state.priors))
    bound = objective(problem, state)
    if bound < best - 1e-9 * max(1.0, abs(best)):
        return None
    return Mode(state, bound, [], 0, True, 0.0, False, cert, dual)


def descend_steep(problem: Problem, state: State) -> Mode | None:
    """A local minimum under a penalty of power below one, exactly.

    The penalty lies below its tangents, so each step solves the lasso with their slopes for
    corners.  A coefficient at zero is at a local minimum and stays out.
    """
    model = problem.model
    whole = np.isinf(model.corner(state.priors))
    for _ in range(ROUNDS):
        mean = state.coef.mean
        keep = ~whole | (mean != 0)
        slopes = np.where(whole, model.precision(state.priors) * np.abs(mean), 0.0)[keep]
        small, priors = problem.narrowed(keep, state.priors)
        start = State(Coef(mean[keep], Point(small.model.width)), priors)
        found = finish_with_corners(small, start, slopes) if slopes.any() else None
        if found is None:
            return None
        new = np.zeros_like(mean)
        new[keep], dual = found[0], found[2]
        state = expecting(model, State(Coef(new, Point(model.width)), state.priors))
        if np.max(np.abs(new - mean)) <= 1e-9 * max(1.0, float(np.max(np.abs(mean)))):
            cert = certificate(problem, new, dual, *penalty(problem, state))
            return Mode(state, objective(problem, state), [], 0, True, 0.0, False, cert, dual)
    return None


def annealed(
    problem: Problem, state: State, sweeps: int, rng: np.random.Generator, watch: Watch
) -> State:
    """A start found by Gibbs sweeps at falling temperature, hyperparameters held.

    At temperature T every row counts 1/T times and the prior is taken to the power 1/T, so the
    chain ends in the deepest of the modes that it can still leave.
    """
    model, blocks, theta = problem.model, problem.blocks, state.coef.mean
    seed = int(rng.integers(2**32))
    for k, T in enumerate(np.geomspace(1.0, COLDEST, sweeps)):
        terms = tuple(
            term._replace(prior=term.prior.cooled(s, float(T)))
            for term, s in zip(model.terms, state.priors, strict=True)
        )
        cold = replace(
            problem, model=replace(model, terms=terms), blocks=replace(blocks, c=blocks.c / T)
        )
        priors = cold.model.draw(cold.model.init(), theta, rng)
        at = Gibbs(scale_move=False).sweep(cold, Position(theta, priors), rng, (seed, k))
        theta = at.theta
        if watch(Progress("em, annealing", k + 1, sweeps, at.fit * float(T), np.nan), state):
            break
    return State(Coef(theta, Point(model.width)), state.priors)


def expecting(model: Model, state: State) -> State:
    """The state with the latent variables of its priors expected at its coefficients."""
    each = model.each(state.priors, state.coef)
    return State(state.coef, tuple(prior.expect(s, own) for prior, s, own in each))


def objective(problem: Problem, state: State) -> float:
    """Log of the pseudo-posterior at a point, up to the evidence."""
    lik, mean = problem.model.likelihood, state.coef.mean
    fit = problem.engine.sum(
        lambda b: float(b.c @ lik.log_prob(b.y, problem.rows(b).C @ mean)), problem.blocks
    )
    return float(fit + problem.model.log_prior(state.priors, state.coef))


def _warn_if_collapsed(problem: Problem, state: State) -> None:
    """A joint mode of coefficients and scale can be zero for any data."""
    each = problem.model.each(state.priors, state.coef)
    for term, (prior, s, own) in zip(problem.model.terms, each, strict=True):
        if prior.collapsed(s, own):
            warnings.warn(
                f"the joint mode of term '{term.name}' and its penalty has collapsed to zero, "
                "as it can for any data. Use inference='vb', or fix the penalty by "
                "prior=Fixed(precision).",
                RuntimeWarning,
                stacklevel=2,
            )
