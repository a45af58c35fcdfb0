"""Random effects of groups: rows with group codes, their columns, and names of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core import arrays
from ..core.arrays import Composite, computed
from ..core.types import Array, Design
from ..data.levels import Levels, joined_groups, read
from ..data.sources import DaskRows, Source
from ..linalg.columns import Factor
from .columns import Standardised


@dataclass(frozen=True, eq=False)
class Table(Composite):
    """Numeric columns and group codes of rows, which are indexed together like one array.

    A code is the position of a row's group among the levels seen in training, or -1 for an unknown
    or missing group.
    """

    numbers: Any  # (n, p), dense
    codes: Array  # (n, factors), integers

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the numeric columns, as designs of numeric columns expect."""
        n, p = self.numbers.shape
        return n, p

    def __len__(self) -> int:
        return int(self.numbers.shape[0])

    def mapped(self, fn: Callable[[Any], Any]) -> Table:
        """The table with a function applied to both arrays."""
        return Table(fn(self.numbers), fn(self.codes))


def learn_groups(X: Any, groups: Any) -> tuple[Levels, Any]:
    """Levels of the groups of training rows, and the rows with the codes of their groups.

    Groups may also come from the chunks of a source.  Without groups rows are unchanged.
    """
    if groups is None and not (isinstance(X, Source) and X.grouped):
        return Levels(), X
    if groups is None:  # the chunks contain the labels
        groups = joined_groups([read(chunk.groups, len(chunk.X)) for chunk in X.chunks()])
    groups = computed(groups)
    levels, codes = Levels.learn(groups, X.shape[0])
    return levels, _with_codes(X, codes)


def beside(X: Any, groups: Any, levels: Levels) -> Any:
    """Rows with the codes of their groups, -1 for unknown groups."""
    if not levels.names:
        if groups is not None:
            raise ValueError(
                "groups were given, but the model was fitted without; give them to fit too."
            )
        return X
    if groups is None and isinstance(X, Source) and X.grouped:
        return X.mapped(lambda part, _: Table(part.X, levels.codes(part.groups, len(part.X))))
    return _with_codes(X, levels.codes(groups, X.shape[0]))


def _with_codes(X: Any, codes: Array) -> Any:
    if isinstance(X, Source):
        return X.mapped(lambda part, first: Table(part.X, codes[first : first + len(part.X)]))
    if isinstance(X, DaskRows):
        return X.beside(codes, Table)
    return Table(X, codes if isinstance(X, np.ndarray) else arrays.back(codes.astype(np.int64), X))


@dataclass(frozen=True)
class Layout:
    """Names and positions of the input columns."""

    names: tuple[str, ...] | None
    count: int
    groups: tuple[int, ...] = ()  # positions of group columns
    made: tuple[tuple[int, ...], ...] | None = None  # numeric columns of each other column

    def position(self, column: Any) -> int:
        """Position of a column given by name or position."""
        if isinstance(column, str):
            if self.names is None:
                raise ValueError(
                    f"column {column!r} is given by name, but X has no names; give a data "
                    "frame, or the position of the column."
                )
            if column not in self.names:
                some = ", ".join(map(repr, self.names[:10])) + (", ..." if self.count > 10 else "")
                raise ValueError(f"column {column!r} is not in X, whose columns are {some}.")
            return self.names.index(column)
        if not isinstance(column, int | np.integer) or isinstance(column, bool):
            raise ValueError(f"a column must be a name or a position; got {column!r}.")
        if not -self.count <= column < self.count:
            raise ValueError(f"column {column} does not exist: X has {self.count} columns.")
        return int(column) % self.count

    def find(self, columns: Any) -> Array:
        """Positions among the numeric columns; ``None`` selects all of them."""
        plain = [j for j in range(self.count) if j not in self.groups]
        if columns is None:
            return self._made(range(len(plain)))
        if isinstance(columns, str | int | np.integer):
            columns = [columns]
        chosen = [self.position(column) for column in columns]
        named = [j for j in chosen if j in self.groups]
        if named:
            name = self.names[named[0]] if self.names else named[0]
            raise ValueError(f"column {name!r} names groups and cannot be read as numbers too.")
        if not chosen:
            raise ValueError("a part of the model must read at least one column; got none.")
        if len(set(chosen)) < len(chosen):
            raise ValueError(f"columns {list(columns)} name one column twice.")
        return self._made([plain.index(j) for j in chosen])

    def _made(self, plain: Sequence[int]) -> Array:
        """Positions of the numeric columns that encode the given columns."""
        if self.made is None:
            return np.array(plain, dtype=int)
        return np.array([k for j in plain for k in self.made[j]], dtype=int)


# ---------------------------------------------------------------------------------------------
# Columns of random effects


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
        """Codes and values of rows of a :class:`Table`."""
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
