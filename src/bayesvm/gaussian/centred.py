"""Sparse columns less a number each, which would fill them in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ..core.arrays import Composite
from ..core.types import Array


@dataclass(frozen=True, eq=False)
class Centred(Composite):
    r"""Columns :math:`C - 1 k^\top` of a sparse matrix *C*, which stays sparse.

    Products need no more than those of *C* and :math:`k`: rows that are sparse can meet a model
    whose columns were centred when it was fitted.
    """

    C: Any  # (n, K), CSR
    shift: Array  # (K,)

    __array_ufunc__: ClassVar[None] = None  # NumPy leaves products to this class

    @staticmethod
    def beside(parts: list[Any]) -> Any:
        """Columns of several parts side by side; plain sparse ones if none is centred."""
        C = sparse.csr_array(sparse.hstack([getattr(x, "C", x) for x in parts], format="csr"))
        shift = np.concatenate([getattr(x, "shift", np.zeros(x.shape[1])) for x in parts])
        return Centred(C, shift) if np.any(shift) else C

    @property
    def numbers(self) -> Any:
        return self.C

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.C.shape[0]), int(self.C.shape[1])

    @property
    def dtype(self) -> Any:
        return self.C.dtype

    def mapped(self, fn: Any) -> Centred:
        """The same done to the rows."""
        return Centred(fn(self.C), self.shift)

    def __getitem__(self, at: Any) -> Centred:
        """Rows, or rows and columns."""
        return Centred(self.C[at], self.shift[at[1]] if isinstance(at, tuple) else self.shift)

    def __matmul__(self, x: Array) -> Array:
        out: Array = self.C @ x - self.shift @ x
        return out

    @property
    def T(self) -> CentredTransposed:
        return CentredTransposed(self)

    def squared(self) -> Centred:
        """(C - 1 k')^2 entry by entry: as many entries differ from k^2."""
        return Centred(
            sparse.csr_array(self.C.multiply(self.C) - self.C.multiply(2.0 * self.shift)),
            -(self.shift**2),
        )

    def scaled(self, s: Array) -> Centred:
        return Centred(sparse.csr_array(self.C.multiply(s)), self.shift * s)

    def sandwich(self, w: Array) -> Array:
        """``C' diag(w) C`` of the centred columns."""
        gram = (self.C.T @ self.C.multiply(w[:, None]).tocsr()).toarray()
        total = self.C.T @ w
        cross = np.outer(total, self.shift)
        return gram - cross - cross.T + w.sum() * np.outer(self.shift, self.shift)

    def toarray(self) -> Array:
        return np.asarray(self.C.toarray() - self.shift)


@dataclass(frozen=True, eq=False)
class CentredTransposed:
    """The transpose, for products on either side."""

    of: Centred

    __array_ufunc__: ClassVar[None] = None

    @property
    def shape(self) -> tuple[int, int]:
        n, K = self.of.shape
        return K, n

    def __matmul__(self, x: Array) -> Array:
        total = x.sum(axis=0)
        shift = self.of.shift
        out: Array = self.of.C.T @ x - (np.outer(shift, total) if x.ndim > 1 else shift * total)
        return out

    def __rmatmul__(self, x: Array) -> Array:
        return (self.of @ x.T).T
