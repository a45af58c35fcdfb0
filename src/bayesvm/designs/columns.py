"""Plain columns: an intercept, and the predictors on a common scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..core import arrays
from ..core.types import Array, Block, Columns, Engine
from ..gaussian.centred import Centred
from .table import numbers

FAR = 2.0**50  # standard deviations at which rows are taken to be: squares fit into float32,
RAW_FAR = 2.0**330  # and where columns are as given: squares, and sums of them, into float64
SAFE = 300  # exponents of two whose squares, and sums of these, neither overflow nor vanish


@dataclass(frozen=True)
class Intercept:
    """A column of ones."""

    width: int = 1

    def labels(self, names: Sequence[str]) -> list[str]:
        return ["intercept"]

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        if out is None:
            return sparse.csr_array(np.ones((X.shape[0], 1)))
        out[:, :] = 1.0
        return out


@dataclass(frozen=True)
class Assembled:
    """Columns that were built earlier and are read from the block as they are."""

    width: int


@dataclass(frozen=True, eq=False)
class Standardised:
    """Predictors less ``center`` over ``scale``; sparse ones stay sparse, see :class:`Centred`.

    A row that is farther off than ``far`` in a column is brought back to there, all its columns
    shrunk alike: squares of farther ones would overflow, and f and its standard deviation grow
    alike, so that no probability depends on it.
    """

    center: Array
    scale: Array
    far: float = FAR

    @property
    def width(self) -> int:
        return int(self.scale.size)

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        X = numbers(X)
        if sparse.issparse(X):
            scaled = self._sparse(X)
            if out is None:
                return scaled
            out[:] = scaled.toarray()
            return out
        if not arrays.is_numpy(X):
            X = arrays.double(X)
            scaled = (X - arrays.like(self.center, X)) / arrays.like(self.scale, X)
            if not arrays.total(scaled * scaled) <= self.far**2:
                held = arrays.to_numpy(X)
                scaled = arrays.like(self._near(held, arrays.to_numpy(scaled)), X)
            if out is None:
                return scaled
            out[:, :] = scaled if out.dtype == scaled.dtype else arrays.like(scaled, out)
            return out
        if out is None:
            out = np.empty(X.shape)
        with np.errstate(over="ignore"):
            np.subtract(X, self.center, out=out)  # first: exact for columns far from zero
            out *= 1.0 / self.scale
            size = np.einsum("ij,ij->", out, out)
        return out if size <= self.far**2 else self._near(X, out)

    def _near(self, X: Array, out: Array) -> Array:
        """Standardised rows ``out`` with those that are too far off made anew, in place."""
        rows = np.flatnonzero(np.any(~(np.abs(out) <= self.far) & ~np.isnan(X), axis=1))
        if rows.size:
            k, p = rows.size, self.width
            x, column = X[rows].astype(float).ravel(), np.tile(np.arange(p), k)
            near = self._shrunk(x, column, np.repeat(np.arange(k), p), k)
            out[rows] = near.reshape(k, p)
        return out

    def _shrunk(self, x: Array, column: Array, row: Array, k: int) -> Array:
        """Entries of k rows standardised and each row shrunk, by fractions and exponents."""
        fraction, power = np.frexp(0.5 * x - 0.5 * self.center[column])
        own, unit = np.frexp(self.scale)
        fraction, power = fraction / own[column], power + 1 - unit[column]
        most = np.full(k, -(2**20))
        np.maximum.at(most, row, np.where((fraction == 0) | np.isnan(fraction), -(2**20), power))
        off = np.maximum(most - int(np.log2(self.far)), 0)[row]
        return np.ldexp(fraction, np.clip(power - off, -1100, 1000))

    def _sparse(self, X: Any) -> Columns:
        """Scaled sparse rows, the centre beside them where there is one."""
        with np.errstate(over="ignore"):
            scaled = sparse.csr_array(X, dtype=float, copy=True)
            column = scaled.indices
            scaled.data *= (1.0 / self.scale)[column]
            size = scaled.data @ scaled.data
        shift = self.center / self.scale
        if not size <= self.far**2:
            row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            plain = Standardised(np.zeros(self.width), self.scale, self.far)
            scaled.data = plain._shrunk(X.data.astype(float), column, row, X.shape[0])
        return Centred(scaled, shift) if np.any(shift) else scaled

    def to_user(self, theta: Array) -> tuple[Array, Array]:
        """Coefficients on the scale of the input, and what they add to the intercept."""
        beta = theta / self.scale
        return beta, -beta @ self.center


@dataclass(frozen=True)
class Spread:
    """Weighted count, mean and sum of squared deviations, joined without cancellation.

    Means are in units of ``2**power``, squares in those of its square, so that neither overflows.
    """

    n: Any  # a number, or one a column where entries are missing
    mean: Array
    square: Array
    power: Array  # (p,), whole numbers

    def __add__(self, other: Spread) -> Spread:
        n = self.n + other.n
        if not np.any(n):
            return self
        power = np.maximum(self.power, other.power)
        one, two = self._in(power), other._in(power)
        gap, some = two.mean - one.mean, np.where(n > 0, n, 1.0)
        return Spread(
            n,
            one.mean + gap * (two.n / some),
            one.square + two.square + gap**2 * (one.n / some) * two.n,
            power,
        )

    def _in(self, power: Array) -> Spread:
        """The same in larger units."""
        less = self.power - power
        return Spread(self.n, np.ldexp(self.mean, less), np.ldexp(self.square, 2 * less), power)

    def moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation."""
        sd = np.sqrt(self.square / self.n)
        return np.ldexp(self.mean, self.power), np.ldexp(sd, self.power)


def _spread(block: Block) -> Spread:
    X, c = numbers(block.X), block.c
    n = float(arrays.of(c).sum(c))
    power = _powers(X)
    if n == 0:
        return Spread(0.0, np.zeros(X.shape[1]), np.zeros(X.shape[1]), power)
    if sparse.issparse(X):
        return Spread(n, *_sparse_sums(X, c, n, power), power)
    X = _in_units(X, power)
    if not arrays.is_numpy(X):
        X, c = arrays.double(X), arrays.double(c)
    elif not (known := ~np.isnan(X)).all():
        weight = c[:, None] * known
        counts = weight.sum(axis=0)
        some = np.where(counts > 0, counts, 1.0)
        mean = np.sum(weight * np.where(known, X, 0.0), axis=0) / some
        gap = np.where(known, X - mean, 0.0)
        shift = np.sum(weight * gap, axis=0) / some
        return Spread(counts, mean + shift, np.sum(weight * (gap - shift) ** 2, axis=0), power)
    mean = c @ X / n
    gap = X - mean
    shift = c @ gap / n  # what rounding of the first mean left: a constant column has no spread
    gap -= shift
    home = arrays.to_numpy
    return Spread(n, home(mean + shift), home(c @ (gap * gap)), power)


def _sparse_sums(X: Any, c: Array, n: float, power: Array) -> tuple[Array, Array]:
    """Mean and sum of squared deviations of sparse columns in units of ``2**power``."""
    p = X.shape[1]
    data = np.ldexp(X.data, -power[X.indices]) if power.any() else X.data
    each = np.repeat(c, np.diff(X.indptr))  # weight of every stored entry
    zeros = n - np.bincount(X.indices, each, p)
    zeros[zeros < 1e-9 * n] = 0.0  # less is rounding
    mean = np.bincount(X.indices, each * data, p) / n
    gap = data - mean[X.indices]
    shift = (np.bincount(X.indices, each * gap, p) - zeros * mean) / n
    gap -= shift[X.indices]
    mean += shift
    return mean, np.bincount(X.indices, each * gap**2, p) + zeros * mean**2


def _powers(X: Any) -> Array:
    """Exponents of two of the largest entry of each column, zero where squares are safe as is."""
    if sparse.issparse(X):
        largest = np.zeros(X.shape[1])
        np.maximum.at(largest, X.indices, np.abs(X.data))
    elif arrays.is_numpy(X):
        largest = np.fmax.reduce(np.abs([X.min(axis=0), X.max(axis=0)]), axis=0)
        if np.isnan(largest).any():
            largest = np.fmax.reduce(np.abs(X), axis=0, initial=0.0)
    else:
        largest = arrays.to_numpy(arrays.of(X).max(abs(X), axis=0))
    power = np.frexp(np.asarray(largest, dtype=float))[1]
    return np.where((largest > 0) & (np.abs(power) > SAFE), power, 0)


def _in_units(X: Any, power: Array) -> Any:
    """Columns in units of ``2**power``."""
    if not power.any():
        return X
    half = -(power // 2)  # in two steps: one factor could overflow
    for factor in (np.ldexp(1.0, half), np.ldexp(1.0, -power - half)):
        X = arrays.double(X) * arrays.like(factor, arrays.double(X))
    return X


def column_moments(blocks: Any, engine: Engine) -> tuple[Array, Array, Array]:
    """Mean and standard deviation of each column, and whether it is constant.

    A column whose spread is rounding error of its level is, or has lost digits to underflow.
    """
    mean, sd = engine.sum(_spread, blocks).moments()
    return mean, sd, (sd <= 1e-12 * np.abs(mean)) | (sd < np.finfo(float).tiny)


def fit_columns(
    blocks: Any, engine: Engine, standardize: bool, centred: bool = True
) -> Standardised:
    """Centre and scale of the columns, weighted by the rows' weights.

    Without an intercept columns are not ``centred``: f is then zero at the origin.  Nor are sparse
    ones, which would be filled in.  A constant column gets scale 1, unless it is very large.
    Missing entries are passed over.
    """
    p = blocks.width
    if not standardize:
        return Standardised(np.zeros(p), np.ones(p), RAW_FAR)
    mean, sd, constant = column_moments(blocks, engine)
    level = np.where(np.abs(mean) > FAR, np.abs(mean), 1.0)
    scale = np.where(constant, level, sd)
    centred = centred and not sparse.issparse(blocks.X)
    return Standardised(mean if centred else np.zeros(p), scale)
