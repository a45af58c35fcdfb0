"""Plain columns: an intercept, and the predictors on a common scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..types import Array, Block, Columns, Engine


@dataclass(frozen=True)
class Intercept:
    """A column of ones."""

    width: int = 1

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        if out is None:
            return sparse.csr_array(np.ones((X.shape[0], 1)))
        out[:] = 1.0
        return out


@dataclass(frozen=True)
class Assembled:
    """Columns that were built earlier and are read from the block as they are."""

    width: int


@dataclass(frozen=True, eq=False)
class Standardised:
    """Predictors less ``center`` over ``scale``; sparse ones are only scaled."""

    center: Array
    scale: Array

    @property
    def width(self) -> int:
        return int(self.scale.size)

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        if sparse.issparse(X):
            scaled = X.multiply(1.0 / self.scale).tocsr()
            if out is None:
                return sparse.csr_array(scaled, dtype=float)
            out[:] = scaled.toarray()
            return out
        if out is None:
            out = np.empty(X.shape)
        np.subtract(X, self.center, out=out)  # before scaling: exact for columns far from zero
        out *= 1.0 / self.scale
        return out

    def to_user(self, theta: Array) -> tuple[Array, Array]:
        """Coefficients on the scale of the input, and what they add to the intercept."""
        beta = theta / self.scale
        return beta, -beta @ self.center


@dataclass(frozen=True)
class Spread:
    """Weighted count, mean and sum of squared deviations, joined without cancellation."""

    n: Any  # a number, or one a column where entries are missing
    mean: Array
    square: Array

    def __add__(self, other: Spread) -> Spread:
        n = self.n + other.n
        if not np.any(n):
            return self
        gap, some = other.mean - self.mean, np.where(n > 0, n, 1.0)
        return Spread(
            n,
            self.mean + gap * (other.n / some),
            self.square + other.square + gap**2 * (self.n * other.n / some),
        )


def _spread(block: Block) -> Spread:
    X, c = block.X, np.asarray(block.c, dtype=float)
    n = float(c.sum())
    if n == 0:
        return Spread(0.0, np.zeros(X.shape[1]), np.zeros(X.shape[1]))
    if sparse.issparse(X):
        p = X.shape[1]
        each = np.repeat(c, np.diff(X.indptr))  # weight of every stored entry
        zeros = n - np.bincount(X.indices, each, p)
        zeros[zeros < 1e-9 * n] = 0.0  # less is rounding
        mean = np.bincount(X.indices, each * X.data, p) / n
        gap = X.data - mean[X.indices]
        shift = (np.bincount(X.indices, each * gap, p) - zeros * mean) / n
        gap -= shift[X.indices]
        mean += shift
        return Spread(n, mean, np.bincount(X.indices, each * gap**2, p) + zeros * mean**2)
    known = ~np.isnan(X)
    if not known.all():
        weight = c[:, None] * known
        counts = weight.sum(axis=0)
        some = np.where(counts > 0, counts, 1.0)
        mean = np.sum(weight * np.where(known, X, 0.0), axis=0) / some
        gap = np.where(known, X - mean, 0.0)
        shift = np.sum(weight * gap, axis=0) / some
        return Spread(counts, mean + shift, np.sum(weight * (gap - shift) ** 2, axis=0))
    mean = c @ X / n
    gap = X - mean
    shift = c @ gap / n  # what rounding of the first mean left: a constant column has no spread
    gap -= shift
    return Spread(n, mean + shift, c @ (gap * gap))


def fit_columns(blocks: Sequence[Block], engine: Engine, standardize: bool) -> Standardised:
    """Centre and scale of the columns, weighted by the rows' weights.

    Sparse columns are not centred, which would fill them in.  A constant column gets scale 1.
    Missing entries are passed over.
    """
    p = blocks[0].X.shape[1]
    if not standardize:
        return Standardised(np.zeros(p), np.ones(p))
    total = engine.sum(_spread, blocks)
    sd = np.sqrt(total.square / total.n)
    # a column whose spread is rounding error of its level is constant
    constant = sd <= 1e-12 * np.abs(total.mean)
    scale = np.where(constant | (sd == 0), 1.0, sd)
    center = np.zeros(p) if sparse.issparse(blocks[0].X) else total.mean
    return Standardised(center, scale)
