"""Predictors with entries that were not recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.types import Array, Cells, Columns
from ..gaussian.forms import scattered
from .imputation import Moments


@dataclass(frozen=True, eq=False)
class Missing:
    r"""Columns some of whose entries are NaN: latent, with a Gaussian of the whole row.

    Missing entries join the classifier's posterior: they are seen through the other entries of
    their row and, in training, through its label.  Right where the chance to be missing depends on
    what was observed only (*missing at random*).

    Parameters
    ----------
    inner : a design
        Makes the columns, NaN where entries are missing.
    level, spread : arrays of shape (d,)
        Where the observed entries of these columns lie, at which missing ones begin.
    imputer : object of :mod:`bayesvm.designs.imputation`
        The distribution of rows, on the scale on which ``inner`` gives them.

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

    inner: Any
    level: Array
    spread: Array
    imputer: Any

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

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        return self.inner.columns(X, out=out)

    # ----- latent entries

    def cells(self, X: Any, C: Array) -> tuple[Cells, ...]:
        """Missing entries, each at the level of its column and as spread."""
        gone = np.isnan(C)
        number = gone.sum(axis=1)
        found = []
        for m in np.unique(number[number > 0]):
            rows = np.flatnonzero(number == m)
            columns = np.nonzero(gone[rows])[1].reshape(-1, m)
            cov = np.eye(m) * self.spread[columns][:, :, None] ** 2
            found.append(Cells(rows, columns, self.level[columns], cov))
        return tuple(found)

    def sums(self, X: Any, C: Array, count: Array, cells: tuple[Cells, ...]) -> Moments:
        A = C * np.sqrt(count)[:, None]
        square = A.T @ A
        spread = tuple(part for part in cells if part.cov is not None)
        if spread:
            square += scattered(spread, count, self.width)
        return Moments(float(count.sum()), count @ C, square)

    def pull(self, params: Any, X: Any, C: Array, cells: Cells) -> tuple[Array, Array]:
        """Precision of missing entries given the others of their row, and slope where they are."""
        slope = -np.take_along_axis(
            params.times(C[cells.rows] - params.mean), cells.columns, axis=1
        )
        return params.corners(cells.columns), slope

    def begin(self, sums: Moments) -> Any:
        return self.imputer.begin(sums)

    def update(self, params: Any, sums: Moments) -> Any:
        return self.imputer.update(params, sums)

    def bound(self, params: Any, sums: Moments) -> float:
        return float(self.imputer.bound(params, sums))

    def vector(self, params: Any) -> Array:
        return params.vector()  # type: ignore[no-any-return]

    def restore(self, like: Any, vector: Array) -> Any:
        return like.restore(vector)

    def draw(self, params: Any, sums: Moments, rng: np.random.Generator) -> Any:
        return self.imputer.draw(params, sums, rng)
