"""Features with missing entries: latent variables of the model, or imputed before the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core.types import Array, Cells, Columns, Design
from ..linalg.forms import corners, summed_covariances
from .imputation import FactorCovariance, RowSums


@dataclass(frozen=True, eq=False)
class Incomplete(Design):
    """Columns of another design, ``inner``, with NaN for missing entries.

    ``level`` and ``spread``, of shape ``(d,)``, are means and standard deviations of the observed
    entries of these columns.
    """

    is_incomplete: ClassVar[bool] = True
    has_labels: ClassVar[bool] = True

    inner: Any
    level: Array
    spread: Array

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
        """Coefficients on the scale of the input, and the change of the intercept."""
        return self.inner.to_user(theta)  # type: ignore[no-any-return]

    def labels(self, names: Sequence[str]) -> list[str]:
        return list(self.inner.labels(names))


@dataclass(frozen=True, eq=False)
class Missing(Incomplete):
    r"""Columns whose missing entries (NaN) are latent, under a Gaussian distribution of rows.

    Missing entries are part of the classifier's posterior: they depend on the other entries of
    their row and, in training, on its label.  This assumes that the probability of being missing
    depends on observed values only (*missing at random*).

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.designs import Missing, Standardised, Unstructured
    >>> none, one = np.zeros(2), np.ones(2)
    >>> design = Missing(Standardised(none, one), none, one, Unstructured())
    >>> X = np.array([[0.5, np.nan], [1.0, 2.0]])
    >>> cells = design.cells(X, design.columns(X))
    >>> cells[0].rows, cells[0].columns
    (array([0]), array([[1]]))
    """

    is_latent: ClassVar[bool] = True

    imputer: Any  # the distribution of rows, on the scale of the columns of ``inner``

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        return self.inner.columns(X, out=out)

    def cells(self, X: Any, C: Array) -> tuple[Cells, ...]:
        """Missing entries, initialised with the mean and standard deviation of their column."""
        is_missing = np.isnan(C)
        number = is_missing.sum(axis=1)
        found = []
        for m in np.unique(number[number > 0]):
            rows = np.flatnonzero(number == m)
            columns = np.nonzero(is_missing[rows])[1].reshape(-1, m)
            cov = np.eye(m) * self.spread[columns][:, :, None] ** 2
            found.append(Cells(rows, columns, self.level[columns], cov))
        return tuple(found)

    def sums(self, X: Any, C: Array, count: Array, cells: tuple[Cells, ...]) -> RowSums:
        A = C * np.sqrt(count)[:, None]
        spread = summed_covariances(tuple(c for c in cells if c.cov is not None), count, self.width)
        return RowSums(float(count.sum()), count @ C, A.T @ A + spread)

    def pull(self, params: Any, X: Any, C: Array, cells: Cells) -> tuple[Array, Array]:
        """Precision of missing entries given the rest of their row, and gradient at ``C``."""
        gradient = (params.mean - C[cells.rows]) @ params.R
        precision = corners(params.R, cells.columns)
        return precision, np.take_along_axis(gradient, cells.columns, axis=1)

    def begin(self, sums: RowSums) -> Any:
        return self.imputer.begin(sums)

    def update(self, params: Any, sums: RowSums) -> Any:
        return self.imputer.update(params, sums)

    def bound(self, params: Any, sums: RowSums) -> float:
        return float(self.imputer.bound(params, sums))

    def draw(self, params: Any, sums: RowSums, rng: np.random.Generator) -> Any:
        return self.imputer.draw(params, sums, rng)


@dataclass(frozen=True, eq=False)
class Filled(Incomplete):
    r"""Columns whose missing entries are imputed from the other entries of their row.

    For tables too wide to infer entries together with the classifier.  A low-rank Gaussian
    distribution of rows is learned from the observed entries, without the labels; missing entries
    are replaced by their conditional mean, and in prediction their variance adds to the variance
    of f.  If no entry of the training rows is missing, columns are treated as independent.
    """

    params: FactorCovariance  # of columns less ``level`` over ``spread``
    cells: tuple[Array, Array, Array, Array]  # row, column, mean, variance of missing entries

    def _given(self, C: Array) -> tuple[Array, Array]:
        """Rows with missing entries at their conditional mean, and the conditional variances."""
        mean, var = self.params.given((C - self.level) / self.spread)
        return mean * self.spread + self.level, var * self.spread**2

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        C = self.inner.columns(X, out=out)
        some = np.flatnonzero(np.isnan(C).any(axis=1))
        if some.size:
            C[some] = self._given(C[some])[0]
        return C

    def variances(self, X: Any) -> Array | None:
        """Variances of missing entries, zero for observed ones; ``None`` if none is missing."""
        C = self.inner.columns(X)
        some = np.flatnonzero(np.isnan(C).any(axis=1))
        if not some.size:
            return None
        out = np.zeros(C.shape)
        out[some] = self._given(C[some])[1]
        return out


def incomplete(inner: Any, seen: Any, imputer: Any, X: Any, count: Array) -> Missing | Filled:
    """The design of columns with missing entries: latent, or imputed for many columns.

    ``X`` are the training rows, each counted ``count`` times; ``seen`` are the same columns on the
    scale of their observed entries.
    """
    level, spread = (seen.center - inner.center) / inner.scale, seen.scale / inner.scale
    if level.size <= imputer.max_joint:
        return Missing(inner, level, spread, imputer)
    C, d = inner.columns(X), level.size
    is_missing, Z = np.isnan(C), (C - level) / spread
    params = FactorCovariance(np.zeros(d), np.empty((d, 0)), np.ones(d))
    if is_missing.any():
        params = imputer.learn(Z, count)
    row, column = np.nonzero(is_missing)
    mean, var = (x[is_missing] for x in params.given(Z))
    cells = (row, column, mean * spread[column] + level[column], var * spread[column] ** 2)
    return Filled(inner, level, spread, params, cells)
