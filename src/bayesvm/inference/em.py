"""EM and ECME: the point estimate, down to the exact solution of the quadratic programme."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np

from ..gaussian import Point, covariance, mode
from ..model import Problem, Product
from ..types import Array, Coef
from .active_set import Certificate, certify, exact_finish
from .loop import Ascent, State, Step, Watch, ascend, require, silent
from .vb import VB, attempt, bold_mean


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

    for :math:`\varepsilon = 10^{-1}, 10^{-2}, \dots`, each level started at the last.  From
    :math:`10^{-2}` on, an active-set solve tries to finish exactly; it is accepted only if its
    optimality conditions hold and the objective did not rise.

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
        joint mode can collapse to zero coefficients whatever the data say, which is warned of.

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

    def __post_init__(self) -> None:
        require(self, {"max_iter": 1, "tol": 0.0, "eps_min": 1e-12}, {"eps_min": 1.0})
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
        if self.learn == "evidence" and any(len(s) for s in state.priors):
            warm = start if start is not None and not start.coef.cov.is_point else None
            learned = VB(tol=1e-6).fit(problem, rng, warm)
            state = State(start.coef if start else learned.state.coef, learned.state.priors)
        smooth = hasattr(model.likelihood, "dual")
        levels = _levels(self.eps_min) if smooth else [0.0]
        path: list[float] = []
        n_iter = 0
        for eps in levels:
            state = State(Coef(state.coef.mean, Point(model.width, eps)), state.priors)
            run = ascend(
                lambda s: self.sweep(problem, s),
                model,
                state,
                max_iter=self.max_iter,
                tol=self.tol,
                shift_tol=1e-4,
                accelerate=self.accelerate,
                watch=watch,
                stage=f"em, smoothing {eps:g}",
            )
            state, n_iter = run.state, n_iter + run.n_iter
            path += run.path
            if self.learn == "mode":
                _warn_if_collapsed(problem, state)
            if smooth and self.exact and eps <= 1e-2:
                done = self._finish(problem, state, eps)
                if done is not None:
                    state, cert, dual, bound = done
                    return Mode(state, bound, [*path, bound], n_iter, True, 0.0, cert, dual)
        if not smooth:
            return Mode(state, run.bound, path, n_iter, run.converged, run.change)
        state = State(Coef(state.coef.mean, Point(model.width)), state.priors)
        cert, dual = certify(problem, state, eps)
        proved = cert.kkt < 1e-3 and not cert.gap > 1e-5  # smoothed duals prove no more than that
        bound = objective(problem, state)
        return Mode(state, bound, path, n_iter, run.converged and proved, cert.gap, cert, dual)

    def sweep(self, problem: Problem, state: State) -> Step:
        """One EM step; its bound is minus the smoothed objective."""
        model, (coef, priors) = problem.model, state
        bold = self.accelerate and bold_mean(problem)
        stats = problem.stats(coef, curved=bold)
        value = float(stats.bound + sum(model.each("log_prob", priors, coef)))
        by_S, by_H = problem.products(coef) if problem.form == "diagonal" else (None, None)
        P = model.precision(priors)

        def reach(M: Any, product: Product | None) -> State:
            cov = covariance(M, P, retry=M is stats.S)
            new = Coef(mode(cov, stats.g, P, coef.mean, product), coef.cov)
            learned = tuple(model.each("mode", priors, new)) if self.learn == "mode" else priors
            return State(new, learned)

        safe = cache(partial(reach, stats.S, by_S))
        return Step(value, safe, attempt(lambda: reach(stats.H, by_H)) if bold else None)

    def _finish(
        self, problem: Problem, state: State, eps: float
    ) -> tuple[State, Certificate, Array, float] | None:
        """Exact solve at the current scale of the prior, repeated while that scale still moves."""
        model = problem.model
        best = objective(problem, State(Coef(state.coef.mean, Point(model.width)), state.priors))
        answer = None
        for _ in range(50):
            found = exact_finish(problem, state, eps)
            if found is None:
                return None
            mean, cert, dual = found
            coef = Coef(mean, Point(model.width))
            state = State(coef, state.priors)
            bound = objective(problem, state)
            if bound < best - 1e-9 * max(1.0, abs(best)):
                return None
            answer = (state, cert, dual, bound)
            if self.learn != "mode":
                return answer
            moved = State(coef, tuple(model.each("mode", state.priors, coef)))
            new = objective(problem, moved)
            if new - bound <= 1e-10 * max(1.0, abs(bound)):
                return answer
            state, best = moved, new
        return answer


def _levels(eps_min: float) -> list[float]:
    count = max(1, round(-np.log10(eps_min)))
    return [10.0**-k for k in range(1, count)] + [eps_min]


def objective(problem: Problem, state: State) -> float:
    """Log of the pseudo-posterior at a point, up to the evidence."""
    lik, mean = problem.model.likelihood, state.coef.mean
    fit = problem.engine.sum(
        lambda b: float(b.c @ lik.log_prob(b.y, problem.rows(b).C @ mean)), problem.blocks
    )
    return float(fit + sum(problem.model.each("log_prob", state.priors, state.coef)))


def _warn_if_collapsed(problem: Problem, state: State) -> None:
    """A joint mode of coefficients and scale can sit at zero, whatever the data say."""
    for term, s, own in zip(
        problem.model.terms, state.priors, problem.model.own(state.coef), strict=True
    ):
        if term.prior.collapsed(s, own):
            warnings.warn(
                f"the joint mode of term '{term.name}' and its penalty has collapsed to zero, "
                "which says nothing about the data. Use inference='vb', or fix the penalty by "
                "prior=Fixed(precision).",
                RuntimeWarning,
                stacklevel=2,
            )
