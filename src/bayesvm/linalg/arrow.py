r"""Solves with sums of the shape of an arrow (:class:`.forms.Bordered`), groups eliminated first.

.. math::

    D_g = R_g R_g^\top, \qquad U_g = R_g^{-1} E_g, \qquad
    L L^\top = M - \sum_g U_g^\top U_g ,

so that cost is linear in the number of groups.  Of several factors the widest is eliminated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, solve_triangular

from ..core.arrays import double, like, to_numpy
from ..core.precision import (
    Precision,
    add_precision,
    blocks_of,
    scaled_cholesky,
)
from ..core.types import Array, Columns, Covariance
from .columns import Arrow
from .forms import Bordered, to_corner, to_groups

HELD = 2**21  # numbers held at once where rows are multiplied by a wide corner


@dataclass(frozen=True, eq=False)
class Eliminated:
    """Gaussian of the groups given the corner: ``R R' = D``, ``U = R^-1 E``, ``V = R^-1 F``."""

    R: Array  # (G, r, r)
    U: Array  # (G, r, p)
    V: Any  # sparse (G r, q - p), or None
    patched: bool = False  # a block was numerically singular

    @cached_property
    def inverse(self) -> Array:
        return np.linalg.inv(self.R)

    @cached_property
    def slopes(self) -> tuple[Array, Any]:
        """``D^-1 E``, by which groups follow the corner: dense and sparse part."""
        back = np.swapaxes(self.inverse, 1, 2)
        return back @ self.U, None if self.V is None else sparse.csr_array(_repeated(back) @ self.V)

    def halve(self, x: Array, back: bool = False) -> Array:
        """``R^-1 x`` for the groups, or ``R^-T x``."""
        G, r, _ = self.R.shape
        how = "gkj,gkm->gjm" if back else "gjk,gkm->gjm"
        return np.einsum(how, self.inverse, x.reshape(G, r, -1)).reshape(x.shape)

    def follow(self, half: Array, step: Array) -> Array:
        """``R^-T (half - U step)``: the groups, given a step of the corner."""
        return self.halve(half - to_groups(self.U, self.V, step), back=True)

    def absorbed(self) -> Array:
        """``[U V]' [U V]``: what eliminating the groups takes from S of the corner."""
        U = self.U.reshape(-1, self.U.shape[2])
        if self.V is None:
            return U.T @ U
        side = self.V.T @ U
        return np.block([[U.T @ U, side.T], [side, (self.V.T @ self.V).toarray()]])

    def pull(self, half: Array) -> Array:
        """``U' half``: what eliminating the groups takes from the gradient of the corner."""
        return to_corner(self.U, self.V, half)


def eliminate(S: Bordered, P: Precision, retry: bool = True) -> tuple[Eliminated, Array]:
    """The groups given the corner, and S of the corner with the groups integrated out."""
    q, (G, r, _) = S.M.shape[0], S.E.shape
    R, patched = scaled_cholesky(S.D + blocks_of(P, slice(q, q + G * r), r), retry)
    inverse = np.linalg.inv(R)
    V = None if S.F is None else sparse.csr_array(_repeated(inverse) @ S.F)
    groups = Eliminated(R, inverse @ S.E, V, patched)
    return groups, S.M - groups.absorbed()


@dataclass(frozen=True, eq=False)
class ArrowCovariance(Covariance):
    """Inverse of a bordered precision, by its Cholesky factor with the groups eliminated first."""

    L: Array  # (q, q): factor of the corner's Schur complement
    groups: Eliminated
    patched: bool = False

    @classmethod
    def of(cls, S: Bordered, P: Precision, retry: bool = True) -> ArrowCovariance:
        """``(S + P)^-1``."""
        groups, Q = eliminate(S, P, retry)
        add_precision(Q, P)
        try:
            L, patched = scaled_cholesky(Q, retry=False)
        except np.linalg.LinAlgError:
            if not retry:
                raise
            # the difference can be all rounding, which large weights make large
            Q[np.diag_indices_from(Q)] += 1e-14 * np.diag(S.M)
            L, patched = scaled_cholesky(Q)[0], True
        return cls(L, groups, groups.patched or patched)

    @property
    def q(self) -> int:
        return int(self.L.shape[0])

    def precision(self) -> Bordered:
        """The matrix that this is the inverse of."""
        R, U, V = self.groups.R, self.groups.U, self.groups.V
        M = self.L @ self.L.T + self.groups.absorbed()
        F = None if V is None else sparse.csr_array(_repeated(R) @ V)
        return Bordered(M, R @ U, F, R @ np.swapaxes(R, 1, 2))

    @cached_property
    def _root(self) -> Array:
        """F with F F' the covariance of the corner, upper triangular."""
        eye = np.eye(self.q)
        return solve_triangular(self.L, eye, lower=True, check_finite=False).T if self.q else eye

    def solve(self, x: Array) -> Array:
        half = self.groups.halve(x[self.q :])
        c = x[: self.q] - self.groups.pull(half)
        c = cho_solve((self.L, True), c, check_finite=False) if self.q else c
        return np.concatenate([c, self.groups.follow(half, c)])

    def times_root(self, z: Array) -> Array:
        c = self._root @ z[: self.q]
        return np.concatenate([c, self.groups.follow(z[self.q :], c)])

    def times_root_transposed(self, x: Array) -> Array:
        half = self.groups.halve(x[self.q :])
        return np.concatenate([self._root.T @ (x[: self.q] - self.groups.pull(half)), half])

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        c = self._root @ rng.standard_normal((n, self.q)).T
        e = rng.standard_normal((n, self.groups.R[..., 0].size)).T
        return np.concatenate([c, self.groups.follow(e, c)]).T

    def quad(self, C: Columns) -> Any:
        if not isinstance(C, Arrow):
            X = np.asarray(C.toarray() if sparse.issparse(C) else C)
            return np.einsum("ij,ji->i", X, self.solve(X.T))
        last, (B, sparse_B) = C.factors[-1], self.groups.slopes
        G, r, p = B.shape
        half = np.swapaxes(self.groups.inverse, 1, 2).reshape(G * r, r)
        own = last.times(like(half, C))  # R^-1 z of each row
        rest = double(C.A) - last.times(like(B.reshape(G * r, p), C))
        out = (own * own).sum(axis=1)
        if sparse_B is None:
            T = rest @ like(self._root, C)
            return out + (T * T).sum(axis=1)
        # other factors, by sparse products on the host
        host, rest, across = to_numpy(C), to_numpy(rest), np.empty(C.A.shape[0])
        minor = sparse.csr_array(host.minor() - host.factors[-1].matrix() @ sparse_B)
        size = max(1, HELD // self.q)
        for i in range(0, across.size, size):
            some = slice(i, i + size)
            T = rest[some] @ self._root[:p] + minor[some] @ self._root[p:]
            across[some] = np.einsum("ij,ij->i", T, T)
        return out + like(across, C)

    def _followed(self, some: slice) -> Array:
        """``D^-1 E F`` for some groups and the root F of the corner's covariance, ``(G r, q)``."""
        B, sparse_B = self.groups.slopes
        r, p = B.shape[1:]
        first, last, _ = some.indices(B.shape[0])
        out: Array = B[some].reshape((last - first) * r, p) @ self._root[:p]
        if sparse_B is None:
            return out
        return out + sparse_B[first * r : last * r] @ self._root[p:]

    def blocks(self, where: slice, r: int) -> Array:
        if where.start >= self.q:
            return self._own
        F = self._root[where].reshape(-1, r, self.q)
        return np.einsum("gjm,gkm->gjk", F, F)

    @cached_property
    def _own(self) -> Array:
        """Covariances of the groups that were eliminated."""
        G, r, _ = self.groups.U.shape
        inverse = self.groups.inverse
        out = np.einsum("gmj,gmk->gjk", inverse, inverse)
        size = max(1, HELD // max(1, self.q * r))
        for i in range(0, G, size):
            some = out[i : i + size]
            T = self._followed(slice(i, i + size)).reshape(len(some), r, self.q)
            some += np.einsum("gjm,gkm->gjk", T, T)
        return out

    def diag(self) -> Array:
        corner = np.einsum("ij,ij->i", self._root, self._root)
        return np.concatenate([corner, np.einsum("gjj->gj", self._own).ravel()])

    @property
    def logdet(self) -> float:
        inside = np.log(np.einsum("gjj->gj", self.groups.R)).sum()
        return float(-2.0 * (np.log(np.diag(self.L)).sum() + inside))


def _repeated(blocks: Array) -> Any:
    """Small matrices along a diagonal, sparse."""
    G, r, _ = blocks.shape
    at = np.arange(G + 1, dtype=np.int32)
    return sparse.csr_array(sparse.bsr_array((blocks, at[:-1], at), shape=(G * r, G * r)))
