r"""Evidence of a kernel: the bound of a fit as a function of the kernel's log parameters.

At the optimum of the posterior the gradient of the bound at fixed posterior is the whole gradient,
so a fit gives both; L-BFGS maximises them under weak log-normal priors.  Parameters with the most
evidence under a *logistic* model are where :mod:`bayesvm.processes.tune` begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..core.arrays import as_it_is
from ..core.types import Array
from ..inference.progress import Progress, Watch, silent
from ..kernels import Scaled, groups_of, with_columns
from .labelled import LabelledPoints
from .process import Gram, LowRank, Prior
from .quick import fit_one
from .shared import SharedFits
from .site_fit import fit_sites
from .sites import Labels, Site, SiteFit, Sites

FEW = 400  # points of the first, coarse search
SEARCHED = 800  # most points of the search for length scales
START = 16.0  # amplitude of a logistic model
SPREAD = 1.5  # prior sd of log amplitude and of other parameters
OWN_SCALES = 1.0  # prior sd of a column's log length scale about the common one
LOCAL_SCALE = 0.2  # prior mean of a local part's, in units of the size of the cloud
NATS_A_SCALE = 1.0  # evidence that a length scale of one column must add,
NATS_AT_LEAST = 5.0  # and all of them together: very strong evidence by any table
SHOWN = 0.75  # share of that which few points must show where there are more,
# and from which on more points decide: of two classes that get scales few show 0.52 at least, of
# several 0.28 (tabular sets of 600 rows and more, folds 0 and 1)
HINTED, HINTED_OF_SEVERAL = 0.4, 0.25
TOL = 1e-5  # nats a row that better sites would add to the evidence of two classes,
TOL_OF_SEVERAL = 1e-4  # and that the last pass adds to that of several,
ROUGHLY = 10.0  # or so many times that of more points, whose passes are dear
SMALL_GAIN = 1e-3  # relative gain of a step that ends an ascent,
ROUGH_GAIN = 5e-3  # and of one with which more points go on
# Times what a slope predicts that an ascent may gain; more points have more curvature.  Ascents of
# 800 points from where 400 ended gained 0.6 to 2.3 times that (nine tabular sets and waveforms)
AT_MOST = 3.0
FARTHEST = 12.0  # how far from their prior's mean log parameters are tried


Fit = Callable[[Any, Labels, Site, Sites | None, float], SiteFit]


@dataclass(frozen=True, eq=False)
class LogNormal:
    """Prior of log parameters: Gaussian with a mean and variances; those of a set share a part.

    The covariance of a set of m parameters is ``v I + 1 1'``, whose inverse and root are known: no
    matrix of as many rows as there are columns is built.
    """

    mean: Array
    variance: Array  # of each by itself
    shared: tuple[Array, ...] = ()  # sets of parameters that share a part of variance one

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Log density up to a constant, and its gradient."""
        gap = theta - self.mean
        slope = -gap / self.variance
        for where in self.shared:
            v = self.variance[where[0]]
            slope[where] += gap[where].sum() / (v * (v + where.size))
        return 0.5 * float(gap @ slope), slope

    def step(self, z: Array) -> Array:
        """Steps in which the prior is round, as steps of the parameters: a symmetric root."""
        out: Array = np.sqrt(self.variance) * z
        for where in self.shared:
            v, m = self.variance[where[0]], where.size
            out[where] += (np.sqrt(v + m) - np.sqrt(v)) / m * z[where].sum()
        return out


def is_scale(kernel: Scaled) -> Array:
    """1 for the parameters that are length scales, else 0."""
    return np.array([n.split("[")[0].endswith("length_scale") for n in kernel.names], float)


def is_local(name: str) -> bool:
    """Whether a parameter is of the local part of a kernel."""
    return name.startswith("local.")


def parameter_prior(kernel: Scaled, extent: float, amplitude: float) -> LogNormal:
    """Length scales about the size of the cloud of points, the rest about their start.

    Columns share most of a length scale: their own deviations have a smaller standard deviation.
    Those of a local part are shorter, and the part is as large as the other.
    """
    mean = kernel.theta.copy()
    mean[0] = np.log(amplitude)
    mean[[name == "local.weight" for name in kernel.names]] = 0.0
    variance, shared = np.full(mean.size, SPREAD**2), []
    stems = np.array([name.split("[")[0] for name in kernel.names])
    for stem in {s for s in stems if s.endswith("length_scale")}:
        where = np.flatnonzero(stems == stem)
        mean[where] = 0.5 * np.log(extent) + is_local(stem) * np.log(LOCAL_SCALE)
        variance[where] = 1.0
        if where.size > 1:
            variance[where] = OWN_SCALES**2
            shared.append(where)
    return LogNormal(mean, variance, tuple(shared))


class Ended(Exception):
    """A search for a kernel was ended, by a callback or because it does not gain enough."""


class Search:
    """Reports every evaluation of a search, and ends it where a callback returns True."""

    def __init__(self, watch: Watch = silent) -> None:
        self.watch, self.stopped = watch, False

    def report(self, stage: str, count: int, most: int, value: float, gain: float) -> None:
        """Report a value, the larger the better; ``count`` of about ``most``."""
        self.stopped = self.watch(Progress(stage, count, max(count, most), value, gain), None)
        if self.stopped:
            raise Ended


class WarmFits:
    """Fits of several machines to processes that differ little: each starts at the last sites."""

    def __init__(
        self, machines: Sequence[Labels], site: Site, tol: float, fit: Fit = fit_sites
    ) -> None:
        self.machines, self.site, self.tol, self.fit = machines, site, tol, fit
        self.sites: list[Sites | None] = [None] * len(machines)

    def __call__(self, process: Gram | LowRank) -> list[SiteFit]:
        light = process.light
        fits = [
            self.fit(light, labels, self.site, near, self.tol)
            for labels, near in zip(self.machines, self.sites, strict=True)
        ]
        if isinstance(process, LowRank):
            fits = [own_gradient(*pair) for pair in zip(fits, self.machines, strict=True)]
        self.sites = [fit.sites for fit in fits]
        return fits


def own_gradient(fit: SiteFit, labels: Labels) -> SiteFit:
    """The fit with alpha from the likelihood, which it equals at the optimum.

    The part of alpha that the columns do not see has no effect on a fit and converges late; but it
    is part of the gradient in kernel and points, and the columns of the next fit see it.
    """
    g, w = labels.total(fit.local.g), fit.sites.w
    return replace(fit, alpha=g, sites=Sites(w, g + w * fit.m))


class Evidence:
    """Bound of all machines plus log prior, as a function of log parameters, and its gradient."""

    def __init__(self, process: Prior, seen: LabelledPoints, site: Site, prior: LogNormal) -> None:
        self.process, self.X, self.prior, machines = process, seen.X, prior, seen.machines
        shared = len(machines) > 1 and process.Z is None
        if not shared:  # fits that share a covariance are made on the host
            place = seen.place or as_it_is
            self.X, machines = place(seen.X), tuple(k.placed(place) for k in machines)
        self.fits: Any = WarmFits(machines, site, 1e-5)
        if process.Z is None:
            several = SharedFits(machines, site, TOL_OF_SEVERAL) if shared else None
            self.fits = several or WarmFits(machines, site, TOL, fit_one)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        process = self.process.with_theta(theta).at(self.X)
        fits, (value, slope) = self.fits(process), self.prior(theta)
        return value + sum(fit.bound + fit.left for fit in fits), slope + process.slope(fits)


class Steps(NamedTuple):
    """Steps of a search: those in which a prior is round, after a factor F if there is one."""

    prior: LogNormal
    factor: Array | None = None

    def forward(self, z: Array) -> Array:
        return self.prior.step(z if self.factor is None else self.factor @ z)

    def back(self, slope: Array) -> Array:
        """The transpose."""
        out = self.prior.step(slope)
        return out if self.factor is None else self.factor.T @ out


class Optimum(NamedTuple):
    """Where an ascent ended: parameters, value, and the curvature that it has met."""

    theta: Array
    value: float
    steps: Steps
    met: Any = None
    unit: float = 1.0  # of values, in which the curvature is

    def expected_gain(self, slope: Array) -> float:
        """What an ascent from a slope would gain if the curvature were that which was met."""
        z = self.round.back(slope)
        return 0.5 * float(z @ z) / self.unit

    @property
    def round(self) -> Steps:
        """Steps in which the top is round."""
        if self.met is None:
            return self.steps
        root, before = _curvature_root(self.met), self.steps.factor
        return self.steps._replace(factor=root if before is None else before @ root)


def ascend_evidence(
    score: Callable[[Array], tuple[float, Array]],
    prior: LogNormal,
    theta: Array,
    evaluations: int,
    search: Search,
    early: float = -np.inf,
    after: Optimum | None = None,
    small: float = SMALL_GAIN,
) -> Optimum:
    """Maximise by L-BFGS until a step gains a ``small`` share.

    It is given up where the eighth evaluation has not reached ``early``.  By default the prior is
    round in the steps, so that a length scale shared by many columns moves as easily as one
    column's own; an ascent ``after`` another takes its shape from that one, and is given up where
    ``AT_MOST`` times what the slope predicts would not reach ``early``.
    """
    steps = Steps(prior) if after is None else after.round
    unit, values, best = 0.0, [-np.inf], theta

    def minus(z: Array) -> tuple[float, Array]:
        nonlocal unit, best
        here = np.clip(theta + steps.forward(z), prior.mean - FARTHEST, prior.mean + FARTHEST)
        value, slope = score(here)
        gain = value - max(values)
        best = here if gain > 0 else best
        values.append(value)
        search.report("kernel", len(values) - 1, evaluations, value, gain)
        if len(values) == 9 and max(values) < early:
            raise Ended
        if after is not None and value + AT_MOST * after.expected_gain(slope) < early:
            raise Ended
        slope = steps.back(slope)
        if not unit:  # the first step goes as far as the slope: let that be one unit
            unit = max(1.0, float(np.linalg.norm(slope)))
        return -value / unit, -slope / unit

    options = {"maxfun": evaluations, "maxcor": 20, "ftol": small, "gtol": 1e-3}
    options["maxls"] = 4  # what more would gain is lost in the tolerance of the sites
    try:
        found = minimize(minus, np.zeros(theta.size), jac=True, method="L-BFGS-B", options=options)
    except Ended:
        return Optimum(best, max(values), steps)
    # not where it ended: a line search that fails leaves a place and a value of another
    return Optimum(best, max(values), steps, found.hess_inv, unit)


def _curvature_root(met: Any) -> Array:
    """Factor of the inverse curvature that L-BFGS has estimated.

    SciPy gives directions that have not occurred a unit scale; here, as in the steps of L-BFGS,
    they have the scale of the last one.
    """
    eye = np.eye(met.shape[0])
    if not len(met.sk):
        return eye
    H = eye * (met.sk[-1] @ met.yk[-1]) / (met.yk[-1] @ met.yk[-1])
    for s, y in zip(met.sk, met.yk, strict=True):  # A H A' + s s'/s'y with A = I - s y'/s'y
        Hy, ys = H @ y, s @ y
        cross = np.outer(s, Hy) / ys
        H += np.outer(s, s) * (1.0 + y @ Hy / ys) / ys - cross - cross.T
    return np.linalg.cholesky(H)


def first_scales(wide: Scaled, seen: LabelledPoints) -> list[tuple[Scaled, float]]:
    """Kernels from which scales of columns are searched, and the evidence that each must add.

    From a long scale that all share, columns along which f bends look as idle as the rest; so all
    are short.  Where columns are many and most of them are idle, that is no better; so if few
    columns tell classes apart by themselves, those are short and the others long.
    """
    scales, groups = is_scale(wide) > 0, groups_of(wide)
    related = np.zeros(int(scales.sum()), dtype=bool)
    each = np.flatnonzero(seen.related())
    related[each if groups is None else np.array(groups)[each]] = True
    starts = [(np.full(related.size, -np.log(2.0)), related.size - 1)]
    if 0 < related.sum() <= related.size // 2:
        starts.append((np.where(related, -np.log(4.0), np.log(2.0)), int(related.sum())))
    out = []
    for shift, count in starts:
        theta = wide.theta
        theta[scales] += shift
        out.append((wide.with_theta(theta), max(NATS_A_SCALE * count, NATS_AT_LEAST)))
    return out


class Coarse(NamedTuple):
    """A search for one length scale that all columns share, by a few points."""

    few: LabelledPoints
    kernel: Scaled
    top: Optimum
    sites: list[Sites | None]


def search_coarsely(
    kernel: Scaled,
    few: LabelledPoints,
    site: Site,
    amplitude: float,
    search: Search,
    other: Coarse | None = None,
) -> Coarse:
    """Maximise the evidence of a few points.

    After a search with ``other`` columns of the same points it starts there, and is given up
    where it would not end ``NATS_AT_LEAST`` above.
    """
    prior = parameter_prior(kernel, few.extent, amplitude)
    score = Evidence(Prior(kernel, few.level), few, site, prior)
    how: dict[str, Any] = {}
    if other is not None:
        theta = other.kernel.theta
        theta += is_scale(kernel) * 0.5 * np.log(few.extent / other.few.extent)
        kernel, score.fits.sites = kernel.with_theta(theta), [*other.sites]
        how = {"after": other.top, "early": other.top.value + NATS_AT_LEAST}
    top = ascend_evidence(score, prior, kernel.theta, 40, search, **how)
    return Coarse(few, kernel.with_theta(top.theta), top, score.fits.sites)


def maximise_evidence(
    kernel: Scaled,
    seen: LabelledPoints,
    site: Site,
    amplitude: float,
    rng: np.random.Generator,
    per_column: bool = False,
    search: Search | None = None,
    refined: bool = False,
    begun: Coarse | None = None,
) -> Scaled:
    """The kernel of most evidence; with ``per_column``, a length scale a column if that has more.

    A few points determine a scale that all columns share, and whether columns have separate ones;
    more are used to find these, and to decide where the few do not.  A kernel that is to be
    ``refined`` with many more rows is found by the few alone, if they decide.  The search may have
    ``begun``.
    """
    p, search = seen.X.shape[1], search or Search()
    if begun is None:
        begun = search_coarsely(kernel, seen.thinned(FEW, rng), site, amplitude, search)
    few, shared, low, sites = begun
    held: list[Any] = [few, sites]  # points, and the sites of the last fits to them

    def scored(kernel: Scaled, part: LabelledPoints) -> tuple[LogNormal, Evidence]:
        prior = parameter_prior(kernel, seen.extent, amplitude)
        return prior, Evidence(Prior(kernel, seen.level), part, site, prior)

    def ascend(
        kernel: Scaled, part: LabelledPoints, evaluations: int, **how: Any
    ) -> tuple[Scaled, Optimum]:
        prior, score = scored(kernel, part)
        score.fits.tol *= 1.0 if part is few else ROUGHLY
        if part is held[0]:
            score.fits.sites = [*held[1]]
        top = ascend_evidence(score, prior, kernel.theta, evaluations, search, **how)
        held[:] = part, score.fits.sites
        return kernel.with_theta(top.theta), top

    wide = with_columns(kernel, p)
    more_scales = wide.theta.size - kernel.theta.size
    if not per_column or more_scales == 0 or search.stopped:
        return shared
    many = seen.thinned(SEARCHED, rng)
    shows = HINTED if len(seen.machines) == 1 else HINTED_OF_SEVERAL
    least, hint = (1.0, 0.2) if many is few else (shows, 0.5 * shows)
    small = SMALL_GAIN if many is few else ROUGH_GAIN  # more points go on
    tried = []
    for start, needed in first_scales(wide, seen):
        if least * needed > -low.value:  # labels have a probability of one at most
            continue
        how = {"early": low.value + hint * needed, "small": small}
        wide, high = ascend(start, few, 40, **how)
        if high.value - low.value >= least * needed:
            tried.append((wide, high, needed))
        if search.stopped:
            break
    if not tried:
        return shared
    wide, high, needed = max(tried, key=lambda each: each[1].value)
    gain = high.value - low.value
    if many is few or search.stopped:
        return wide if gain >= needed else shared
    clear = gain >= SHOWN * needed
    if clear and refined:
        return wide
    if clear:
        return ascend(wide, many, 20, after=high)[0]
    # what the shared scale has where few points ended is the least that it can have
    score = scored(shared, many)[1]
    score.fits.tol *= ROUGHLY
    enough = score(shared.theta)[0] + needed
    held[:] = many, score.fits.sites
    wide, high = ascend(wide, many, 20, after=high, early=enough)
    if search.stopped or high.value < enough:
        return shared
    low = ascend(shared, many, 20, after=low)[1]
    return wide if high.value - low.value >= needed else shared
