"""From summed statistics to a Gaussian over the coefficients: mode, posterior, draw.

Every solve is in residual form: with the slope ``g`` at the current mean,

.. math:: \\mu = \\mu_{old} + (S + P)^{-1} (g - P \\mu_{old}),

so that an error in the factor, when a row on the margin has a weight of 1e14, spoils one step and
not the answer: the next step starts where this one landed (the normal equations stay ten digits
short).  Each form of S has its covariance; that of groups is in :mod:`.elimination`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from ..core import arrays
from ..core.arrays import double, like
from ..core.tree import DATA
from ..core.types import Array, Columns, Covariance
from .arrow import Bordered
from .cholesky import packed, unpacked
from .cholesky import scaled_cholesky as scaled_cholesky
from .elimination import ArrowCovariance
from .forms import Dense, Factored, GatedRows, squared
from .precision import Precision, add_precision

# ---------------------------------------------------------------------------------------------
# Covariances


@dataclass(frozen=True)
class FullCovariance:
    """Covariance held as the Cholesky factor of the precision, ``L L' = Sigma^-1``."""

    is_point: ClassVar[bool] = False
    by_rows: ClassVar[bool] = False

    L: Array
    patched: bool = False  # the precision was numerically singular and had to be propped up

    def __getstate__(self) -> dict[str, Any]:
        return {"L": packed(self.L), "patched": self.patched}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, L=unpacked(state["L"]))

    @cached_property
    def root(self) -> Array:
        """F with F F' = Sigma, upper triangular."""
        eye = np.eye(self.L.shape[0])
        return solve_triangular(self.L, eye, lower=True, trans=0, check_finite=False).T

    def quad(self, C: Columns) -> Array:
        return double(arrays.squares(C @ like(self.root, C)))  # type: ignore[no-any-return]

    def cross(self, C: Columns, where: slice) -> Array:
        return np.asarray(C @ (self.root @ self.root[where].T))

    def block(self, where: slice) -> Array:
        return self.root[where] @ self.root[where].T

    @cached_property
    def _diag(self) -> Array:
        return np.einsum("ij,ij->i", self.root, self.root)

    def diag(self) -> Array:
        return self._diag

    def blocks(self, where: slice, r: int) -> Array:
        F = self.root[where].reshape(-1, r, self.L.shape[0])
        return np.einsum("gjm,gkm->gjk", F, F)

    def solve(self, x: Array) -> Array:
        return cho_solve((self.L, True), x, check_finite=False)

    def dense(self) -> Array:
        return self.root @ self.root.T

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return rng.standard_normal((n, self.L.shape[0])) @ self.root.T

    @property
    def logdet(self) -> float:
        return float(-2.0 * np.log(np.diag(self.L)).sum())

    def shrunk(self, k: float) -> FullCovariance:
        """The covariance that k times as many rows would leave."""
        return FullCovariance(np.sqrt(k) * self.L)

    def vector(self) -> Array:
        L = self.L.copy()
        L[np.diag_indices_from(L)] = np.log(np.diag(L))
        return L[np.tril_indices_from(L)]

    def restore(self, vector: Array) -> FullCovariance:
        L = np.zeros_like(self.L)
        L[np.tril_indices_from(L)] = vector
        L[np.diag_indices_from(L)] = np.exp(np.diag(L))
        return FullCovariance(L)


def _same_rows(C: Columns, D: Array) -> bool:
    """Whether two arrays are views of the same numbers."""
    return C is D or (
        isinstance(C, np.ndarray)
        and C.shape == D.shape
        and C.strides == D.strides
        and C.__array_interface__["data"] == D.__array_interface__["data"]
    )


@dataclass(frozen=True)
class DualCovariance:
    """``(P + C' W C)^-1`` by an n-sized factor, for more columns than rows (Woodbury).

    ``B = I + W^1/2 G W^1/2`` with ``G = C P^-1 C'``.
    """

    is_point: ClassVar[bool] = False
    by_rows: ClassVar[bool] = True

    patched: ClassVar[bool] = False

    C: Array = field(metadata=DATA)
    w: Array
    P: Array

    def __getstate__(self) -> dict[str, Any]:
        return {"C": self.C, "w": self.w, "P": self.P}

    @cached_property
    def G(self) -> Array:
        A = self.C / np.sqrt(self.P)
        return A @ A.T

    @cached_property
    def L(self) -> Array:
        s = np.sqrt(self.w)
        B = s[:, None] * self.G * s
        B[np.diag_indices_from(B)] += 1.0
        return cholesky(B, lower=True, check_finite=False)

    def _half(self, cross: Array) -> Array:
        """``L^-1 W^1/2 C P^-1 x`` for columns of ``cross = C P^-1 x``."""
        scaled = (np.sqrt(self.w) * cross.T).T
        return solve_triangular(self.L, scaled, lower=True, check_finite=False)

    def quad(self, C: Columns) -> Array:
        if _same_rows(C, self.C):
            G, prior = self.G, np.diag(self.G)
        else:
            G = np.asarray((C @ (self.C / self.P).T).T)
            prior = squared(C) @ (1.0 / self.P)
        T = self._half(G)
        return np.maximum(prior - np.einsum("ij,ij->j", T, T), 1e-14 * prior)

    def cross(self, C: Columns, where: slice) -> Array:
        near, own = self._half(self.C[:, where] / self.P[where]), C[:, where] / self.P[where]
        T = self._half(np.asarray((C @ (self.C / self.P).T).T))
        return np.asarray(own - T.T @ near)

    def block(self, where: slice) -> Array:
        T = self._half(self.C[:, where] / self.P[where])
        out = T.T @ -T  # the one array of this size
        out[np.diag_indices_from(out)] += 1.0 / self.P[where]
        return out

    def blocks(self, where: slice, r: int) -> Array:
        T = self._half(self.C[:, where] / self.P[where]).T.reshape(-1, r, self.w.size)
        out = -np.einsum("gjm,gkm->gjk", T, T)
        np.einsum("gjj->gj", out)[...] += 1.0 / self.P[where].reshape(-1, r)
        return out

    @cached_property
    def _diag(self) -> Array:
        T = self.root
        return np.maximum(1.0 / self.P - np.einsum("ij,ij->j", T, T), 1e-14 / self.P)

    def diag(self) -> Array:
        return self._diag

    @cached_property
    def root(self) -> Array:
        """T with ``Sigma = diag(1 / P) - T'T``, (n, K)."""
        return self._half(self.C / self.P)

    def solve(self, x: Array) -> Array:
        z = (x.T / self.P).T  # a vector, or columns
        t = solve_triangular(
            self.L, self._half(self.C @ z), lower=True, trans=1, check_finite=False
        )
        return z - ((self.C.T @ (np.sqrt(self.w) * t.T).T).T / self.P).T

    def dense(self) -> Array:
        return self.block(slice(0, self.P.size))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        # delta ~ N(0, P^-1) corrected by the data: (7) of Bhattacharya et al. 2016, one row a draw
        delta = rng.standard_normal((n, self.P.size)) / np.sqrt(self.P)
        t = np.sqrt(self.w) * (delta @ self.C.T) + rng.standard_normal((n, self.w.size))
        q = cho_solve((self.L, True), t.T, check_finite=False).T
        return delta - ((q * np.sqrt(self.w)) @ self.C) / self.P

    @property
    def logdet(self) -> float:
        return float(-np.log(self.P).sum() - 2.0 * np.log(np.diag(self.L)).sum())

    def vector(self) -> Array:
        return np.log(np.concatenate([np.maximum(self.w, 1e-300), self.P]))

    def restore(self, vector: Array) -> DualCovariance:
        n = self.w.size
        return type(self)(self.C, np.exp(vector[:n]), np.exp(vector[n:]))


@dataclass(frozen=True)
class GatedCovariance(DualCovariance):
    """The same where columns are multiplied by gates, which belong to the state of a fit."""

    C: Array


@dataclass(frozen=True)
class DiagonalCovariance:
    """Independent coefficients: the factorised family of very wide models."""

    is_point: ClassVar[bool] = False
    by_rows: ClassVar[bool] = False

    patched: ClassVar[bool] = False

    variance: Array

    def quad(self, C: Columns) -> Array:
        return np.asarray(squared(C) @ self.variance)

    def cross(self, C: Columns, where: slice) -> Array:
        return np.asarray(C[:, where] * self.variance[where])

    def block(self, where: slice) -> Array:
        return np.diag(self.variance[where])

    def blocks(self, where: slice, r: int) -> Array:
        return self.variance[where].reshape(-1, r, 1) * np.eye(r)

    def diag(self) -> Array:
        return self.variance

    def solve(self, x: Array) -> Array:
        return (self.variance * x.T).T

    def dense(self) -> Array:
        return np.diag(self.variance)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return rng.standard_normal((n, self.variance.size)) * np.sqrt(self.variance)

    @property
    def logdet(self) -> float:
        return float(np.log(self.variance).sum())

    def shrunk(self, k: float) -> DiagonalCovariance:
        """The covariance that k times as many rows would leave."""
        return DiagonalCovariance(self.variance / k)

    def vector(self) -> Array:
        return np.log(self.variance)

    def restore(self, vector: Array) -> DiagonalCovariance:
        return DiagonalCovariance(np.exp(vector))


@dataclass(frozen=True)
class Point:
    """No spread in theta.  EM is variational Bayes with every variance replaced by ``eps**2``."""

    is_point: ClassVar[bool] = True
    by_rows: ClassVar[bool] = False

    patched: ClassVar[bool] = False

    size: int
    eps: float = 0.0

    def quad(self, C: Columns) -> float:
        return self.eps**2

    def cross(self, C: Columns, where: slice) -> Array:
        return np.zeros(C[:, where].shape)

    def block(self, where: slice) -> Array:
        return np.zeros((self.size, self.size))[where, where]

    def diag(self) -> Array:
        return np.full(self.size, self.eps**2)

    def blocks(self, where: slice, r: int) -> Array:
        G = (where.stop - where.start) // r
        return np.broadcast_to(self.eps**2 * np.eye(r), (G, r, r))

    def solve(self, x: Array) -> Array:
        return np.zeros_like(x)

    def dense(self) -> Array:
        return np.zeros((self.size, self.size))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return np.zeros((n, self.size))

    @property
    def logdet(self) -> float:
        return 0.0

    def vector(self) -> Array:
        return np.empty(0)

    def restore(self, vector: Array) -> Point:
        return self


# ---------------------------------------------------------------------------------------------
# Solves


def covariance(S: Any, P: Precision, retry: bool = True) -> Covariance:
    """``(S + P)^-1`` in the form that suits S; ``retry`` a factorisation that fails."""
    if isinstance(S, Dense):
        Q = S.M.copy()
        add_precision(Q, P)
        return FullCovariance(*scaled_cholesky(Q, retry))
    if isinstance(S, Bordered):
        return ArrowCovariance.of(S, P, retry)
    if isinstance(S, Factored):
        return DualCovariance(S.C, S.w, P)
    if isinstance(S, GatedRows):
        return GatedCovariance(S.C, S.w, P + S.d)
    return DiagonalCovariance(1.0 / (S.d + P))


def blended(cov: Any, S: Any, P: Array, rate: float) -> Covariance:
    """The covariance whose precision is ``rate`` of the way from that of ``cov`` to ``S + P``."""
    if isinstance(S, Factored):
        w, P = cov.w + rate * (S.w - cov.w), cov.P + rate * (P - cov.P)
        new = DualCovariance(S.C, w, P)
        if cov.C is S.C and np.array_equal(cov.P, P):
            new.__dict__["G"] = cov.G  # the one product of all columns
        return new
    if rate == 1.0:
        return covariance(S, P)
    if isinstance(S, Dense):
        return covariance(Dense(rate * S.M + (1.0 - rate) * (cov.L @ cov.L.T)), rate * P)
    return DiagonalCovariance(1.0 / (rate * (S.d + P) + (1.0 - rate) / cov.variance))


def mode(
    cov: Covariance,
    g: Array,
    P: Precision,
    mean: Array,
    product: Callable[[Array], Array] | None = None,
) -> Array:
    """The mean that the residual at an old mean leads to.

    With ``cov`` from S this is the coordinate-ascent update; with the curvature H in place of S it
    is Newton's.  ``product`` multiplies by that matrix through the rows: it is needed when only a
    diagonal was summed, and the answer is then found by conjugate gradients.
    """
    residual = g - P * mean
    if product is None:
        return mean + cov.solve(residual)
    return mean + conjugate_gradient(lambda x: product(x) + P * x, residual, cov.solve)


def conjugate_gradient(
    apply: Callable[[Array], Array],
    rhs: Array,
    precondition: Callable[[Array], Array],
    rtol: float = 0.05,
    max_iter: int = 50,
) -> Array:
    """Preconditioned conjugate gradients from zero.

    Stopped at any iteration the answer still lowers the quadratic, so a loose ``rtol`` costs an
    outer ascent nothing but a shorter step.
    """
    x = np.zeros_like(rhs)
    r = rhs.copy()
    z = precondition(r)
    d = z.copy()
    rz = float(r @ z)
    if rz == 0.0:
        return x
    target = rtol * rtol * rz
    for _ in range(max_iter):
        Ad = apply(d)
        alpha = rz / float(d @ Ad)
        x += alpha * d
        r -= alpha * Ad
        z = precondition(r)
        new = float(r @ z)
        if new <= target:
            break
        d = z + (new / rz) * d
        rz = new
    return x
