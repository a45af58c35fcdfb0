"""Input that is not one matrix: numbers beside codes of groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core import arrays
from ..core.types import Array


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers and of group codes, cut and picked together like one array.

    A code is the position of a row's group among the levels seen in training, and -1 for a group
    that was not seen or not given.
    """

    is_coded: ClassVar[bool] = True

    numbers: Any  # (n, p), dense
    codes: Array  # (n, factors), integers

    @property
    def shape(self) -> tuple[int, int]:
        """Of the numbers, as designs of numbers expect."""
        return self.numbers.shape  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return int(self.numbers.shape[0])

    def __getitem__(self, rows: Any) -> Table:
        how = arrays.part if isinstance(rows, slice) else arrays.pick
        return self.mapped(lambda each: how(each, rows))

    def mapped(self, fn: Callable[[Any], Any]) -> Table:
        """The same done to both."""
        return Table(fn(self.numbers), fn(self.codes))

    def joined(self, parts: Sequence[Table]) -> Table:
        """Tables one below another."""
        return Table(
            np.concatenate([t.numbers for t in parts]), np.concatenate([t.codes for t in parts])
        )

    def copy(self) -> Table:
        return Table(self.numbers.copy(), self.codes.copy())


def numbers(X: Any) -> Any:
    """The numeric part of a design's input."""
    return X.numbers if isinstance(X, Table) else X


@dataclass(frozen=True)
class Layout:
    """Names and number of the input's columns, so that parts of a model can point at some."""

    names: tuple[str, ...] | None
    count: int
    groups: tuple[int, ...] = ()  # positions of columns that name groups

    def position(self, column: Any) -> int:
        """Position of a column given by name or number."""
        if isinstance(column, str):
            if self.names is None:
                raise ValueError(
                    f"column {column!r} is asked for by name, but X has no names; give a data "
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
        """Positions of columns among the numbers; ``None`` for all of them."""
        plain = [j for j in range(self.count) if j not in self.groups]
        if columns is None:
            return np.arange(len(plain))
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
        return np.array([plain.index(j) for j in chosen])
