"""The seam: the one place where data are touched.

``pass_block`` turns a block of rows into summed statistics.  Everything that scales swaps here: the
form of S, the array that holds the columns, the engine that adds the blocks up.  What leaves the
seam is float64 and does not grow with the number of rows.

Columns may be held in float32, and in any array library: products with them are made in their
precision, block by block; rows answer, and blocks are added up, in float64.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from . import namespace
from .arrow import Arrow, Bordered
from .centred import Centred
from .namespace import double, like, pick
from .types import Array, Cells, Coef, Columns, Hidden, Likelihood, Local, Rows, Stats

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
    A = C * like(namespace.of(w).sqrt(w), C)[:, None]
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


# ---------------------------------------------------------------------------------------------
# Latent entries of rows


def plain(C: Columns) -> Array:
    """The columns that are numbers; those of groups come after them."""
    out: Array = C if isinstance(C, np.ndarray) else C.A
    return out


def second_moment(coef: Coef, where: slice) -> Array:
    """E[theta theta'] of some coefficients."""
    mu = coef.mean[where]
    return coef.cov.block(where) + np.outer(mu, mu)


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


def hidden_variance(rows: Rows, coef: Coef) -> Array:
    """What latent entries add to the variance of f: ``tr(E[theta theta'] V_i)``."""
    out = np.zeros(rows.C.shape[0])
    for where, cells in rows.V:
        K = second_moment(coef, where)
        for part in cells:
            out[part.rows] += np.sum(corners(K, part.columns) * part.cov, axis=(1, 2))
    return out


def filled(rows: Rows, hidden: tuple[Hidden, ...]) -> Rows:
    """Rows with the means of latent entries in their columns, and their covariances beside."""
    copy = plain(rows.C).copy()
    C = copy if isinstance(rows.C, np.ndarray) else replace(rows.C, A=copy)
    for where, cells in hidden:
        for part in cells:
            copy[part.rows[:, None], where.start + part.columns] = part.mean
    V = tuple(h for h in hidden if any(part.cov is not None for part in h.cells))
    return Rows(C, rows.extra, V)


# ---------------------------------------------------------------------------------------------
# One block of rows


def moments(rows: Rows, coef: Coef) -> tuple[Array, Array | float]:
    """Mean and variance of f at each row."""
    m, v = double(rows.C @ like(coef.mean, rows.C)), coef.cov.quad(rows.C) + rows.extra
    if rows.V:
        return m, v + hidden_variance(rows, coef)
    return m, v if namespace.is_numpy(m) else v + 0.0 * m  # a number is no array elsewhere


def expected(
    rows: Rows, y: Array, c: Array, coef: Coef, likelihood: Likelihood
) -> tuple[Array, Array | float, Local]:
    """Moments of f and what each row, counted ``c`` times, says in return."""
    m, v = moments(rows, coef)
    return m, v, likelihood.expected(y, m, v).times(c)


def is_curved(local: Local) -> Any:
    """Which rows have a part in H."""
    # those far from the kink have next to no curvature, and there are many of them
    return local.h > NEGLIGIBLE * local.w


def gather(
    rows: Rows, local: Local, form: str, curved: bool = False, mean: Array | None = None
) -> Stats:
    """Sum what the rows say; with ``curved``, their curvatures too.

    Rows with latent entries also need the ``mean`` of theta at which they said it.
    """
    H, left, weight = None, 0.0, 0.0
    if curved:
        bent, xp = is_curved(local), namespace.of(local.h)
        some = xp.nonzero(bent)[0]
        H = sandwich(pick(rows.C, some), pick(local.h, some), form)
        left = namespace.total(xp.where(bent, xp.zeros_like(local.h), local.h))
        weight = namespace.total(local.w)
    S, g = sandwich(rows.C, local.w, form), double(rows.C.T @ like(local.g, rows.C))
    for where, cells in rows.V:
        spread = scattered(cells, local.w, where.stop - where.start)
        S, H = S.plus(where, spread), None if H is None else H.plus(where, spread)
        g[where] -= spread @ mean[where]  # type: ignore[index]
    return Stats(S, g, namespace.total(local.bound), H, left, weight)


def pass_block(
    rows: Rows, y: Array, c: Array, coef: Coef, likelihood: Likelihood, form: str, curved: bool
) -> Stats:
    """One block of rows seen by a distribution of theta: VB, EM and SVI."""
    local = expected(rows, y, c, coef, likelihood)[2]
    return gather(rows, local, form, curved, coef.mean)


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
