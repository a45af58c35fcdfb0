"""The seam: the one place where data are touched.

``pass_block`` turns a block of rows into summed statistics.  Everything that scales swaps here: the
form of S, the array that holds the columns, the engine that adds the blocks up.  What leaves the
seam is float64 and does not grow with the number of rows.

Columns may be held in float32, and in any array library: products with them are made in their
precision, block by block; rows answer, and blocks are added up, in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from . import namespace
from .namespace import double, like, pick
from .types import Array, Coef, Columns, Likelihood, Local, Rows, Stats

NEGLIGIBLE = 0.05  # curvature, as a share of w, below which a row is left out of H (2.5 % of it)

# ---------------------------------------------------------------------------------------------
# S in three forms


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
    """``C' diag(w) C`` in the form asked for; knows dense and sparse columns."""
    if form == "factored":
        return Factored(C.toarray() if sparse.issparse(C) else C, w)
    if form == "diagonal":
        return Diagonal(squared(C).T @ w)
    if sparse.issparse(C):
        return Dense((C.T @ C.multiply(w[:, None]).tocsr()).toarray())
    A = C * like(namespace.of(w).sqrt(w), C)[:, None]
    return Dense(double(A.T @ A))  # NumPy sees one matrix and its transpose and calls syrk


def squared(C: Columns) -> Columns:
    """Columns squared entry by entry."""
    if sparse.issparse(C):
        out = C.copy()
        out.data **= 2
        return out
    return C * C


# ---------------------------------------------------------------------------------------------
# One block of rows


def moments(rows: Rows, coef: Coef) -> tuple[Array, Array | float]:
    """Mean and variance of f at each row."""
    m, v = double(rows.C @ like(coef.mean, rows.C)), coef.cov.quad(rows.C) + rows.extra
    return m, v if namespace.is_numpy(m) else v + 0.0 * m  # a number is no array elsewhere


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
        some = namespace.of(local.h).nonzero(local.h > NEGLIGIBLE * local.w)[0]
        H = sandwich(pick(rows.C, some), pick(local.h, some), form)
    S = sandwich(rows.C, local.w, form)
    return Stats(S, double(rows.C.T @ like(local.g, rows.C)), namespace.total(local.bound), H)


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
    return gather(rows, likelihood.draw(y, double(rows.C @ like(theta, rows.C)), c, rng), form)
