r"""Kernel parameters from the data.

The bound of the hinge is no guide: at :math:`f = 0` the two labels' pseudo-likelihoods sum to
0.27, beyond :math:`|f| > 1` to about one, so that it rewards large functions whatever the labels.
Three rules (``benchmarks/results`` has what each is worth):

``evidence``
    Length scales by the evidence of a *logistic* model with the same kernel; then the amplitude of
    the hinge by the log loss of its analytic leave-one-out predictions.
``cv``
    Length scale and amplitude by the log loss of pooled five-fold predictions.
``bound``
    Everything by the bound of the hinge: what the papers do, for comparison.

All three have weak log-normal priors; without them leave-one-out scores run off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..calibration import score_link
from ..designs.gp import JITTER, jitter
from ..gram import Fit, Labels, Site, Sites, fit_sites, left_out
from ..kernels import Scaled, with_columns
from ..likelihoods import Logistic
from ..types import Array

FEW = 400  # points of the first, coarse search
MANY = 1000  # most points of any search
START = 16.0  # amplitude of a logistic model
SPREAD = 1.5  # prior sd of log amplitude and of other parameters
OWN_SCALES = 1.0  # prior sd of a column's log length scale about the common one
NATS_A_SCALE = 1.0  # what a length scale of its own must add to the evidence
PAPERS_START = 4.0  # the same for the hinge, where its own bound decides
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Seen:
    """Distinct points, the labels of each machine at them, and the variance of the level."""

    X: Array
    machines: tuple[Labels, ...]
    bias: float

    def thinned(self, most: int, rng: np.random.Generator) -> Seen:
        """At most so many points, drawn at random."""
        n = self.X.shape[0]
        if n <= most:
            return self
        keep = np.zeros(n, dtype=bool)
        keep[rng.choice(n, most, replace=False)] = True
        kept = tuple(k.take(np.flatnonzero(keep[k.at]))[0] for k in self.machines)
        return Seen(self.X[keep], kept, self.bias)

    def gram(self, kernel: Any) -> Array:
        K: Array = kernel(self.X)
        K[np.diag_indices_from(K)] += jitter(K)
        K += self.bias
        return K


@dataclass(frozen=True, eq=False)
class LogNormal:
    """Prior of log parameters: Gaussian with a mean and a precision matrix."""

    mean: Array
    precision: Array

    def value(self, theta: Array) -> float:
        gap = theta - self.mean
        return -0.5 * float(gap @ self.precision @ gap)

    def slope(self, theta: Array) -> Array:
        return -self.precision @ (theta - self.mean)


def parameter_prior(kernel: Scaled, p: int, amplitude: float, own: float) -> LogNormal:
    """Length scales about the square root of the number of columns, the rest about their start.

    Columns share most of a length scale: deviations of their own have standard deviation ``own``.
    """
    names = kernel.names
    mean = kernel.theta.copy()
    mean[0] = np.log(amplitude)
    cov = np.diag(np.full(mean.size, SPREAD**2))
    stems = [name.split("[")[0] for name in names]
    for stem in {s for s in stems if s.endswith("length_scale")}:
        where = np.flatnonzero([s == stem for s in stems])
        mean[where] = 0.5 * np.log(p)
        cov[np.ix_(where, where)] = 1.0
        if where.size > 1:
            cov[where, where] += own**2
    return LogNormal(mean, np.linalg.inv(cov))


# ---------------------------------------------------------------------------------------------
# Evidence


class Evidence:
    """Bound of all machines as a function of log parameters; sites are kept between calls."""

    def __init__(self, kernel: Scaled, seen: Seen, site: Site, prior: LogNormal) -> None:
        self.kernel, self.seen, self.site, self.prior = kernel, seen, site, prior
        self.sites: list[Sites | None] = [None] * len(seen.machines)
        self.tol = 1e-5

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Log evidence plus log prior, and the gradient."""
        kernel, X = self.kernel.with_theta(theta), self.seen.X
        K = self.seen.gram(kernel)
        value, G = 0.0, np.zeros_like(K)
        for j, labels in enumerate(self.seen.machines):
            fit = fit_sites(K, labels, self.site, self.sites[j], tol=self.tol)
            self.sites[j] = fit.sites
            value += fit.bound
            G += fit.slope()
        on_jitter = np.full(X.shape[0], JITTER * np.trace(G) / X.shape[0])
        slope = kernel.pull(G, X) + kernel.pull_diag(on_jitter, X)
        return value + self.prior.value(theta), slope + self.prior.slope(theta)

    def climb(self, theta: Array, evaluations: int, early: float = -np.inf) -> tuple[Array, float]:
        """Climb by L-BFGS; give up where the sixth evaluation has not reached ``early``."""
        p = self.seen.X.shape[1]
        limits = [_limits(name, p) for name in self.kernel.names]
        limits[0] = (np.log(1e-3), np.log(1e5))

        unit, values = 1.0, [-np.inf]

        def minus(t: Array) -> tuple[float, Array]:
            nonlocal unit
            value, slope = self(t)
            values.append(value)
            if len(values) == 6 and max(values) < early:
                raise _TooLow
            if unit == 1.0:  # the first step goes as far as the slope: let that be one log unit
                unit = max(1.0, float(np.linalg.norm(slope)))
            return -value / unit, -slope / unit

        try:
            found = minimize(
                minus,
                np.clip(theta, *np.array(limits).T),
                jac=True,
                method="L-BFGS-B",
                bounds=limits,
                options={"maxfun": evaluations, "ftol": 1e-4, "gtol": 1e-3},
            )
        except _TooLow:
            return theta, max(values)
        return found.x, -float(found.fun) * unit


class _TooLow(Exception):
    """A climb that is not going to get high enough."""


def _limits(name: str, p: int) -> tuple[float, float]:
    if name.split("[")[0].endswith("length_scale"):
        return float(np.log(0.05 * np.sqrt(p))), float(np.log(300.0 * np.sqrt(p)))
    return float(np.log(1e-4)), float(np.log(1e4))


def maximise_evidence(
    kernel: Scaled,
    seen: Seen,
    site: Site,
    amplitude: float,
    rng: np.random.Generator,
    per_column: bool = False,
) -> Scaled:
    """The kernel of most evidence; with ``per_column``, one length scale a column if that pays.

    Many points are searched after few: a start from 400 leaves little to do.
    """
    p = seen.X.shape[1]
    few, many = seen.thinned(FEW, rng), seen.thinned(MANY, rng)
    prior = parameter_prior(kernel, p, amplitude, OWN_SCALES)
    coarse = Evidence(kernel, few, site, prior)
    theta, value = coarse.climb(kernel.theta, 25)
    best = kernel.with_theta(theta)
    if per_column and p > 1:
        wide = with_columns(best, p)
        free = Evidence(wide, few, site, parameter_prior(wide, p, amplitude, OWN_SCALES))
        free.sites = coarse.sites
        # points not seen here would add their share
        needed = NATS_A_SCALE * (p - 1) * few.X.shape[0] / seen.X.shape[0]
        theta, more = free.climb(wide.theta, 40, early=value + 0.5 * needed)
        if more - value > needed:
            best = wide.with_theta(theta)
            prior = free.prior
    if many is few:
        return best
    fine = Evidence(best, many, site, prior)
    return best.with_theta(fine.climb(best.theta, 12)[0])


# ---------------------------------------------------------------------------------------------
# Leave-one-out amplitude


class Amplitude:
    """Leave-one-out log loss of all machines as a function of the log amplitude."""

    def __init__(self, kernel: Scaled, seen: Seen, site: Site) -> None:
        self.K = Seen.gram(Seen(seen.X, seen.machines, 0.0), Scaled(1.0, kernel.kernel))
        self.seen, self.site = seen, site
        self.sites: list[Sites | None] = [None] * len(seen.machines)
        self.known: dict[float, float] = {}

    def fits(self, log_amplitude: float) -> list[Fit]:
        K = np.exp(log_amplitude) * self.K + self.seen.bias
        fits = []
        for j, labels in enumerate(self.seen.machines):
            fits.append(fit_sites(K, labels, self.site, self.sites[j], tol=1e-5))
            self.sites[j] = fits[-1].sites
        return fits

    def __call__(self, log_amplitude: float) -> float:
        if log_amplitude not in self.known:
            total = 0.5 * log_amplitude**2
            for fit, labels in zip(self.fits(log_amplitude), self.seen.machines, strict=True):
                m, v = left_out(fit, labels, self.site)
                total += score_link(labels.y, m, v, labels.c)[1]
            self.known[log_amplitude] = total
        return self.known[log_amplitude]


def best_amplitude(score: Amplitude, start: float, step: float = float(np.log(2.0))) -> float:
    """Walk in steps of a factor two to the least score nearby, then to the vertex of a parabola."""

    def at(k: int) -> float:
        return score(start + k * step)

    k, way = 0, -1 if at(-1) <= at(0) else 1
    while abs(k) < 20 and at(k + way) < at(k):
        k += way
    low, mid, high = at(k - 1), at(k), at(k + 1)
    bend = low - 2.0 * mid + high
    shift = 0.5 * (low - high) / bend if bend > 0 and low > mid < high else 0.0
    return start + (k + shift) * step


# ---------------------------------------------------------------------------------------------
# Cross-validation


class Folds:
    """Log loss of pooled predictions of rows left out by folds, as a function of the kernel."""

    def __init__(self, seen: Seen, site: Site, rng: np.random.Generator) -> None:
        self.seen, self.site = seen, site
        self.parts = []
        for labels in seen.machines:
            fold = _stratified(labels.y, rng)
            for k in range(FOLDS):
                train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
                if train.size and test.size:
                    self.parts.append((labels, *labels.take(train), test))
        self.sites: list[Sites | None] = [None] * len(self.parts)

    def __call__(self, kernel: Any) -> float:
        K = self.seen.gram(kernel)
        pool: dict[int, list[Array]] = {}
        for j, (labels, kept, points, test) in enumerate(self.parts):
            fit = fit_sites(K[np.ix_(points, points)], kept, self.site, self.sites[j], tol=1e-4)
            self.sites[j] = fit.sites
            at = labels.at[test]
            m, v = fit.at(K[np.ix_(at, points)], np.diag(K)[at])
            pool.setdefault(id(labels), []).append(np.stack([labels.y[test], m, v, labels.c[test]]))
        return sum(score_link(*np.concatenate(part, axis=1))[1] for part in pool.values())


def _stratified(y: Array, rng: np.random.Generator) -> Array:
    fold = np.empty(y.size, dtype=int)
    for side in (y > 0, y < 0):
        fold[side] = rng.permutation(np.arange(side.sum()) % FOLDS)
    return fold


def cross_validate(kernel: Scaled, seen: Seen, site: Site, rng: np.random.Generator) -> Scaled:
    """Amplitude and a common factor of the length scales by Nelder and Mead's method."""
    score = Folds(seen.thinned(MANY, rng), site, rng)
    scales = np.array([n.split("[")[0].endswith("length_scale") for n in kernel.names], float)

    def moved(x: Array) -> Scaled:
        theta = kernel.theta + x[0] * scales
        theta[0] = x[1]
        return kernel.with_theta(theta)

    def loss(x: Array) -> float:
        return score(moved(x)) + 0.5 * float(x[0] ** 2 + (x[1] / SPREAD) ** 2)

    first = np.array([[0.0, 0.0], [np.log(2.0), 0.0], [0.0, np.log(4.0)]])
    options = {"initial_simplex": first, "xatol": 0.12, "fatol": 0.05, "maxfev": 40}
    return moved(minimize(loss, first[0], method="Nelder-Mead", options=options).x)


# ---------------------------------------------------------------------------------------------
# The three rules


class Tuned(NamedTuple):
    """A kernel, and sites from which the fit may start where they belong to all points."""

    kernel: Scaled
    sites: list[Sites | None] | None = None


def tune(
    rule: str,
    kernel: Scaled,
    seen: Seen,
    likelihood: Any,
    rng: np.random.Generator,
    per_column: bool = False,
) -> Tuned:
    """The kernel with its parameters learned by one of the three rules.

    ``likelihood`` is that of the fit to come; one that is normalised is its own guide, amplitude
    included.
    """
    if rule == "cv":
        return Tuned(cross_validate(kernel, seen, likelihood.expected, rng))
    if rule == "bound":
        return Tuned(maximise_evidence(kernel, seen, likelihood.expected, PAPERS_START, rng))
    guide = likelihood if likelihood.normalised else Logistic()
    start = Scaled(START, kernel.kernel)
    found = maximise_evidence(start, seen, guide.tight, START, rng, per_column)
    if likelihood.normalised:
        return Tuned(found)
    score = Amplitude(found, seen.thinned(MANY, rng), likelihood.tight)
    amplitude = float(np.exp(best_amplitude(score, np.log(found.weight / 8.0))))
    return Tuned(Scaled(amplitude, found.kernel), score.sites if score.seen is seen else None)
