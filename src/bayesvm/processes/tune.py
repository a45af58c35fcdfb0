r"""Kernel parameters from the data.

The bound of the hinge is no guide: at :math:`f = 0` the two labels' pseudo-likelihoods sum to
0.27, beyond :math:`|f| > 1` to about one, so that it rewards large functions whatever the labels.
Three rules (``benchmarks/results`` has what each is worth):

``evidence``
    Length scales by the evidence of a *logistic* model with the same kernel; then the amplitude of
    the hinge by the log loss of its analytic leave-one-out predictions, which may also ask for a
    shorter scale.
``cv``
    Length scale and amplitude by the log loss of pooled five-fold predictions.
``bound``
    Everything by the bound of the hinge: what the papers do, for comparison.

All three have weak log-normal priors; without them leave-one-out scores run off.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..core.types import Array
from ..designs.columns import Standardised
from ..inference.progress import Watch, silent
from ..kernels import Scaled
from ..likelihoods import Logistic
from ..machines.calibration import score_link
from .evidence import (
    FARTHEST,
    OWN_SCALES,
    SPREAD,
    START,
    Ended,
    LogNormal,
    Search,
    Seen,
    SparseEvidence,
    Through,
    is_scale,
    maximise_evidence,
    parameter_prior,
)
from .gram import Fit, Site, Sites, fit_sites, left_out, target_sites
from .lowrank import LowRank
from .whitened import jitter, whiten

MANY = 1000  # most points of the search for the amplitude, and of folds
JUDGED = 5000  # rows that judge the amplitude through inducing points
MOST = 20_000  # points at which a bound through inducing points is climbed
PAPERS_START = 4.0  # amplitude of the hinge, where its own bound decides
SMALLER = 8.0  # amplitude of a logistic model in units of the hinge's, where its search starts
LOOKS = 20  # amplitudes that are tried, about
SHORTER = 0.5 * float(np.log(2.0))  # a step to shorter scales,
NATS_A_STEP = 2.0  # what it must add to the score of rows left out,
HEARD = 0.5  # and the share of that at the old amplitude
FOLDS = 5
TRIALS = 40  # kernels that folds judge, at most


# ---------------------------------------------------------------------------------------------
# Leave-one-out amplitude


class Amplitude:
    """Leave-one-out log loss of all machines as a function of the log amplitude."""

    search = Search()  # that reports nothing

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
            best = min(self.known.values(), default=np.inf)
            self.known[log_amplitude] = total
            self.search.report("amplitude", len(self.known), LOOKS, -total, best - total)
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


def shorten(found: Scaled, judged: Callable[[Scaled], Amplitude]) -> tuple[Scaled, Amplitude]:
    """The amplitude that leaves rows out best, at length scales as short as these rows ask for.

    With many columns the evidence likes scales too long, by a factor of two and more.  Rows left
    out say so loudly where it matters, and softly, too often, where it does not: they are heard
    from ``NATS_A_STEP`` on, for every thousand of them.  Scales that columns have for themselves
    stay as they are.
    """
    scales = np.array([name.endswith("length_scale") for name in found.names], float)
    score = judged(found)
    enough = NATS_A_STEP * max(1.0, score.seen.X.shape[0] / MANY)
    try:
        at = best_amplitude(score, np.log(found.weight / SMALLER))
        while scales.any():
            short = found.with_theta(found.theta - SHORTER * scales)
            other = judged(short)
            other.sites = list(score.sites)
            if score(at) - other(at) < HEARD * enough:  # the best amplitude is not far
                break
            there = best_amplitude(other, at)
            far = 0.5 * np.log(score.seen.extent) - FARTHEST
            if score(at) - other(there) < enough or short.theta[scales > 0].min() < far:
                break
            found, score, at = short, other, there
    except Ended:
        at = min(score.known, key=score.known.__getitem__)
    return Scaled(float(np.exp(at)), found.kernel), score


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


def cross_validate(
    kernel: Scaled,
    seen: Seen,
    site: Site,
    rng: np.random.Generator,
    search: Search | None = None,
) -> Scaled:
    """Amplitude and a common factor of the length scales by Nelder and Mead's method."""
    score = Folds(seen.thinned(MANY, rng), site, rng)
    scales, search, losses = is_scale(kernel), search or Search(), [np.inf]
    best: Array = np.zeros(2)

    def moved(x: Array) -> Scaled:
        theta = kernel.theta + x[0] * scales
        theta[0] = x[1]
        return kernel.with_theta(theta)

    def loss(x: Array) -> float:
        nonlocal best
        value = score(moved(x)) + 0.5 * float(x[0] ** 2 + (x[1] / SPREAD) ** 2)
        gain = min(losses) - value
        best = x.copy() if gain > 0 else best
        losses.append(value)
        search.report("kernel", len(losses) - 1, TRIALS, -value, gain)
        return value

    first = np.array([[0.0, 0.0], [np.log(2.0), 0.0], [0.0, np.log(4.0)]])
    options = {"initial_simplex": first, "xatol": 0.12, "fatol": 0.05, "maxfev": TRIALS}
    with suppress(Ended):
        minimize(loss, first[0], method="Nelder-Mead", options=options)
    return moved(best)


# ---------------------------------------------------------------------------------------------
# The three rules


def kernel_prior(kernel: Scaled, extent: float, likelihood: Any) -> LogNormal:
    """The prior under which a chain draws the kernel."""
    amplitude = START if likelihood.normalised else PAPERS_START
    return parameter_prior(kernel, extent, amplitude, OWN_SCALES)


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
    refine: Callable[[Scaled, Any, Search], Scaled] | None = None,
    watch: Watch = silent,
) -> Tuned:
    """The kernel with its parameters learned by one of the three rules.

    ``likelihood`` is that of the fit to come; one that is normalised is its own guide, amplitude
    included.  ``through`` gives the fit's inducing points, if it has any: its bound is climbed
    through them, and where rows are many the amplitude is that which suits them.  Length scales
    and folds look at some of the rows, exactly.  ``refine(kernel, guide, search)`` may go on from
    the kernel of most evidence, with more rows.  Where ``watch`` ends the search, the best kernel
    so far is taken.
    """
    search, site = Search(watch), likelihood.expected
    if rule == "cv":
        return Tuned(cross_validate(kernel, seen, site, rng, search))
    if rule == "bound" and (points := through(kernel)) is not None:
        prior = parameter_prior(kernel, seen.extent, PAPERS_START, OWN_SCALES)
        some = seen.thinned(MOST, rng)
        climb = SparseEvidence(kernel, some, site, prior, points).climb
        return Tuned(kernel.with_theta(climb(kernel.theta, 40, search=search).theta))
    if rule == "bound":
        return Tuned(maximise_evidence(kernel, seen, site, PAPERS_START, rng, search=search))
    guide = likelihood if likelihood.normalised else Logistic()
    start = Scaled(START, kernel.kernel)
    found = maximise_evidence(start, seen, guide.tight, START, rng, per_column, search)
    if refine is not None and not search.stopped:
        found = refine(found, guide, search)
    if likelihood.normalised:
        return Tuned(found)
    if search.stopped:
        return Tuned(Scaled(found.weight / SMALLER, found.kernel))
    points = through(found)
    some = seen.thinned(MANY if points is None else JUDGED, rng)

    def judged(kernel: Scaled) -> Amplitude:
        score = (
            Amplitude(kernel, some, likelihood.tight)
            if points is None
            else SparseAmplitude(kernel, some, likelihood.tight, points)
        )
        score.search = search
        return score

    best, score = shorten(found, judged)
    if points is not None and some is not seen:
        return Tuned(best)
    return Tuned(best, score.sites_at(np.log(best.weight), best, seen))
