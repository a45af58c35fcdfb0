"""Columns of few values in distances: as numbers and as levels at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import arrays
from ..core.types import Array, Columns
from .columns import Standardised
from .input_warping import Warped

FEWEST, MOST = 3, 10  # values of a column that has few (13 tabular sets, folds 0 and 1),
POINTS_A_VALUE = 4  # at so many points each, the commonest apart: more than numbers would show
SOME = 100  # points that may show that there are more values
SAME = 1e-4  # of the smallest gap between values: closer numbers are the same, rounded


@dataclass(frozen=True, eq=False)
class Levelled(Warped):
    r"""Standardised columns, then an indicator for each value of those that have few.

    Two values :math:`a \ne b` of such a column are at a squared distance of
    :math:`(a - b)^2/s^2 + 2`: numbers that are codes, as of the bases of a gene, differ by being
    different, and those that count or rank by their difference too.
    """

    levels: tuple[tuple[int, Array], ...] = ()  # columns of few values, and these

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        X, numbers = arrays.inner(X), super().columns(X)
        xp, parts = arrays.of(numbers), [numbers]
        for j, values in self.levels:
            near = SAME * float(np.diff(values).min())
            gap = xp.abs(arrays.double(X)[:, j][:, None] - arrays.like(values, numbers))
            parts.append(xp.where(gap <= near, xp.ones_like(gap), xp.zeros_like(gap)))
        return xp.concat(parts, axis=1) if xp is not np else np.concatenate(parts, axis=1)

    @property
    def spans(self) -> list[tuple[int, int, int]]:
        ends = self.width + np.cumsum([0, *(values.size for _, values in self.levels)])
        first, last = ends[:-1].tolist(), ends[1:].tolist()
        return list(zip([j for j, _ in self.levels], first, last, strict=True))

    def groups(self, given: tuple[int, ...] | None) -> tuple[int, ...]:
        """Groups of columns that share a length scale: indicators are in that of their number."""
        own = tuple(range(self.width)) if given is None else given
        return own + tuple(own[j] for j, values in self.levels for _ in values)


def levelled(columns: Standardised, X: Array) -> Standardised:
    """The columns, with indicators of the values of those that have few among distinct rows X."""
    found = []
    for j in range(X.shape[1]):
        if np.unique(X[:SOME, j]).size > MOST:
            continue
        values, counts = np.unique(X[:, j], return_counts=True)
        others = counts.sum() - counts.max()
        if FEWEST <= values.size <= MOST and others >= POINTS_A_VALUE * (values.size - 1):
            found.append((j, values))
    if not found:
        return columns
    warps = columns.warps if isinstance(columns, Warped) else ()
    return Levelled(columns.center, columns.scale, columns.far, columns.still, warps, tuple(found))
