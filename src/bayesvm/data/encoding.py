"""Encoding of text or categorical columns and of missing cells as numeric columns.

A categorical column becomes indicators of its levels, or one column for two levels.  Missing cells
of a numeric column are replaced by its mean, with an extra indicator column unless they are rare.
All estimators read tables this way; an :class:`Encoding` stores what was learned from the training
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..core.parameters import warn
from ..core.types import Array
from .cleaning_columns import Number, looks_like_dates
from .levels import absent

FLAGGED = 0.01  # least share of missing cells for a missing indicator
MOST_LEVELS = 100  # per column, by frequency; other levels are coded as unknown


class Category(NamedTuple):
    """A categorical column and its levels: one column for two levels, else one per level."""

    column: int
    levels: tuple[Any, ...]  # text, booleans or numbers, sorted; then None if cells are missing

    @property
    def width(self) -> int:
        return 1 if len(self.levels) == 2 else len(self.levels)

    @property
    def scale(self) -> float:
        """The unit in which the squared distance of two levels is 2.

        This is also the mean squared distance of two rows in a standardised column.
        """
        return 0.5**0.5 if len(self.levels) == 2 else 1.0

    def named(self, name: str) -> list[str]:
        if self.levels == (False, True) and isinstance(self.levels[0], bool | np.bool_):
            return [name]
        levels = ["missing" if level is None else str(level) for level in self.levels]
        return [f"{name}_{level}" for level in levels[-self.width :]]

    def indicators(self, cells: Array, name: str) -> Array:
        """Indicators of levels; an unknown level has the same distance to all levels."""
        given = np.where(absent(cells), np.array(None), cells.astype(object)).tolist()
        kinds = {isinstance(cell, str) for cell in given if cell is not None}
        text = any(isinstance(level, str) for level in self.levels)
        if kinds and text not in kinds:
            was, now = ("text", "no text") if text else ("no text", "text")
            raise ValueError(
                f"column {name!r} held {was} in the training data and holds {now} now, so that no "
                "level could match. Give it the type it had."
            )
        count = len(self.levels)
        unit = np.vstack([np.eye(count), np.full(count, 0.5 if count == 2 else 0.0)])
        at = {level: k for k, level in enumerate(self.levels)}
        return unit[[at.get(cell, count) for cell in given], count - self.width :]


FLAG = Category(0, (False, True))  # missing indicator


@dataclass(frozen=True, eq=False)
class Encoding:
    """Encoding of a table as numeric columns, learned from training rows."""

    count: int  # columns of the table
    categories: tuple[Category, ...] = ()
    fill: Array | None = None  # (count,), replaces missing numbers; None leaves them missing
    flagged: tuple[int, ...] = ()  # numeric columns with a missing indicator

    @classmethod
    def learn(
        cls,
        numbers: Any,
        cells: dict[int, Array],
        weights: Array,
        names: Sequence[str],
        kept: Sequence[int] | None = (),
    ) -> Encoding:
        """Learn levels and means from training rows.

        ``numbers`` are the numeric columns, ``cells`` the categorical columns by position.  Missing
        cells of the numeric columns ``kept`` stay missing (``None``: of all numeric columns).
        """
        c, count = weights, numbers.shape[1] + len(cells)
        categories: tuple[Category, ...] = ()
        for j, values in cells.items():
            categories = (*categories, Category(j, find_levels(values, c, names[j])))
        if kept is None or sparse.issparse(numbers):
            return cls(count, categories)
        plain = np.delete(np.arange(count), list(cells))
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.einsum("i,ij->j", c, numbers, dtype=float) / c.sum()
        flagged: dict[bytes, int] = {}  # columns that are missing together share a flag
        for k in np.flatnonzero(~np.isfinite(means)):
            is_missing = np.isnan(numbers[:, k])
            known = c[~is_missing].sum()
            means[k] = (c[~is_missing] / known) @ numbers[~is_missing, k] if known else 0.0
            if FLAGGED <= 1.0 - known / c.sum() < 1.0 and plain[k] not in kept:
                flagged.setdefault(np.packbits(is_missing & (c > 0)).tobytes(), int(plain[k]))
        fill = np.full(count, np.nan)
        fill[plain] = means
        fill[list(kept)] = np.nan
        return cls(count, categories, fill, tuple(flagged.values()))

    @property
    def _parts(self) -> list[tuple[int, Category | None]]:
        """Columns of the table with their encoding, in order: numbers, indicators or flags."""
        by = {category.column: category for category in self.categories}
        parts: list[tuple[int, Category | None]] = []
        for j in range(self.count):
            parts += [(j, by.get(j)), (j, FLAG)] if j in self.flagged else [(j, by.get(j))]
        return parts

    @property
    def _widths(self) -> list[int]:
        """Number of columns of each part."""
        return [1 if kind is None else kind.width for _, kind in self._parts]

    @property
    def is_plain(self) -> bool:
        """Whether the encoded columns equal the columns of the table."""
        return not (self.categories or self.flagged)

    @property
    def made(self) -> tuple[tuple[int, ...], ...]:
        """Encoded columns of each column of the table."""
        owners = np.repeat([j for j, _ in self._parts], self._widths)
        return tuple(tuple(np.flatnonzero(owners == j).tolist()) for j in range(self.count))

    @property
    def levels(self) -> list[tuple[int, ...]]:
        """Encoded columns that are the indicators of all levels of one categorical column."""
        made = self.made
        return [made[each.column] for each in self.categories if each.width > 1]

    @property
    def groups(self) -> tuple[int, ...] | None:
        """Index of the length scale of each encoded column; ``None`` if all are separate.

        Indicators of one categorical column share a length scale.
        """
        widths = self._widths
        if max(widths, default=1) == 1:
            return None
        return tuple(np.repeat(np.arange(len(widths)), widths).tolist())

    @property
    def scales(self) -> Array | None:
        """The unit of each indicator, NaN for numeric columns; None if there is no indicator."""
        if self.is_plain:
            return None
        units = [np.nan if kind is None else kind.scale for _, kind in self._parts]
        return np.repeat(units, self._widths)

    def names(self, given: Sequence[str]) -> list[str]:
        """Names of the encoded columns, from the column names of the table."""
        parts = zip(self.group_names(given), self._parts, strict=True)
        return [
            each
            for name, (_, kind) in parts
            for each in ([name] if kind is None else kind.named(name))
        ]

    def group_names(self, given: Sequence[str]) -> list[str]:
        """Names of the groups of encoded columns."""
        return [f"{given[j]}_missing" if kind is FLAG else str(given[j]) for j, kind in self._parts]

    def codes(self, numbers: Any, cells: dict[int, Array], names: Sequence[str]) -> Any:
        """Encoded columns of rows, which are given as in :meth:`learn`."""
        if sparse.issparse(numbers):
            return numbers
        plain = np.delete(np.arange(self.count), list(cells))
        is_missing = np.zeros((1, len(plain)), dtype=bool)
        if self.fill is not None and numbers.size and np.isnan(numbers.min()):
            is_missing = np.isnan(numbers)
            numbers = np.where(is_missing, self.fill[plain].astype(numbers.dtype), numbers)
        if self.is_plain:
            return numbers
        n, parts = numbers.shape[0], []
        for j, kind in self._parts:
            if kind is not None and j in cells:
                parts.append(kind.indicators(cells[j], names[j]))
            else:
                column = (numbers if kind is None else is_missing)[:, np.searchsorted(plain, j)]
                parts.append(np.broadcast_to(column, n)[:, None])
        return np.ascontiguousarray(np.hstack(parts, dtype=float))


def find_levels(
    cells: Array, weights: Array, name: str, nearly_all: float = 0.9
) -> tuple[Any, ...]:
    """The most frequent levels of a column, sorted, and None last if cells are missing.

    Warns if there are many levels that look like dates, numbers or identifiers: more distinct
    values than a share ``nearly_all`` of the rows.
    """
    counted, is_missing = weights > 0, absent(cells)
    known = counted & ~is_missing
    mass: dict[Any, float] = {}
    for cell, c in zip(cells[known].tolist(), weights[known].tolist(), strict=True):
        mass[cell] = mass.get(cell, 0.0) + c
    levels = sorted(mass, key=lambda level: (isinstance(level, str), level))
    if len(levels) > MOST_LEVELS:
        texts = [level.strip() for level in levels if isinstance(level, str)]
        is_odd = texts and (looks_like_dates(texts) or Number.of(texts, np.ones(len(texts))))
        if is_odd or len(levels) > nearly_all * known.sum():
            warn(
                f"column {name!r} has {len(levels)} different values, such as {levels[0]!r}, which "
                "are taken for categories. If they are dates or numbers, put "
                "bayesvm.TableCleaner() before the estimator, which reads them; if they name rows, "
                "leave the column out."
            )
        frequent = set(sorted(levels, key=lambda k: -mass[k])[:MOST_LEVELS])
        levels = [level for level in levels if level in frequent]
    return (*levels, *([None] if np.any(counted & is_missing) else []))
