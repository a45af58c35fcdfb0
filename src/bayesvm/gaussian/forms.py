"""Sums over rows in four forms, S among them, and the columns they are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..core import arrays
from ..core.arrays import double, like
from ..core.types import Array, Cells, Columns
from .arrow import Arrow, Bordered
from .centred import Centred


@dataclass(frozen=True)
class Dense:
    """S as a ``(K, K)`` matrix."""

    M: Array

    def __add__(self, other: Dense) -> Dense:
        return Dense(self.M + other.M)

    def __mul__(self, k: float) -> Dense:
        return Dense(k * self.M)

    def __matmul__(self, x: Array) -> Array:
        return self.M @ x

    def plus(self, where: slice, M: Array) -> Dense:
        """With ``M`` added to a block."""
        out = self.M.copy()
        out[where, where] += M
        return Dense(out)

    def rows(self, some: Array) -> Array:
        return self.M[some]

    def block(self, some: Array) -> Array:
        return self.M[np.ix_(some, some)]

    def times(self, x: Array, some: Array) -> Array:
        return self.M[some] @ x

    def diag(self) -> Array:
        return np.diag(self.M)


@dataclass(frozen=True)
class Factored:
    """S as ``C' diag(w) C`` left unmultiplied: smaller where columns outnumber rows."""

    C: Array
    w: Array

    def __add__(self, other: Factored) -> Factored:
        return Factored(np.vstack([self.C, other.C]), np.concatenate([self.w, other.w]))

    def __mul__(self, k: float) -> Factored:
        return Factored(self.C, k * self.w)

    def __matmul__(self, x: Array) -> Array:
        return self.C.T @ (self.w * self._predict(x))

    def _predict(self, x: Array) -> Array:
        """C x, by the columns that have a coefficient where these are few."""
        some = np.flatnonzero(x)
        return self.C @ x if 4 * some.size > x.size else self.C[:, some] @ x[some]

    def times(self, x: Array, some: Array) -> Array:
        """A few entries of S x."""
        return self.C[:, some].T @ (self.w * self._predict(x))

    def rows(self, some: Array) -> Array:
        return (self.C[:, some] * self.w[:, None]).T @ self.C

    def block(self, some: Array) -> Array:
        A = self.C[:, some] * np.sqrt(self.w)[:, None]
        return A.T @ A

    def diag(self) -> Array:
        return np.asarray(squared(self.C).T @ self.w)


@dataclass(frozen=True)
class GatedRows:
    """S of columns behind gates, factored: columns times gates, and what gates add to its diagonal.

    It serves to make a covariance, nothing else.
    """

    C: Array
    w: Array
    d: Array


@dataclass(frozen=True)
class Diagonal:
    """The diagonal of S only: for models too wide for a matrix, whose q(theta) is factorised."""

    d: Array

    def __add__(self, other: Diagonal) -> Diagonal:
        return Diagonal(self.d + other.d)

    def __mul__(self, k: float) -> Diagonal:
        return Diagonal(k * self.d)


def sandwich(C: Columns, w: Array, form: str) -> Any:
    """``C' diag(w) C`` in the form asked for; knows dense and sparse columns, and codes."""
    if isinstance(C, Arrow) and form != "arrow":
        C = C.toarray()
    if isinstance(C, Centred) and form == "dense":
        return Dense(C.sandwich(w))
    if form == "arrow":
        return Bordered.of(C, w)
    if form == "factored":
        return Factored(C.toarray() if hasattr(C, "toarray") else C, w)
    if form == "diagonal":
        return Diagonal(squared(C).T @ w)
    if sparse.issparse(C):
        return Dense((C.T @ C.multiply(w[:, None]).tocsr()).toarray())
    A = C * like(arrays.of(w).sqrt(w), C)[:, None]
    return Dense(double(A.T @ A))  # NumPy sees one matrix and its transpose and calls syrk


def squared(C: Columns) -> Columns:
    """Columns squared entry by entry."""
    if isinstance(C, Arrow | Centred):
        return C.squared()
    if sparse.issparse(C):
        out = C.copy()
        out.data **= 2
        return out
    return C * C


def scaled(C: Columns, s: Array) -> Columns:
    """Columns times numbers."""
    if isinstance(C, Arrow | Centred):
        return C.scaled(s)
    return C.multiply(s).tocsr() if sparse.issparse(C) else C * s


def plain(C: Columns) -> Array:
    """The columns that are numbers; those of groups come after them."""
    out: Array = C if isinstance(C, np.ndarray) else C.A
    return out


def corners(M: Array, columns: Array) -> Array:
    """The block of M at each row's columns: ``(k, m, m)`` from ``(k, m)``."""
    out: Array = M[columns[:, :, None], columns[:, None, :]]
    return out


def scattered(cells: tuple[Cells, ...], w: Array, d: int) -> Array:
    """The sum over rows of ``w_i V_i``, ``(d, d)``."""
    at = [(part.columns[:, :, None] * d + part.columns[:, None, :]).ravel() for part in cells]
    parts = [(w[part.rows][:, None, None] * part.cov).ravel() for part in cells]
    if not parts:
        return np.zeros((d, d))
    return np.bincount(np.concatenate(at), np.concatenate(parts), d * d).reshape(d, d)
