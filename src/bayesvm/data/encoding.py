"""Tables with columns of text or categories and with missing cells, as columns of numbers.

A column of categories becomes indicators of its levels, one column for two levels.  A missing cell
of a column of numbers becomes the mean of the column, with an indicator beside it where such cells
are not rare.  All estimators read tables this way; what was learned of the training rows is an
:class:`Encoding`.
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

FLAGGED = 0.01  # share of missing cells from which on a column of numbers has an indicator of them
MOST_LEVELS = 100  # of a column, the most frequent; rarer ones are coded as unknown ones are


class Category(NamedTuple):
    """A column of categories and its levels; those of two levels have one column, else each has."""

    column: int
    levels: tuple[Any, ...]  # text, truth values or numbers, sorted; then None if cells are missing

    @property
    def width(self) -> int:
        return 1 if len(self.levels) == 2 else len(self.levels)

    @property
    def scale(self) -> float:
        """The unit in which the squared distance of two levels is 2.

        Two rows of a standardised column are as far apart.
        """
        return 0.5**0.5 if len(self.levels) == 2 else 1.0

    def named(self, name: str) -> list[str]:
        if self.levels == (False, True) and isinstance(self.levels[0], bool | np.bool_):
            return [name]
        levels = ["missing" if level is None else str(level) for level in self.levels]
        return [f"{name}_{level}" for level in levels[-self.width :]]

    def indicators(self, cells: Array, name: str) -> Array:
        """Indicators of levels; no level is as near to an unknown one as another."""
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


FLAG = Category(0, (False, True))  # of missing cells


@dataclass(frozen=True, eq=False)
class Encoding:
    """How the columns of a table become columns of numbers, learned from training rows."""

    count: int  # columns of the table
    categories: tuple[Category, ...] = ()
    fill: Array | None = None  # (count,), what missing numbers become; without it they stay missing
    flagged: tuple[int, ...] = ()  # columns of numbers with an indicator of missing cells

    @classmethod
    def learn(
        cls,
        numbers: Any,
        cells: dict[int, Array],
        weights: Array,
        names: Sequence[str],
        kept: Sequence[int] | None = (),
    ) -> Encoding:
        """Levels and means of training rows.

        ``numbers`` are the columns of numbers, ``cells`` those of categories by position.  Missing
        cells of the columns of numbers ``kept`` stay missing; of all of them if it is ``None``.
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
        flagged: dict[bytes, int] = {}  # columns that are missing together have one flag
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
        """Columns of the table and what they become, in order: numbers, indicators or flags."""
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
        """Whether the columns made are those of the table."""
        return not (self.categories or self.flagged)

    @property
    def made(self) -> tuple[tuple[int, ...], ...]:
        """Columns that each column of the table becomes."""
        owners = np.repeat([j for j, _ in self._parts], self._widths)
        return tuple(tuple(np.flatnonzero(owners == j).tolist()) for j in range(self.count))

    @property
    def levels(self) -> list[tuple[int, ...]]:
        """Columns made that are the indicators of all levels of one column of categories."""
        made = self.made
        return [made[each.column] for each in self.categories if each.width > 1]

    @property
    def groups(self) -> tuple[int, ...] | None:
        """Number of the length scale of each column made; ``None`` if each has its own.

        Indicators of one column of categories share a length scale.
        """
        widths = self._widths
        if max(widths, default=1) == 1:
            return None
        return tuple(np.repeat(np.arange(len(widths)), widths).tolist())

    @property
    def scales(self) -> Array | None:
        """The unit of each indicator, NaN for columns of numbers; None if there is no indicator."""
        if self.is_plain:
            return None
        units = [np.nan if kind is None else kind.scale for _, kind in self._parts]
        return np.repeat(units, self._widths)

    def names(self, given: Sequence[str]) -> list[str]:
        """Names of the columns made, from those of the table."""
        parts = zip(self.group_names(given), self._parts, strict=True)
        return [
            each
            for name, (_, kind) in parts
            for each in ([name] if kind is None else kind.named(name))
        ]

    def group_names(self, given: Sequence[str]) -> list[str]:
        """Names of the groups of columns made."""
        return [f"{given[j]}_missing" if kind is FLAG else str(given[j]) for j, kind in self._parts]

    def codes(self, numbers: Any, cells: dict[int, Array], names: Sequence[str]) -> Any:
        """Columns of numbers of rows, which are given as in :meth:`learn`."""
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

    A column in which a share ``nearly_all`` of the rows have a level of their own is warned of.
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
