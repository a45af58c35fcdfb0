"""The seam: the one place where data are touched.

``pass_block`` turns a block of rows into summed statistics.  Everything that scales swaps here: the
form of S, the array that holds the columns, the engine that adds the blocks up.  What leaves the
seam is float64 and does not grow with the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .arrow import Arrow, Bordered
from .types import Array, Coef, Columns, Likelihood, Local, Rows, Stats

NEGLIGIBLE = 0.05  # curvature, as a share of w, below which a row is left out of H (2.5 % of it)

# ---------------------------------------------------------------------------------------------
# S in three forms; a fourth, of groups, is in arrow.py


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
    if form == "arrow":
        return Bordered.of(C, w)
    if form == "factored":
        return Factored(C.toarray() if sparse.issparse(C) else C, w)
    if form == "diagonal":
        return Diagonal(squared(C).T @ w)
    if sparse.issparse(C):
        return Dense((C.T @ C.multiply(w[:, None]).tocsr()).toarray())
    A = C * np.sqrt(w)[:, None]
    return Dense(A.T @ A)  # NumPy sees one matrix and its transpose and calls syrk


def squared(C: Columns) -> Columns:
    """Columns squared entry by entry."""
    if isinstance(C, Arrow):
        return C.squared()
    if sparse.issparse(C):
        out = C.copy()
        out.data **= 2
        return out
    return C * C


def scaled(C: Columns, s: Array) -> Columns:
    """Columns times numbers."""
    if isinstance(C, Arrow):
        return C.scaled(s)
    return C.multiply(s).tocsr() if sparse.issparse(C) else C * s


# ---------------------------------------------------------------------------------------------
# One block of rows


def moments(rows: Rows, coef: Coef) -> tuple[Array, Array | float]:
    """Mean and variance of f at each row."""
    return rows.C @ coef.mean, coef.cov.quad(rows.C) + rows.extra


def expected(
    rows: Rows, y: Array, c: Array, coef: Coef, likelihood: Likelihood
) -> tuple[Array, Array | float, Local]:
    """Moments of f and what each row, counted ``c`` times, says in return."""
    m, v = moments(rows, coef)
    return m, v, likelihood.expected(y, m, v).times(c)


def gather(rows: Rows, local: Local, form: str, curved: bool = False) -> Stats:
    """Sum what the rows say; with ``curved``, their curvatures too."""
    H = None
    if curved:
        # rows far from the kink have next to no curvature, and there are many of them
        some = np.flatnonzero(local.h > NEGLIGIBLE * local.w)
        H = sandwich(rows.C[some], local.h[some], form)
    S = sandwich(rows.C, local.w, form)
    return Stats(S, rows.C.T @ local.g, float(local.bound.sum()), H)


def pass_block(
    rows: Rows, y: Array, c: Array, coef: Coef, likelihood: Likelihood, form: str, curved: bool
) -> Stats:
    """One block of rows seen by a distribution of theta: VB, EM and SVI."""
    return gather(rows, expected(rows, y, c, coef, likelihood)[2], form, curved)


def draw_block(
    rows: Rows,
    y: Array,
    c: Array,
    theta: Array,
    likelihood: Likelihood,
    form: str,
    rng: np.random.Generator,
) -> Stats:
    """One block of rows seen by a draw of theta: Gibbs."""
    return gather(rows, likelihood.draw(y, rows.C @ theta, c, rng), form)
