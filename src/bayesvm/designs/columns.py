"""Plain columns: an intercept, predictors on a common scale, and kernel values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from ..core import arrays
from ..core.types import Array, Block, Columns, Design
from ..linalg.columns import scaled


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
    """Predictors less ``center`` over ``scale``; sparse ones stay sparse.

    Entries beyond ``far`` are moved to it: larger squares would overflow.  Columns that are
    ``still``, the same in all training rows, are zero at other rows too: nothing is known of their
    effect, nor of the unit of a change.
    """

    center: Array
    scale: Array
    far: float = largest_entry("float32")
    still: Array | None = None  # (p,), truth values

    @property
    def width(self) -> int:
        return int(self.scale.size)

    @property
    def factor(self) -> Array:
        """What columns less their centre are multiplied by."""
        return 1.0 / self.scale if self.still is None else np.where(self.still, 0.0, 1 / self.scale)

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        X, factor = arrays.inner(X), self.factor
        if sparse.issparse(X) and np.any(self.center):  # the training rows were dense
            X = X.toarray()
        with np.errstate(over="ignore"):
            if sparse.issparse(X):
                X = sparse.csr_array(X, dtype=float)
                X.data = np.clip(X.data * factor[X.indices], -self.far, self.far)
                new = X if out is None else X.toarray()
            elif isinstance(X, np.ndarray):
                out = np.empty(X.shape) if out is None else out
                np.subtract(X, self.center, out=out)  # first: exact for columns far from zero
                out *= factor
                return np.clip(out, -self.far, self.far, out=out)
            else:
                X = arrays.double(X)
                new = (X - arrays.like(self.center, X)) * arrays.like(factor, X)
                new = arrays.of(X).clip(new, -self.far, self.far)
        if out is None:
            return new
        out[:, :] = arrays.like(new, out)
        return out

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
    present: Array  # (p,), weighted count of entries that are not zero

    def __add__(self, other: Spread) -> Spread:
        n, power = self.n + other.n, np.maximum(self.power, other.power)
        share = other.n / np.where(n > 0, n, 1.0)
        here, there = self.power - power, other.power - power
        mean = np.ldexp(self.mean, here)
        gap = np.ldexp(other.mean, there) - mean
        square = np.ldexp(self.square, 2 * here) + np.ldexp(other.square, 2 * there)
        square += gap**2 * self.n * share
        return Spread(n, mean + gap * share, square, power, self.present + other.present)

    def moments(self) -> tuple[Array, Array, Array]:
        """Mean and standard deviation of each column, and whether it is constant.

        A column is constant if its spread is rounding error of its level, or has underflowed.
        """
        mean = np.ldexp(self.mean, self.power)
        sd = np.ldexp(np.sqrt(self.square / self.n), self.power)
        return mean, sd, (sd <= 1e-12 * np.abs(mean)) | (sd < np.finfo(float).tiny)


def spread(block: Block, c: Array) -> Spread:
    """Moments of the columns of a block; missing entries (NaN) are left out."""
    X, c = arrays.inner(block.X), arrays.double(c)
    X = sparse.csr_array(X, dtype=float) if sparse.issparse(X) else arrays.double(X)
    # units of columns whose squares could overflow or underflow
    if sparse.issparse(X):
        largest = abs(X).max(axis=0).toarray().ravel()
    elif isinstance(X, np.ndarray):
        largest = np.fmax.reduce(np.abs(X), axis=0, initial=0.0)
    else:
        largest = arrays.to_numpy(arrays.of(X).max(abs(X), axis=0))
    power = np.frexp(largest)[1]
    power = np.where((largest > 0) & (np.abs(power) > np.finfo(float).maxexp // 3), power, 0)
    if power.any():  # in two steps: one factor could overflow
        half = power // 2
        X = scaled(scaled(X, np.ldexp(1.0, -half)), np.ldexp(1.0, half - power))
    n, least = float(c.sum()), np.finfo(float).tiny  # type: Any, Any
    if sparse.issparse(X):
        column, weight = X.indices, np.repeat(c, np.diff(X.indptr))

        def total(values: Any) -> Array:
            return np.bincount(column, weight * values, X.shape[1])

        zeros = n - total(1.0)
        zeros[zeros < 1e-9 * n] = 0.0  # less is rounding
        mean = total(X.data) / max(n, least)
        gap = X.data - mean[column]
        shift = (total(gap) - zeros * mean) / max(n, least)
        gap, mean = gap - shift[column], mean + shift
        return Spread(n, mean, total(gap**2) + zeros * mean**2, power, total(X.data != 0))
    known: Any = 1.0
    if isinstance(X, np.ndarray) and np.isnan(c @ X).any():
        known = ~np.isnan(X)
        X, n = np.where(known, X, 0.0), c @ known
    mean = c @ X / np.maximum(n, least)
    gap = (X - mean) * known
    shift = c @ gap / np.maximum(n, least)  # rounding error of the mean
    gap -= shift * known
    found = (mean + shift, c @ (gap * gap), c @ arrays.double(X != 0))
    mean, square, present = map(arrays.to_numpy, found)
    return Spread(n, mean, square, power, present)


def fit_columns(
    blocks: Any,
    c: Array,
    engine: Any,
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
    found = engine.sum(spread, blocks, c)
    mean, sd, constant = found.moments()
    if is_sparse or not distances:
        sd = sd / np.sqrt(np.where(found.present > 0, found.present / found.n, 1.0))
    scale = np.where(constant, np.where(np.abs(mean) > Standardised.far, np.abs(mean), 1.0), sd)
    center = mean if centred and not is_sparse else np.zeros(scale.size)
    still = constant & (center == mean)
    return Standardised(center, scale, still=still if still.any() else None)
