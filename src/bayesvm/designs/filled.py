"""Predictors of wide tables with entries that were not recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array, Columns
from .imputation import Loadings


class FilledCells(NamedTuple):
    """Missing entries of the training rows, one entry a cell, on the scale of the model."""

    row: Array
    column: Array
    mean: Array
    var: Array


@dataclass(frozen=True, eq=False)
class Filled:
    r"""Columns whose missing entries are filled in from the other entries of their row.

    For tables too wide to learn cells and classifier together.  A distribution of rows of low rank
    is learned from the entries that are there, before any label is looked at; missing ones are then
    replaced by their expectation.  In prediction their variance is added to that of f.  Where no
    entry of the training rows is missing nothing is learned: columns are taken as independent.

    Parameters
    ----------
    inner : a design
        Makes the columns, NaN where entries are missing.
    level, spread : arrays of shape (d,)
        Where the observed entries of these columns lie.
    params : Loadings
        The distribution of rows, of columns less ``level`` over ``spread``.
    """

    inner: Any
    level: Array
    spread: Array
    params: Loadings
    cells: FilledCells

    @staticmethod
    def learned(
        inner: Any, level: Array, spread: Array, imputer: Any, X: Any, count: Array
    ) -> Filled:
        """The design for training rows ``X``, which count so often."""
        C, none = inner.columns(X), np.empty(0)
        gone = np.isnan(C)
        d = level.size
        alone = Loadings(np.zeros(d), np.empty((d, 0)), np.ones(d))
        empty = FilledCells(none.astype(int), none.astype(int), none, none)
        out = Filled(inner, level, spread, alone, empty)
        if not gone.any():
            return out
        out = replace(out, params=imputer.learn((C - level) / spread, count))
        row, column = np.nonzero(gone)
        mean, var = out._given(C)
        return replace(out, cells=FilledCells(row, column, mean[gone], var[gone]))

    @property
    def width(self) -> int:
        return int(self.spread.size)

    @property
    def center(self) -> Array:
        return np.asarray(self.inner.center)

    @property
    def scale(self) -> Array:
        return np.asarray(self.inner.scale)

    def to_user(self, theta: Array) -> tuple[Array, Array]:
        """Coefficients on the scale of the input, and what they add to the intercept."""
        return self.inner.to_user(theta)  # type: ignore[no-any-return]

    def labels(self, names: Sequence[str]) -> list[str]:
        return list(self.inner.labels(names))

    def _given(self, C: Array) -> tuple[Array, Array]:
        """Rows with missing entries at their expectation, and variances of these."""
        mean, var = self.params.given((C - self.level) / self.spread)
        return mean * self.spread + self.level, var * self.spread**2

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        C = self.inner.columns(X, out=out)
        some = np.flatnonzero(np.isnan(C).any(axis=1))
        if some.size:
            C[some] = self._given(C[some])[0]
        return C

    def variances(self, X: Any) -> Array | None:
        """Variances of missing entries, zero elsewhere; ``None`` if there is none missing."""
        C = self.inner.columns(X)
        some = np.flatnonzero(np.isnan(C).any(axis=1))
        if not some.size:
            return None
        out = np.zeros(C.shape)
        out[some] = self._given(C[some])[1]
        return out
