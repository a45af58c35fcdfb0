r"""A Gaussian process at points, and its posterior given Gaussian sites.

:class:`Prior` is the process, exact or through inducing points; ``prior.at(X)`` is its distribution
at points, one of two classes with the same methods.  :mod:`.sites` has the sites: Gaussian factors
at the points, of precisions *w* and potentials *b*.

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from ..core import arrays
from ..core.types import Array
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
    through_factor,
)
from .predictor import NEGLIGIBLE
from .sites import SiteFit, SiteMoments, Sites
from .whitened import kernel_factor

LIGHT = 300  # points from which on a search may do with single precision
MANY = 2000  # points from which on passes for classes are made in single precision, the last apart
HIGH = 1e3  # variance of the level that leaves too few digits of kernel values in single precision
STRONG = 1e-7  # share of a variance that leaves eight digits in a difference from one,
SINGLE_STRONG = 1e-3  # the same in single precision,
CORRECTIONS = 2  # and of the mean


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
        """The process while its bound is maximised: matrices in half the time, seven digits."""
        return self._single(MANY)

    @property
    def light(self) -> Gram:
        """The process for fits of a search: in single precision throughout, but for few points."""
        return self._single(LIGHT)

    def _single(self, least: int) -> Gram:
        """The process in single precision if it has so many points."""
        whole = self.K.shape[0] < least or self.single is not None or not arrays.is_numpy(self.K)
        whole = whole or self.level > HIGH
        return self if whole else replace(self, single=self.K.astype(np.float32))

    @property
    def exact(self) -> Gram:
        """The process without single precision."""
        return self if self.single is None else replace(self, single=None)

    def scaled(self, amplitude: float) -> Gram:
        """The process with its kernel times a number."""
        assert self.values is not None
        return Gram(covariance_of(amplitude * self.values, self.level), level=self.level)

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
        """The process while its bound is maximised."""
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

        def times(B: Array) -> Array:
            out: Array = T.T @ (T @ B)
            return out

        more = (solve, None if self.fitc else times)
        return SiteMoments(m, xp.clip(v, 1e-300, None), alpha, R, on, float(kl), *more)

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
