"""Columns of random effects as group codes: products index and sum by code."""

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
class Factor:
    """Columns of a grouping factor, G groups of r columns; Z = 0 for rows of unknown groups."""

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
        """The transposed columns times ``x``, ``(n,)`` or ``(n, k)``: sums over each group."""
        n, r = self.Z.shape
        k = x.shape[1] if x.ndim > 1 else 1
        each = (self.Z[:, :, None] * x.reshape(n, 1, k)).reshape(n, r * k)
        if arrays.is_foreign(x):
            sums = arrays.of(x).zeros((self.G, each.shape[1]), dtype=each.dtype, device=x.device)
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
    """Dense columns, then columns of grouping factors with the widest factor last.

    The Gram matrix has the shape of an arrow: see :class:`bayesvm.linalg.forms.Bordered`.
    """

    A: Array  # (n, p)
    factors: tuple[Factor, ...]

    __array_ufunc__: ClassVar[None] = None  # NumPy leaves products to this class

    @cached_property
    def ends(self) -> list[int]:
        """End positions of the dense columns and of each factor."""
        ends = [int(self.A.shape[1])]
        for factor in self.factors:
            ends.append(ends[-1] + factor.width)
        return ends

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.A.shape[0]), self.ends[-1]

    @property
    def numbers(self) -> Array:
        return self.A

    @property
    def T(self) -> Transposed:
        return Transposed(self)

    def mapped(self, fn: Callable[[Any], Any]) -> Arrow:
        """The columns with a function applied to all arrays."""
        return Arrow(fn(self.A), tuple(f.mapped(fn) for f in self.factors))

    def corner(self) -> Any:
        """All columns except the last factor, as a sparse array."""
        return sparse.csr_array(sparse.hstack([self.A, *(f.matrix() for f in self.factors[:-1])]))

    def __matmul__(self, x: Array) -> Array:
        out: Array = double(self.A) @ x[: self.ends[0]]
        for factor, (a, b) in zip(self.factors, pairwise(self.ends), strict=True):
            out = out + factor.times(x[a:b])
        return out

    def toarray(self) -> Array:
        return np.hstack([self.A, *(f.matrix().toarray() for f in self.factors)])


@dataclass(frozen=True, eq=False)
class Transposed:
    """The transpose of :class:`Arrow`, for products from both sides."""

    of: Arrow

    __array_ufunc__: ClassVar[None] = None

    def __matmul__(self, x: Array) -> Array:
        parts = [double(self.of.A).T @ x]
        for factor in self.of.factors:
            parts.append(factor.gathered(x))
        out: Array = arrays.of(x).concatenate(parts)
        return out

    def __rmatmul__(self, x: Array) -> Array:
        return (self.of @ x.T).T


def squared(C: Columns) -> Columns:
    """Columns squared elementwise."""
    if isinstance(C, Arrow):
        return Arrow(C.A**2, tuple(replace(f, Z=f.Z**2) for f in C.factors))
    return C.power(2) if sparse.issparse(C) else C * C


def scaled(C: Columns, s: Array) -> Columns:
    """Columns times factors ``s``, which are equal for all columns of a grouping factor."""
    if isinstance(C, Arrow):
        pairs = zip(C.factors, C.ends, strict=False)
        return Arrow(C.A * s[: C.ends[0]], tuple(replace(f, Z=f.Z * s[k]) for f, k in pairs))
    return C.multiply(s).tocsr() if sparse.issparse(C) else C * like(s, C)


def plain(C: Columns) -> Array:
    """The dense columns, without the columns of grouping factors."""
    out: Array = C if isinstance(C, np.ndarray) else C.A
    return out
