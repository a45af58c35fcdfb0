"""Group effects from codes: random intercepts and slopes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrow import Factor
from ..types import Array
from .table import numbers


@dataclass(frozen=True, eq=False)
class Grouped:
    """Effects of the groups of one factor, r to each: group g has columns ``g r`` to ``g r + r``.

    The first effect is the intercept, if there is one; the others are slopes in columns of the
    table, less ``center`` over ``scale``.

    Parameters
    ----------
    factor : int
        Which column of the codes.
    G : int
        Number of groups.
    slopes : array of int
        Which columns of the numbers have slopes.
    center, scale : arrays of the same length
        Of these columns.
    intercept : bool, default=True
        Whether groups have an intercept of their own.
    """

    factor: int
    G: int
    slopes: Array = field(default_factory=lambda: np.empty(0, dtype=int))
    center: Array = field(default_factory=lambda: np.empty(0))
    scale: Array = field(default_factory=lambda: np.empty(0))
    intercept: bool = True

    @property
    def r(self) -> int:
        """Effects to a group."""
        return int(self.intercept) + int(self.slopes.size)

    @property
    def width(self) -> int:
        return self.G * self.r

    def _values(self, X: Any) -> Array:
        """What the effects of a row's group multiply, ``(n, r)``."""
        one = np.broadcast_to(1.0, (X.shape[0], 1))
        if not self.slopes.size:
            return one
        slopes = (numbers(X)[:, self.slopes] - self.center) / self.scale
        return np.hstack([one, slopes]) if self.intercept else slopes

    def part(self, X: Any) -> Factor:
        """Codes and values of rows of a :class:`~bayesvm.designs.table.Table`."""
        codes, Z = X.codes[:, self.factor], self._values(X)
        known = codes >= 0
        if known.all():
            return Factor(codes, Z, self.G)
        return Factor(np.where(known, codes, 0), np.where(known[:, None], Z, 0.0), self.G)

    def absent(self, X: Any, spread: Array) -> Array:
        """Variance of f at rows whose group is not known, given that of a group's effects."""
        Z = self._values(X)
        v: Array = np.einsum("ij,jk,ik->i", Z, spread, Z)
        return np.where(X.codes[:, self.factor] >= 0, 0.0, v)

    def to_user(self) -> Array:
        """Matrix that takes a group's effects to the scale of the input, ``(r, r)``."""
        T = np.diag(np.concatenate([np.ones(int(self.intercept)), 1.0 / self.scale]))
        if self.intercept:
            T[0, 1:] = -self.center / self.scale
        return T
