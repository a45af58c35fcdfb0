r"""Forms of the Gram matrix, :math:`S = \sum_i w_i c_i c_i^\top`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..core import arrays
from ..core.arrays import double, like, to_numpy
from ..core.types import Array, Cells, Columns
from .columns import Arrow, squared


@dataclass(frozen=True)
class Dense:
    """S as a ``(K, K)`` matrix, for up to a few thousand columns."""

    M: Array

    def __add__(self, other: Dense) -> Dense:
        return Dense(self.M + other.M)

    def __matmul__(self, x: Array) -> Array:
        return self.M @ x

    def plus(self, where: slice, M: Array) -> Dense:
        """S with ``M`` added to a block."""
        out = self.M.copy()
        out[where, where] += M
        return Dense(out)

    def rows(self, some: Array) -> Array:
        return self.M[some]

    def diag(self) -> Array:
        return np.diag(self.M)

    def gated(self, gate: Array) -> Dense:
        r""":math:`S \odot E[\gamma\gamma^\top]` for independent indicators."""
        return Dense(_gated(self.M, gate))


@dataclass(frozen=True)
class Factored:
    """S as the factors of ``C' diag(w) C``, for more columns than rows.

    With selection priors ``more`` is added to the diagonal; it is used for covariances only.
    """

    C: Array
    w: Array
    more: Array | float = 0.0

    def __add__(self, other: Factored) -> Factored:
        return Factored(np.vstack([self.C, other.C]), np.concatenate([self.w, other.w]))

    def __matmul__(self, x: Array) -> Array:
        return self.C.T @ (self.w * (self.C @ x))

    def rows(self, some: Array) -> Array:
        return (self.C[:, some] * self.w[:, None]).T @ self.C

    def diag(self) -> Array:
        return np.asarray(squared(self.C).T @ self.w)

    def gated(self, gate: Array) -> Factored:
        return Factored(self.C * gate, self.w, gate * (1.0 - gate) * self.diag())


@dataclass(frozen=True)
class Diagonal:
    """The diagonal of S only: for very wide models with a mean-field q(theta)."""

    d: Array

    def __add__(self, other: Diagonal) -> Diagonal:
        return Diagonal(self.d + other.d)

    def __matmul__(self, x: Array) -> Array:
        return self.d * x

    def diag(self) -> Array:
        return self.d


@dataclass(frozen=True)
class ByClass:
    """S for several classes, with separate row weights for each class."""

    each: tuple[Any, ...]

    def __add__(self, other: ByClass) -> ByClass:
        return ByClass(tuple(a + b for a, b in zip(self.each, other.each, strict=True)))


@dataclass(frozen=True, eq=False)
class Bordered:
    """S for :class:`~bayesvm.linalg.columns.Arrow`: a dense corner of q columns, G groups of r.

    For random effects with many groups.
    """

    M: Array  # (q, q)
    E: Any  # (G r, q): groups by the corner, an array or, with several factors, sparse
    D: Array  # (G, r, r)

    @classmethod
    def of(cls, C: Arrow, w: Array) -> Bordered:
        xp, last, r = arrays.of(C), C.factors[-1], C.factors[-1].Z.shape[1]
        D = xp.reshape(last.gathered(last.Z * w[:, None]), (last.G, r, r))
        if len(C.factors) == 1:
            root = C.A * like(xp.sqrt(w), C.A)[:, None]
            return cls(double(root.T @ root), last.gathered(double(C.A) * w[:, None]), D)
        # other factors, by sparse products on the host
        host = to_numpy(C)
        corner = host.corner()
        heavy = corner.multiply(to_numpy(w)[:, None]).tocsr()
        return cls((corner.T @ heavy).toarray(), host.factors[-1].matrix().T @ heavy, to_numpy(D))

    def __add__(self, other: Bordered) -> Bordered:
        return Bordered(self.M + other.M, self.E + other.E, self.D + other.D)

    def __mul__(self, k: float) -> Bordered:
        return Bordered(k * self.M, k * self.E, k * self.D)

    def __matmul__(self, x: Array) -> Array:
        corner, groups = np.split(x, [self.M.shape[0]])
        own = (self.D @ groups.reshape(*self.D.shape[:2], -1)).reshape(groups.shape)
        return np.concatenate([self.M @ corner + self.E.T @ groups, own + self.E @ corner])

    def diag(self) -> Array:
        return np.concatenate([np.diag(self.M), np.einsum("gjj->gj", self.D).ravel()])

    def rows(self, some: Array) -> Array:
        K = sum(self.E.shape)
        return (self @ (np.arange(K)[:, None] == some).astype(float)).T

    def plus(self, where: slice, M: Array) -> Bordered:
        """S with a matrix added to a block of dense columns."""
        corner = self.M.copy()
        corner[where, where] += M
        return Bordered(corner, self.E, self.D)

    def gated(self, gate: Array) -> Bordered:
        """As :meth:`Dense.gated`, with indicators of the dense columns only."""
        gate = gate[: self.M.shape[0]]
        return Bordered(_gated(self.M, gate), self.E @ sparse.diags_array(gate), self.D)


def weighted_gram(C: Columns, w: Array, form: str) -> Any:
    """``C' diag(w) C`` in the named form of S."""
    if form == "arrow":
        return Bordered.of(C, w)
    if isinstance(C, Arrow):
        C = C.toarray()
    if form == "factored":
        return Factored(C.toarray() if sparse.issparse(C) else C, w)
    if form == "diagonal":
        return Diagonal(double(squared(C).T @ like(w, C)))
    if sparse.issparse(C):
        return Dense((C.T @ C.multiply(w[:, None]).tocsr()).toarray())
    A = C * like(arrays.of(w).sqrt(w), C)[:, None]
    return Dense(double(A.T @ A))  # a matrix times its own transpose: NumPy calls syrk


def corners(M: Array, columns: Array) -> Array:
    """The block of M for the columns of each row: ``(k, m, m)`` from ``(k, m)``."""
    out: Array = M[columns[:, :, None], columns[:, None, :]]
    return out


def summed_covariances(cells: tuple[Cells, ...], w: Array, d: int) -> Array:
    """The sum over rows of ``w_i V_i``, ``(d, d)``."""
    at = [(part.columns[:, :, None] * d + part.columns[:, None, :]).ravel() for part in cells]
    parts = [(w[part.rows][:, None, None] * part.cov).ravel() for part in cells]
    if not parts:
        return np.zeros((d, d))
    return np.bincount(np.concatenate(at), np.concatenate(parts), d * d).reshape(d, d)


def _gated(M: Array, gate: Array) -> Array:
    out = gate[:, None] * M * gate
    out[np.diag_indices_from(out)] += gate * (1.0 - gate) * np.diag(M)
    return out
