"""EM and ECME: point estimates, with a certificate of optimality for hinge losses."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from ..core.parameters import require
from ..core.precision import Precision, divided, flat, masked
from ..core.types import Array, Coef, TermMoments
from ..linalg.covariances import Point, covariance
from .model import Model, State, States
from .problem import Problem
from .progress import Ascent, Monitor, Progress, Watch, silent
from .vb import VB


class Certificate(NamedTuple):
    """Distance from the optimum: relative KKT residual and relative duality gap."""

    kkt: float
    gap: float


class Place(NamedTuple):
    """Current point of an ascent: the state, and dual variables after the first step."""

    state: State
    hinges: Array | None = None  # (hinges of a row, n)
    corners: Array | None = None  # (K,)


@dataclass(frozen=True)
class Mode(Ascent):
    """A point estimate, for sums of hinges with dual variables and a certificate."""

    certificate: Certificate | None = None
    dual: Array = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class EM:
    r"""EM, or ECME for a prior with a learned scale: a point estimate.

    EM is coordinate ascent with the variance of f replaced by :math:`\varepsilon^2`.  Every hinge
    :math:`2u^+ = u + |u|` becomes :math:`u + \sqrt{u^2 + \varepsilon^2}`, and a penalty
    :math:`|\theta_j|^\alpha` becomes :math:`(\theta_j^2 + \varepsilon^2)^{\alpha/2}`:

    .. math::

        J_\varepsilon(\theta) = \sum_i k_i\Big(u_i + \sqrt{u_i^2 + \varepsilon^2}\Big)
          + \tfrac12\theta^\top P\theta,
        \qquad 0 \le J_\varepsilon - J_0 \le \varepsilon\sum_i k_i .

    The smoothing :math:`\varepsilon` is :math:`10^{-1}, 10^{-2}, \dots`; each level starts at the
    solution of the previous level.  An EM step solves

    .. math::

        \Big(\sum_i \frac{k_i}{r_i} x_i x_i^\top + P\Big)\,d\theta = -\nabla J_\varepsilon,
        \qquad r_i = \sqrt{u_i^2 + \varepsilon^2} ,

    and needs many steps near a kink.  The accelerated step is a Newton step for the equations
    :math:`r_i z_i = u_i`, where :math:`\phi_i = k_i(1 + z_i)` are the dual variables of the hinges:
    weights are multiplied by :math:`1 - z_i u_i / r_i`, and
    :math:`z_i \leftarrow u_i/r_i + (1 - z_i u_i/r_i)\,du_i/r_i`, clipped to :math:`[-1, 1]`.  The
    corners of a lasso or bridge penalty are treated alike.  For smooth likelihoods it is a Newton
    step.  The matrix is positive definite, and steps are halved until the objective falls.

    Parameters
    ----------
    max_iter : int, default=500
        Maximum number of steps at each level of smoothing.
    tol : float, default=1e-12
        A level ends if a step lowers the objective by less than this fraction of its size.
    eps_min : float, default=1e-10
        Last level of smoothing.
    accelerate : bool, default=True
        ``False`` runs the algorithm exactly as in the paper.
    learn : {"evidence", "mode"}, default="evidence"
        How hyperparameters of the prior are learned.  ``"evidence"`` fixes them at the values of a
        variational fit.  ``"mode"`` maximises over them together with the coefficients
        (ECME); the joint mode can collapse to zero coefficients for any data, with a warning.

    References
    ----------
    Polson & Scott (2011), sections 3.1-3.3; Chan, Golub & Mulet (1999), *A nonlinear primal-dual
    method for total variation-based image restoration*, for the dual variables.
    """

    max_iter: int = 500
    tol: float = 1e-12
    eps_min: float = 1e-10
    accelerate: bool = True
    learn: str = "evidence"

    is_tight: ClassVar[bool] = False

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
        if self.learn == "evidence" and any(t.prior.is_learned for t in model.terms):
            warm = start if start is not None and not start.coef.cov.is_point else None
            learned = VB(tol=1e-6).fit(problem, rng, warm, watch).state
            state = State(start.coef if start else learned.coef, learned.priors)
        levels = [0.0]
        if model.likelihood.is_kinked or not all(prior.is_quadratic for prior in model.priors):
            tens = range(1, max(1, round(-np.log10(self.eps_min))))
            levels = [*(10.0**-k for k in tens), self.eps_min]
        run = Ascent(Place(smoothed(model, state.coef.mean, levels[0], state.priors)), -np.inf, [])
        watch = Monitor.of(watch)
        if (held := watch.begin(run.state)) is not None:  # from a checkpoint
            run, last = held, held.state.state.coef.cov.eps
            levels = [e for e in levels if e < last or (e == last and not run.converged)]
        for eps in levels:
            if not run.stopped:
                run = self._ascend(problem, run, eps, watch)
        if not run.stopped:
            watch.keep(run, now=True)
        if self.learn == "mode":
            _warn_if_collapsed(problem, run.state.state)
        return finished(problem, run)

    def _ascend(self, problem: Problem, run: Ascent, eps: float, watch: Monitor) -> Ascent:
        """Steps at one level of smoothing; the log posterior never decreases."""
        model, y, c = problem.model, problem.y, problem.c
        lik, path, has_hinges = model.likelihood, run.path, model.likelihood.implements("hinges")
        state, z, zeta = run.state
        state = smoothed(model, state.coef.mean, eps, state.priors)
        f = problem.matvec(state.coef.mean)
        value = objective(problem, state, f)
        rounding = np.finfo(float).eps * max(problem.weight, abs(value))
        for iteration in range(1, self.max_iter + 1):
            # E-step: weights of rows and precisions of coefficients
            mean, P = state.coef.mean, model.precision(state.priors)
            if has_hinges:
                s, t, k = lik.hinges(y, c)
                hinges = Kink(t - s * f, eps, z if self.accelerate else 0.0)
                gradient = np.sum(k * s * (1.0 + hinges.slope), axis=0)
                weight = np.sum(k * hinges.share / hinges.r, axis=0)
            else:
                row = lik.expected(y, f, eps**2).times(c)
                gradient, weight = row.g, row.h if self.accelerate else row.w
            corners = Kink(mean, eps, zeta if self.accelerate else 0.0)
            share = np.where(model.corner(state.priors) > 0, corners.share, 1.0)
            # M-step for the coefficients
            slope = problem.rmatvec(gradient) - P * mean
            step = solve(problem, weight, masked(P, share), slope)
            df, rise, length = problem.matvec(step), float(slope @ step), 1.0
            zeta = corners.dual(step)
            z = hinges.dual(-s * df) if has_hinges else z
            # M-step for the scales of the prior; plain EM always satisfies Armijo's condition
            new = self._moved(model, state, step, eps)
            gain = objective(problem, new, f + df) - value
            while not gain >= 1e-4 * length * rise - rounding and length > np.finfo(float).eps:
                length *= 0.5
                new = self._moved(model, state, length * step, eps)
                gain = objective(problem, new, f + length * df) - value
            stopped, converged = False, gain <= self.tol * max(1.0, abs(value))
            if gain >= -rounding:
                state, f, value = new, f + length * df, value + gain
                path.append(value)
                stage = f"em, smoothing {eps:g}"
                stopped = watch(Progress(stage, iteration, self.max_iter, value, gain), state)
            end = (run.n_iter + iteration, converged, gain, stopped)
            watch.keep(Ascent(Place(state, z, zeta), value, path, *end), now=stopped)
            if converged or stopped or not gain >= -rounding:
                break
        return Ascent(Place(state, z, zeta), value, path, *end)

    def _moved(self, model: Model, state: State, step: Array, eps: float) -> State:
        """The state after a step of the coefficients, with updated scales of the prior."""
        coef = Coef(state.coef.mean + step, state.coef.cov)
        priors = model.update(state.priors, coef, "mode") if self.learn == "mode" else state.priors
        return smoothed(model, coef.mean, eps, priors)


class Kink:
    r"""A smoothed absolute value :math:`r = \sqrt{x^2 + \varepsilon^2}` with its dual variable z.

    The Newton step multiplies the EM weight :math:`1/r` by :math:`1 - zx/r`; the product is at
    least the curvature of the smoothed function at a distance of one.
    """

    def __init__(self, x: Array, eps: float, z: Array | float | None) -> None:
        self.r = np.maximum(np.hypot(x, eps), np.finfo(float).tiny)
        self.slope = x / self.r
        self.share = np.maximum(1.0 - (self.slope if z is None else z) * self.slope, eps**2)

    def dual(self, dx: Array) -> Array:
        """The variable z after a step dx, within its bounds."""
        out: Array = np.clip(self.slope + self.share * dx / self.r, -1.0, 1.0)
        return out


def smoothed(model: Model, mean: Array, eps: float, priors: States) -> State:
    """The state at a point, smoothed by ``eps``, with expected mixing variables of priors."""
    coef = Coef(mean, Point(model.width, eps))
    return State(coef, model.update(priors, coef, "expect"))


def objective(problem: Problem, state: State, f: Array | None = None) -> float:
    """Log pseudo-posterior at a (smoothed) point, up to the log evidence."""
    f = problem.matvec(state.coef.mean) if f is None else f
    v = state.coef.cov.quad(f)  # for a point: eps squared
    rows = problem.model.likelihood.expected(problem.y, f, v).bound
    return float(problem.c @ rows + problem.model.log_prior(state.priors, state.coef))


def solve(problem: Problem, weight: Array, P: Precision, slope: Array) -> Array:
    """``(C' W C + P)^-1 slope``.

    Dense and arrow forms are factorised.  The dual form, which divides by precisions, and the
    diagonal form are preconditioners of conjugate gradients.
    """
    S, half = problem.gram(weight), np.sqrt(np.finfo(float).eps)  # half the digits
    if problem.form in ("dense", "arrow"):
        return covariance(S, P).solve(slope)
    cov = covariance(S, np.maximum(P, half * S.diag()))

    def product(x: Array) -> Array:
        return problem.rmatvec(weight * problem.matvec(x)) + P * x

    matrix, inverse = (LinearOperator((slope.size,) * 2, of) for of in (product, cov.solve))
    out: Array = cg(matrix, slope, M=inverse, rtol=half, maxiter=slope.size)[0]
    return out


def finished(problem: Problem, run: Ascent) -> Mode:
    """The result of an ascent without smoothing: exact zeros, and the certificate."""
    model, lik, (coef, priors, _) = problem.model, problem.model.likelihood, run.state.state
    eps, parts = coef.cov.eps, model.parts(priors)
    state = smoothed(model, coef.mean, 0.0, priors)
    bound = objective(problem, state)
    zeroed = np.concatenate([p.zeroed(s, coef.mean[at], eps) for p, s, at in parts])
    sparse = smoothed(model, zeroed, 0.0, priors)
    value = objective(problem, sparse)
    if value >= bound - eps * model.width * problem.weight:  # columns may be large
        state, bound = sparse, value
    end = (state, bound, [*run.path, bound], run.n_iter, run.converged, run.change, run.stopped)
    if not lik.implements("hinges"):
        return Mode(*end)
    k = lik.hinges(problem.y, problem.c).c
    phi = (k * (1.0 + run.state.hinges)).ravel()
    return Mode(*end, certificate(problem, state, phi), phi)


def certificate(problem: Problem, state: State, phi: Array) -> Certificate:
    r"""How far coefficients and dual variables :math:`0 \le \phi_i \le 2k_i` are from optimal.

    The optimum satisfies :math:`P\theta + \lambda\,\partial|\theta| \ni \sum_i\phi_i s_ix_i`, and
    with the right side :math:`q` the dual objective is
    :math:`\sum_i\phi_it_i - \frac12 q^\top P^{-1}q` where :math:`|q_j| \le \lambda_j` at the
    corners; dual variables that exceed a corner are shrunk.  The gap is not defined (NaN) where a
    coefficient has a flat prior, or the penalty is not convex.
    """
    model, mean = problem.model, state.coef.mean
    s, t, k = model.likelihood.hinges(problem.y, problem.c)
    corner = model.corner(state.priors)
    steep, ridge = np.isinf(corner), corner == 0
    P = masked(model.precision(state.priors), ridge | steep)
    line = np.where(steep, 0.0, corner)
    force = problem.rmatvec(np.sum(s * phi.reshape(s.shape), axis=0))
    misfit = np.abs(force - P * mean - line * np.sign(mean)) - np.where(mean == 0, corner, 0.0)
    kkt = float(np.max(misfit, initial=0.0) / max(1.0, np.max(np.abs(force))))
    if steep.any() or flat(P, ridge):
        return Certificate(kkt, np.nan)
    loss = 2.0 * np.sum(k * np.maximum(t - s * problem.matvec(mean), 0.0))
    primal = float(loss + 0.5 * mean @ (P * mean) + line @ np.abs(mean))
    shrink = 1.0 / max(1.0, np.max(np.abs(force[~ridge]) / corner[~ridge], initial=0.0))
    square = force @ np.where(ridge, divided(force, P), 0.0)
    dual = shrink * float(phi @ t.ravel()) - 0.5 * shrink**2 * float(square)
    return Certificate(kkt, (primal - dual) / max(1.0, abs(primal)))


def _warn_if_collapsed(problem: Problem, state: State) -> None:
    """Warn if the joint mode of coefficients and scale has collapsed to zero.

    The scale is then within 30 % of its mode for zero coefficients.
    """
    each = problem.model.each(state.priors, state.coef)
    for term, (prior, s, moments) in zip(problem.model.terms, each, strict=True):
        if not prior.is_learned:
            continue
        none, p = np.zeros_like(moments.mean), moments.mean.size
        least = prior.precisions(prior.mode(s, TermMoments(none, none)), p)
        found = prior.precisions(prior.mode(s, moments), p)
        if found.sum() > least.sum() / 1.3:
            warnings.warn(
                f"the joint mode of term '{term.name}' and its penalty has collapsed to zero, "
                "as it can for any data. Use inference='vb', or fix the penalty by "
                "prior=Fixed(precision).",
                RuntimeWarning,
                stacklevel=2,
            )
