r"""Kernel parameters from the data.

The bound of the hinge is no guide: at :math:`f = 0` the two labels' pseudo-likelihoods sum to
0.27, beyond :math:`|f| > 1` to about one, so that it rewards large functions whatever the labels.
Three rules (``benchmarks/results`` has their scores):

``evidence``
    Length scales by the evidence of a *logistic* model with the same kernel; then the amplitude of
    the hinge by the log loss of its analytic leave-one-out predictions (of several classes, and
    of many rows, of predictions of folds), which may also shorten the scale.  Where few inducing
    points can take the place of all rows, folds are fitted through them.
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
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..core.types import Array
from ..inference.progress import Watch, silent
from ..kernels import Scaled
from ..likelihoods import Logistic
from ..predictive.link_fitting import LogisticFamily, score_link
from .amplitude import FoldedAmplitude
from .evidence import (
    FARTHEST,
    SPREAD,
    START,
    Coarse,
    Ended,
    Evidence,
    LogNormal,
    Search,
    WarmFits,
    ascend_evidence,
    is_scale,
    maximise_evidence,
    parameter_prior,
)
from .growth import FIRST_FEW, few_points
from .labelled import LabelledPoints
from .local import judge_local, with_local_part
from .matrices import covariance_of
from .process import Gram, LowRank, Prior
from .site_fit import fit_sites
from .sites import Site, SiteFit, Sites

MANY = 1000  # most points of the search for the amplitude, and of folds
# Weight of the rows of two classes up to which single rows are left out.  Moments without them are
# optimistic where the amplitude is large, and noisy labels of a rough function then set it no
# limit; with fewer rows folds and single rows choose alike (seven sets, folds 0 and 1).
FEW = 500
FOLDED = 800  # points of folds that judge the amplitude for several classes
JUDGED = 5000  # rows that judge the amplitude through inducing points
# Share of the prior variance that the first few points may leave for the amplitude to be judged
# through them: 0.0142 at most on six sets where few points are enough (0.03 on one of 14 draws of
# waveforms), 0.05 at least on four where they are not
SMOOTH = 0.04
# What these may cost in units of what few points may, for the kernel to be the one they judge best:
# they favour long scales and small amplitudes where they cost more.  Waveforms have 2.1 at most (14
# draws), spambase and bank-marketing, whose log loss was higher by 0.04 and 0.006, 3.6 and more
TRUSTED = 2.5
MOST = 20_000  # points at which a bound through inducing points is maximised
PAPERS_START = 4.0  # amplitude of the hinge, where its own bound decides
SMALLER = 8.0  # amplitude of a logistic model in units of the hinge's, where its search starts
SETTLED = 5e-4  # gain a row of the last pass: less than a tenth of it is left
LOOKS = 20  # amplitudes that are tried, about
STEP = float(np.log(4.0))  # from one of them to the next
SHORTER = 0.5 * float(np.log(2.0))  # a step to shorter scales,
NATS_A_STEP = 2.0  # what it must add to the score of rows left out,
GAINED = 0.5  # and the share of that from which on it is made in part
FOLDS = 5
TRIALS = 40  # kernels that folds judge, at most


# ---------------------------------------------------------------------------------------------
# Leave-one-out amplitude


class Amplitude:
    """Leave-one-out log loss of all machines as a function of the log amplitude.

    The process is computed once, for an amplitude of one.
    """

    by_folds = False

    def __init__(self, prior: Prior, seen: LabelledPoints, site: Site, search: Search) -> None:
        self.unit = replace(prior, kernel=prior.kernel.kernel).at(seen.X)
        self.seen, self.site, self.search = seen, site, search
        self.fits = WarmFits(seen.machines, site, SETTLED)
        self.losses: dict[float, float] = {}

    def fits_at(self, log_amplitude: float) -> list[SiteFit]:
        return self.fits(self.unit.scaled(float(np.exp(log_amplitude))))

    def __call__(self, log_amplitude: float) -> float:
        if log_amplitude not in self.losses:
            total = 0.5 * log_amplitude**2
            for fit, labels in zip(self.fits_at(log_amplitude), self.seen.machines, strict=True):
                m, v = fit.left_out(labels, self.site)
                total += score_link(LogisticFamily(), labels.y, m, v, labels.effective)
            best = min(self.losses.values(), default=np.inf)
            self.losses[log_amplitude] = total
            self.search.report("amplitude", len(self.losses), LOOKS, -total, best - total)
        return self.losses[log_amplitude]

    def follow(self, other: Any) -> None:
        """Start where the fits of another have ended."""
        self.fits.sites = [*other.fits.sites]

    def sites_at(self, kernel: Scaled) -> list[Sites]:
        """Sites at the amplitude of a kernel."""
        return [fit.sites for fit in self.fits_at(np.log(kernel.weight))]


Judge = Amplitude | FoldedAmplitude


class Minimum(NamedTuple):
    """Where a score is least: the vertex of a parabola, and its value there."""

    at: float
    loss: float


def best_amplitude(score: Judge, start: float) -> Minimum:
    """The least score of a search in steps of a factor four.

    With single rows left out a walk to the nearest minimum is not enough: small amplitudes, where f
    ends at the margin, and large ones, where it can grow on, may have one each.  Rows left out by
    folds see through the second, and their score is smooth.
    """

    def at(k: int) -> float:
        return score(start + k * STEP)

    near = (-1, 0) if score.by_folds and at(-1) < at(0) else (-1, 0, 1)
    k = min(near, key=at)
    way = 1 if k > 0 else -1
    while abs(k) < 20 and at(k + way) < at(k):
        k += way
    low, mid, high = at(k - 1), at(k), at(k + 1)
    bend = low - 2.0 * mid + high
    shift = 0.5 * (low - high) / bend if bend > 0 and low > mid < high else 0.0
    vertex = start + (k + shift) * STEP
    return Minimum(vertex, mid - 0.5 * bend * shift**2 if score.by_folds else score(vertex))


def shorten(
    found: Scaled, judged: Callable[[Scaled], Judge], first: Judge | None = None
) -> tuple[Scaled, Judge]:
    """The amplitude of least left-out loss, at length scales shortened while it falls.

    With many columns the evidence prefers scales that are too long, by a factor of two and more.
    The left-out loss shows it clearly where it matters, and slightly, too often, where it does not:
    a step must gain ``NATS_A_STEP`` for every thousand rows, and one that gains most of that is
    made in part.  Length scales of single columns stay as they are.  The ``first`` judge is that of
    the kernel as it is.
    """
    scales = np.array([name.endswith("length_scale") for name in found.names], float)
    score = judged(found) if first is None else first
    enough = NATS_A_STEP * max(1.0, score.seen.X.shape[0] / MANY)
    try:
        best = best_amplitude(score, np.log(found.weight / SMALLER))
        at = best.at
        while scales.any():
            short = found.with_theta(found.theta - SHORTER * scales)
            other = judged(short)
            other.follow(score)
            share = (best.loss - other(best.at)) / enough  # the best amplitude is not far,
            if GAINED <= share < 1.0 and not score.by_folds:  # but may be in another minimum
                share = (best.loss - best_amplitude(other, best.at).loss) / enough
            if short.theta[scales > 0].min() < 0.5 * np.log(score.seen.extent) - FARTHEST:
                break
            if share < 1.0:
                part = SHORTER * max(share - GAINED, 0.0) / (1.0 - GAINED)
                found = found.with_theta(found.theta - part * scales)
                break
            found, score, best = short, other, best_amplitude(other, best.at)
            at = best.at
    except Ended:
        at = min(score.losses, key=score.losses.__getitem__)
    return Scaled(float(np.exp(at)), found.kernel), score


# ---------------------------------------------------------------------------------------------
# Cross-validation


class Folds:
    """Log loss of pooled predictions of rows left out by folds, as a function of the kernel."""

    def __init__(self, seen: LabelledPoints, site: Site, rng: np.random.Generator) -> None:
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
        K = covariance_of(kernel(self.seen.X), self.seen.level)
        pool: dict[int, list[Array]] = {}
        for j, (labels, kept, points, test) in enumerate(self.parts):
            process = Gram(K[np.ix_(points, points)], level=self.seen.level)
            fit = fit_sites(process, kept, self.site, self.sites[j], tol=1e-4)
            self.sites[j] = fit.sites
            at = labels.at[test]
            m, v = fit.predictor(K[np.ix_(at, points)], np.diag(K)[at])
            part = np.stack([labels.y[test], m, v, labels.effective[test]])
            pool.setdefault(id(labels), []).append(part)
        each = (np.concatenate(part, axis=1) for part in pool.values())
        return sum(score_link(LogisticFamily(), *rows) for rows in each)


def _stratified(y: Array, rng: np.random.Generator) -> Array:
    fold = np.empty(y.size, dtype=int)
    for side in (y > 0, y < 0):
        fold[side] = rng.permutation(np.arange(side.sum()) % FOLDS)
    return fold


def cross_validate(
    kernel: Scaled,
    seen: LabelledPoints,
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
    return parameter_prior(kernel, extent, amplitude)


class Tuned(NamedTuple):
    """A kernel, and sites from which the fit at all points may start."""

    kernel: Scaled
    sites: list[Sites] | None = None
    amplitude: float | None = None  # of most evidence under a logistic model
    through: LowRank | None = None  # few points, which take the place of all


def tune(
    rule: str,
    kernel: Scaled,
    seen: LabelledPoints,
    likelihood: Any,
    rng: np.random.Generator,
    per_column: bool = False,
    inducing: Callable[[Scaled], Array | None] = lambda kernel: None,
    fitc: bool = False,
    refine: Callable[[Scaled, Any, Search], Scaled] | None = None,
    watch: Watch = silent,
    local: bool = False,
    in_blocks: bool = False,
    points: Callable[..., Array] | None = None,
    begun: Coarse | None = None,
) -> Tuned:
    """The kernel with its parameters learned by one of the three rules.

    ``likelihood`` is that of the fit to come; one that is normalised is its own guide, amplitude
    included.  ``inducing`` gives the fit's inducing points, if it has any: its bound is maximised
    through them, and where rows are many the amplitude is that which suits them.  Length scales
    and folds use some of the rows, exactly.  ``refine(kernel, guide, search)`` may improve the
    kernel of most evidence with more rows.  With ``local``, the kernel of an exact process may have
    a local part.  Rows that are read ``in_blocks`` are many times those that are seen here, and the
    kernel is refined with more of them.  ``points(kernel, m, weights)`` gives inducing points that
    may take the place of an exact process, if few are enough.  A search by a few points may have
    ``begun``.  Where ``watch`` ends the search, the best kernel so far is taken.
    """
    search, site = Search(watch), likelihood.expected
    if rule == "cv":
        return Tuned(cross_validate(kernel, seen, site, rng, search))
    if rule == "bound" and (Z := inducing(kernel)) is not None:
        prior = parameter_prior(kernel, seen.extent, PAPERS_START)
        process = Prior(kernel, seen.level, Z, fitc)
        score = Evidence(process, seen.thinned(MOST, rng), site, prior)
        top = ascend_evidence(score, prior, kernel.theta, 40, search)
        return Tuned(kernel.with_theta(top.theta))
    if rule == "bound":
        return Tuned(maximise_evidence(kernel, seen, site, PAPERS_START, rng, search=search))
    guide = likelihood if likelihood.normalised else Logistic()
    start = Scaled(START, kernel.kernel)
    digits = seen.by_digits()
    how = (per_column, search, in_blocks, begun)
    found = maximise_evidence(start, digits, guide.roughly, START, rng, *how)
    if refine is not None and not search.stopped:
        found = refine(found, guide, search)
    Z = inducing(found)
    if local and Z is None and not search.stopped:
        found = with_local_part(found, *judge_local(found, seen, guide.roughly, START, rng, search))
    if likelihood.normalised:
        return Tuned(found, amplitude=found.weight if isinstance(guide, Logistic) else None)
    if search.stopped:
        return Tuned(Scaled(found.weight / SMALLER, found.kernel), amplitude=found.weight)
    several = len(seen.machines) > 1
    folded = several or seen.machines[0].c.sum() > FEW
    most = FOLDED if several else MANY if Z is None else JUDGED
    some = seen.thinned(most, rng)
    folds = int(rng.integers(2**32))

    def judged(Z: Array | None, kernel: Scaled) -> Judge:
        given = (Prior(kernel, seen.level, Z, fitc), some, likelihood.tight, search)
        return FoldedAmplitude(*given, folds) if folded else Amplitude(*given)

    if Z is None and points is not None:
        few = points(found, FIRST_FEW)
        first = judged(few, found)
        assert isinstance(first.unit, LowRank)
        if first.unit.rest.mean() < SMOOTH * found.kernel.diag(some.X).mean():
            best, _ = shorten(found, partial(judged, few), first)
            # k-means in units of other scales are the same where all of them are shorter alike
            given = (Prior(best, seen.level, few, fitc), seen, likelihood.tight)
            if enough := few_points(*given, partial(points, best), search, TRUSTED):
                return Tuned(best, enough[1], found.weight, enough[0])
    best, judge = shorten(found, partial(judged, Z))
    if some is not seen or (Z is not None and folded):
        return Tuned(best, amplitude=found.weight)
    return Tuned(best, judge.sites_at(best), found.weight)
