"""Columns of random intercepts and slopes, computed from group codes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core import arrays
from ..core.types import Array, Design
from ..linalg.columns import Factor
from .columns import Standardised


class Effects(NamedTuple):
    """The random effects of a grouping factor: optionally an intercept, and slopes."""

    intercept: bool = True
    slopes: tuple[int, ...] = ()

    @property
    def r(self) -> int:
        """Number of effects per group."""
        return int(self.intercept) + len(self.slopes)


@dataclass(frozen=True, eq=False)
class Grouped(Design):
    """Random effects of one grouping factor: group g has columns ``g r`` to ``g r + r - 1``.

    The first effect is the intercept, if present; the others are slopes of standardised columns
    of the table.
    """

    is_grouped: ClassVar[bool] = True

    factor: int  # which column of the codes
    G: int  # number of groups
    slopes: Array = field(default_factory=lambda: np.empty(0, dtype=int))  # numeric columns
    center: Array = field(default_factory=lambda: np.empty(0))  # of these columns
    scale: Array = field(default_factory=lambda: np.empty(0))
    intercept: bool = True

    @property
    def r(self) -> int:
        """Number of effects per group."""
        return int(self.intercept) + int(self.slopes.size)

    @property
    def width(self) -> int:
        return self.G * self.r

    def _values(self, X: Any) -> Array:
        """The values by which the effects of each row's group are multiplied, ``(n, r)``."""
        columns = [arrays.constant(X, 1.0)] if self.intercept else []
        if self.slopes.size:
            some = arrays.of(X).stack([arrays.inner(X)[:, int(j)] for j in self.slopes], axis=1)
            slopes = Standardised(self.center, self.scale).columns(some)
            columns += [slopes[:, j] for j in range(self.slopes.size)]
        only = len(columns) == 1
        out: Array = columns[0][:, None] if only else arrays.of(X).stack(columns, axis=1)
        return out

    def part(self, X: Any) -> Factor:
        """Codes and values of rows of a :class:`~bayesvm.designs.table.Table`."""
        codes, Z, xp = X.codes[:, self.factor], self._values(X), arrays.of(X)
        known = codes >= 0
        if xp.all(known):
            return Factor(codes, Z, self.G)
        none, zero = xp.zeros_like(codes), xp.zeros_like(Z)
        return Factor(xp.where(known, codes, none), xp.where(known[:, None], Z, zero), self.G)

    def absent(self, X: Any, spread: Array) -> Array:
        """Variance of f for rows of unknown groups, from the covariance of the effects."""
        Z, xp = self._values(X), arrays.of(X)
        v = xp.sum((Z @ arrays.like(spread, Z)) * Z, axis=1)
        out: Array = xp.where(X.codes[:, self.factor] >= 0, xp.zeros_like(v), v)
        return out

    def to_user(self) -> Array:
        """Matrix that transforms the effects of a group to the scale of the input, ``(r, r)``."""
        T = np.diag(np.concatenate([np.ones(int(self.intercept)), 1.0 / self.scale]))
        if self.intercept:
            T[0, 1:] = -self.center / self.scale
        return T
