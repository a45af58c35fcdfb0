r"""A Gaussian process seen at its own points: inference straight from a Gram matrix.

With ``f ~ N(0, K)`` at the distinct points of the data and one Gaussian site per point, of
precision *w* and potential *b*,

.. math::

    B = I + W^{1/2} K W^{1/2}, \qquad B^{-1} = R^\top R, \qquad
    V = K - K W^{1/2} B^{-1} W^{1/2} K, \qquad m = V b,

    \mathrm{KL}(q \,\|\, p) = \tfrac12\big(\log|B| - w^\top v + \alpha^\top m\big), \qquad
    \alpha = K^{-1} m = b - w m .

One factor of *B* a pass and no factor of *K*: this is what tuning runs, tens of times a fit.  What
a fit leaves behind is the whitened form of :mod:`.whitened`, which also serves inducing
points; both have the same optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import cholesky, lapack

from ..core.types import Array, Local
from ..gaussian.cholesky import packed, unpacked
from ..inference.loop import Pace, Step, climb
from ..inference.progress import Watch, silent
from ..machines.calibration import leave_one_out

Site = Callable[[Array, Array, Array], Local]

NOTHING = 1e-10  # precision of a site, in units of the prior's, that changes nothing
FIRST = 2.0  # size of f before anything is known, with unit variance
ROUNDING = 1e-12  # of a factorisation, as a share of the diagonal
STRONG = 1e-4  # and one that leaves twelve digits in a difference from one


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
    """A posterior at the points: sites, moments, the root of B's inverse, and the bound."""

    sites: Sites
    m: Array
    v: Array
    alpha: Array
    R: Array  # lower, R' R is the inverse of B
    on: Array  # points that are in B
    local: Local  # what each row, counted c times, says
    bound: float
    passes: int = 0
    path: list[float] = field(default_factory=list)
    converged: bool = True

    def slope(self) -> Array:
        """Gradient of the optimal bound in the entries of K."""
        if not self.on.size:  # LAPACK would print a complaint
            return 0.5 * np.outer(self.alpha, self.alpha)
        inverse, _ = lapack.dlauum(self.R, lower=1)
        inverse += np.tril(inverse, -1).T  # R has zeros above the diagonal
        s = np.sqrt(self.sites.w[self.on])
        inverse *= s[:, None]
        inverse *= s
        out = np.outer(self.alpha, self.alpha)
        out[_square(self.on, out)] -= inverse
        out *= 0.5
        return out

    def at(self, cross: Array, diag: Array) -> tuple[Array, Array]:
        """Moments of f at new rows from their kernel values, ``(new, points)``."""
        return Predictor(self.alpha, self.sites.w[self.on], self.R, self.on).at(cross, diag)


@dataclass(frozen=True, eq=False)
class Predictor:
    """What new rows need of a posterior at the points: no more than those with precision."""

    alpha: Array
    w: Array
    R: Array
    on: Array

    def __getstate__(self) -> dict[str, Array]:
        return {**self.__dict__, "R": packed(self.R)}

    def __setstate__(self, state: dict[str, Array]) -> None:
        self.__dict__.update(state, R=unpacked(state["R"]))

    @staticmethod
    def of(alpha: Array, w: Array, K: Array) -> Predictor:
        on = np.flatnonzero(w * np.diag(K) > NOTHING)
        return Predictor(alpha, w[on], invert(factor(K, w[on], on)), on)

    def at(self, cross: Array, diag: Array) -> tuple[Array, Array]:
        """Moments of f at new rows from their kernel values, ``(new, points)``."""
        T = (cross[:, self.on] * np.sqrt(self.w)) @ self.R.T
        v = diag - np.einsum("ij,ij->i", T, T)
        return cross @ self.alpha, np.maximum(v, 1e-12 * diag)


def factor(K: Array, w: Array, on: Array) -> Array:
    """The factor of B for the points that have precision.

    Very large ones can leave less of its identity than rounding takes; that much is added then.
    """
    try:
        return factor_in_place(_matrix(K, w, on))
    except np.linalg.LinAlgError:
        B = _matrix(K, w, on)
        B[np.diag_indices_from(B)] *= 1.0 + ROUNDING
        return factor_in_place(B)


def _matrix(K: Array, w: Array, on: Array) -> Array:
    """B for the points that have precision."""
    s = np.sqrt(w)
    B = K[_square(on, K)] * s
    B *= s[:, None]
    B[np.diag_indices_from(B)] += 1.0
    return B


def factor_in_place(B: Array) -> Array:
    """The factor of a symmetric matrix: its transpose is in LAPACK's order, so none is copied."""
    return cholesky(B.T, lower=True, overwrite_a=True, check_finite=False)


def invert(L: Array) -> Array:
    """The inverse of a factor, which it takes the place of."""
    if not L.size:  # no point has precision; LAPACK would print a complaint
        return L
    R: Array = lapack.dtrtri(L, lower=1, overwrite_c=1)[0]
    return R


def _square(on: Array, K: Array) -> Any:
    """Index of a square of K; a slice, which copies nothing, where it is all of it."""
    return (slice(None), slice(None)) if on.size == K.shape[0] else np.ix_(on, on)


class Moments(NamedTuple):
    m: Array
    v: Array
    alpha: Array
    R: Array
    on: Array
    kl: float


class Process(Protocol):
    """A Gaussian process at points that may have another form than a Gram matrix."""

    def moments(self, sites: Sites) -> Moments: ...


def moments(K: Array | Process, sites: Sites) -> Moments:
    r"""Mean and variance at the points, and R.

    Points without precision (many, under the hinge) are left out of B.  Where a site is strong,
    :math:`v_i = (1 - [B^{-1}]_{ii})/w_i`, which needs no more than R; where it is weak that would
    be a difference of near equals, and the column is solved for.
    """
    if not isinstance(K, np.ndarray):
        return K.moments(sites)
    diag = np.diag(K)
    pull = sites.w * diag
    on = np.flatnonzero(pull > NOTHING)
    w, s = sites.w[on], np.sqrt(sites.w[on])
    R = invert(factor(K, w, on))
    alpha = sites.b.copy()
    alpha[on] -= s * ((R @ (s * (K @ sites.b)[on])) @ R)
    v = np.empty(diag.size)
    v[on] = (1.0 - np.einsum("ij,ij->j", R, R)) / w
    weak = np.flatnonzero(pull <= STRONG)
    if weak.size:
        T = R @ (K[np.ix_(on, weak)] * s[:, None])
        v[weak] = diag[weak] - np.einsum("ij,ij->j", T, T)
    m, v = K @ alpha, np.maximum(v, 1e-12 * diag)
    kl = 0.5 * float(alpha @ m - sites.w @ v) - np.log(np.diag(R)).sum()
    return Moments(m, v, alpha, R, on, float(kl))


def target_sites(m: Array, v: Array, labels: Labels, site: Site) -> Sites:
    """The sites that rows ask for when f has such moments at the points."""
    local = site(labels.y, m[labels.at], v[labels.at]).times(labels.c)
    w = labels.total(local.w)
    return Sites(w, labels.total(local.g) + w * m)


def _first_sites(labels: Labels, site: Site) -> Sites:
    """What rows ask for where f follows their labels: from zero it would grow for some passes."""
    share = labels.total(labels.c * labels.y) / labels.total(labels.c)
    return target_sites(FIRST * share, np.ones(labels.points), labels, site)


def fit_sites(
    K: Array | Process,
    labels: Labels,
    site: Site,
    start: Sites | None = None,
    tol: float = 1e-6,
    max_iter: int = 100,
    watch: Watch = silent,
) -> Fit:
    r"""Climb the bound by natural-gradient steps on the sites until a step gains ``tol`` a row.

    The target of a point's site is :math:`(w, b) = \sum (w_i, g_i + w_i m)` over its rows; steps
    that would lower the bound are halved, so the bound never falls.
    """

    def evaluate(sites: Sites) -> Fit:
        m, v, alpha, R, on, kl = moments(K, sites)
        local = site(labels.y, m[labels.at], v[labels.at]).times(labels.c)
        return Fit(sites, m, v, alpha, R, on, local, float(local.bound.sum() - kl))

    def step(fit: Fit) -> Step:
        old, w = fit.sites, labels.total(fit.local.w)
        b = labels.total(fit.local.g) + w * fit.m

        def move(rate: float) -> Fit:
            return evaluate(Sites(old.w + rate * (w - old.w), old.b + rate * (b - old.b)))

        return Step(fit.bound, bold=move)

    enough = tol * float(labels.c.sum())
    run = climb(
        step,
        evaluate(start or _first_sites(labels, site)),
        lambda gain, *_: gain < enough,
        Pace(),
        max_iter=max_iter,
        watch=lambda progress, fit: watch(progress, fit),  # checkpoints keep no matrices
    )
    return replace(run.state, passes=run.n_iter, path=run.path, converged=run.converged)


def left_out(
    fit: Fit, labels: Labels, site: Site, outside: Array | float = 0.0
) -> tuple[Array, Array]:
    """Moments of f at each row without one copy of that row, for fixed other sites.

    Of its variance at the points, a part ``outside`` is none that a row can reduce.
    """
    m, v = fit.m[labels.at], fit.v[labels.at]
    local, rest = site(labels.y, m, v), np.broadcast_to(outside, fit.m.shape)[labels.at]
    m, v = leave_one_out(m, v - rest, local, labels.c)
    return m, v + rest
