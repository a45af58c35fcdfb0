"""Basic designs: an intercept, standardised features, and kernel values."""

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
    """Power of two below the cube root of the largest float: sums of squares do not overflow."""
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
    """Columns that were assembled earlier and are returned unchanged."""

    width: int


@dataclass(frozen=True, eq=False)
class Basis(Design):
    """Kernel values at inducing points ``Z``, which are on the scale of the design ``inputs``."""

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
    """Selected columns of a precomputed kernel matrix."""

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
    """Features minus ``center``, divided by ``scale``; sparse matrices stay sparse.

    Entries beyond ``far`` are clipped, because larger squares would overflow.  Columns that are
    ``still`` (constant in all training rows) are zero for new rows too: neither their effect nor
    their unit is known.
    """

    center: Array
    scale: Array
    far: float = largest_entry("float32")
    still: Array | None = None  # (p,), booleans

    @property
    def width(self) -> int:
        return int(self.scale.size)

    @property
    def factor(self) -> Array:
        """The factor of the centred columns."""
        return 1.0 / self.scale if self.still is None else np.where(self.still, 0.0, 1 / self.scale)

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        X, factor = arrays.inner(X), self.factor
        if sparse.issparse(X) and np.any(self.center):  # training rows were dense
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
        """Columns with extra columns appended, and the range of these (end excluded)."""
        return []

    def groups(self, given: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """Groups of columns that share a length scale, from the groups of the input columns."""
        return given

    def with_units(self, units: Array | None) -> Self:
        """The design with other scales for columns (indicators) whose unit is not NaN.

        Divided by its standard deviation, the indicator of a rare level would dominate all other
        columns in a distance.
        """
        if units is None:
            return self
        return replace(self, scale=np.where(np.isnan(units), self.scale, units))

    def to_input(self, Z: Array) -> Array:
        """Inverse transformation to the scale of the input."""
        return np.asarray(Z[:, : self.width] * self.scale + self.center)

    def to_user(self, theta: Array) -> tuple[Array, Array]:
        """Coefficients on the scale of the input, and the change of the intercept."""
        beta = theta / self.scale
        return beta, -beta @ self.center


# ---------------------------------------------------------------------------------------------
# Centre and scale


@dataclass(frozen=True)
class Spread:
    """Weighted count, mean and sum of squared deviations, added without cancellation.

    Means are in units of ``2**power``, squares in units of ``4**power``, to avoid overflow.
    """

    n: Any  # a number, or (p,) if entries are missing
    mean: Array
    square: Array
    power: Array  # (p,), integers
    present: Array  # (p,), weighted count of nonzero entries

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

        A column is constant if its standard deviation is rounding error of its mean, or underflows.
        """
        mean = np.ldexp(self.mean, self.power)
        sd = np.ldexp(np.sqrt(self.square / self.n), self.power)
        return mean, sd, (sd <= 1e-12 * np.abs(mean)) | (sd < np.finfo(float).tiny)


def spread(block: Block, c: Array) -> Spread:
    """Moments of the columns of a block, ignoring missing entries (NaN)."""
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
        zeros[zeros < 1e-9 * n] = 0.0  # rounding error
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
    """Centre and scale of the columns under row weights ``c``, ignoring NaN.

    Columns are not ``centred`` without an intercept (f is then zero at the origin), nor if they are
    sparse.  The scale of sparse and dense columns is the standard deviation divided by the square
    root of the share of nonzero entries: for a column without zeros it is the standard deviation,
    for a rare word or level the typical size of its entries.  With the standard deviation alone,
    words that occur in one or two rows would dominate all others.  Dense columns for ``distances``
    are divided by the standard deviation, since kernels learn length scales.  A constant column
    gets scale 1 unless it is very large, and is still if its centre is that constant.
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
