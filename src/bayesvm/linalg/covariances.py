r"""From sums over rows to a Gaussian of the coefficients: covariance, mean, draws.

Every solve is in residual form: with the gradient ``g`` at the current mean,

.. math:: \mu = \mu_{old} + (S + P)^{-1} (g - P \mu_{old}),

so that an error in the factor, when a row on the margin has a weight of 1e14, spoils one step and
not the result: the next step starts from the new mean (the normal equations stay ten digits short).
Each form of S has its covariance; that of groups is in :mod:`.arrow`.
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
from ..core.precision import (
    Precision,
    add_precision,
    packed,
    parted,
    scaled_cholesky,
    unpacked,
)
from ..core.tree import DATA
from ..core.types import Array, Columns, Covariance
from .arrow import ArrowCovariance
from .columns import scaled, squared
from .forms import Bordered, ByClass, Dense, Factored


class Rooted(Covariance):
    """A covariance F F' by its root F, ``(K, k)``."""

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
    """A covariance held as its root."""

    root: Array


@dataclass(frozen=True)
class FullCovariance(Rooted):
    """Covariance held as the Cholesky factor of the precision, ``L L' = Sigma^-1``."""

    L: Array
    patched: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {"L": packed(self.L), "patched": self.patched}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, L=unpacked(state["L"]))

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
    """``(P + A' W A)^-1`` by an n-sized factor, for more columns than rows (Woodbury).

    ``A`` is C, or C times gates.  The factor is that of ``I + W^1/2 G W^1/2``, ``G = A P^-1 A'``.
    """

    C: Array = field(metadata=DATA)
    w: Array
    P: Array
    gate: Array | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"C": self.C, "w": self.w, "P": self.P, "gate": self.gate}

    @cached_property
    def A(self) -> Array:
        return self.C if self.gate is None else self.C * self.gate

    @cached_property
    def G(self) -> Array:
        A = self.A / np.sqrt(self.P)
        return A @ A.T

    @cached_property
    def L(self) -> Array:
        s = np.sqrt(self.w)
        B = s[:, None] * self.G * s
        B[np.diag_indices_from(B)] += 1.0
        return cholesky(B, lower=True, check_finite=False)

    def _half(self, cross: Array) -> Array:
        """``L^-1 W^1/2 A P^-1 x`` for columns of ``cross = A P^-1 x``."""
        weighted = (np.sqrt(self.w) * cross.T).T
        return solve_triangular(self.L, weighted, lower=True, check_finite=False)

    def quad(self, C: Columns) -> Array:
        if _same_rows(C, self.A):
            G, prior = self.G, np.diag(self.G)
        else:
            G = np.asarray((C @ (self.A / self.P).T).T)
            prior = squared(C) @ (1.0 / self.P)
        T = self._half(G)
        return np.maximum(prior - np.einsum("ij,ij->j", T, T), 1e-14 * prior)

    def block(self, where: slice) -> Array:
        T = self._half(self.A[:, where] / self.P[where])
        out = T.T @ -T  # the one array of this size
        out[np.diag_indices_from(out)] += 1.0 / self.P[where]
        return out

    def diag(self) -> Array:
        return np.maximum(
            1.0 / self.P - np.einsum("ij,ij->j", self.root, self.root), 1e-14 / self.P
        )

    @cached_property
    def root(self) -> Array:
        """T with ``Sigma = diag(1 / P) - T'T``, (n, K)."""
        return self._half(self.A / self.P)

    def solve(self, x: Array) -> Array:
        z = (x.T / self.P).T  # a vector, or columns
        t = solve_triangular(
            self.L, self._half(self.A @ z), lower=True, trans=1, check_finite=False
        )
        return z - ((self.A.T @ (np.sqrt(self.w) * t.T).T).T / self.P).T

    def times_root(self, z: Array) -> Array:
        # P^-1/2 (I - B' L^-T (L + I)^-1 B), B = W^1/2 A P^-1/2 and L L' = I + B B' (Andrews 1968)
        half = np.sqrt(self.w) * (self.A @ (z / np.sqrt(self.P)))
        half = solve_triangular(self._shifted, half, lower=True, check_finite=False)
        half = solve_triangular(self.L, half, lower=True, trans=1, check_finite=False)
        return z / np.sqrt(self.P) - (self.A.T @ (np.sqrt(self.w) * half)) / self.P

    def times_root_transposed(self, x: Array) -> Array:
        half = np.sqrt(self.w) * (self.A @ (x / self.P))
        half = solve_triangular(self.L, half, lower=True, check_finite=False)
        half = solve_triangular(self._shifted, half, lower=True, trans=1, check_finite=False)
        return (x - self.A.T @ (np.sqrt(self.w) * half)) / np.sqrt(self.P)

    @cached_property
    def _shifted(self) -> Array:
        return self.L + np.eye(self.L.shape[0])

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        # delta ~ N(0, P^-1) corrected by the data: (7) of Bhattacharya et al. 2016, one row a draw
        delta = rng.standard_normal((n, self.P.size)) / np.sqrt(self.P)
        t = np.sqrt(self.w) * (delta @ self.A.T) + rng.standard_normal((n, self.w.size))
        q = cho_solve((self.L, True), t.T, check_finite=False).T
        return delta - ((q * np.sqrt(self.w)) @ self.A) / self.P

    @property
    def logdet(self) -> float:
        return float(-np.log(self.P).sum() - 2.0 * np.log(np.diag(self.L)).sum())


def _same_rows(C: Columns, D: Array) -> bool:
    """Whether two arrays are views of the same numbers."""
    place = (D.ctypes.data, D.shape, D.strides)
    return isinstance(C, np.ndarray) and (C.ctypes.data, C.shape, C.strides) == place


@dataclass(frozen=True)
class DiagonalCovariance(Covariance):
    """Independent coefficients: the factorised family of very wide models."""

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
    """Independent coefficients of several classes; variances of f have a column for each."""

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
    """No spread in theta.  EM is variational Bayes with every variance replaced by ``eps**2``."""

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
    r"""Covariance of :math:`\gamma \odot \mathsf v` with independent gates of means ``gate``.

    :math:`gg^\top \odot \Sigma + \mathrm{diag}\{g(1-g)(\Sigma_{kk} + \mu_k^2)\}`, a sum without
    cancellation.
    """

    base: Covariance  # of v
    gate: Array
    inner: Array  # mean of v

    @cached_property
    def _own(self) -> Array:
        """What the gates add to the diagonal."""
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

    @property
    def logdet(self) -> float:
        return float(np.linalg.slogdet(self.dense())[1])


# ---------------------------------------------------------------------------------------------
# Solves


def covariance(S: Any, P: Precision, retry: bool = True) -> Covariance:
    """``(S + P)^-1`` in the form that suits S; ``retry`` a factorisation that fails."""
    if isinstance(S, ByClass):
        pairs = zip(S.each, parted(P, len(S.each)), strict=True)
        return _of_classes([covariance(one, own, retry) for one, own in pairs])
    if isinstance(S, Dense):
        Q = S.M.copy()
        add_precision(Q, P)
        return FullCovariance(*scaled_cholesky(Q, retry))
    if isinstance(S, Bordered):
        return ArrowCovariance.of(S, P, retry)
    if isinstance(S, Factored):
        own = 0.0 if S.gate is None else S.gate * (1.0 - S.gate) * S.diag()
        return DualCovariance(S.C, S.w, P + own, S.gate)
    return DiagonalCovariance(1.0 / (S.d + P))


def blended(cov: Any, S: Any, P: Precision, rate: float) -> Covariance:
    """The covariance whose precision is ``rate`` of the way from that of ``cov`` to ``S + P``."""
    if isinstance(S, ByClass):
        parts = zip(cov.each, S.each, parted(P, len(S.each)), strict=True)
        return _of_classes([blended(*part, rate) for part in parts])
    if isinstance(S, Factored):
        w, P = cov.w + rate * (S.w - cov.w), cov.P + rate * (P - cov.P)
        new = DualCovariance(S.C, w, P)
        if cov.C is S.C and np.array_equal(cov.P, P):
            new.__dict__["G"] = cov.G  # the one product of all columns
        return new
    if isinstance(S, Dense):
        return covariance(Dense(rate * S.M + (1.0 - rate) * (cov.L @ cov.L.T)), rate * P)
    if isinstance(S, Bordered):
        return covariance(S * rate + cov.precision() * (1.0 - rate), rate * P)
    return DiagonalCovariance(1.0 / (rate * (S.d + P) + (1.0 - rate) / cov.variance))


def _of_classes(covs: list[Any]) -> ClassCovariance:
    """Covariances of classes, which share a product of all columns where their priors are equal."""
    for cov in covs[1:]:
        if isinstance(cov, DualCovariance) and np.array_equal(cov.P, covs[0].P):
            cov.__dict__["G"] = covs[0].G
    return ClassCovariance(tuple(covs))
