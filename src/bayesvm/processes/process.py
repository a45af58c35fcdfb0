r"""A Gaussian process at points, and its posterior given Gaussian sites.

A site is a Gaussian factor at a point, of precision *w* and potential *b*: what the likelihood of
the rows there contributes.  :class:`Prior` is the process, exact or through inducing points;
``prior.at(X)`` is its distribution at points, one of two classes with the same methods.

:class:`Gram`, with :math:`f \sim N(0, K)`:

.. math::

    B = I + W^{1/2} K W^{1/2}, \qquad B^{-1} = R^\top R, \qquad
    V = K - K W^{1/2} B^{-1} W^{1/2} K, \qquad m = V b,

    \mathrm{KL}(q \,\|\, p) = \tfrac12\big(\log|B| - w^\top v + \alpha^\top m\big), \qquad
    \alpha = K^{-1} m = b - w m .

:class:`LowRank`, with the whitened columns :math:`\Phi` of :mod:`.whitened` (the level's among
them) and the variance :math:`\tilde k` that they leave:

.. math::

    B = I + \Phi^\top \tilde W \Phi, \qquad B^{-1} = R^\top R, \qquad
    \mu = B^{-1}\Phi^\top \tilde b, \qquad a = \Phi\mu, \qquad s_i = \phi_i^\top B^{-1}\phi_i .

================  ==========================================  ==================================
                  variational                                 FITC
================  ==========================================  ==================================
prior of f        :math:`\Phi\Phi^\top`, and                  :math:`\Phi\Phi^\top +
                  :math:`\tilde k` that no row can reduce     \mathrm{diag}(\tilde k)`
:math:`\tau`      1                                           :math:`1 + \tilde k w`
m                 a                                           :math:`(a + \tilde k b)/\tau`
v                 :math:`s + \tilde k`                        :math:`s/\tau^2 + \tilde k/\tau`
2 KL              :math:`\log|B| - w^\top s + \alpha^\top m`  :math:`\log|B| + \sum\log\tau -
                                                              w^\top v + \alpha^\top m`
================  ==========================================  ==================================

with :math:`\tilde w = w/\tau`, :math:`\tilde b = b/\tau` and :math:`\alpha = b - wm`.  The first is
a bound on the evidence of the full process and grows with the points; the second is a bound on that
of another process, and may lie above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from ..core import arrays
from ..core.types import Array, Local
from ..inference.loop import Pace, SinglePace, Step, climb
from ..inference.progress import Watch, silent
from ..machines.leave_one_out import effective, leave_one_out
from .matrices import (
    by_rows,
    column_squares,
    covariance_of,
    factor,
    factor_in_place,
    inverse_of,
    invert,
    jittered,
    lower_times,
    over,
    posterior_covariance,
    pull_places,
    square,
    squared_forms,
    through_factor,
)
from .newton import climb_mean
from .predictor import NEGLIGIBLE, Predictor
from .whitened import kernel_factor

Site = Callable[[Array, Array, Array], Local]

FIRST = 2.0  # size of f before anything is known, with unit variance
LIGHT = 300  # points from which on a search may do with single precision
MANY = 2000  # points from which on passes for classes are made in single precision, the last apart
STRONG = 1e-7  # share of a variance that leaves eight digits in a difference from one,
SINGLE_STRONG = 1e-3  # the same in single precision,
CORRECTIONS = 2  # and of the mean


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels and weights of rows, and the number of each row's point."""

    y: Array
    c: Array
    at: Array
    points: int
    one_each: bool = False  # known: row i is at point i
    unit: Array | float = 1.0  # weight of one row, that of its class: see core.types.Block

    @property
    def gone(self) -> Array:
        """What leaving one row out takes from its weight."""
        return np.minimum(self.c, self.unit)

    @property
    def effective(self) -> Array:
        """Weights by which losses are compared; see :func:`.effective`."""
        return effective(self.c, self.unit)

    def total(self, x: Array) -> Array:
        """Sums over the rows at each point."""
        if self.one_each:
            return x
        if not arrays.is_numpy(x):
            return arrays.sums_by(self.at, x[:, None], self.points)[:, 0]
        return np.bincount(self.at, x, self.points)

    def each(self, x: Array) -> Array:
        """Values at the points of the rows."""
        return x if self.one_each else x[self.at]

    def placed(self, place: Callable[[Array], Array]) -> Labels:
        """The same in another memory."""
        at = self.at
        one_each = self.one_each or np.array_equal(at, np.arange(self.points))
        unit = self.unit if isinstance(self.unit, float) else place(self.unit)
        return Labels(place(self.y), place(self.c), place(at), self.points, one_each, unit)

    def take(self, rows: Array) -> tuple[Labels, Array]:
        """Chosen rows, and the numbers of their points."""
        kept, at = np.unique(self.at[rows], return_inverse=True)
        unit = self.unit if isinstance(self.unit, float) else self.unit[rows]
        return Labels(self.y[rows], self.c[rows], at, kept.size, unit=unit), kept


class Sites(NamedTuple):
    """Precision and potential of each point's Gaussian site."""

    w: Array
    b: Array


class SiteMoments(NamedTuple):
    """Posterior of f at the points given sites."""

    m: Array
    v: Array
    alpha: Array
    R: Array  # lower, R' R is the inverse of B
    on: Any  # points that are in B
    kl: float
    solve: Callable[[Array], tuple[Array, Array]]  # alpha and m for other potentials, or columns
    times: Callable[[Array], Array] | None = None  # columns by V, of an exact process
    squares: Callable[[Array], Array] | None = None  # a vector by V o V, where V is at hand
    inverse: Callable[[], Array] | None = None  # of B, computed once

    def squared_forms(self, *each: Array) -> list[float]:
        r"""Estimates of :math:`x^\top (V \circ V)\,x`; v changes by :math:`-(V \circ V)\,dw`."""
        assert self.times is not None
        return squared_forms(self.times, *each)

    def left(self, r: Array, dw: Array) -> float:
        r"""What better sites would gain, to second order.

        With the gradient r of the bound in the mean, and dw from the precisions to those that touch
        the bound, :math:`\tfrac12 r^\top V r + \tfrac14\,dw^\top (V \circ V)\,dw`: at fixed m the
        gradient in v is :math:`-\tfrac12 dw`.
        """
        assert self.times is not None
        by_mean = float(r @ self.times(r[:, None])[:, 0])
        by_spread = float(dw @ self.squares(dw)) if self.squares else self.squared_forms(dw)[0]
        return 0.5 * by_mean + 0.25 * by_spread


@dataclass(frozen=True, eq=False)
class SiteFit:
    """A posterior at the points: sites, moments, the root of B's inverse, and the bound."""

    sites: Sites
    m: Array
    v: Array
    alpha: Array
    R: Array
    on: Any
    local: Local  # likelihood contributions of the rows, each counted c times
    outside: Array | float  # part of v that no row can reduce
    bound: float
    passes: int = 0
    path: list[float] = field(default_factory=list)
    converged: bool = True
    change: float = np.inf
    left: float = 0.0  # what better sites would add to the bound, if it is known
    inverse: Callable[[], Array] | None = None  # of B, of an exact process
    coef: Array | None = None  # of whitened columns, whose mean m is, if they are known

    @property
    def predictor(self) -> Predictor:
        return Predictor(self.alpha, self.sites.w[self.on], self.R, self.on)

    def left_out(self, labels: Labels, site: Site) -> tuple[Array, Array]:
        """Moments of f at each row without that row, for fixed other sites."""
        m, v = self.m[labels.at], self.v[labels.at]
        rest = np.broadcast_to(self.outside, self.m.shape)[labels.at]
        m, v = leave_one_out(m, v - rest, self._own(labels, site(labels.y, m, v)), labels.gone)
        return m, v + rest

    def _own(self, labels: Labels, local: Local) -> Local:
        """With the precisions that rows have in the sites; ``local`` has those at its moments.

        These are equal where a fit has converged.  Before that, only what is in the posterior can
        be taken out of it: of a row of large leverage more than there is could be taken.
        """
        now = labels.total(labels.c * local.w)
        share = np.divide(self.sites.w, now, out=np.ones(now.shape), where=now > 0.0)
        return local._replace(w=local.w * share[labels.at])


# ---------------------------------------------------------------------------------------------
# The process


@dataclass(frozen=True, eq=False)
class Prior:
    """A Gaussian process: a kernel, the variance of a level, and the inducing points if any."""

    kernel: Any
    level: float
    Z: Array | None = None
    fitc: bool = False

    def with_theta(self, theta: Array) -> Prior:
        return replace(self, kernel=self.kernel.with_theta(theta))

    def at(self, X: Array) -> Gram | LowRank:
        """The process at points, on the scale of the kernel."""
        if self.Z is not None:
            return LowRank.of(self.kernel, arrays.like(self.Z, X), X, self.level, self.fitc)
        values = self.kernel(X)
        return Gram(covariance_of(values, self.level), self.kernel, X, values, self.level)


@dataclass(frozen=True, eq=False)
class Gram:
    """The exact process at points, by its covariance matrix there."""

    K: Array
    kernel: Any = None  # for gradients: the kernel, the points, its values and the level
    X: Array | None = None
    values: Array | None = None
    level: float = 0.0
    single: Array | None = None  # K in single precision, by which passes are then made

    outside = 0.0

    @cached_property
    def rough(self) -> Gram:
        """The process by which many points are climbed: matrices in half the time, seven digits."""
        return self._single(MANY)

    @property
    def light(self) -> Gram:
        """The process for fits of a search: in single precision throughout, but for few points."""
        return self._single(LIGHT)

    def _single(self, least: int) -> Gram:
        """The process in single precision if it has so many points."""
        whole = self.K.shape[0] < least or self.single is not None or not arrays.is_numpy(self.K)
        return self if whole else replace(self, single=self.K.astype(np.float32))

    @property
    def exact(self) -> Gram:
        """The process without single precision."""
        return self if self.single is None else replace(self, single=None)

    def scaled(self, amplitude: float) -> Gram:
        """The process with its kernel times a number."""
        assert self.values is not None
        return Gram(covariance_of(amplitude * self.values, self.level))

    def moments(self, sites: Sites) -> SiteMoments:
        r"""Mean and variance at the points, and R.

        Points without precision (many, under the hinge) are left out of B.  Where a site is strong,
        :math:`v_i = (1 - [B^{-1}]_{ii})/w_i`, which needs no more than R; where it is weak that
        would be a difference of near equals, and the column is solved for.  Of factors in single
        precision the mean is corrected in double.  Means for other potentials are products with V,
        which is computed at the first of them; entries at sites of low precision are rounded to 0.
        """
        if not arrays.is_numpy(self.K):
            return self._moments_there(sites)
        K, diag, held = self.K, np.diag(self.K), self.K if self.single is None else self.single
        on = np.flatnonzero(sites.w * diag > NEGLIGIBLE)
        s, exact = np.sqrt(sites.w[on]), held is K
        R, strong = invert(factor(held, sites.w[on], on)), STRONG if exact else SINGLE_STRONG

        def weights(b: Array) -> Array:
            alpha, by = b.copy(), s if b.ndim == 1 else s[:, None]
            x = by * (held @ b.astype(held.dtype, copy=False))[on]
            alpha[on] -= by * (R.T @ (R @ x.astype(R.dtype, copy=False)))
            return alpha

        few = on.size == diag.size < MANY

        @cache
        def inverse() -> Array:
            return inverse_of(R)

        @cache
        def covariance() -> Array:
            root = R.astype(np.float32) if R.shape[0] >= MANY else R
            V = inverse().copy() if few else inverse_of(root)
            return posterior_covariance(V, np.maximum(s, np.sqrt(strong / diag)), v)

        @cache
        def squared() -> Array:
            return np.square(covariance())

        def squares(x: Array) -> Array:
            out: Array = squared() @ x.astype(held.dtype, copy=False)
            return out

        def times(B: Array) -> Array:
            known = covariance.cache_info().currsize > 0
            A, b = (covariance(), B) if known else (held, weights(B))
            out: Array = A @ b.astype(A.dtype, copy=False)
            return out

        def solve(b: Array) -> tuple[Array, Array]:
            if on.size < diag.size:
                alpha = weights(b)
                return alpha, K @ alpha
            V = covariance()
            m = V @ b.astype(V.dtype, copy=False)
            return b - by_rows(sites.w, m), m

        alpha, share = sites.b, np.zeros(diag.size)  # share of the variance that is gone
        if np.any(sites.b):
            alpha = weights(sites.b)
            for _ in range(0 if exact else CORRECTIONS):
                alpha += weights(sites.b - alpha - sites.w * (K @ alpha))
        share[on] = 1.0 - column_squares(R)
        v = share / np.maximum(sites.w, 1e-300)
        weak = np.flatnonzero(share < strong)
        if weak.size and on.size:
            T = lower_times(R, held[np.ix_(on, weak)] * s[:, None].astype(held.dtype))
            v[weak] = diag[weak] - column_squares(T)
        elif weak.size:
            v = diag.copy()
        m, v = K @ alpha, np.maximum(v, 1e-12 * diag)
        kl = 0.5 * float(alpha @ m - sites.w @ v) - np.log(np.diag(R), dtype=float).sum()
        more = (squares if few else None, inverse if few else None)
        return SiteMoments(m, v, alpha, R, on, float(kl), solve, times, *more)

    def _moments_there(self, sites: Sites) -> SiteMoments:
        """The same on a device, in double precision and with every point in B.

        V is computed at once: products of matrices take less time there than decisions.
        """
        K, xp = self.K, arrays.of(self.K)
        diag, s = arrays.diagonal(K), xp.sqrt(sites.w)
        B = s[:, None] * K * s
        arrays.add_to_diagonal(B, 1.0)
        R = invert(factor_in_place(B))
        T = R @ (s[:, None] * K)
        V = K - T.T @ T
        v = xp.maximum(arrays.diagonal(V), 1e-12 * diag)

        def solve(b: Array) -> tuple[Array, Array]:
            m = V @ b
            return b - by_rows(sites.w, m), m

        alpha = sites.b - s * (R.T @ (T @ sites.b))
        m = K @ alpha
        kl = 0.5 * (alpha @ m - sites.w @ v) - arrays.total(xp.log(arrays.diagonal(R)))
        times = partial(xp.matmul, V)

        def squares(x: Array) -> Array:
            return (V * V) @ x

        return SiteMoments(m, v, alpha, R, slice(None), float(kl), solve, times, squares)

    def times(self, alpha: Array) -> Array:
        """The mean at the points: K alpha."""
        out: Array = self.K @ alpha
        return out

    def gradient(self, fits: Sequence[SiteFit]) -> Array:
        """Gradient in the entries of K of the bounds at their optima over sites.

        Fits that share a covariance have the same part in common.
        """
        A = arrays.of(fits[0].alpha).stack([fit.alpha for fit in fits], axis=1)
        out = A @ A.T
        roots = {id(fit.R): fit for fit in fits}
        for fit in roots.values():
            if not arrays.is_numpy(out):
                root = fit.R * arrays.of(out).sqrt(fit.sites.w)
                out -= (len(fits) / len(roots)) * (root.T @ root)
            elif fit.on.size:  # else LAPACK would print a complaint
                inverse = inverse_of(fit.R) if fit.inverse is None else fit.inverse().copy()
                s = np.sqrt(fit.sites.w[fit.on])
                inverse *= s[:, None]
                inverse *= s * (len(fits) / len(roots))
                out[square(fit.on, out)] -= inverse
        out *= 0.5
        return out

    def slope(self, fits: Sequence[SiteFit]) -> Array:
        """Gradient in the kernel's log parameters of the bounds at their optima over sites."""
        G = self.gradient(fits)
        jittered(G)
        return np.asarray(self.kernel.pull(G, self.X, None, self.values))


@dataclass(frozen=True, eq=False)
class LowRank:
    """The process at points ``X`` through inducing points ``Z``."""

    kernel: Any
    X: Array
    Z: Array
    L: Array  # factor of the kernel matrix of Z
    C: Array  # (n, 1 + m), the level's column first
    rest: Array  # variance that the columns leave
    fitc: bool

    @property
    def rough(self) -> LowRank:
        """The process by which points are climbed."""
        return self

    exact = light = rough

    @staticmethod
    def of(kernel: Any, Z: Array, X: Array, level: float, fitc: bool) -> LowRank:
        L, _ = kernel_factor(kernel, Z)
        C, xp = arrays.empty(X, Z.shape[0] + 1, "float64"), arrays.of(X)
        C[:, 0] = float(np.sqrt(level))
        if arrays.is_numpy(X):
            cross = kernel(Z, X)
            given = {"lower": True, "overwrite_b": True, "check_finite": False}
            C[:, 1:] = solve_triangular(L, cross, **given).T
        else:
            C[:, 1:] = kernel(X, Z) @ arrays.lower_inverse(L).T
        rest = xp.clip(kernel.diag(X) - arrays.squares(C[:, 1:]), 0.0, None)
        return LowRank(kernel, X, Z, L, C, rest, fitc)

    @property
    def outside(self) -> Array | float:
        return 0.0 if self.fitc else self.rest

    def scaled(self, amplitude: float) -> LowRank:
        """The process with its kernel times a number."""
        C = self.C + 0.0
        C[:, 1:] *= np.sqrt(amplitude)
        return replace(self, C=C, rest=amplitude * self.rest)

    def through(self, sites: Sites) -> tuple[Sites, Array]:
        """Sites of the columns' part of f, and tau."""
        tau = 1.0 + self.rest * sites.w if self.fitc else 1.0 + 0.0 * sites.w
        return Sites(sites.w / tau, sites.b / tau), tau

    def factor(self, w: Array) -> Array:
        """The factor of B for precisions of the columns' part of f."""
        A = self.C * arrays.of(w).sqrt(w)[:, None]
        B = A.T @ A
        arrays.add_to_diagonal(B, 1.0)
        return factor_in_place(B)

    def moments(self, sites: Sites) -> SiteMoments:
        (own, tau), xp = self.through(sites), arrays.of(self.C)
        R = invert(self.factor(own.w))
        T = lower_times(R, self.C.T)  # R C'
        s = column_squares(T)
        half = 0.5 * float(xp.sum(xp.log(tau))) - float(xp.sum(xp.log(arrays.diagonal(R))))
        v, spread = s + self.rest, s
        if self.fitc:
            spread = v = s / tau**2 + self.rest / tau

        def mean(b: Array) -> Array:
            a: Array = T.T @ (R @ (self.C.T @ by_rows(1.0 / tau, b)))
            return by_rows(1.0 / tau, a + by_rows(self.rest, b)) if self.fitc else a

        def solve(b: Array) -> tuple[Array, Array]:
            m = mean(b)
            return b - by_rows(sites.w, m), m

        alpha, m = solve(sites.b)
        kl = half + 0.5 * float(alpha @ m - sites.w @ spread)
        on = np.arange(m.shape[0])
        return SiteMoments(m, xp.clip(v, 1e-300, None), alpha, R, on, float(kl), solve)

    def times(self, alpha: Array) -> Array:
        """The mean at the points for weights alpha of them."""
        m: Array = self.C @ (self.C.T @ alpha)
        return m + by_rows(self.rest, alpha) if self.fitc else m

    def slope(self, fits: Sequence[SiteFit]) -> Array:
        """Gradient in the kernel's log parameters of the bounds at their optima over sites."""
        return self._pulled(*self._gradients(fits))

    def slopes(self, fits: Sequence[SiteFit]) -> tuple[Array, Array]:
        """The same gradient, and that in the inducing points, ``(m, p)``."""
        cross, own, among = self._gradients(fits)
        places = pull_places(self.kernel, cross, among, self.X, self.Z)
        return self._pulled(cross, own, among), places

    def _pulled(self, cross: Array, own: Array, among: Array) -> Array:
        theta: Array = self.kernel.pull(cross, self.X, self.Z)
        return theta + self.kernel.pull_diag(own, self.X) + self.kernel.pull(among, self.Z)

    def _gradients(self, fits: Sequence[SiteFit]) -> tuple[Array, Array, Array]:
        r"""Gradients in kernel values: of rows with points, with themselves, of points.

        With :math:`G = \frac12(\alpha\alpha^\top - (\Phi\Phi^\top + D)^{-1}) + \mathrm{diag}\,
        \delta` the gradient in :math:`\Phi\Phi^\top` and :math:`-\delta` that in the diagonal,
        :math:`\bar K_{nm} = 2 G \Phi L^{-1}` and
        :math:`\bar K_{mm} = -L^{-\top}\Phi^\top G \Phi L^{-1}`.
        """
        Phi, own = self.C[:, 1:], 0.0 * self.rest
        product = 0.0 * Phi  # G Phi
        for fit in fits:
            w = self.through(fit.sites)[0].w
            inverse = self.C @ (fit.R.T @ fit.R)  # Phi B^-1
            if self.fitc:
                diag = w - w**2 * arrays.of(w).sum(inverse * self.C, axis=1)
                delta = -0.5 * (fit.alpha**2 - diag)
            else:
                delta = 0.5 * fit.sites.w
            alpha = fit.alpha
            product += 0.5 * (alpha[:, None] * (alpha @ Phi) - w[:, None] * inverse[:, 1:])
            product += delta[:, None] * Phi
            own -= delta
        return 2.0 * over(product, self.L), own, through_factor(self.L, 2.0 * (Phi.T @ product))


# ---------------------------------------------------------------------------------------------
# The posterior


def target_sites(m: Array, v: Array, labels: Labels, site: Site) -> Sites:
    """The sites that touch the bound where f has such moments at the points."""
    local = site(labels.y, labels.each(m), labels.each(v)).times(labels.c)
    w = labels.total(local.w)
    return Sites(w, labels.total(local.g) + w * m)


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

    It climbs from a mean and weights ``near``, where contributions may be ``known``.
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

    m, alpha = climb_mean(rows, process.times, now.solve, m, alpha, **until)
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
    """Climb the bound in mean and precisions by turns until ``tol`` a row is left to gain.

    A pass computes variances from the precisions; the mean climbs to its optimum given them, and
    the sites that touch the bound there are the next.  (Natural-gradient steps of both at once
    overshoot where f turns at the margin: they take many times as many passes.)  Steps that would
    lower the bound are halved.  Without a start, f has the signs of the labels.

    That is foretold at many points of an exact process, where a pass that only confirms it is dear;
    elsewhere it is less than what the last pass has gained.  A ``final`` fit may leave ``tol`` of
    the bound's size.
    """
    if start is None:
        share = labels.total(labels.c * labels.y) / labels.total(labels.c)
        start = target_sites(FIRST * share, 0.0 * share + 1.0, labels, site)

    best: SiteFit | None = None
    weight = float(arrays.total(labels.c))
    foretells = isinstance(process, Gram) and labels.points >= MANY

    def enough(bound: float) -> float:
        return tol * (max(1.0, abs(bound)) if final else weight)

    def evaluate(sites: Sites) -> tuple[SiteFit, SiteMoments]:
        nonlocal best, process
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
        best = fit if best is None or bound >= best.bound else best
        return fit, now

    def step(old: Sites) -> Step:
        fit, now = evaluate(old)

        @cache
        def target() -> tuple[Array, Array, Array]:
            given = process, now, labels, site
            m, alpha, local = best_mean(*given, known=fit.local, enough=0.1 * enough(fit.bound))
            return m, alpha, labels.total(local.w)

        def move(rate: float) -> Sites:
            m, alpha, w = target()
            m, alpha = now.m + rate * (m - now.m), now.alpha + rate * (alpha - now.alpha)
            w = old.w + rate * (w - old.w)
            return Sites(w, alpha + w * m)

        @cache
        def rest() -> float:
            g, w = labels.total(fit.local.g), labels.total(fit.local.w)
            return now.left(g - now.alpha, w - old.w)

        return Step(fit.bound, bold=move, rest=rest if foretells else None)

    def settled(gain: float, bound: float, *_: Any) -> bool:
        return gain < enough(bound)

    pace = Pace() if process.exact is process else SinglePace()
    run = climb(step, start, settled, pace, max_iter=max_iter, watch=watch)
    known = best is not None and best.sites is run.state
    fit = best if known and best is not None else evaluate(run.state)[0]
    ended, change = run.converged, run.change
    return replace(fit, passes=run.n_iter, path=run.path, converged=ended, change=change)
