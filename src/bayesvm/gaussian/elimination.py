r"""Groups eliminated: solves with sums of the shape of an arrow (:mod:`bayesvm.gaussian.arrow`).

Groups go first,

.. math::

    D_g = R_g R_g^\top, \qquad U_g = R_g^{-1} E_g, \qquad
    L L^\top = M - \sum_g U_g^\top U_g ,

so that cost is linear in their number.  Of several factors the widest is eliminated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, solve_triangular

from ..core.arrays import is_numpy
from ..core.types import Array, Columns
from . import coded
from .arrow import Arrow, Bordered, to_corner, to_groups, unit
from .cholesky import scaled_cholesky, stacked_cholesky
from .precision import Precision, add_precision, blocks_of

HELD = 2**21  # numbers held at once where rows meet a wide corner
ROUNDING = 1e-14  # of a difference, as a share of what it is a difference of


class Legs(NamedTuple):
    """Groups given the corner: ``R R' = D``, ``U = R^-1 E``, ``V = R^-1 F``."""

    R: Array
    U: Array
    V: Any
    patched: bool = False

    def halve(self, x: Array, back: bool = False) -> Array:
        """``R^-1 x``, or ``R^-T x``."""
        G, r, _ = self.R.shape
        R = np.swapaxes(self.R, 1, 2) if back else self.R
        return np.linalg.solve(R, x.reshape(G, r, -1)).reshape(x.shape)

    def follow(self, slope: Array, step: Array, noise: Array | float = 0.0) -> Array:
        """How far groups go, given their slopes less prior and a step of the corner."""
        out = self.halve(slope) - to_groups(self.U, self.V, step)
        return self.halve(out + noise, back=True)

    def pull(self, slope: Array) -> Array:
        """What the corner's slope loses to groups that go where their slopes lead them."""
        return to_corner(self.U, self.V, self.halve(slope))


def eliminate(S: Bordered, P: Precision, retry: bool = True) -> tuple[Legs, Array]:
    """Groups given the corner, and S of the corner with the groups integrated out."""
    q, (G, r, p) = S.M.shape[0], S.E.shape
    R, patched = stacked_cholesky(S.D + blocks_of(P, slice(q, q + G * r), r), retry)
    inverse = np.linalg.inv(R)
    U = inverse @ S.E
    V = None if S.F is None else sparse.csr_array(_repeated(inverse) @ S.F)
    flat, Q = U.reshape(G * r, p), S.M.copy()
    Q[:p, :p] -= flat.T @ flat
    if V is not None:
        side = V.T @ flat
        Q[p:, :p] -= side
        Q[:p, p:] -= side.T
        Q[p:, p:] -= (V.T @ V).toarray()
    return Legs(R, U, V, patched), Q


@dataclass(frozen=True, eq=False)
class ArrowCovariance:
    """Inverse of a bordered precision, by its Cholesky factor with the groups eliminated first."""

    is_point: ClassVar[bool] = False
    by_rows: ClassVar[bool] = False

    L: Array  # (q, q): factor of the corner's Schur complement
    R: Array  # (G, r, r): factors of the groups' blocks
    U: Array  # (G, r, p): R^-1 E
    V: Any  # sparse (G r, q - p): R^-1 F, or None
    patched: bool = False  # the precision was numerically singular and had to be propped up

    @classmethod
    def of(cls, S: Bordered, P: Precision, retry: bool = True) -> ArrowCovariance:
        """``(S + P)^-1``."""
        legs, Q = eliminate(S, P, retry)
        add_precision(Q, P)
        try:
            L, propped = scaled_cholesky(Q, retry=False)
        except np.linalg.LinAlgError:
            if not retry:
                raise
            # groups can take all but the rounding of a corner's precision, which weights make large
            Q[np.diag_indices_from(Q)] += ROUNDING * np.diag(S.M)
            L, propped = scaled_cholesky(Q)[0], True
        return cls(L, legs.R, legs.U, legs.V, legs.patched or propped)

    @property
    def q(self) -> int:
        return int(self.L.shape[0])

    @cached_property
    def _inverse(self) -> Array:
        return np.linalg.inv(self.R)

    @cached_property
    def _root(self) -> Array:
        """F with F F' the covariance of the corner, upper triangular."""
        return solve_triangular(self.L, np.eye(self.q), lower=True, check_finite=False).T

    @cached_property
    def _slopes(self) -> tuple[Array, Any]:
        """How groups follow the corner, ``D^-1 E``: dense and sparse part."""
        back = np.swapaxes(self._inverse, 1, 2)
        return back @ self.U, None if self.V is None else sparse.csr_array(_repeated(back) @ self.V)

    def _halve(self, x: Array, back: bool = False) -> Array:
        """``R^-1 x`` for the groups, or ``R^-T x``."""
        G, r, _ = self.R.shape
        how = "gkj,gkm->gjm" if back else "gjk,gkm->gjm"
        return np.einsum(how, self._inverse, x.reshape(G, r, -1)).reshape(x.shape)

    def solve(self, x: Array) -> Array:
        y = self._halve(x[self.q :])
        c = cho_solve(
            (self.L, True), x[: self.q] - to_corner(self.U, self.V, y), check_finite=False
        )
        return np.concatenate([c, self._halve(y - to_groups(self.U, self.V, c), back=True)])

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        c = self._root @ rng.standard_normal((n, self.q)).T
        e = rng.standard_normal((n, self.R[..., 0].size)).T
        return np.concatenate([c, self._halve(e - to_groups(self.U, self.V, c), back=True)]).T

    def quad(self, C: Columns) -> Array:
        if not isinstance(C, Arrow):
            X = np.asarray(C.toarray() if sparse.issparse(C) else C)
            return np.einsum("ij,ji->i", X, self.solve(X.T))
        if not is_numpy(C):
            return coded.quad(C, self._inverse, self._root, self._followed)
        last, (B, sparse_B) = C.factors[-1], self._slopes
        own, r = self._inverse[last.codes], last.Z.shape[1]
        half = np.einsum("ijk,ik->ij", own, last.Z) if r > 1 else own[:, 0] * last.Z
        t = C.A - B[:, 0][last.codes] * last.Z[:, :1]
        for j in range(1, r):
            t -= B[:, j][last.codes] * last.Z[:, j, None]
        out: Array = np.einsum("ij,ij->i", half, half)
        p, few = C.A.shape[1], C.minor()
        if few is None:
            T = t @ self._root
            return out + np.einsum("ij,ij->i", T, T)
        rest = sparse.csr_array(few - C.parts[-1] @ sparse_B)
        size = max(1, HELD // max(1, self.q))
        for i in range(0, t.shape[0], size):
            T = t[i : i + size] @ self._root[:p] + rest[i : i + size] @ self._root[p:]
            out[i : i + size] += np.einsum("ij,ij->i", T, T)
        return out

    @cached_property
    def _followed(self) -> Array:
        """How groups follow independent numbers behind the corner, ``(G r, q)``."""
        B, sparse_B = self._slopes
        p = B.shape[2]
        out: Array = B.reshape(-1, p) @ self._root[:p]
        return out if sparse_B is None else out + sparse_B @ self._root[p:]

    def blocks(self, where: slice, r: int) -> Array:
        """Covariances of consecutive groups of r coefficients, ``(G, r, r)``."""
        if where.start < self.q:
            F = self._root[where].reshape(-1, r, self.q)
            return np.einsum("gjm,gkm->gjk", F, F)
        return self._own

    @cached_property
    def _own(self) -> Array:
        """Covariances of the groups that were eliminated."""
        G, r, p = self.U.shape
        B, sparse_B = self._slopes
        out = np.einsum("gmj,gmk->gjk", self._inverse, self._inverse)
        size = max(1, HELD // max(1, self.q * r))
        for i in range(0, G, size):
            some = B[i : i + size]
            T = some.reshape(some.shape[0] * r, p) @ self._root[:p]
            if sparse_B is not None:
                T += sparse_B[i * r : (i + size) * r] @ self._root[p:]
            T = T.reshape(some.shape[0], r, self.q)
            out[i : i + size] += np.einsum("gjm,gkm->gjk", T, T)
        return out

    @cached_property
    def _diag(self) -> Array:
        corner = np.einsum("ij,ij->i", self._root, self._root)
        return np.concatenate([corner, np.einsum("gjj->gj", self._own).ravel()])

    def diag(self) -> Array:
        return self._diag

    def cross(self, C: Columns, where: slice) -> Array:
        """Rows of ``C Sigma``, some columns."""
        K = self.q + self.R[..., 0].size
        some = np.arange(K)[where]
        return np.asarray(C @ self.solve(unit(K, some)))

    def block(self, where: slice) -> Array:
        """Covariance of some coefficients of the corner."""
        return self._root[where] @ self._root[where].T

    def dense(self) -> Array:
        return self.solve(np.eye(self.q + self.R[..., 0].size))

    @property
    def logdet(self) -> float:
        inside = np.log(np.einsum("gjj->gj", self.R)).sum()
        return float(-2.0 * (np.log(np.diag(self.L)).sum() + inside))

    def shrunk(self, k: float) -> ArrowCovariance:
        """The covariance that k times as many rows would leave."""
        s = np.sqrt(k)
        V = None if self.V is None else s * self.V
        return ArrowCovariance(s * self.L, s * self.R, s * self.U, V)

    def vector(self) -> Array:
        V = np.empty(0) if self.V is None else self.V.data
        return np.concatenate([_logged(self.L), _logged(self.R), self.U.ravel(), V])

    def restore(self, vector: Array) -> ArrowCovariance:
        sizes = [x[..., *np.tril_indices(x.shape[-1])].size for x in (self.L, self.R)]
        L, R, U, data = np.split(vector, np.cumsum([*sizes, self.U.size]))
        V = None
        if self.V is not None:
            V = sparse.csr_array((data, self.V.indices, self.V.indptr), shape=self.V.shape)
        U = U.reshape(self.U.shape)
        return ArrowCovariance(_unlogged(L, self.L), _unlogged(R, self.R), U, V)


def _repeated(blocks: Array) -> Any:
    """Small matrices along a diagonal, sparse."""
    G, r, _ = blocks.shape
    at = np.arange(G + 1, dtype=np.int32)
    return sparse.csr_array(sparse.bsr_array((blocks, at[:-1], at), shape=(G * r, G * r)))


def _logged(L: Array) -> Array:
    """Lower factors as one unconstrained vector, their diagonals as logarithms."""
    L = L.copy()
    d = np.einsum("...ii->...i", L)
    d[...] = np.log(d)
    return L[..., *np.tril_indices(L.shape[-1])].ravel()


def _unlogged(x: Array, like: Array) -> Array:
    L = np.zeros_like(like)
    at = np.tril_indices(like.shape[-1])
    L[..., *at] = x.reshape(*like.shape[:-2], -1)
    d = np.einsum("...ii->...i", L)
    d[...] = np.exp(d)
    return L
