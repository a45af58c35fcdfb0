"""One fitted binary machine: a model, its posterior and its link."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .calibration import (
    Link,
    ProbitLink,
    decisive,
    fit_link,
    leave_one_out,
    leave_one_out_draws,
    plain_link,
)
from .diagnostics import r_hat
from .gaussian import Point, covariance
from .inference.gibbs import Draws
from .inference.loop import State, Watch, silent
from .model import Model, Problem
from .posterior import DrawsPosterior, GaussianPosterior, PointPosterior, Posterior
from .types import Array, Coef

CALIBRATION_ROWS = 100_000  # three numbers need no more
CALIBRATION_DRAWS = 1000
AGREED = 1.1  # largest R-hat at which chains are taken to agree
CURVATURE_EPS = 0.1  # smoothing at which a point estimate's leverages are measured


@dataclass(frozen=True)
class Machine:
    """What a fit leaves behind for one pair of classes."""

    model: Model
    posterior: Posterior
    state: State
    link: Link
    bound: float
    path: list[float]
    n_iter: int
    converged: bool
    change: float = np.nan
    extra: dict[str, Any] = field(default_factory=dict)

    def moments(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of f at new rows."""
        return self.posterior.moments(self.model.rows(X).C)

    def proba(self, m: Array, v: Array) -> Array:
        return decisive(self.link.proba(m, v), self.link.score(m, v))


def fit_machine(
    problem: Problem,
    scheme: Any,
    probability: str,
    rng: np.random.Generator,
    start: State | None = None,
    watch: Watch = silent,
    **options: Any,
) -> Machine:
    """Run a scheme on a problem and fit the link."""
    result = scheme.fit(problem, rng, start=start, watch=watch, **options)
    model = problem.model
    shape = (problem.form, problem.n if problem.form == "factored" else 0)
    if isinstance(result, Draws):
        post: Posterior = DrawsPosterior(result.theta)
        worst = float(np.max(r_hat(result.theta)))
        machine = Machine(
            model,
            post,
            result.start,
            ProbitLink(),
            float("nan"),
            list(result.log_prob.mean(axis=0)),
            result.theta.shape[1],
            worst <= AGREED,
            worst,
            {"draws": result, "shape": shape},
        )
    else:
        coef = result.state.coef
        point = isinstance(coef.cov, Point)
        post = PointPosterior(coef.mean) if point else GaussianPosterior(coef)
        extra: dict[str, Any] = {"shape": shape}
        if point:
            # the curvature of the smoothed loss: leverages for the link, a start for a stream
            rough = Coef(coef.mean, Point(model.width, CURVATURE_EPS))
            P = model.precision(result.state.priors)
            extra["spread"] = covariance(problem.stats(rough).S, P)
        if getattr(result, "certificate", None) is not None:
            extra |= {"certificate": result.certificate, "dual": result.dual}
        machine = Machine(
            model,
            post,
            result.state,
            ProbitLink(),
            result.bound,
            result.path,
            result.n_iter,
            result.converged,
            result.change,
            extra,
        )
    return replace(machine, link=make_link(machine, problem, probability))


def make_link(machine: Machine, problem: Problem, probability: str) -> Link:
    plain = plain_link(probability, problem.model.likelihood)
    if plain is not None:
        return plain
    some, share = _some_rows(problem)
    return fit_link(some.blocks.y, *left_out(machine, some), some.blocks.c * share)


def _some_rows(problem: Problem) -> tuple[Problem, Array | float]:
    """Enough rows of each class to fit a link, and how many each stands for."""
    y = problem.blocks.y
    if problem.n <= CALIBRATION_ROWS:
        return problem, 1.0
    rng = np.random.default_rng(0)
    sides = [np.flatnonzero(y > 0), np.flatnonzero(y < 0)]
    taken = [rng.permutation(side)[: CALIBRATION_ROWS // 2] for side in sides]
    share = [np.full(t.size, s.size / max(t.size, 1)) for s, t in zip(sides, taken, strict=True)]
    rows = np.concatenate(taken)
    order = np.argsort(rows)
    some = replace(problem, blocks=problem.blocks.take(rows[order]))
    return some, np.concatenate(share)[order]


def left_out(machine: Machine, problem: Problem) -> tuple[Array, Array]:
    """Moments of f at the rows of a problem, each with itself left out."""
    lik, blocks = problem.model.likelihood, problem.blocks
    y, c = blocks.y, blocks.c
    post = machine.posterior
    if isinstance(post, DrawsPosterior):
        flat = post.flat[:: max(1, post.flat.shape[0] // CALIBRATION_DRAWS)]
        parts = []
        for b in replace(blocks, size=max(1, 2**22 // flat.shape[0])):
            f = problem.rows(b).C @ flat.T
            parts.append(leave_one_out_draws(f, lik.log_prob(b.y[:, None], f), b.c))
        return np.concatenate([m for m, _ in parts]), np.concatenate([v for _, v in parts])
    coef = machine.state.coef
    if isinstance(post, PointPosterior):
        m, v = problem.moments(Coef(coef.mean, machine.extra["spread"]))
        local = lik.expected(y, m, CURVATURE_EPS**2)
        m, _ = leave_one_out(m, v, local, c)
        return m, np.zeros_like(m)  # the estimate itself has no variance
    m, v = problem.moments(coef)
    return leave_one_out(m, v, lik.expected(y, m, v), c)
