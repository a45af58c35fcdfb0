"""Columns that are not plain arrays: codes of groups, and sparse columns that are centred.

Both behave like a matrix in products.  On the host the columns of groups are multiplied as SciPy
sparse arrays; in other array libraries by picking entries at codes and summing by codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from ..core import arrays
from ..core.arrays import Composite, double, is_numpy, like, pick, sums_by
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


class Factor(NamedTuple):
    """Rows of one grouping factor with G groups and r columns a group; unknown groups: Z = 0."""

    codes: Array  # (n,), 0 to G - 1
    Z: Array  # (n, r)
    G: int

    @property
    def width(self) -> int:
        return self.G * int(self.Z.shape[1])

    def mapped(self, fn: Callable[[Any], Any]) -> Factor:
        return Factor(fn(self.codes), fn(self.Z), self.G)

    def cells(self, first: int = 0) -> Iterator[tuple[Array, Array]]:
        """Positions of the entries that are not zero, and their values: r pairs of ``(n,)``."""
        r = self.Z.shape[1]
        for j in range(r):
            yield self.codes * r + (first + j), self.Z[:, j]

    def matrix(self) -> Any:
        """The columns as a sparse array ``(n, G r)``."""
        n, r = self.Z.shape
        at: Array = self.codes.astype(np.int32)
        if r > 1:
            at = (at[:, None] * np.int32(r) + np.arange(r, dtype=np.int32)).ravel()
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

    @cached_property
    def parts(self) -> list[Any]:
        """Columns of each factor, sparse."""
        return [f.matrix() for f in self.factors]

    def minor(self) -> Any:
        """Columns of all factors but the last, sparse; ``None`` if there is one factor."""
        few = self.parts[:-1]
        if len(few) <= 1:
            return few[0] if few else None
        return sparse.csr_array(sparse.hstack(few, format="csr"))

    def cells(self, factors: slice, first: int = 0) -> list[tuple[Any, Any]]:
        """Positions and values of the entries of some factors, whose columns begin at ``first``."""
        out: list[tuple[Any, Any]] = []
        for f in self.factors[factors]:
            out += f.cells(first)
            first += f.width
        return out

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, tuple):  # dense columns only
            return self.A[rows]
        n = self.A.shape[0]
        if isinstance(rows, slice) and rows.indices(n) == (0, n, 1):
            return self  # with its cached sparse columns
        return super().__getitem__(rows)

    def __matmul__(self, x: Array) -> Array:
        out: Array = double(self.A) @ x[: self.ends[0], ...]
        if not is_numpy(self):
            for at, z in self.cells(slice(None), self.ends[0]):
                out = out + (z if x.ndim == 1 else z[:, None]) * pick(x, at)
            return out
        for part, (a, b) in zip(self.parts, pairwise(self.ends), strict=True):
            out += part @ x[a:b]
        return out

    @property
    def T(self) -> Transposed:
        return Transposed(self)

    def gathered(self, x: Array) -> Array:
        """``C' x``."""
        if is_numpy(self):
            return np.concatenate([double(self.A).T @ x, *(part.T @ x for part in self.parts)])
        xp = arrays.of(x)
        if x.ndim > 1:
            return xp.stack([self.gathered(x[:, k]) for k in range(x.shape[1])], axis=1)  # type: ignore[no-any-return]
        each = [sums_by(f.codes, f.Z * x[:, None], f.G) for f in self.factors]
        out: Array = xp.concat([double(self.A).T @ x, *(xp.reshape(k, (-1,)) for k in each)])
        return out

    def squared(self) -> Arrow:
        return Arrow(self.A**2, tuple(f._replace(Z=f.Z**2) for f in self.factors))

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
            A, tuple(f if a == where.start else f._replace(Z=np.zeros_like(f.Z)) for f, a in starts)
        )

    def toarray(self) -> Array:
        return np.hstack([self.A, *(part.toarray() for part in self.parts)])


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


def unit(K: int, some: Array) -> Array:
    """Columns of the identity matrix."""
    out = np.zeros((K, len(some)))
    out[some, np.arange(len(some))] = 1.0
    return out
