"""The posterior of a process at points: sites and mean that maximise the bound."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core import arrays
from ..core.types import Array, Local
from ..inference.progress import Ascent, History, Progress, Watch, page_of, silent
from .newton import ascend_mean
from .process import MANY, Gram, LowRank
from .sites import FIRST, Labels, Site, SiteFit, SiteMoments, Sites, target_sites

A_PASS_LEAVES = 8.0  # so many times less than it gains: what may be left through inducing points


def best_mean(
    process: Gram | LowRank,
    now: SiteMoments,
    labels: Labels,
    site: Site,
    near: tuple[Array, Array] | None = None,
    v: Array | None = None,
    known: Local | None = None,
    **until: float,
) -> tuple[Array, Array, Local]:
    """Weights alpha and mean of f that maximise the bound at fixed variances, and contributions.

    It starts from a mean and weights ``near``, where contributions may be ``known``.
    """
    m, alpha = (now.m, now.alpha) if near is None else near
    spread = labels.each(now.v if v is None else v)
    last = m, known

    def rows(m: Array) -> tuple[float, Array, Array]:
        nonlocal last
        place, local = last
        if local is None or place is not m:
            local = site(labels.y, labels.each(m), spread).times(labels.c)
        last = m, local
        return float(arrays.total(local.bound)), labels.total(local.g), labels.total(local.h)

    m, alpha = ascend_mean(rows, process.times, now.solve, m, alpha, **until)
    rows(m)
    assert last[1] is not None
    return m, alpha, last[1]


def fit_sites(
    process: Gram | LowRank,
    labels: Labels,
    site: Site,
    start: Sites | None = None,
    tol: float = 1e-6,
    max_iter: int = 100,
    watch: Watch = silent,
    final: bool = False,
) -> SiteFit:
    """Maximise the bound in mean and precisions by turns until ``tol`` a row is left to gain.

    A pass computes variances from the precisions; the mean goes to its optimum given them, and
    the sites that touch the bound there are the next.  (Natural-gradient steps of both at once
    overshoot where f turns at the margin: they take many times as many passes.)  Steps that would
    lower the bound are halved.  Without a start, f has the signs of the labels.

    That is predicted at many points of an exact process, and of a final fit through inducing
    points, where a pass that only confirms it is expensive; elsewhere it is less than what the last
    pass has gained.  A ``final`` fit may leave ``tol`` of the bound's size.
    """
    if start is None:
        share = labels.total(labels.c * labels.y) / labels.total(labels.c)
        start = target_sites(FIRST * share, 0.0 * share + 1.0, labels, site)

    weight = float(arrays.total(labels.c))
    able = isinstance(process, Gram) or (final and not process.fitc)
    predicts_gain = able and labels.points >= MANY

    def enough(bound: float) -> float:
        return tol * (max(1.0, abs(bound)) if final else weight)

    def evaluate(sites: Sites) -> tuple[SiteFit, SiteMoments]:
        nonlocal process
        try:
            now = process.moments(sites)
        except np.linalg.LinAlgError:  # digits of single precision are too few
            if process.exact is process:
                raise
            process = process.exact
            now = process.moments(sites)
        m, v, alpha, R, on, kl = now[:6]
        local = site(labels.y, labels.each(m), labels.each(v)).times(labels.c)
        bound = float(arrays.total(local.bound)) - kl
        fit = SiteFit(sites, m, v, alpha, R, on, local, process.outside, bound)
        return fit, now

    def target(fit: SiteFit, now: SiteMoments) -> tuple[Array, Array, Array]:
        given = process, now, labels, site
        m, alpha, local = best_mean(*given, known=fit.local, enough=0.1 * enough(fit.bound))
        return m, alpha, labels.total(local.w)

    def is_top(fit: SiteFit, now: SiteMoments) -> bool:
        if not predicts_gain:
            return False
        g, w = labels.total(fit.local.g), labels.total(fit.local.w)
        left = now.left(g - now.alpha, w - fit.sites.w)
        return (left if isinstance(process, Gram) else A_PASS_LEAVES * left) < enough(fit.bound)

    page, slack = page_of(watch), 1e-11  # rounding of the bound, in double precision
    if process.exact is not process:
        slack = 2e-6  # in single precision
    run = page.recall(lambda: start) or Ascent(start, -np.inf, History(), 1, change=np.inf)
    (fit, now), rate = evaluate(run.state), 1.0
    if not np.isfinite(fit.bound):
        raise ValueError(
            f"the lower bound (ELBO) is {fit.bound} at the initial value. Check for extreme "
            "weights, kernel values or prior variances, and bring them nearer to one."
        )
    passes, path, change, stop = run.n_iter, run.path or History([fit.bound]), run.change, False
    converged = run.converged or is_top(fit, now)
    aim = None if converged else target(fit, now)
    while aim is not None and passes < max_iter and not (converged or stop):
        m, alpha, w = (x + rate * (y - x) for x, y in zip((now.m, now.alpha, fit.sites.w), aim))
        (new, after), passes = evaluate(Sites(w, alpha + w * m)), passes + 1
        gain = new.bound - fit.bound
        if not gain >= -slack * max(1.0, abs(fit.bound)):
            rate *= 0.5
            converged = rate < 1e-5 and bool(np.isfinite(new.bound))
            stop = rate < 1e-5
            continue
        change, fit, now = gain, new, after
        path.append(fit.bound)
        converged = gain / rate < enough(fit.bound) or is_top(fit, now)
        stop = watch(Progress("vb", passes, max_iter, fit.bound, gain), fit.sites)
        rate = min(1.0, 1.5 * rate)
        aim = None if converged or stop else target(fit, now)
        page.keep(Ascent(fit.sites, fit.bound, path, passes, converged, change))
    page.keep(Ascent(fit.sites, fit.bound, path, passes, converged, change), now=True)
    return replace(fit, passes=passes, path=path, converged=converged, change=change)
