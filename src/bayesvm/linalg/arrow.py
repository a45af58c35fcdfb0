r"""Solves with arrow-shaped matrices (:class:`.forms.Bordered`) by elimination of the groups.

.. math::

    D_g = R_g R_g^\top, \qquad U_g = R_g^{-1} E_g, \qquad
    L L^\top = M - \sum_g U_g^\top U_g ,

so that the cost is linear in the number of groups.  The widest of several factors is eliminated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, solve_triangular

from ..core.arrays import double, like, to_numpy
from ..core.precision import Precision, add_precision, blocks_of, scaled_cholesky
from ..core.types import Array, Columns, Covariance
from .columns import Arrow
from .forms import Bordered


def along_diagonal(blocks: Array) -> Any:
    """Sparse block-diagonal matrix of small matrices ``(G, r, r)``."""
    G, r, _ = blocks.shape
    at = np.arange(G + 1, dtype=np.int32)
    return sparse.csr_array(sparse.bsr_array((blocks, at[:-1], at), shape=(G * r, G * r)))


@dataclass(frozen=True, eq=False)
class Eliminated:
    """Conditional Gaussian of the groups given the corner: ``R R' = D`` and ``U = R^-1 E``."""

    R: Array  # (G, r, r)
    U: Any  # (G r, q), an array or sparse
    patched: bool = False  # a block was numerically singular

    @cached_property
    def inverse(self) -> Any:
        """``R^-1`` of all groups, sparse ``(G r, G r)``."""
        return along_diagonal(np.linalg.inv(self.R))

    @cached_property
    def slopes(self) -> Any:
        """``D^-1 E``, minus the regression coefficients of the groups on the corner."""
        return self.inverse.T @ self.U

    def follow(self, half: Array, step: Array) -> Array:
        """``R^-T (half - U step)``: the groups, given a step of the corner."""
        out: Array = self.inverse.T @ (half - self.U @ step)
        return out

    def absorbed(self) -> Array:
        """``U' U``, which elimination of the groups subtracts from the corner."""
        square = self.U.T @ self.U
        return np.asarray(square.toarray() if sparse.issparse(square) else square)


def eliminate(S: Bordered, P: Precision, retry: bool = True) -> tuple[Eliminated, Array]:
    """The groups given the corner, and the corner of S with the groups integrated out."""
    q, (G, r, _) = S.M.shape[0], S.D.shape
    R, patched = scaled_cholesky(S.D + blocks_of(P, slice(q, q + G * r), r), retry)
    groups = Eliminated(R, along_diagonal(np.linalg.inv(R)) @ S.E, patched)
    return groups, S.M - groups.absorbed()


@dataclass(frozen=True, eq=False)
class ArrowCovariance(Covariance):
    """Inverse of a bordered precision, by a Cholesky factor that eliminates the groups first."""

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
            # with large weights the difference can be rounding error only
            Q[np.diag_indices_from(Q)] += 1e-14 * np.diag(S.M)
            L, patched = scaled_cholesky(Q)[0], True
        return cls(L, groups, groups.patched or patched)

    @property
    def q(self) -> int:
        return int(self.L.shape[0])

    def precision(self) -> Bordered:
        """The inverse of this covariance."""
        R = self.groups.R
        M = self.L @ self.L.T + self.groups.absorbed()
        return Bordered(M, along_diagonal(R) @ self.groups.U, R @ np.swapaxes(R, 1, 2))

    @cached_property
    def _root(self) -> Array:
        """F with F F' the covariance of the corner, upper triangular."""
        eye = np.eye(self.q)
        return solve_triangular(self.L, eye, lower=True, check_finite=False).T if self.q else eye

    def solve(self, x: Array) -> Array:
        half = self.groups.inverse @ x[self.q :]
        c = x[: self.q] - self.groups.U.T @ half
        c = cho_solve((self.L, True), c, check_finite=False) if self.q else c
        return np.concatenate([c, self.groups.follow(half, c)])

    def times_root(self, z: Array) -> Array:
        c = self._root @ z[: self.q]
        return np.concatenate([c, self.groups.follow(z[self.q :], c)])

    def times_root_transposed(self, x: Array) -> Array:
        half = self.groups.inverse @ x[self.q :]
        return np.concatenate([self._root.T @ (x[: self.q] - self.groups.U.T @ half), half])

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        corner = rng.standard_normal((n, self.q))
        effects = rng.standard_normal((n, self.groups.U.shape[0]))
        return self.times_root(np.hstack([corner, effects]).T).T

    def quad(self, C: Columns) -> Any:
        if not isinstance(C, Arrow):
            X = np.asarray(C.toarray() if sparse.issparse(C) else C)
            return np.einsum("ij,ji->i", X, self.solve(X.T))
        last, r = C.factors[-1], self.groups.R.shape[1]
        half = np.linalg.inv(self.groups.R).swapaxes(1, 2).reshape(-1, r)
        own = last.times(like(half, C))  # R^-1 z of each row
        out = (own * own).sum(axis=1)
        if len(C.factors) == 1:
            rest = double(C.A) - last.times(like(self.groups.slopes, C))
            T = rest @ like(self._root, C)
            return out + (T * T).sum(axis=1)
        # other factors, by sparse products on the host
        host = to_numpy(C)
        corner = sparse.csr_array(host.corner() - host.factors[-1].matrix() @ self.groups.slopes)
        parts = [np.square(T).sum(axis=1) for _, T in self._through_root(corner, 1)]
        return out + like(np.concatenate(parts), C)

    def _through_root(self, x: Any, r: int, numbers: int = 2**21) -> Iterator[tuple[slice, Array]]:
        """Rows of x times the root of the corner, in batches of groups with r rows each.

        A batch has at most ``numbers`` entries.
        """
        size = max(1, numbers // max(1, self.q * r))
        for first in range(0, x.shape[0] // r, size):
            yield slice(first, first + size), x[first * r : (first + size) * r] @ self._root

    def blocks(self, where: slice, r: int) -> Array:
        if where.start >= self.q:
            return self._own
        F = self._root[where].reshape(-1, r, self.q)
        return np.einsum("gjm,gkm->gjk", F, F)

    @cached_property
    def _own(self) -> Array:
        """Covariances of the eliminated groups."""
        inverse, r = np.linalg.inv(self.groups.R), self.groups.R.shape[1]
        out = np.einsum("gmj,gmk->gjk", inverse, inverse)
        for some, T in self._through_root(self.groups.slopes, r):
            T = T.reshape(len(T) // r, r, self.q)
            out[some] += np.einsum("gjm,gkm->gjk", T, T)
        return out

    def diag(self) -> Array:
        corner = np.einsum("ij,ij->i", self._root, self._root)
        return np.concatenate([corner, np.einsum("gjj->gj", self._own).ravel()])

    @property
    def logdet(self) -> float:
        inside = np.log(np.einsum("gjj->gj", self.groups.R)).sum()
        return float(-2.0 * (np.log(np.diag(self.L)).sum() + inside))
