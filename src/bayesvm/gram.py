r"""A Gaussian process seen at its own points: inference straight from a Gram matrix.

With ``f ~ N(0, K)`` at the distinct points of the data and one Gaussian site per point, of
precision *w* and potential *b*,

.. math::

    B = I + W^{1/2} K W^{1/2}, \qquad V = K - K W^{1/2} B^{-1} W^{1/2} K, \qquad m = V b,

    \mathrm{KL}(q \,\|\, p) = \tfrac12\big(\log|B| - w^\top v + \alpha^\top m\big), \qquad
    \alpha = K^{-1} m = b - w m .

One factor of *B* a pass and no factor of *K*: this is what tuning runs, tens of times a fit.  What
a fit leaves behind is the whitened form of :mod:`bayesvm.designs.gp`, which also serves inducing
points; both have the same optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, lapack, solve_triangular

from .calibration import leave_one_out
from .inference.loop import Pace
from .types import Array, Local

Site = Callable[[Array, Array, Array], Local]


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels and weights of rows, and the point at which each row sits."""

    y: Array
    c: Array
    at: Array
    points: int

    def total(self, x: Array) -> Array:
        """Sums over the rows at each point."""
        return np.bincount(self.at, x, self.points)

    def take(self, rows: Array) -> tuple[Labels, Array]:
        """Chosen rows, and the points they sit at."""
        kept, at = np.unique(self.at[rows], return_inverse=True)
        return Labels(self.y[rows], self.c[rows], at, kept.size), kept


class Sites(NamedTuple):
    """Precision and potential of each point's Gaussian site."""

    w: Array
    b: Array


@dataclass(frozen=True, eq=False)
class Fit:
    """A posterior at the points: sites, moments, the factor of B, and the bound."""

    sites: Sites
    m: Array
    v: Array
    L: Array
    alpha: Array
    local: Local  # what each row, counted c times, says
    bound: float
    passes: int = 0

    def slope(self) -> Array:
        """Gradient of the optimal bound in the entries of K."""
        w = self.sites.w
        inverse, _ = lapack.dpotri(self.L, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        s = np.sqrt(w)
        inverse *= s[:, None]
        inverse *= s
        return 0.5 * (np.outer(self.alpha, self.alpha) - inverse)

    def at(self, cross: Array, diag: Array) -> tuple[Array, Array]:
        """Moments of f at new rows from their kernel values, ``(new, points)``."""
        T = solve_triangular(
            self.L, (cross * np.sqrt(self.sites.w)).T, lower=True, check_finite=False
        )
        v = diag - np.einsum("ij,ij->j", T, T)
        return cross @ self.alpha, np.maximum(v, 1e-12 * diag)


def _moments(K: Array, sites: Sites) -> tuple[Array, Array, Array]:
    """m, v and the factor of B."""
    s = np.sqrt(sites.w)
    T = s[:, None] * K
    B = T * s
    B[np.diag_indices_from(B)] += 1.0
    L = cholesky(B, lower=True, overwrite_a=True, check_finite=False)
    T = solve_triangular(L, T, lower=True, overwrite_b=True, check_finite=False)
    diag = np.diag(K)
    v = np.maximum(diag - np.einsum("ij,ij->j", T, T), 1e-12 * diag)
    return K @ sites.b - T.T @ (T @ sites.b), v, L


def first_sites(labels: Labels, site: Site) -> Sites:
    """Sites of rows that know nothing yet: f has mean zero and unit variance."""
    zero = np.zeros(labels.y.shape)
    local = site(labels.y, zero, zero + 1.0).times(labels.c)
    return Sites(labels.total(local.w), labels.total(local.g))


def fit_sites(
    K: Array,
    labels: Labels,
    site: Site,
    start: Sites | None = None,
    tol: float = 1e-6,
    max_iter: int = 100,
) -> Fit:
    r"""Climb the bound by natural-gradient steps on the sites until a step gains ``tol`` a row.

    The target of a point's site is :math:`(w, b) = \sum (w_i, g_i + w_i m)` over its rows; steps
    that would lower the bound are halved, so the bound never falls.
    """
    sites = start or first_sites(labels, site)
    old, pace, best = sites, Pace(), None
    enough = tol * float(labels.c.sum())
    for passes in range(1, max_iter + 1):
        m, v, L = _moments(K, sites)
        local = site(labels.y, m[labels.at], v[labels.at]).times(labels.c)
        alpha = sites.b - sites.w * m
        kl = np.log(np.diag(L)).sum() + 0.5 * float(alpha @ m - sites.w @ v)
        now = Fit(sites, m, v, L, alpha, local, float(local.bound.sum() - kl), passes)
        if best is not None and not now.bound >= best.bound - 1e-10 * abs(best.bound):
            pace = pace.slower()
            if pace.rate < 1e-4:
                break
        else:
            gain = np.inf if best is None else now.bound - best.bound
            old, best = sites, now
            if gain < enough * pace.rate:
                break
            pace = pace.faster()
        w = labels.total(best.local.w)
        b = labels.total(best.local.g) + w * best.m
        r = pace.rate
        sites = Sites(old.w + r * (w - old.w), old.b + r * (b - old.b))
    assert best is not None
    return best


def left_out(fit: Fit, labels: Labels, site: Site) -> tuple[Array, Array]:
    """Moments of f at each row without one copy of that row, for fixed other sites."""
    m, v = fit.m[labels.at], fit.v[labels.at]
    return leave_one_out(m, v, site(labels.y, m, v), labels.c)
