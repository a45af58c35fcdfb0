"""Plain columns: an intercept, predictors on a common scale, and kernel values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from ..core import arrays
from ..core.types import Array, Block, Columns, Design, Engine
from ..linalg.columns import Centred


def largest_entry(dtype: str) -> float:
    """Power of two below the cube root of the largest number: sums of squares do not overflow."""
    return 2.0 ** (np.finfo(dtype).maxexp // 3)


@dataclass(frozen=True)
class Intercept(Design):
    """A column of ones."""

    is_intercept: ClassVar[bool] = True
    has_labels: ClassVar[bool] = True

    width: int = 1

    def labels(self, names: Sequence[str]) -> list[str]:
        return ["intercept"]

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        if out is None:
            return sparse.csr_array(np.ones((X.shape[0], 1)))
        out[:, :] = 1.0
        return out


@dataclass(frozen=True)
class Assembled(Design):
    """Columns that were built earlier and are read from the block as they are."""

    width: int


@dataclass(frozen=True, eq=False)
class Basis(Design):
    """Kernel values at the vectors ``Z``, which are on the scale of the design ``inputs``."""

    inputs: Any
    kernel: Any
    Z: Array

    @property
    def width(self) -> int:
        return int(self.Z.shape[0])

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        out = np.empty((X.shape[0], self.width)) if out is None else out
        if self.width:
            out[:] = self.kernel(self.inputs.columns(X), self.Z)
        return out


@dataclass(frozen=True, eq=False)
class Chosen(Design):
    """Columns of an input of precomputed kernel values."""

    index: Array

    @property
    def width(self) -> int:
        return int(self.index.size)

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        out = np.empty((X.shape[0], self.width)) if out is None else out
        out[:] = X[:, self.index]
        return out


@dataclass(frozen=True, eq=False)
class Standardised(Design):
    """Predictors less ``center`` over ``scale``; sparse ones stay sparse, see :class:`Centred`.

    A row with an entry beyond ``far`` is scaled down as a whole until that entry is at ``far``:
    larger squares would overflow.  Mean and standard deviation of f are scaled alike, so that no
    probability depends on it.  Columns that are ``still``, the same in all training rows, are zero
    at other rows too: nothing is known of their effect, nor of the unit of a change.
    """

    center: Array
    scale: Array
    far: float = largest_entry("float32")
    still: Array | None = None  # (p,), truth values
    width: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", int(self.scale.size))

    @property
    def factor(self) -> Array:
        """What columns less their centre are multiplied by."""
        return 1.0 / self.scale if self.still is None else np.where(self.still, 0.0, 1 / self.scale)

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        X = arrays.inner(X)
        if sparse.issparse(X):
            scaled = self._sparse(X)
        elif arrays.is_numpy(X):
            out = np.empty(X.shape) if out is None else out
            with np.errstate(over="ignore"):
                np.subtract(X, self.center, out=out)  # first: exact for columns far from zero
                out *= self.factor
                size = np.einsum("ij,ij->", out, out)
            return out if size <= self.far**2 else self._near(X, out)
        else:
            X = arrays.double(X)
            scaled = (X - arrays.like(self.center, X)) / arrays.like(self.scale, X)
            if self.still is not None:
                scaled = scaled * arrays.like(np.where(self.still, 0.0, 1.0), X)
            if not (scaled * scaled).sum() <= self.far**2:
                held = arrays.to_numpy(X)
                scaled = arrays.like(self._near(held, arrays.to_numpy(scaled)), X)
        if out is None:
            return scaled
        if sparse.issparse(X):
            scaled = scaled.toarray()
        out[:, :] = scaled if out.dtype == scaled.dtype else arrays.like(scaled, out)
        return out

    def _near(self, X: Array, out: Array) -> Array:
        """Standardised rows ``out`` with those beyond ``far`` recomputed, in place."""
        rows = np.flatnonzero(np.any(~(np.abs(out) <= self.far) & ~np.isnan(X), axis=1))
        if rows.size:
            k, p = rows.size, self.width
            x, column = X[rows].astype(float).ravel(), np.tile(np.arange(p), k)
            near = self._shrunk(x, self.center, column, np.repeat(np.arange(k), p), k)
            out[rows] = near.reshape(k, p)
        return out

    def _shrunk(self, x: Array, center: Array, column: Array, row: Array, k: int) -> Array:
        """Entries of k rows standardised and each row scaled down, by fractions and exponents."""
        fraction, power = np.frexp(0.5 * x - 0.5 * center[column])
        own, unit = np.frexp(self.scale)
        fraction, power = fraction / own[column], power + 1 - unit[column]
        if self.still is not None:
            fraction = np.where(self.still[column], 0.0, fraction)
        most = np.full(k, -(2**20))
        np.maximum.at(most, row, np.where((fraction == 0) | np.isnan(fraction), -(2**20), power))
        off = np.maximum(most - int(np.log2(self.far)), 0)[row]
        return np.ldexp(fraction, np.clip(power - off, -1100, 1000))

    def _sparse(self, X: Any) -> Columns:
        """Scaled sparse rows, the centre beside them where there is one."""
        with np.errstate(over="ignore"):
            scaled = sparse.csr_array(X, dtype=float, copy=True)
            scaled.data *= self.factor[scaled.indices]
            size = scaled.data @ scaled.data
        if not size <= self.far**2:
            row, none = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), np.zeros(self.width)
            x = X.data.astype(float)
            scaled.data = self._shrunk(x, none, scaled.indices, row, X.shape[0])
        shift = self.center * self.factor
        return Centred(scaled, shift) if np.any(shift) else scaled

    @property
    def spans(self) -> list[tuple[int, int, int]]:
        """Columns that have others beside them, and the first and last (excluded) of these."""
        return []

    def groups(self, given: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """Groups of columns that share a length scale, from those of the input's columns."""
        return given

    def with_units(self, units: Array | None) -> Self:
        """The columns on other scales where units are not NaN, as those of indicators are.

        In a distance, that of a rare level divided by its standard deviation would outweigh all
        other columns.
        """
        if units is None:
            return self
        return replace(self, scale=np.where(np.isnan(units), self.scale, units))

    def to_input(self, Z: Array) -> Array:
        """Rows on the scale of the input from standardised ones."""
        return np.asarray(Z[:, : self.width] * self.scale + self.center)

    def to_user(self, theta: Array) -> tuple[Array, Array]:
        """Coefficients on the scale of the input, and what they add to the intercept."""
        beta = theta / self.scale
        return beta, -beta @ self.center


# ---------------------------------------------------------------------------------------------
# Centre and scale


@dataclass(frozen=True)
class Spread:
    """Weighted count, mean and sum of squared deviations, joined without cancellation.

    Means are in units of ``2**power``, squares in those of its square, so that neither overflows.
    """

    n: Any  # a number, or one for each column where entries are missing
    mean: Array
    square: Array
    power: Array  # (p,), whole numbers

    def __add__(self, other: Spread) -> Spread:
        n = self.n + other.n
        if not np.any(n):
            return self
        power, some = np.maximum(self.power, other.power), np.where(n > 0, n, 1.0)
        (mean, square), (mean2, square2) = (
            (np.ldexp(x.mean, x.power - power), np.ldexp(x.square, 2 * (x.power - power)))
            for x in (self, other)
        )
        gap = mean2 - mean
        square = square + square2 + gap**2 * (self.n / some) * other.n
        return Spread(n, mean + gap * (other.n / some), square, power)

    def moments(self) -> tuple[Array, Array]:
        """Mean and standard deviation."""
        sd = np.sqrt(self.square / self.n)
        return np.ldexp(self.mean, self.power), np.ldexp(sd, self.power)


def _spread(block: Block, c: Array) -> Spread:
    """Moments of a block; missing entries (NaN) are left out."""
    X = arrays.inner(block.X)
    n: Any = float(c.sum())
    power = _powers(X)
    if n == 0:
        return Spread(0.0, np.zeros(X.shape[1]), np.zeros(X.shape[1]), power)
    if sparse.issparse(X):
        return Spread(n, *_sparse_sums(X, c, n, power), power)
    X, c = arrays.double(X), arrays.double(c)
    if power.any():  # in two steps: one factor could overflow
        half = -(power // 2)
        for factor in (np.ldexp(1.0, half), np.ldexp(1.0, -power - half)):
            X = X * arrays.like(factor, X)
    total, count, known = c @ X, n, None
    if arrays.is_numpy(X) and np.isnan(total).any():
        known = ~np.isnan(X)
        n = c @ known
        count = np.where(n > 0, n, 1.0)
        total = c @ np.where(known, X, 0.0)
    mean = total / count
    gap = X - mean if known is None else np.where(known, X - mean, 0.0)
    shift = c @ gap / count  # rounding error of the first mean: a constant column has no spread
    gap -= shift if known is None else known * shift
    mean, square = (arrays.to_numpy(x) for x in (mean + shift, c @ (gap * gap)))
    return Spread(n, mean, square, power)


def _by_columns(X: Any, values: Array, c: Array) -> Array:
    """Weighted column sums of a sparse array with other values in place of its entries."""
    out: Array = type(X)((values, X.indices, X.indptr), shape=X.shape).T @ c
    return out


def _sparse_sums(X: Any, c: Array, n: float, power: Array) -> tuple[Array, Array]:
    """Mean and sum of squared deviations of sparse columns in units of ``2**power``."""
    column = X.indices
    data = np.ldexp(X.data, -power[column]) if power.any() else arrays.double(X.data)
    zeros = n - _by_columns(X, np.ones(data.size), c)
    zeros[zeros < 1e-9 * n] = 0.0  # less is rounding
    mean = _by_columns(X, data, c) / n
    gap = data - mean[column]
    shift = (_by_columns(X, gap, c) - zeros * mean) / n
    gap -= shift[column]
    mean += shift
    return mean, _by_columns(X, gap**2, c) + zeros * mean**2


def _powers(X: Any) -> Array:
    """Exponents of two of the largest entry of each column, zero where squares are safe."""
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
    return np.where((largest > 0) & (np.abs(power) > np.finfo(float).maxexp // 3), power, 0)


def _present(block: Block, c: Array) -> Array:
    """Weight of the rows in which each column is not zero, and of those in which it is known."""
    X = arrays.inner(block.X)
    if sparse.issparse(X):
        c = np.asarray(c)
        some = _by_columns(X, arrays.double(X.data != 0), c)
        return np.stack([some, np.full(X.shape[1], c.sum())])
    known = X == X  # NaN are missing
    return np.stack([arrays.to_numpy(c @ arrays.double(k)) for k in ((X != 0) & known, known)])


def column_moments(blocks: Any, c: Array, engine: Engine) -> tuple[Array, Array, Array]:
    """Mean and standard deviation of each column, and whether it is constant.

    A column is constant if its spread is rounding error of its level, or has underflowed.
    """
    mean, sd = engine.sum(_spread, blocks, c).moments()
    return mean, sd, (sd <= 1e-12 * np.abs(mean)) | (sd < np.finfo(float).tiny)


def fit_columns(
    blocks: Any,
    c: Array,
    engine: Engine,
    standardize: bool,
    centred: bool = True,
    distances: bool = False,
) -> Standardised:
    """Centre and scale of the columns, weighted by the rows' weights ``c``; NaN are left out.

    Without an intercept columns are not ``centred``: f is then zero at the origin.  Nor are sparse
    ones, which would be filled in.  The scale, of sparse and of dense columns alike, is the
    standard deviation over the square root of the share of entries that are not zero: that of a
    column without zeros is the standard deviation, that of a word or level which is rare is the
    usual size of its entries.  Divided by the standard deviation alone, words that occur in one row
    or two would outweigh all others.  Dense columns of ``distances`` are divided by it all the
    same, since kernels learn length scales.  A constant column gets scale 1, unless it is very
    large, and is still if its centre is that constant.
    """
    if not standardize:
        return Standardised(np.zeros(blocks.width), np.ones(blocks.width), largest_entry("float64"))
    is_sparse = sparse.issparse(blocks.X)
    if is_sparse:  # slices would be copies
        blocks = replace(blocks, size=max(blocks.n, 1))
    mean, sd, constant = column_moments(blocks, c, engine)
    if is_sparse or not distances:
        present, known = engine.sum(_present, blocks, c)
        sd = sd / np.sqrt(np.divide(present, known, out=np.ones(sd.size), where=present > 0))
    scale = np.where(constant, np.where(np.abs(mean) > Standardised.far, np.abs(mean), 1.0), sd)
    centred = centred and not is_sparse
    center = mean if centred else np.zeros(scale.size)
    still = constant & (center == mean)
    return Standardised(center, scale, still=still if still.any() else None)
