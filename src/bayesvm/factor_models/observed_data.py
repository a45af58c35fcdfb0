"""Tables with missing cells, and their sufficient statistics for factor models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array
from ..data import Blocks, Serial, block_rows
from ..designs import Standardised
from ..designs.columns import largest_entry, spread


class Scores(NamedTuple):
    """Moments of the scores: means ``(n, K)``; covariances, one per row ``(n, K, K)``, a common one
    ``(K, K)``, or ``None`` for point estimates."""

    mean: Array
    cov: Array | None = None

    def covs(self) -> Array:
        """Covariances, one per row, ``(n, K, K)``."""
        assert self.cov is not None
        n, K = self.mean.shape
        return np.broadcast_to(self.cov, (n, K, K))


def second_moments(weight: Array, mean: Array, cov: Array | None) -> Array:
    """Weighted sums of E[a a'] over vectors a with these means, ``(m, K)``, and covariances.

    ``(K, K)`` for weights ``(m,)``, or one matrix for each row of weights ``(r, m)``.
    """
    if weight.ndim == 1:
        total: Array = (mean * weight[:, None]).T @ mean
        if cov is not None:
            total += weight.sum() * cov if cov.ndim == 2 else np.tensordot(weight, cov, 1)
        return total
    square = mean[:, :, None] * mean[:, None, :]
    square = square if cov is None else square + cov
    return np.asarray(weight @ square.reshape(len(mean), -1)).reshape(-1, *square.shape[1:])


@dataclass(frozen=True, eq=False)
class Sums:
    """Sufficient statistics of table and scores for the loadings; additive over rows."""

    gram: Array  # sums of E[w w'], (K, K), or (d, K, K) by column with missing cells
    cross: Array  # (d, K), sums of x E[w]
    square: float  # sum of squares of the observed cells
    count: float  # number of the observed cells
    rows: float
    norm: float  # sum of E|w|^2 over all rows

    def __add__(self, other: Sums) -> Sums:
        # a common matrix is added to the matrix of each column
        return Sums(*(a + b for a, b in zip(vars(self).values(), vars(other).values())))


@dataclass(frozen=True, eq=False)
class Sheet:
    """A centred table, possibly with missing cells."""

    X: Array  # (n, d), zero for missing cells
    seen: Array | None  # (n, d), one for observed cells, else zero; None if all are observed
    c: Array  # (n,), weights of the rows

    @staticmethod
    def of(X: Array, c: Array | None = None) -> Sheet:
        """From a table with NaN for missing cells."""
        c = np.ones(X.shape[0]) if c is None else c
        holes = np.isnan(X)
        if not holes.any():
            return Sheet(X, None, c)
        return Sheet(np.where(holes, 0.0, X), 1.0 - holes, c)

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    def table(self) -> Array:
        """The table with NaN for missing cells."""
        return self.X if self.seen is None else np.where(self.seen > 0, self.X, np.nan)

    @cached_property
    def count(self) -> float:
        """Number of observed cells, weighted by row."""
        return float(self.c.sum() * self.d if self.seen is None else self.c @ self.seen.sum(axis=1))

    @cached_property
    def square(self) -> float:
        return float(self.c @ np.einsum("ij,ij->i", self.X, self.X))

    def sums(self, scores: Scores) -> Sums:
        """Sufficient statistics for these scores."""
        gram = total = second_moments(self.c, *scores)
        if self.seen is not None:
            gram = second_moments((self.seen * self.c[:, None]).T, *scores)
        cross = np.asarray(self.X.T @ (scores.mean * self.c[:, None]))
        rows = float(self.c.sum())
        return Sums(gram, cross, self.square, self.count, rows, float(np.trace(total)))

    def across(self, A: Array, cov: Array | None = None) -> Array:
        """Sums of E[a a'] over the columns observed in a row: ``(K, K)``, or ``(n, K, K)``."""
        return second_moments(np.ones(self.d) if self.seen is None else self.seen, A, cov)


@dataclass(frozen=True, eq=False)
class ColumnScale:
    """Centre and scale of the columns of the input, and the columns of the factor model.

    Constant columns are excluded; their loadings are zero.
    """

    mean: Array
    scale: Array  # one for constant columns
    varies: Array
    kept: Array  # indices of the columns of the model, none constant
    far: float  # cells further than this from the centre are clipped

    @staticmethod
    def of(X: Array, copies: Array, standardize: bool, names: Sequence[str]) -> ColumnScale:
        """Mean and standard deviation of observed cells by column, rows weighted by ``copies``."""
        unseen = np.flatnonzero(np.isnan(X).all(axis=0))
        if unseen.size:
            shown = ", ".join(str(names[j]) for j in unseen[:5])
            shown += f" and {unseen.size - 5} more" if unseen.size > 5 else ""
            raise ValueError(
                f"columns without an observed cell cannot load on a factor: {shown}. Drop them."
            )
        blocks = Blocks(X, block_rows(X.shape[1]))
        mean, sd, constant = Serial().sum(spread, blocks, copies).moments()
        if constant.all():
            raise ValueError(
                "all columns have the same value in every row, so that there is no factor. "
                "Give columns that vary."
            )
        scale = np.where(~constant & standardize, sd, 1.0)
        far = largest_entry("float32" if standardize else "float64")
        return ColumnScale(mean, scale, ~constant, np.flatnonzero(~constant), far)

    def only(self, at: Array) -> ColumnScale:
        """A model of a subset of its columns."""
        return replace(self, kept=self.kept[at])

    def scaled(self, X: Array) -> Array:
        """Columns of the model, centred and scaled."""
        columns = Standardised(self.mean, self.scale, self.far).columns(X)
        out: Array = columns[:, self.kept]
        return out

    def widened(self, A: Array) -> Array:
        """Loadings ``(..., kept columns, K)`` on the scale of the input, zero for other columns."""
        out = np.zeros((*A.shape[:-2], self.scale.size, A.shape[-1]))
        out[..., self.kept, :] = A * self.scale[self.kept, None]
        return out

    def precision(self, psi: Any) -> Array:
        """Noise precisions ``(..., n_features)`` on the scale of the input."""
        with np.errstate(over="ignore"):  # may overflow for columns in tiny units
            found = np.asarray(psi)[..., None] / self.scale / self.scale
        out = np.where(self.varies, np.nan, np.inf) + np.zeros_like(found)
        out[..., self.kept] = found[..., self.kept]
        return np.asarray(out)
