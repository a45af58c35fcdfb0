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

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.optimize import minimize

from ..calibration import score_link
from ..designs.columns import Standardised
from ..designs.gp import JITTER, jitter, whiten
from ..gram import Fit, Labels, Site, Sites, fit_sites, left_out, target_sites
from ..kernels import Scaled, with_columns
from ..likelihoods import Logistic
from ..lowrank import LowRank
from ..types import Array

FEW = 400  # points of the first, coarse search
SEARCHED = 800  # most points of the search for length scales
MANY = 1000  # and of that for the amplitude and folds
JUDGED = 5000  # rows that judge the amplitude through inducing points
MOST = 20_000  # points at which a bound through inducing points is climbed
START = 16.0  # amplitude of a logistic model
SPREAD = 1.5  # prior sd of log amplitude and of other parameters
OWN_SCALES = 1.0  # prior sd of a column's log length scale about the common one
NATS_A_SCALE = 1.0  # what a length scale of its own must add to the evidence,
NATS_AT_LEAST = 5.0  # and all of them together: very strong evidence by any table
SHOWN = 0.75  # share of that which few points must show where there are more
PAPERS_START = 4.0  # the same for the hinge, where its own bound decides
SMALL_GAIN = 1e-3  # relative gain of a step that ends a climb
FARTHEST = 12.0  # largest log parameter that is tried
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

    def propped(self, K: Array) -> Array:
        """A kernel matrix with its jitter and the level."""
        out = K + self.bias
        out[np.diag_indices_from(out)] += jitter(K)
        return out


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


class Score(Protocol):
    """What can be climbed: a function of log parameters with its gradient, and their prior."""

    prior: LogNormal

    def __call__(self, theta: Array) -> tuple[float, Array]: ...


class Evidence:
    """Bound of all machines as a function of log parameters; sites are kept between calls."""

    def __init__(self, kernel: Scaled, seen: Seen, site: Site, prior: LogNormal) -> None:
        self.kernel, self.seen, self.site, self.prior = kernel, seen, site, prior
        self.sites: list[Sites | None] = [None] * len(seen.machines)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Log evidence plus log prior, and the gradient."""
        kernel, X = self.kernel.with_theta(theta), self.seen.X
        plain: Array = kernel(X)
        K = self.seen.propped(plain)
        value, G = 0.0, np.zeros_like(K)
        for j, labels in enumerate(self.seen.machines):
            fit = fit_sites(K, labels, self.site, self.sites[j], tol=1e-4)
            self.sites[j] = fit.sites
            value += fit.bound
            G += fit.slope()
        on_jitter = np.full(X.shape[0], JITTER * np.trace(G) / X.shape[0])
        slope = kernel.pull(G, X, None, plain) + kernel.pull_diag(on_jitter, X)
        return value + self.prior.value(theta), slope + self.prior.slope(theta)

    def climb(
        self: Score,
        theta: Array,
        evaluations: int,
        early: float = -np.inf,
        root: Array | None = None,
    ) -> Summit:
        """Climb by L-BFGS; give up where the eighth evaluation has not reached ``early``.

        Steps are ``root`` times those of the search.  By default the prior is round in them, so
        that a length scale shared by many columns moves as easily as one column's own; a climb
        that follows another takes its shape from that one.
        """
        if root is None:
            root = np.linalg.cholesky(np.linalg.inv(self.prior.precision))
        unit, values = 1.0, [-np.inf]

        def place(z: Array) -> Array:
            return np.clip(theta + root @ z, -FARTHEST, FARTHEST)

        def minus(z: Array) -> tuple[float, Array]:
            nonlocal unit
            value, slope = self(place(z))
            slope = root.T @ slope
            values.append(value)
            if len(values) == 9 and max(values) < early:
                raise _TooLow
            if unit == 1.0:  # the first step goes as far as the slope: let that be one unit
                unit = max(1.0, float(np.linalg.norm(slope)))
            return -value / unit, -slope / unit

        options = {"maxfun": evaluations, "maxcor": 20, "ftol": SMALL_GAIN, "gtol": 1e-3}
        options["maxls"] = 4  # what more would gain is lost in the tolerance of the sites
        first = np.zeros(theta.size)
        try:
            found = minimize(minus, first, jac=True, method="L-BFGS-B", options=options)
        except _TooLow:
            return Summit(theta, max(values), root)
        shape = root @ _rounded(found.hess_inv)
        return Summit(place(found.x), -float(found.fun) * unit, shape)


class SparseEvidence(Evidence):
    """The same through inducing points."""

    def __init__(
        self, kernel: Scaled, seen: Seen, site: Site, prior: LogNormal, through: Through
    ) -> None:
        super().__init__(kernel, seen, site, prior)
        self.through = through
        self.plain = Standardised(np.zeros(seen.X.shape[1]), np.ones(seen.X.shape[1]))

    def __call__(self, theta: Array) -> tuple[float, Array]:
        kernel, seen = self.kernel.with_theta(theta), self.seen
        design = whiten(kernel, self.through.Z, self.plain)
        process = LowRank.of(design, seen.X, seen.bias, self.through.fitc)
        value, slope = self.prior.value(theta), self.prior.slope(theta)
        for j, labels in enumerate(seen.machines):
            fit = fit_sites(process, labels, self.site, self.sites[j], tol=1e-5)
            self.sites[j] = fit.sites
            value += fit.bound
            slope += process.slope(fit).theta
        return value, slope


class Through(NamedTuple):
    """Inducing points, and whether what they leave is FITC's."""

    Z: Array
    fitc: bool


class Summit(NamedTuple):
    """Where a climb ended: parameters, value, and steps in which the top is round."""

    theta: Array
    value: float
    root: Array


def _rounded(met: Any) -> Array:
    """Factor of the inverse curvature that L-BFGS has met.

    Its own account of it takes directions not yet seen for unit ones; as in its steps, they are
    given the scale of the last.
    """
    eye = np.eye(met.shape[0])
    if not len(met.sk):
        return eye
    H = eye * (met.sk[-1] @ met.yk[-1]) / (met.yk[-1] @ met.yk[-1])
    for s, y in zip(met.sk, met.yk, strict=True):
        A = eye - np.outer(s, y) / (s @ y)
        H = A @ H @ A.T + np.outer(s, s) / (s @ y)
    return np.linalg.cholesky(H)


class _TooLow(Exception):
    """A climb that is not going to get high enough."""


def _is_scale(kernel: Scaled) -> Array:
    """1 for the parameters that are length scales, else 0."""
    return np.array([n.split("[")[0].endswith("length_scale") for n in kernel.names], float)


def maximise_evidence(
    kernel: Scaled,
    seen: Seen,
    site: Site,
    amplitude: float,
    rng: np.random.Generator,
    per_column: bool = False,
) -> Scaled:
    """The kernel of most evidence; with ``per_column``, one length scale a column if that pays.

    A few points settle a scale that all columns share, and whether columns deserve their own; more
    are asked only for what these are.  Columns start from short scales: from a long one that they
    share, those along which f bends look as idle as the rest.
    """
    few, p = seen.thinned(FEW, rng), seen.X.shape[1]
    sites: list[Sites | None] = [None] * len(seen.machines)

    def climb(
        kernel: Scaled, part: Seen, evaluations: int, after: Summit | None = None, **how: Any
    ) -> tuple[Scaled, Summit]:
        one = Evidence(kernel, part, site, parameter_prior(kernel, p, amplitude, OWN_SCALES))
        one.sites[:] = sites if part is few else one.sites
        top = one.climb(kernel.theta, evaluations, root=after and after.root, **how)
        sites[:] = one.sites
        return kernel.with_theta(top.theta), top

    shared, low = climb(kernel, few, 40)
    wide = with_columns(kernel, p)
    more_scales = wide.theta.size - kernel.theta.size
    if not per_column or more_scales == 0:
        return shared
    needed = max(NATS_A_SCALE * more_scales, NATS_AT_LEAST)
    wide = wide.with_theta(wide.theta - np.log(2.0) * _is_scale(wide))
    wide, high = climb(wide, few, 40, early=low.value + 0.2 * needed)
    many = seen.thinned(SEARCHED, rng)
    if high.value - low.value < (1.0 if many is few else SHOWN) * needed:
        return shared
    return wide if many is few else climb(wide, many, 20, high)[0]


# ---------------------------------------------------------------------------------------------
# Leave-one-out amplitude


class Amplitude:
    """Leave-one-out log loss of all machines as a function of the log amplitude."""

    def __init__(self, kernel: Scaled, seen: Seen, site: Site) -> None:
        self.K = kernel.kernel(seen.X)
        self.K[np.diag_indices_from(self.K)] += jitter(self.K)
        self.seen, self.site = seen, site
        self.sites: list[Sites | None] = [None] * len(seen.machines)
        self.known: dict[float, float] = {}

    outside: Array | float = 0.0  # variance that no row can reduce, at amplitude one

    def process(self, amplitude: float) -> Any:
        return amplitude * self.K + self.seen.bias

    def fits(self, log_amplitude: float) -> list[Fit]:
        K = self.process(float(np.exp(log_amplitude)))
        fits = []
        for j, labels in enumerate(self.seen.machines):
            fits.append(fit_sites(K, labels, self.site, self.sites[j], tol=5e-5))
            self.sites[j] = fits[-1].sites
        return fits

    def __call__(self, log_amplitude: float) -> float:
        if log_amplitude not in self.known:
            total = 0.5 * log_amplitude**2
            outside = np.exp(log_amplitude) * self.outside
            for fit, labels in zip(self.fits(log_amplitude), self.seen.machines, strict=True):
                m, v = left_out(fit, labels, self.site, outside)
                total += score_link(labels.y, m, v, labels.c)[1]
            self.known[log_amplitude] = total
        return self.known[log_amplitude]

    def sites_at(self, log_amplitude: float, kernel: Scaled, seen: Seen) -> list[Sites]:
        """Sites at the amplitude; for points that were not seen, those that predictions ask for."""
        fits = self.fits(log_amplitude)
        if seen is self.seen:
            return [fit.sites for fit in fits]
        cross = kernel(seen.X, self.seen.X) + seen.bias
        diag = kernel.diag(seen.X) + seen.bias
        return [
            target_sites(*fit.at(cross, diag), labels, self.site)
            for fit, labels in zip(fits, seen.machines, strict=True)
        ]


class SparseAmplitude(Amplitude):
    """The same through inducing points, whose columns grow with the root of the amplitude."""

    def __init__(self, kernel: Scaled, seen: Seen, site: Site, through: Through) -> None:
        p = seen.X.shape[1]
        plain = Standardised(np.zeros(p), np.ones(p))
        design = whiten(kernel.kernel, through.Z, plain)
        self.unit = LowRank.of(design, seen.X, seen.bias, through.fitc)
        self.seen, self.site, self.outside = seen, site, self.unit.outside
        self.sites: list[Sites | None] = [None] * len(seen.machines)
        self.known: dict[float, float] = {}

    def process(self, amplitude: float) -> Any:
        C = self.unit.C.copy()
        C[:, 1:] *= np.sqrt(amplitude)
        return replace(self.unit, C=C, rest=amplitude * self.unit.rest)


def best_amplitude(score: Amplitude, start: float, step: float = float(np.log(4.0))) -> float:
    """The least score of a wide look in steps of a factor four, then the vertex of a parabola.

    A walk to the nearest valley is not enough: small amplitudes, where f ends at the margin, and
    large ones, where it can grow on, may have one each.
    """

    def at(k: int) -> float:
        return score(start + k * step)

    k = min((-1, 0, 1), key=at)
    way = 1 if k > 0 else -1
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
        K = self.seen.propped(kernel(self.seen.X))
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
    scales = _is_scale(kernel)

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


def kernel_prior(kernel: Scaled, p: int, likelihood: Any) -> LogNormal:
    """The prior under which a chain draws the kernel."""
    amplitude = START if likelihood.normalised else PAPERS_START
    return parameter_prior(kernel, p, amplitude, OWN_SCALES)


class Tuned(NamedTuple):
    """A kernel, and sites from which the fit at all points may start."""

    kernel: Scaled
    sites: list[Sites] | None = None


def tune(
    rule: str,
    kernel: Scaled,
    seen: Seen,
    likelihood: Any,
    rng: np.random.Generator,
    per_column: bool = False,
    through: Callable[[Scaled], Through | None] = lambda kernel: None,
    refine: Callable[[Scaled, Any], Scaled] | None = None,
) -> Tuned:
    """The kernel with its parameters learned by one of the three rules.

    ``likelihood`` is that of the fit to come; one that is normalised is its own guide, amplitude
    included.  ``through`` gives the fit's inducing points, if it has any: its bound is climbed
    through them, and where rows are many the amplitude is that which suits them.  Length scales
    and folds look at some of the rows, exactly.  ``refine(kernel, guide)`` may go on from the
    kernel of most evidence, with more rows.
    """
    if rule == "cv":
        return Tuned(cross_validate(kernel, seen, likelihood.expected, rng))
    if rule == "bound" and (points := through(kernel)) is not None:
        prior = parameter_prior(kernel, seen.X.shape[1], PAPERS_START, OWN_SCALES)
        some = seen.thinned(MOST, rng)
        climb = SparseEvidence(kernel, some, likelihood.expected, prior, points).climb
        return Tuned(kernel.with_theta(climb(kernel.theta, 40).theta))
    if rule == "bound":
        return Tuned(maximise_evidence(kernel, seen, likelihood.expected, PAPERS_START, rng))
    guide = likelihood if likelihood.normalised else Logistic()
    start = Scaled(START, kernel.kernel)
    found = maximise_evidence(start, seen, guide.tight, START, rng, per_column)
    if refine is not None:
        found = refine(found, guide)
    if likelihood.normalised:
        return Tuned(found)
    points = through(found)
    if points is not None:
        some = seen.thinned(JUDGED, rng)
        score: Amplitude = SparseAmplitude(found, some, likelihood.tight, points)
    else:
        score = Amplitude(found, seen.thinned(MANY, rng), likelihood.tight)
    amplitude = best_amplitude(score, np.log(found.weight / 8.0))
    best = Scaled(float(np.exp(amplitude)), found.kernel)
    if points is not None and score.seen is not seen:
        return Tuned(best)
    return Tuned(best, score.sites_at(amplitude, best, seen))
