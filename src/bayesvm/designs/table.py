"""Input that is not one matrix: numbers beside codes of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..types import Array


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers and of group codes, cut and picked together like one array.

    A code is the position of a row's group among the levels seen in training, and -1 for a group
    that was not seen or not given.
    """

    numbers: Any  # (n, p), dense
    codes: Array  # (n, factors), integers

    @property
    def shape(self) -> tuple[int, int]:
        """Of the numbers, as designs of numbers expect."""
        return self.numbers.shape  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return int(self.numbers.shape[0])

    def __getitem__(self, rows: Any) -> Table:
        return Table(self.numbers[rows], self.codes[rows])


def numbers(X: Any) -> Any:
    """The numeric part of a design's input."""
    return X.numbers if isinstance(X, Table) else X
