r"""Regression: the tube, predictions, and intervals from leave-one-out residuals.

Targets are standardised to mean zero and variance one,
:math:`y = \text{level} + \text{unit}\,(f + \text{noise})`.  The interval of a new target is

.. math:: m(x) + q_\alpha\sqrt{v(x) + s^2},

with *m*, *v* moments of f, :math:`s^2` the variance of the noise under the likelihood, and *q*
quantiles of the standardised leave-one-out residuals of the training rows,
:math:`z_i = (y_i - m_{-i}) / \sqrt{v_{-i} + s^2}`.  Intervals thus do not depend on the shape of
the likelihood, which may be wrong for the noise; this is the jackknife of conformal prediction,
with leave-one-out moments in closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, cast

import numpy as np

from ..core.types import Array
from ..inference.problem import Problem
from ..inference.vb import VB
from ..likelihoods import EpsilonInsensitive
from .fitted import BinaryModel, Fit
from .fitting import PosteriorFit, find_posterior
from .leave_one_out import LooMoments, weighted_quantile
from .robust_covariance import robust_covariance


class Unit(NamedTuple):
    """Conversion between f and targets in their original unit."""

    level: float = 0.0
    scale: float = 1.0

    def into(self, y: Array) -> Array:
        return (y - self.level) / self.scale

    def back(self, f: Array) -> Array:
        return self.level + self.scale * f


class LeftOutResiduals(NamedTuple):
    """Standardised leave-one-out residuals z of training rows, in ascending order."""

    z: Array
    low: Array  # positions of the first copy of each row,
    high: Array  # and of its last copy
    tail: float  # mean excess of a residual over a large threshold

    @classmethod
    def of(cls, loo: LooMoments, noise: EpsilonInsensitive) -> Self:
        y, m, v, c = loo
        z = (y - m) / np.sqrt(v + noise.variance)
        order = np.argsort(z)
        c = c[order]
        high = np.cumsum(c)
        tail = 0.5 / (noise.scale * math.sqrt(noise.variance))
        return cls(z[order], high - c + np.minimum(c, 1.0), high, tail)

    def quantile(self, level: float) -> float:
        """Quantile with a new row included: n rows give n + 1 intervals of equal probability.

        Beyond the outermost row the exponential tail of the likelihood is used.
        """
        total, first = self.high[-1] + 1.0, float(self.low[0])
        at = level * total
        if at < first:
            return float(self.z[0] - self.tail * math.log(first / at))
        if total - at < 1.0:
            return float(self.z[-1] - self.tail * math.log(total - at))
        places = np.stack([self.low, self.high], axis=1).ravel()
        return float(np.interp(at, places, np.repeat(self.z, 2)))


@dataclass(frozen=True)
class Regression(Fit):
    """A fitted regression: one model, and no classes."""

    unit: Unit = field(default_factory=Unit)
    residuals: LeftOutResiduals | None = None

    @property
    def noise(self) -> EpsilonInsensitive:
        """The likelihood, in the units of the fit."""
        return cast(EpsilonInsensitive, self.machines[0].model.likelihood)

    def std(self, v: Array) -> Array:
        """Standard deviation of targets for given moments of f."""
        return self.unit.scale * np.sqrt(v + self.noise.variance)

    def interval(self, m: Array, v: Array, tails: tuple[float, float]) -> tuple[Array, Array]:
        """Ends of prediction intervals for given moments of f."""
        assert self.residuals is not None
        low, high = (self.residuals.quantile(level) for level in tails)
        middle, sd = self.unit.back(m), self.std(v)
        return middle + low * sd, middle + high * sd


def choose_epsilon(
    problem: Problem,
    rng: np.random.Generator,
    min_rows: int = 2000,
    max_inside: float = 0.95,
    widths: int = 96,
) -> float:
    """Half the width of the tube that maximises the likelihood of leave-one-out residuals.

    The residuals are from a fit without a tube (absolute deviations) to ``min_rows`` rows or ten
    for each coefficient.  At most a share ``max_inside`` of them is inside the tube, because the
    others determine the scale; ``widths`` are the candidates.
    """
    keep = max(min_rows, 10 * problem.model.width)
    if problem.n > keep:
        problem = problem.thinned(keep, rng)
    given: Any = problem.model.likelihood
    # selection priors require the augmented bound
    seen = given.tightened(not problem.model.has_gates)
    machine, problem, *_ = find_posterior(
        problem.with_likelihood(seen), VB(tol=1e-5, warm_rows=0), rng
    )
    y, c = problem.y, problem.c
    r = np.abs(y - machine.posterior.left_out(problem)[0])
    most = float(weighted_quantile(r, c, max_inside * float(c.sum()) * (1.0 - 1e-12)))
    tubes = np.linspace(0.0, most, widths)
    zero, fits = np.zeros_like(r), []
    for epsilon in tubes.tolist():  # each with its maximum likelihood scale, unless given
        noise = EpsilonInsensitive(1.0 if given.gamma is None else given.gamma, epsilon)
        if given.gamma is None:
            noise = noise.update(float(c @ noise.log_prob(r, zero)), 0.0, float(c.sum()))
        fits.append(float(c @ noise.log_prob(r, zero)))
    return float(tubes[int(np.argmax(fits))])


def with_residuals(
    fit: PosteriorFit, covariance: str = "robust", max_rows: int = 10_000
) -> tuple[BinaryModel, LeftOutResiduals]:
    """A regression model with robust covariance, and leave-one-out residuals of a subset of rows.

    The sampling error of the 5 % quantile of 10,000 rows is 0.2 % of the rows.
    """
    machine, problem, *_ = fit
    subset, share = problem, 1.0
    if problem.n > max_rows:
        subset, share = problem.thinned(max_rows, np.random.default_rng(0)), problem.n / max_rows
    loo = LooMoments(subset.y, *machine.posterior.left_out(subset), subset.c * share)
    if covariance == "robust":
        post, priors = machine.posterior, machine.ascent.state.priors
        robust = robust_covariance(problem, post, priors, subset, loo, problem.weight)
        machine = replace(machine, robust_covariance=robust)
    noise: Any = problem.model.likelihood
    return machine, LeftOutResiduals.of(loo, noise)
