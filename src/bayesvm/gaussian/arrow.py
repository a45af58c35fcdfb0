r"""Groups: columns that are codes, and sums with the shape of an arrow.

A factor with *G* groups gives :math:`G r` columns, of which a row has *r* that are not zero.  With
one factor the matrix of sums is an arrow: the *corner* of the other columns, one small block
:math:`D_g` per group, and the blocks :math:`E_g` between them.  Of several factors the widest has
the blocks; the others are in the corner, their products with it sparse.  What is solved with such
sums is in :mod:`bayesvm.gaussian.elimination`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from ..core.arrays import Composite, double, is_numpy, like
from ..core.types import Array
from . import coded


class Factor(NamedTuple):
    """Rows of one grouping factor; a row whose group is not known has Z = 0."""

    codes: Array  # (n,), 0 to G - 1
    Z: Array  # (n, r)
    G: int

    @property
    def width(self) -> int:
        return self.G * int(self.Z.shape[1])

    def mapped(self, fn: Callable[[Any], Any]) -> Factor:
        return Factor(fn(self.codes), fn(self.Z), self.G)

    def cells(self, first: int = 0) -> Iterator[tuple[Array, Array]]:
        """Columns that are not zero, and their entries: r pairs of ``(n,)``."""
        r = self.Z.shape[1]
        for j in range(r):
            yield self.codes * r + (first + j), self.Z[:, j]

    def matrix(self) -> Any:
        """Columns of the factor, sparse ``(n, G r)``: its indices are the codes."""
        n, r = self.Z.shape
        at: Array = self.codes.astype(np.int32)
        if r > 1:
            at = (at[:, None] * np.int32(r) + np.arange(r, dtype=np.int32)).ravel()
        ends = np.arange(0, n * r + 1, r, dtype=np.int32)
        return sparse.csr_array((np.ravel(self.Z), at, ends), shape=(n, self.width))


@dataclass(frozen=True, eq=False)
class Arrow(Composite):
    """Columns: dense ones, then those of factors, the widest factor last."""

    A: Array  # (n, p)
    factors: tuple[Factor, ...]

    __array_ufunc__: ClassVar[None] = None  # NumPy leaves products to this class

    @cached_property
    def ends(self) -> list[int]:
        """Where the dense columns and each factor end."""
        widths = [self.A.shape[1], *(f.width for f in self.factors)]
        return [int(k) for k in np.cumsum(widths)]

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.A.shape[0]), self.ends[-1]

    @property
    def dtype(self) -> Any:
        return self.A.dtype

    @property
    def numbers(self) -> Array:
        """Dense columns: they are in the library and precision of all others."""
        return self.A

    def mapped(self, fn: Callable[[Any], Any]) -> Arrow:
        """The same done to all arrays."""
        return Arrow(fn(self.A), tuple(f.mapped(fn) for f in self.factors))

    @cached_property
    def parts(self) -> list[Any]:
        """Columns of each factor, sparse."""
        return [f.matrix() for f in self.factors]

    def minor(self) -> Any:
        """Columns of all factors but the last, sparse; ``None`` if there is one factor."""
        if len(self.factors) == 1:
            return None
        few = self.parts[:-1]
        return few[0] if len(few) == 1 else sparse.csr_array(sparse.hstack(few, format="csr"))

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, tuple):  # dense columns only
            return self.A[rows]
        n = self.A.shape[0]
        if isinstance(rows, slice) and rows.indices(n) == (0, n, 1):
            return self  # what was made of these columns is kept
        return super().__getitem__(rows)

    def __setitem__(self, at: tuple[Any, Any], values: Array) -> None:
        """Entries of dense columns."""
        self.A[at] = values

    def copy(self) -> Arrow:
        return Arrow(self.A.copy(), self.factors)

    def __matmul__(self, x: Array) -> Array:
        if not is_numpy(self):
            return coded.product(self, x)
        out: Array = double(self.A) @ x[: self.ends[0]]
        for part, (a, b) in zip(self.parts, pairwise(self.ends), strict=True):
            out += part @ x[a:b]
        return out

    @property
    def T(self) -> ArrowTransposed:
        return ArrowTransposed(self)

    def squared(self) -> Arrow:
        return Arrow(self.A**2, tuple(f._replace(Z=f.Z**2) for f in self.factors))

    def scaled(self, s: Array) -> Arrow:
        """Columns times numbers, which are one for the factors' columns."""
        return Arrow(self.A * s[: self.ends[0]], self.factors)

    def alone(self, where: slice) -> Arrow:
        """Some columns, those of one term; the others are zero."""
        A = np.zeros_like(self.A)
        if where.stop <= self.ends[0]:
            A[:, where] = self.A[:, where]
        starts = zip(self.factors, self.ends, strict=False)
        return Arrow(
            A, tuple(f if a == where.start else f._replace(Z=np.zeros_like(f.Z)) for f, a in starts)
        )

    def toarray(self) -> Array:
        return np.hstack([self.A, *(part.toarray() for part in self.parts)])


@dataclass(frozen=True, eq=False)
class ArrowTransposed:
    """The transpose, for products on either side."""

    of: Arrow

    __array_ufunc__: ClassVar[None] = None

    def __matmul__(self, x: Array) -> Array:
        if not is_numpy(self.of):
            return coded.sums(self.of, x)
        return np.concatenate([double(self.of.A).T @ x, *(part.T @ x for part in self.of.parts)])

    def __rmatmul__(self, x: Array) -> Array:
        return (self.of @ x.T).T


# ---------------------------------------------------------------------------------------------
# Sums


@dataclass(frozen=True, eq=False)
class Bordered:
    """``C' diag(w) C`` of such columns: a dense corner of q columns, G groups of r."""

    M: Array  # (q, q)
    E: Array  # (G, r, p): groups by dense columns
    F: Any  # sparse (G r, q - p): groups by the columns of other factors, or None
    D: Array  # (G, r, r)

    @classmethod
    def of(cls, C: Arrow, w: Array) -> Bordered:
        if not is_numpy(C):
            return cls(*coded.bordered(C, w))
        p, q, last = C.A.shape[1], C.ends[-2], C.factors[-1]
        weighted = C.A * w[:, None]
        M = np.empty((q, q))
        root = C.A * like(np.sqrt(w), C.A)[:, None]
        M[:p, :p] = root.T @ root  # NumPy sees one matrix and its transpose and calls syrk
        few, F, own = C.minor(), None, C.parts[-1]
        if few is not None:
            heavy = sparse.csr_array(few.multiply(w[:, None]))
            M[p:, :p] = few.T @ weighted
            M[:p, p:] = M[p:, :p].T
            M[p:, p:] = (few.T @ heavy).toarray()
            F = sparse.csr_array(own.T @ heavy)
        r = last.Z.shape[1]
        E = np.asarray(own.T @ weighted).reshape(last.G, r, p)
        D = np.empty((last.G, r, r))
        for j in range(r):
            for k in range(j + 1):
                both = w * last.Z[:, j] * last.Z[:, k]
                D[:, j, k] = D[:, k, j] = np.bincount(last.codes, both, last.G)
        return cls(M, E, F, D)

    def _map(self, other: Bordered | None, fn: Any) -> Bordered:
        parts: dict[str, Any] = {}
        for name in ("M", "E", "F", "D"):
            mine = getattr(self, name)
            parts[name] = None if mine is None else fn(mine, getattr(other, name, None))
        return Bordered(**parts)

    def __add__(self, other: Bordered) -> Bordered:
        return self._map(other, lambda a, b: a + b)

    def __mul__(self, k: float) -> Bordered:
        return self._map(None, lambda a, _: k * a)

    def __matmul__(self, x: Array) -> Array:
        q = self.M.shape[0]
        c, l = x[:q], x[q:].reshape(*self.D.shape[:2], -1)  # noqa: E741  corner and legs
        legs = np.einsum("gjk,gkm->gjm", self.D, l).reshape(x[q:].shape)
        return np.concatenate([self.M @ c + self.down(x[q:]), legs + self.up(c)])

    def up(self, c: Array) -> Array:
        """From the corner to the groups."""
        return to_groups(self.E, self.F, c)

    def down(self, x: Array) -> Array:
        """From the groups to the corner."""
        return to_corner(self.E, self.F, x)

    def diag(self) -> Array:
        return np.concatenate([np.diag(self.M), np.einsum("gjj->gj", self.D).ravel()])

    def rows(self, some: Array) -> Array:
        return (self @ unit(self.M.shape[0] + self.D[..., 0].size, some)).T

    def block(self, some: Array) -> Array:
        return self.rows(some)[:, some]

    def times(self, x: Array, some: Array) -> Array:
        return (self @ x)[some]

    def plus(self, where: slice, M: Array) -> Bordered:
        """With a matrix added at some dense columns."""
        corner = self.M.copy()
        corner[where, where] += M
        return Bordered(corner, self.E, self.F, self.D)

    def gated(self, gate: Array) -> Bordered:
        r""":math:`S \odot E[\gamma\gamma^\top]` for gates of dense columns."""
        p, q = self.E.shape[2], self.M.shape[0]
        M = gate[:q, None] * self.M * gate[:q]
        M[np.diag_indices_from(M)] += gate[:q] * (1.0 - gate[:q]) * np.diag(self.M)
        return Bordered(M, self.E * gate[:p], self.F, self.D)


def to_groups(E: Array, F: Any, c: Array) -> Array:
    p = E.shape[2]
    out: Array = E.reshape(E.shape[0] * E.shape[1], p) @ c[:p]
    return out if F is None else out + F @ c[p:]


def to_corner(E: Array, F: Any, x: Array) -> Array:
    out: Array = E.reshape(E.shape[0] * E.shape[1], E.shape[2]).T @ x
    return out if F is None else np.concatenate([out, F.T @ x])


def unit(K: int, some: Array) -> Array:
    """Columns of the identity."""
    out = np.zeros((K, len(some)))
    out[some, np.arange(len(some))] = 1.0
    return out
