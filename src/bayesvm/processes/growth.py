"""As many inducing points, and scales as short, as rows pay for.

Of an exact process a few hundred points may leave so little that rows would not see it; then they
take its place.  Beyond the size of an exact process there are as many as pay.
Few rows drawn from many are far apart: their evidence prefers length scales that are too long for
all of them.  Rows in neighbourhoods show how f varies between neighbours, so the kernel of most
evidence is maximised again there.  Then the number of points is doubled while the log loss of rows
left out falls by enough for the time that they take.  Both are judged through inducing points on
all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.types import Array
from ..kernels import Scaled, column_scales
from ..predictive.link_fitting import LogisticFamily, SoftmaxFamily, score_link
from .evidence import Ended, Evidence, Search, WarmFits, ascend_evidence, parameter_prior
from .labelled import LabelledPoints
from .process import LowRank, Prior
from .quick import fit_classes
from .shared import ClassLabels, SharedSites, fit_shared, sites_of
from .sites import Site, SiteFit, Sites

POINTS = 1500  # rows whose evidence decides, exactly,
TOGETHER = 30  # in neighbourhoods of so many: three tabular sets, of 4, 10, 30, 60 and 150
EVALUATIONS = 15
SETTLED = 1e-4  # gain a row of the last pass of a fit that is judged
# A doubling is tried if half of what the last one gained would pay for it: a hundredth of the
# left-out log loss for each second that a pass over all rows then takes on one core, which is 1e10
# of rows times squared points, where
ENOUGH = 0.01 / 1e10
CLASSES_A_PASS = 8.0  # the means of so many classes take as long as a factor that they share;
AT_LEAST = 0.003  # and by this share of it
MOST_WORK = 1e11
FIRST_FEW = 128  # points that may take the place of an exact process,
MOST_FEW = 512  # or more, up to so many,
ROWS_A_FEW = 3  # and as long as rows are so many times as many: else the exact process is no dearer
FEW_MORE = 32  # in steps of so many
# What points leave falls by this power of their number, and by the share at once where they are
# means of rows by precision (waveforms); a part of the mean precision is added to each row's, so
# that none is far from all points
MORE_POINTS, WHERE_PRECISE, EVERYWHERE = 0.9, 0.85, 0.3
# Nats a row that they may cost.  Where it was half of that to twice as much, the log loss of new
# rows differed from that of exact processes by 0.0007 at most, and was 0.0002 lower on average (12
# fits to four draws of waveforms).
LOST = 1e-3
HOPELESS = 64.0  # times that: four times as many save a factor of 10 to 50


def left_out_loss(
    process: Prior, seen: LabelledPoints, site: Site, near: Sequence[Sites | None] = ()
) -> tuple[float, list[Sites]]:
    """Log loss of rows left out, summed over machines, and the sites of their fits."""
    fit = WarmFits(seen.machines, site, SETTLED)
    fit.sites = [*near] or fit.sites
    fits, loss = fit(process.at(seen.X)), 0.0
    for one, labels in zip(fits, seen.machines, strict=True):
        m, v = one.left_out(labels, site)
        loss += score_link(LogisticFamily(), labels.y, m, v, labels.effective)
    return loss, [one.sites for one in fits]


def left_out_loss_of_classes(
    process: Prior, seen: LabelledPoints, site: Site, near: SharedSites | None = None
) -> tuple[float, SharedSites]:
    """The same for classes, whose fits share a covariance and whose link is one."""
    fits = fit_shared(process.at(seen.X), ClassLabels.of(seen.machines), site, near, SETTLED)
    pairs = [fit.left_out(labels, site) for fit, labels in zip(fits, seen.machines, strict=True)]
    m, v = (np.stack(each, axis=1) for each in zip(*pairs, strict=True))
    codes = np.argmax([labels.y for labels in seen.machines], axis=0)
    loss = score_link(SoftmaxFamily(), codes, m, v, seen.machines[0].effective)
    return loss, sites_of(fits)


def look_closer(
    kernel: Scaled,
    seen: LabelledPoints,
    site: Site,
    amplitude: float,
    rng: np.random.Generator,
    search: Search,
) -> Scaled:
    """The kernel of most evidence on neighbourhoods of rows, started from one of far rows."""
    reach = column_scales(kernel, seen.X.shape[1])
    near = seen.neighbourhoods(POINTS, TOGETHER, reach, rng)
    prior = parameter_prior(kernel, seen.extent, amplitude)
    score = Evidence(Prior(kernel, seen.level), near, site, prior)
    top = ascend_evidence(score, prior, kernel.theta, EVALUATIONS, search)
    return kernel.with_theta(top.theta)


def better_kernel(
    kernel: Scaled,
    seen: LabelledPoints,
    site: Site,
    amplitude: float,
    points: Callable[[Scaled], Array],
    rng: np.random.Generator,
    search: Search,
) -> Scaled:
    """A kernel found on far rows, or that of their neighbourhoods if left-out rows agree."""
    other = look_closer(kernel, seen, site, amplitude, rng, search)
    if search.stopped:
        return kernel
    losses = [
        left_out_loss(Prior(k, seen.level, points(k)), seen, site)[0] for k in (kernel, other)
    ]
    return other if losses[1] < losses[0] else kernel


def grow(
    process: Prior,
    seen: LabelledPoints,
    site: Site,
    points: Callable[[int], Array],
    search: Search,
) -> tuple[Array, list[Sites]]:
    """Inducing points, doubled while the left-out log loss falls by enough for what they cost.

    Also the sites of the machines.
    """
    assert process.Z is not None
    Z, (n, K) = process.Z, (seen.X.shape[0], len(seen.machines))
    judge: Callable[..., tuple[float, Any]] = left_out_loss if K == 1 else left_out_loss_of_classes
    loss, sites = judge(process, seen, site)
    step, costs = 0, n * (1.0 if K == 1 else 1.0 + K / CLASSES_A_PASS)
    with suppress(Ended):
        expected = np.inf  # share of the loss that the next doubling may save: half of the last
        while 2 * len(Z) < n and (work := costs * (2.0 * len(Z)) ** 2) <= MOST_WORK:
            if expected < max(AT_LEAST, ENOUGH * work):
                break
            more = points(2 * len(Z))
            less, moved = judge(replace(process, Z=more), seen, site, sites)
            before, step = loss, step + 1
            if less < loss:
                Z, loss, sites = more, less, moved
            search.report("points", step, step, -less, before - less)
            expected = 0.5 * (before - less) / before
    return Z, sites if K == 1 else [Sites(sites.w, b) for b in sites.b.T]


def few_points(
    process: Prior,
    seen: LabelledPoints,
    site: Site,
    points: Callable[..., Array],
    search: Search,
    hopeless: float = HOPELESS,
) -> tuple[LowRank, list[Sites]] | None:
    r"""The process through few inducing points that may take its place, if there are such.

    With sites of precisions w, the variance :math:`\tilde k` that points leave lowers the bound by
    :math:`\tfrac12 w^\top \tilde k`, and by one to three times as much through what rows no longer
    inform.  A fit through few points gives w; it changes little with more of them.  The first few
    may be those of the process; more, ``points(m, w)``, are chosen where rows have precision.  None
    are looked for where the first leave ``hopeless`` times as much as they may.  Also the sites of
    the machines.
    """
    n, Z, m = seen.X.shape[0], process.Z, FIRST_FEW
    allowed, most = LOST * float(seen.machines[0].c.sum()), min(MOST_FEW, n // ROWS_A_FEW)
    fits: Sequence[SiteFit] = ()
    w = np.ones(n)
    with suppress(Ended):
        while m <= most:
            if Z is None:
                Z = points(m, w + EVERYWHERE * w.mean()) if len(fits) else points(m)
            low = replace(process, Z=Z).at(seen.X)
            assert isinstance(low, LowRank)
            fits = fits or fit_classes(low, ClassLabels.of(seen.machines), site, None, SETTLED)
            w = np.sum([fit.sites.w for fit in fits], axis=0)
            lost = 0.5 * float(w @ low.rest)
            search.report("points", 1, 1, -lost, 0.0)
            if lost <= allowed:
                return low, [fit.sites for fit in fits]
            if lost > hopeless * allowed or m == most:
                break
            by = (lost / allowed * (WHERE_PRECISE if m == FIRST_FEW else 1.0)) ** MORE_POINTS
            m, Z = min(FEW_MORE * (1 + int(m * max(by, 1.0) / FEW_MORE)), most), None
    return None
