r"""Covariances of the Gaussian posterior of the coefficients, one class for each form of S.

Every solve is in residual form: with the gradient ``g`` at the current mean,

.. math:: \mu = \mu_{old} + (S + P)^{-1} (g - P \mu_{old}),

so that a rounding error in the factor (when a row on the margin has a weight of 1e14) affects one
step and not the result, because the next step starts from the new mean.  The normal equations
would lose ten digits.  The covariance for groups is in :mod:`.arrow`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dtrtri

from ..core import arrays
from ..core.arrays import double, like
from ..core.precision import Precision, add_precision, parted, scaled_cholesky
from ..core.types import DATA, Array, Columns, Covariance
from .arrow import ArrowCovariance
from .columns import scaled, squared
from .forms import Bordered, ByClass, Dense, Factored


class Rooted(Covariance):
    """Base class of covariances F F' with a root F, ``(K, k)``."""

    root: Array

    def quad(self, C: Columns) -> Array:
        T = C @ like(self.root, C)
        out: Array = double((T * T).sum(axis=1))
        return out

    def diag(self) -> Array:
        return np.einsum("ij,ij->i", self.root, self.root)

    def solve(self, x: Array) -> Array:
        return self.root @ (self.root.T @ x)

    def times_root(self, z: Array) -> Array:
        return self.root @ z

    def times_root_transposed(self, x: Array) -> Array:
        return self.root.T @ x

    def block(self, where: slice) -> Array:
        return self.root[where] @ self.root[where].T

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return rng.standard_normal((n, self.root.shape[1])) @ self.root.T


@dataclass(frozen=True)
class RootCovariance(Rooted):
    """A covariance stored as its root."""

    root: Array


@dataclass(frozen=True)
class FullCovariance(Rooted):
    """Covariance stored as the Cholesky factor of the precision, ``L L' = Sigma^-1``."""

    L: Array
    patched: bool = False

    @cached_property
    def root(self) -> Array:  # type: ignore[override]
        """F with F F' = Sigma, upper triangular."""
        inverse: Array = dtrtri(self.L, lower=1)[0]
        return inverse.T

    def solve(self, x: Array) -> Array:
        return cho_solve((self.L, True), x, check_finite=False)

    @property
    def logdet(self) -> float:
        return float(-2.0 * np.log(np.diag(self.L)).sum())


@dataclass(frozen=True)
class DualCovariance(Covariance):
    """``(P + C' W C)^-1`` by a factor of size n, for more columns than rows (Woodbury)."""

    C: Array = field(metadata=DATA)
    w: Array
    P: Array

    @cached_property
    def L(self) -> Array:
        """The factor of ``I + W^1/2 C P^-1 C' W^1/2``."""
        half = self.C * np.sqrt(self.w)[:, None] / np.sqrt(self.P)
        B = half @ half.T
        B[np.diag_indices_from(B)] += 1.0
        return cholesky(B, lower=True, check_finite=False)

    @cached_property
    def T(self) -> Array:
        """T with ``Sigma = diag(1 / P) - T'T``, (n, K)."""
        half = self.C * np.sqrt(self.w)[:, None] / self.P
        return solve_triangular(self.L, half, lower=True, check_finite=False)

    def quad(self, C: Columns) -> Array:
        prior, T = squared(C) @ (1.0 / self.P), C @ self.T.T
        return np.maximum(prior - np.einsum("ij,ij->i", T, T), 1e-14 * prior)

    def block(self, where: slice) -> Array:
        T = self.T[:, where]
        return np.diag(1.0 / self.P[where]) - T.T @ T

    def diag(self) -> Array:
        return np.maximum(1.0 / self.P - np.einsum("ij,ij->j", self.T, self.T), 1e-14 / self.P)

    def solve(self, x: Array) -> Array:
        return (x.T / self.P).T - self.T.T @ (self.T @ x)

    # P^-1/2 (I - B' L^-T (L + I)^-1 B) is a root, with B = L T P^1/2 and L L' = I + B B' (Andrews
    # 1968)

    @cached_property
    def _middle(self) -> Array:
        """``(L + I)^-1 L``, (n, n)."""
        return solve_triangular(self.L + np.eye(self.w.size), self.L, lower=True)

    def times_root(self, z: Array) -> Array:
        root = np.sqrt(self.P)
        return (z.T / root).T - self.T.T @ (self._middle @ (self.T @ (z.T * root).T))

    def times_root_transposed(self, x: Array) -> Array:
        root = np.sqrt(self.P)
        return x / root - root * (self.T.T @ (self._middle.T @ (self.T @ x)))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return self.times_root(rng.standard_normal((n, self.P.size)).T).T

    @property
    def logdet(self) -> float:
        return float(-np.log(self.P).sum() - 2.0 * np.log(np.diag(self.L)).sum())


@dataclass(frozen=True)
class DiagonalCovariance(Covariance):
    """A diagonal covariance: the mean-field family for very wide models."""

    variance: Array

    def quad(self, C: Columns) -> Array:
        out: Array = double(squared(C) @ like(self.variance, C))
        return out

    def diag(self) -> Array:
        return self.variance

    def solve(self, x: Array) -> Array:
        return (self.variance * x.T).T

    def times_root(self, z: Array) -> Array:
        return np.sqrt(self.variance) * z

    def times_root_transposed(self, x: Array) -> Array:
        return self.times_root(x)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return rng.standard_normal((n, self.variance.size)) * np.sqrt(self.variance)

    @property
    def logdet(self) -> float:
        return float(np.log(self.variance).sum())


@dataclass(frozen=True)
class ClassCovariance(Covariance):
    """A block-diagonal covariance, one block per class; variances of f are ``(n, classes)``."""

    each: tuple[Any, ...]

    def quad(self, C: Columns) -> Array:
        parts = [cov.quad(C) for cov in self.each]
        out: Array = arrays.of(parts[0]).stack(parts, axis=1)
        return out

    def _by_class(self, method: str, x: Array) -> Array:
        parts = zip(self.each, np.split(x, len(self.each)), strict=True)
        return np.concatenate([getattr(cov, method)(part) for cov, part in parts])

    def diag(self) -> Array:
        return np.concatenate([cov.diag() for cov in self.each])

    def solve(self, x: Array) -> Array:
        return self._by_class("solve", x)

    def times_root(self, z: Array) -> Array:
        return self._by_class("times_root", z)

    def times_root_transposed(self, x: Array) -> Array:
        return self._by_class("times_root_transposed", x)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return np.hstack([cov.sample(n, rng) for cov in self.each])

    @property
    def logdet(self) -> float:
        return sum(cov.logdet for cov in self.each)


@dataclass(frozen=True)
class Point(Covariance):
    """Zero covariance of theta.  EM is variational Bayes with all variances equal to ``eps**2``."""

    is_point: ClassVar[bool] = True

    size: int
    eps: float = 0.0

    def quad(self, C: Columns) -> float:
        return self.eps**2

    def diag(self) -> Array:
        return np.full(self.size, self.eps**2)

    def blocks(self, where: slice, r: int) -> Array:
        G = (where.stop - where.start) // r
        return np.broadcast_to(self.eps**2 * np.eye(r), (G, r, r))

    def solve(self, x: Array) -> Array:
        return np.zeros_like(x)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return np.zeros((n, self.size))

    @property
    def logdet(self) -> float:
        return 0.0


@dataclass(frozen=True)
class GatedCovariance(Covariance):
    r"""Covariance of :math:`\gamma \odot \mathsf v` for independent indicators of mean ``gate``.

    :math:`gg^\top \odot \Sigma + \mathrm{diag}\{g(1-g)(\Sigma_{kk} + \mu_k^2)\}`, which has no
    cancellation.
    """

    base: Covariance  # of v
    gate: Array
    inner: Array  # mean of v

    @cached_property
    def _own(self) -> Array:
        """The contribution of the indicators to the diagonal."""
        return self.gate * (1.0 - self.gate) * (self.base.diag() + self.inner**2)

    def quad(self, C: Columns) -> Array:
        out: Array = self.base.quad(scaled(C, self.gate)) + double(squared(C) @ like(self._own, C))
        return out

    def diag(self) -> Array:
        return self.gate**2 * self.base.diag() + self._own

    def solve(self, x: Array) -> Array:
        return (self.gate * self.base.solve((self.gate * x.T).T).T + self._own * x.T).T

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        open_ = rng.random((n, self.gate.size)) < self.gate
        return open_ * (self.inner + self.base.sample(n, rng)) - self.gate * self.inner


# ---------------------------------------------------------------------------------------------
# Solves


def covariance(S: Any, P: Precision, retry: bool = True) -> Covariance:
    """``(S + P)^-1`` in the form that matches S; ``retry`` repeats a failed factorisation."""
    if isinstance(S, ByClass):
        pairs = zip(S.each, parted(P, len(S.each)), strict=True)
        return ClassCovariance(tuple(covariance(one, own, retry) for one, own in pairs))
    if isinstance(S, Dense):
        Q = S.M.copy()
        add_precision(Q, P)
        return FullCovariance(*scaled_cholesky(Q, retry))
    if isinstance(S, Bordered):
        return ArrowCovariance.of(S, P, retry)
    if isinstance(S, Factored):
        return DualCovariance(S.C, S.w, P + S.more)
    return DiagonalCovariance(1.0 / (S.d + P))


def blended(cov: Any, S: Any, P: Precision, rate: float) -> Covariance:
    """The covariance with precision ``(1 - rate) cov^-1 + rate (S + P)``."""
    if isinstance(S, ByClass):
        parts = zip(cov.each, S.each, parted(P, len(S.each)), strict=True)
        return ClassCovariance(tuple(blended(*part, rate) for part in parts))
    if isinstance(S, Factored):
        return DualCovariance(S.C, cov.w + rate * (S.w - cov.w), cov.P + rate * (P - cov.P))
    if isinstance(S, Dense):
        return covariance(Dense(rate * S.M + (1.0 - rate) * (cov.L @ cov.L.T)), rate * P)
    if isinstance(S, Bordered):
        return covariance(S * rate + cov.precision() * (1.0 - rate), rate * P)
    return DiagonalCovariance(1.0 / (rate * (S.d + P) + (1.0 - rate) / cov.variance))
