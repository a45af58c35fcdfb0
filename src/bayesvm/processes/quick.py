r"""Fits of a search, by few factorisations.

Kernels of a search differ little, and so do their fits.  At precisions w the bound has its best
mean, which products with matrices at hand find; variances follow other precisions by
:math:`dv = -(V \circ V)\,dw`, to first order, and what they would add to the bound is
:math:`\tfrac14\,dw^\top (V \circ V)\,dw`, to second order.  So one factorisation gives the bound of
the best sites to third order, and precisions for a second one whose error is of second order; more
are rarely needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..core import arrays
from ..core.types import Array, Local
from .matrices import PROBES, column_squares, invert, lower_times, signs_of
from .newton import CG_STEPS, CG_TOL, SHARE_LEFT, SHORTEST, STEPS
from .process import MANY, Gram, LowRank
from .shared import ClassLabels, FixedPoint, SharedSites, fit_shared
from .site_fit import best_mean, fit_sites
from .sites import FIRST, Labels, Site, SiteFit, SiteMoments, Sites, target_sites

FAR = 2.0  # factor by which variances follow precisions, at most
MOST = 20  # passes through inducing points,
FEW = 6  # and of an exact process: where more are needed, as with large weights, they go astray


def fit_one(
    process: Gram | LowRank, labels: Labels, site: Site, start: Sites | None, tol: float
) -> SiteFit:
    """The fit of one machine, where other sites would add less than ``tol`` a row."""
    if isinstance(process, LowRank):
        given = (process, labels, site, start, tol)
        return fit_sites(*given) if process.fitc else fit_through(*given)
    exact = fit_quickly if process.K.shape[0] < MANY else fit_sites
    return exact(process, labels, site, start, tol)


def fit_classes(
    process: Gram | LowRank,
    labels: ClassLabels,
    site: Site,
    start: SharedSites | None,
    tol: float,
) -> Sequence[SiteFit]:
    """Fits of all machines, which share a covariance, until a pass gains less than ``tol`` a row.

    Less than a tenth of that is left then.
    """
    if labels.Y.shape[1] > 1:
        return fit_shared(process, labels, site, start, tol)
    near = None if start is None else Sites(start.w, start.b[:, 0])
    return [fit_one(process, replace(labels.first, y=labels.Y[:, 0]), site, near, 0.1 * tol)]


# ---------------------------------------------------------------------------------------------
# An exact process


def fit_quickly(
    process: Gram, labels: Labels, site: Site, start: Sites | None = None, tol: float = 1e-4
) -> SiteFit:
    """The posterior at some hundred points of an exact process.

    Where some points have no precision, digits are too few, or a few passes do not settle it, it is
    fitted by more passes.
    """
    enough = tol * float(arrays.total(labels.c))
    start = first_sites(labels, site) if start is None else start
    w, near = start.w, None
    best: SiteFit | None = None
    for passes in range(1, FEW + 1):
        now = _moments(process, w)
        if now is None or now.squares is None:
            break
        if near is None:
            alpha = now.solve(start.b)[0]
            near = process.times(alpha), alpha
        m, alpha, local = best_mean(process, now, labels, site, near, enough=0.1 * enough)
        bound = float(arrays.total(local.bound)) - now.kl - 0.5 * float(alpha @ m)
        if best is not None and not bound >= best.bound - enough:
            w, near = (w * best.sites.w) ** 0.5, (best.m, best.alpha)  # half of the way
            continue
        dw = labels.total(local.w) - w
        left = 0.25 * float(dw @ now.squares(dw))
        best = SiteFit(
            Sites(w, alpha + w * m),
            *(m, now.v, alpha, now.R, now.on, local, process.outside, bound, passes),
            converged=left <= enough,
            left=left,
            inverse=now.inverse,
        )
        if best.converged:
            return best
        w, near = followed(process, now, labels, site, best)
    return fit_sites(process, labels, site, start if best is None else best.sites, tol)


def _moments(process: Gram, w: Array) -> SiteMoments | None:
    """Moments without a mean; none where digits of single precision are too few."""
    try:
        return process.moments(Sites(w, 0.0 * w))
    except np.linalg.LinAlgError:
        return None


def followed(
    process: Gram, now: SiteMoments, labels: Labels, site: Site, fit: SiteFit
) -> tuple[Array, tuple[Array, Array]]:
    """Precisions that touch the bound where variances have followed them; mean and weights."""
    assert now.squares is not None
    v = now.v - now.squares(labels.total(fit.local.w) - fit.sites.w)
    xp = arrays.of(v)
    v = xp.maximum(xp.minimum(v, FAR * now.v), now.v / FAR)
    near = fit.m, fit.alpha
    m, alpha, local = best_mean(process, now, labels, site, near, v, enough=0.1 * fit.left)
    return labels.total(local.w), (m, alpha)


# ---------------------------------------------------------------------------------------------
# Through inducing points


def fit_through(
    process: LowRank, labels: Labels, site: Site, start: Sites | None = None, tol: float = 1e-4
) -> SiteFit:
    """The same through inducing points, by the variational bound.

    The mean is that of coefficients of the whitened columns.  What is left to gain is estimated
    from columns of signs.
    """
    C, xp, enough = process.C, arrays.of(process.C), tol * float(arrays.total(labels.c))
    start = first_sites(labels, site) if start is None else start
    w, path = start.w, FixedPoint()
    a: Array | None = None
    best: SiteFit | None = None
    for passes in range(1, MOST + 1):
        R = invert(process.factor(w))
        T = lower_times(R, C.T)
        s = column_squares(T)
        v = s + process.rest
        a = R.T @ (R @ (C.T @ start.b)) if a is None else a
        a, here, m, local = best_coefficients(process, R, v, labels, site, a, 0.1 * enough)
        found, alpha = labels.total(local.w), labels.total(local.g)
        bound = here + float(xp.sum(xp.log(arrays.diagonal(R)))) + 0.5 * float(w @ s)
        left = 0.25 * mean_square(T, found - w)
        best = SiteFit(
            Sites(w, alpha + w * m),
            *(m, v, alpha, R, np.arange(m.shape[0]), local, process.outside, bound, passes),
            converged=left <= enough,
            left=left,
            coef=a,
        )
        if best.converged:
            break
        w = path.next(w, found, v)
    assert best is not None
    return best


def best_coefficients(
    process: LowRank,
    R: Array,
    v: Array,
    labels: Labels,
    site: Site,
    a: Array,
    enough: float,
    share: float = SHARE_LEFT,
) -> tuple[Array, float, Array, Local]:
    """Coefficients of most bound at fixed variances, that bound, the mean and contributions.

    Steps end where one predicts no more than ``enough``, or than a ``share`` of what all gained.
    """
    C, spread = process.C, labels.each(v)

    def at(a: Array) -> tuple[float, Array, Local]:
        m = C @ a
        local = site(labels.y, labels.each(m), spread).times(labels.c)
        return float(arrays.total(local.bound)) - 0.5 * float(a @ a), m, local

    here = at(a)
    first = here[0]
    for _ in range(STEPS):
        local = here[2]
        r = C.T @ labels.total(local.g) - a
        step, rate = newton_step(r, labels.total(local.h), C, R), 1.0
        there = at(a + step)
        while not there[0] >= here[0] and rate > SHORTEST:
            rate *= 0.5
            there = at(a + rate * step)
        if not there[0] >= here[0]:
            break
        a, here = a + rate * step, there
        if 0.5 * float(r @ step) <= max(enough, share * (here[0] - first)):
            break
    return a, *here


def newton_step(r: Array, h: Array, C: Array, R: Array) -> Array:
    """The solution of (I + C'HC) delta = r by conjugate gradients; R'R is nearly the inverse."""
    step, p = 0.0 * r, R.T @ (R @ r)
    size = float(r @ p)
    least = CG_TOL * size
    for _ in range(CG_STEPS):
        if not size > least:
            break
        q = C.T @ (h * (C @ p)) + p
        length = size / float(p @ q)
        step, r = step + length * p, r - length * q
        z = R.T @ (R @ r)
        old, size = size, float(r @ z)
        p = z + (size / old) * p
    return step


def mean_square(T: Array, dw: Array) -> float:
    r"""An estimate of :math:`dw^\top (V \circ V)\,dw` with :math:`V = T^\top T`."""
    signs = signs_of(T.shape[0])
    found = T @ (dw[:, None] * (T.T @ arrays.like(signs, T)))
    return float(arrays.total(found * found)) / PROBES


def first_sites(labels: Labels, site: Site) -> Sites:
    """Sites where f has the signs of the labels."""
    share = labels.total(labels.c * labels.y) / labels.total(labels.c)
    return target_sites(FIRST * share, 0.0 * share + 1.0, labels, site)
