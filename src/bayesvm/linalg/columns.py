"""Columns that are not plain arrays: codes of groups, and sparse columns that are centred.

Both behave like a matrix in products; those of groups pick entries at codes and sum by codes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ..core import arrays
from ..core.arrays import Composite, double, like
from ..core.types import Array, Columns


@dataclass(frozen=True, eq=False)
class Transposed:
    """The transpose of :class:`Arrow` or :class:`Centred`, for products on either side."""

    of: Any

    __array_ufunc__: ClassVar[None] = None  # NumPy leaves products to this class

    def __matmul__(self, x: Array) -> Array:
        out: Array = self.of.gathered(x)
        return out

    def __rmatmul__(self, x: Array) -> Array:
        out: Array = (self.of @ x.T).T
        return out


@dataclass(frozen=True, eq=False)
class Factor:
    """Rows of one grouping factor with G groups and r columns a group; unknown groups: Z = 0."""

    codes: Array  # (n,), 0 to G - 1
    Z: Array  # (n, r)
    G: int

    @property
    def width(self) -> int:
        return self.G * int(self.Z.shape[1])

    def mapped(self, fn: Callable[[Any], Any]) -> Factor:
        return Factor(fn(self.codes), fn(self.Z), self.G)

    def times(self, x: Any) -> Any:
        """The columns times ``x``, ``(width,)`` or ``(width, k)``."""
        xp, r = arrays.of(x), self.Z.shape[1]
        if r == 1:
            return (self.Z[:, 0] if x.ndim == 1 else self.Z) * x[self.codes]
        own = x.reshape(self.G, r, -1)[self.codes]
        out = xp.einsum("ij,ijk->ik", self.Z, own)
        return out[:, 0] if x.ndim == 1 else out

    def gathered(self, x: Any) -> Any:
        """The transposed columns times ``x``, ``(n,)`` or ``(n, k)``: sums by group."""
        n, r = self.Z.shape
        k = x.shape[1] if x.ndim > 1 else 1
        each = (self.Z[:, :, None] * x.reshape(n, 1, k)).reshape(n, r * k)
        if arrays.is_foreign(x):
            sums = arrays.of(x).zeros((self.G, each.shape[1]), dtype=x.dtype, device=x.device)
            sums.index_add_(0, self.codes, each)
        else:
            sums = np.empty((self.G, each.shape[1]))
            for j, column in enumerate(each.T):
                sums[:, j] = np.bincount(self.codes, column, self.G)
        return sums.reshape(self.G * r, *x.shape[1:])

    def matrix(self) -> Any:
        """The columns as a sparse array ``(n, G r)``."""
        n, r = self.Z.shape
        at = (self.codes[:, None] * r + np.arange(r)).astype(np.int32).ravel()
        ends = np.arange(0, n * r + 1, r, dtype=np.int32)
        return sparse.csr_array((np.ravel(self.Z), at, ends), shape=(n, self.width))


@dataclass(frozen=True, eq=False)
class Arrow(Composite):
    """Dense columns, then those of grouping factors, the widest factor last.

    Their sums over rows have the shape of an arrow: see :class:`bayesvm.linalg.forms.Bordered`.
    """

    A: Array  # (n, p)
    factors: tuple[Factor, ...]

    __array_ufunc__: ClassVar[None] = None

    @cached_property
    def ends(self) -> list[int]:
        """Where the dense columns and each factor end."""
        widths = [self.A.shape[1], *(f.width for f in self.factors)]
        return [int(k) for k in np.cumsum(widths)]

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.A.shape[0]), self.ends[-1]

    @property
    def numbers(self) -> Array:
        return self.A

    def mapped(self, fn: Callable[[Any], Any]) -> Arrow:
        """With a function applied to all arrays."""
        return Arrow(fn(self.A), tuple(f.mapped(fn) for f in self.factors))

    def minor(self) -> Any:
        """Columns of all factors but the last, sparse."""
        return sparse.csr_array(sparse.hstack([f.matrix() for f in self.factors[:-1]]))

    def __matmul__(self, x: Array) -> Array:
        out: Array = double(self.A) @ x[: self.ends[0]]
        for factor, (a, b) in zip(self.factors, pairwise(self.ends), strict=True):
            out = out + factor.times(x[a:b])
        return out

    @property
    def T(self) -> Transposed:
        return Transposed(self)

    def gathered(self, x: Array) -> Array:
        """``C' x``."""
        parts = [double(self.A).T @ x]
        for factor in self.factors:
            parts.append(factor.gathered(x))
        out: Array = arrays.of(x).concatenate(parts)
        return out

    def squared(self) -> Arrow:
        return Arrow(self.A**2, tuple(replace(f, Z=f.Z**2) for f in self.factors))

    def scaled(self, s: Array) -> Arrow:
        """Columns times numbers, which are one for the factors' columns."""
        return Arrow(self.A * s[: self.ends[0]], self.factors)

    def alone(self, where: slice) -> Arrow:
        """With zeros in all columns but ``where``, those of one term."""
        A = np.zeros_like(self.A)
        if where.stop <= self.ends[0]:
            A[:, where] = self.A[:, where]
        starts = zip(self.factors, self.ends, strict=False)
        return Arrow(
            A, tuple(f if a == where.start else replace(f, Z=np.zeros_like(f.Z)) for f, a in starts)
        )

    def toarray(self) -> Array:
        return np.hstack([self.A, *(f.matrix().toarray() for f in self.factors)])


@dataclass(frozen=True, eq=False)
class Centred(Composite):
    r"""Columns :math:`C - 1 k^\top` of a sparse matrix *C*, which stays sparse in products."""

    C: Any  # (n, K), CSR
    shift: Array  # (K,)

    __array_ufunc__: ClassVar[None] = None

    @staticmethod
    def beside(parts: list[Any]) -> Any:
        """Columns of several parts side by side; plain sparse ones if none is centred."""
        pairs = [
            (x.C, x.shift) if isinstance(x, Centred) else (x, np.zeros(x.shape[1])) for x in parts
        ]
        C = sparse.csr_array(sparse.hstack([C for C, _ in pairs], format="csr"))
        shift = np.concatenate([k for _, k in pairs])
        return Centred(C, shift) if np.any(shift) else C

    @property
    def numbers(self) -> Any:
        return self.C

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.C.shape[0]), int(self.C.shape[1])

    def mapped(self, fn: Any) -> Centred:
        """With a function applied to the rows."""
        return replace(self, C=fn(self.C))

    def __getitem__(self, at: Any) -> Centred:
        """Rows, or rows and columns."""
        shift = self.shift[at[1]] if isinstance(at, tuple) else self.shift
        return replace(self, C=self.C[at], shift=shift)

    def __matmul__(self, x: Array) -> Array:
        out: Array = self.C @ x - self.shift @ x
        return out

    @property
    def T(self) -> Transposed:
        return Transposed(self)

    def gathered(self, x: Array) -> Array:
        """``C' x``."""
        total = x.sum(axis=0)
        less = np.outer(self.shift, total) if x.ndim > 1 else self.shift * total
        out: Array = self.C.T @ x - less
        return out

    def squared(self) -> Centred:
        """(C - 1 k')^2 entry by entry: as many entries differ from k^2."""
        square = self.C.multiply(self.C) - self.C.multiply(2.0 * self.shift)
        return Centred(sparse.csr_array(square), -(self.shift**2))

    def scaled(self, s: Array) -> Centred:
        return Centred(sparse.csr_array(self.C.multiply(s)), self.shift * s)

    def sandwich(self, w: Array) -> Array:
        """``C' diag(w) C`` of the centred columns."""
        gram = (self.C.T @ self.C.multiply(w[:, None]).tocsr()).toarray()
        cross = np.outer(self.C.T @ w, self.shift)
        return gram - cross - cross.T + w.sum() * np.outer(self.shift, self.shift)

    def toarray(self) -> Array:
        return np.asarray(self.C.toarray() - self.shift)


def squared(C: Columns) -> Columns:
    """Columns squared entry by entry."""
    if isinstance(C, Arrow | Centred):
        return C.squared()
    if sparse.issparse(C):
        return type(C)((C.data**2, C.indices, C.indptr), shape=C.shape)
    return C * C


def scaled(C: Columns, s: Array) -> Columns:
    """Columns times numbers."""
    if isinstance(C, Arrow | Centred):
        return C.scaled(s)
    return C.multiply(s).tocsr() if sparse.issparse(C) else C * like(s, C)


def plain(C: Columns) -> Array:
    """The dense columns; those of groups come after them."""
    out: Array = C if isinstance(C, np.ndarray) else C.A
    return out
