"""Tables with columns of text or categories and with missing cells, as columns of numbers.

A column of categories becomes indicators of its levels, one column for two levels.  A missing cell
of a column of numbers becomes the mean of the column, with an indicator beside it where such cells
are not rare.  All estimators read tables this way; what was learned of the training rows is an
:class:`Encoding`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..core.parameters import warn
from ..core.types import Array
from .cleaning_columns import Number
from .levels import absent

FLAGGED = 0.01  # share of missing cells from which on a column of numbers has an indicator of them
MOST_LEVELS = 100  # of a column, the most frequent; rarer ones are coded as unknown ones are
NEARLY_ALL = 0.9  # share of rows with a text of their own from which on it names rows
A_DATE = re.compile(r"\d{1,4}([-/.])(\d{1,2}|[A-Za-z]{3,9})\1\d{2,4}([ T]\d{1,2}:\d\d.*)?")
APART = 2.0  # squared distance of two levels; two rows of a standardised column are as far apart


class Category(NamedTuple):
    """A column of categories and its levels; those of two levels have one column, else each has."""

    column: int
    levels: tuple[Any, ...]  # text, truth values or numbers, sorted; then None if cells are missing

    @property
    def width(self) -> int:
        return 1 if len(self.levels) == 2 else len(self.levels)

    @property
    def scale(self) -> float:
        """The unit of the columns in which two levels are as far apart as ``APART`` says."""
        return float(np.sqrt((1.0 if len(self.levels) == 2 else 2.0) / APART))

    def named(self, name: str) -> list[str]:
        if self.levels == (False, True) and all(
            isinstance(k, bool | np.bool_) for k in self.levels
        ):
            return [name]
        levels = ["missing" if level is None else str(level) for level in self.levels]
        return [f"{name}_{level}" for level in levels[-self.width :]]

    def indicators(self, cells: Array, name: str) -> Array:
        """Indicators of levels; no level is as near to an unknown one as another."""
        given = [None if gone else cell for cell, gone in zip(cells.tolist(), absent(cells))]
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
    """How the columns of a table become columns of numbers, learned from training rows.

    Parameters
    ----------
    count : int
        Number of columns of the table.
    categories : tuple of Category
        Columns of categories, with their levels.
    fill : array of shape (count,), optional
        What a missing cell of a column of numbers becomes: the mean of the training rows.  Without
        it such cells stay missing.
    flagged : tuple of int
        Columns of numbers that have an indicator of missing cells.
    """

    count: int
    categories: tuple[Category, ...] = ()
    fill: Array | None = None
    flagged: tuple[int, ...] = ()

    @classmethod
    def learn(
        cls,
        numbers: Any,
        cells: dict[int, Array],
        weights: Array | None,
        names: Sequence[str],
        kept: Sequence[int] | None = (),
    ) -> Encoding:
        """Levels and means of training rows.

        ``numbers`` are the columns of numbers, ``cells`` those of categories by position.  Missing
        cells of the columns of numbers ``kept`` stay missing; of all of them if it is ``None``.
        """
        n, count = numbers.shape[0], numbers.shape[1] + len(cells)
        c = np.ones(n) if weights is None else weights
        categories: tuple[Category, ...] = ()
        for j, values in cells.items():
            categories += (Category(j, _levels(values, c, names[j])),)
        if kept is None or sparse.issparse(numbers):
            return cls(count, categories)
        plain = np.delete(np.arange(count), list(cells))
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.einsum("i,ij->j", c, numbers, dtype=float) / c.sum()
        flagged: dict[bytes, int] = {}  # columns that are missing together have one flag
        for k in np.flatnonzero(~np.isfinite(means)):
            gone = np.isnan(numbers[:, k])
            known = c[~gone].sum()
            means[k] = (c[~gone] / known) @ numbers[~gone, k] if known else 0.0
            if FLAGGED <= 1.0 - known / c.sum() < 1.0 and plain[k] not in kept:
                flagged.setdefault(np.packbits(gone & (c > 0)).tobytes(), int(plain[k]))
        fill = np.full(count, np.nan)
        fill[plain] = means
        fill[list(kept)] = np.nan
        return cls(count, categories, fill, tuple(flagged.values()))

    @cached_property
    def _layout(self) -> list[tuple[int, Category | None, int]]:
        """Input column, category or None, and width, in the order of the columns made."""
        by = {category.column: category for category in self.categories}
        out: list[tuple[int, Category | None, int]] = []
        for j in range(self.count):
            category = by.get(j)
            out.append((j, category, 1 if category is None else category.width))
            if j in self.flagged:
                out.append((j, None, 0))
        return out

    def __getstate__(self) -> dict[str, Any]:
        fields = ("count", "categories", "fill", "flagged")
        return {name: vars(self)[name] for name in fields}

    @property
    def is_plain(self) -> bool:
        """Whether the columns made are those of the table."""
        return not (self.categories or self.flagged)

    @property
    def made(self) -> tuple[tuple[int, ...], ...]:
        """Columns that each column of the table becomes."""
        out: list[tuple[int, ...]] = [()] * self.count
        first = 0
        for j, _, width in self._layout:
            out[j] += tuple(range(first, first + max(width, 1)))
            first += max(width, 1)
        return tuple(out)

    @property
    def levels(self) -> list[tuple[int, ...]]:
        """Columns made that are the indicators of all levels of one column of categories."""
        return [self.made[each.column] for each in self.categories if each.width > 1]

    @property
    def groups(self) -> tuple[int, ...] | None:
        """Columns made that share a length scale, by the number of their group; None if each has.

        Indicators of one column of categories share one, and an indicator of missing cells has its
        own.
        """
        widths = [max(width, 1) for *_, width in self._layout]
        if all(width == 1 for width in widths):
            return None
        return tuple(np.repeat(np.arange(len(widths)), widths).tolist())

    @property
    def scales(self) -> Array | None:
        """The unit of each indicator, NaN for columns of numbers; None if there is no indicator."""
        if self.is_plain:
            return None
        units = [
            np.full(max(width, 1), category.scale if category else np.nan if width else FLAG.scale)
            for _, category, width in self._layout
        ]
        return np.concatenate(units)

    def names(self, given: Sequence[str]) -> list[str]:
        """Names of the columns made, from those of the table."""
        if self.is_plain:
            return list(map(str, given))
        out: list[str] = []
        for j, category, width in self._layout:
            name = str(given[j])
            if category is not None:
                out += category.named(name)
            else:
                out.append(name if width else f"{name}_missing")
        return out

    def group_names(self, given: Sequence[str]) -> list[str]:
        """Names of the groups of columns made."""
        return [str(given[j]) if width else f"{given[j]}_missing" for j, _, width in self._layout]

    def codes(self, numbers: Any, cells: dict[int, Array], names: Sequence[str]) -> Any:
        """Columns of numbers of rows, which are given as in :meth:`learn`."""
        if sparse.issparse(numbers):
            return numbers
        plain = np.delete(np.arange(self.count), list(cells))
        gone = np.zeros((1, len(plain)), dtype=bool)
        if self.fill is not None and numbers.size and np.isnan(numbers.min()):
            gone = np.isnan(numbers)
            numbers = np.where(gone, self.fill[plain].astype(numbers.dtype), numbers)
        if not (self.categories or self.flagged):
            return numbers
        n, parts = numbers.shape[0], []
        for j, category, width in self._layout:
            if category is not None:
                parts.append(category.indicators(cells[j], names[j]))
            else:
                column = (numbers if width else gone)[:, np.searchsorted(plain, j)]
                parts.append(np.broadcast_to(column, n)[:, None])
        return np.ascontiguousarray(np.hstack(parts, dtype=float))


def _levels(cells: Array, weights: Array, name: str) -> tuple[Any, ...]:
    """The most frequent levels of a column, sorted, and None last if cells are missing."""
    gone = absent(cells)
    some = ~gone & (weights > 0)
    mass: dict[Any, float] = {}
    for cell, c in zip(cells[some].tolist(), weights[some].tolist(), strict=True):
        mass[cell] = mass.get(cell, 0.0) + c
    levels = sorted(mass, key=lambda level: (isinstance(level, str), level))
    if len(levels) > MOST_LEVELS:
        if any(isinstance(level, str) for level in levels) and (what := _written(levels)):
            warn(
                f"column {name!r} looks like {what} as text, such as {levels[0]!r}: its "
                f"{len(levels)} values are taken for categories. Put bayesvm.TableCleaner() before "
                f"the estimator, which reads them as {what}, or convert the column."
            )
        elif len(levels) > NEARLY_ALL * some.sum():
            warn(
                f"column {name!r} has {len(levels)} different values in {int(some.sum())} rows: it "
                "names rows rather than kinds of rows, and cannot predict new ones. Leave it out."
            )
        frequent = set(sorted(levels, key=lambda k: -mass[k])[:MOST_LEVELS])
        levels = [level for level in levels if level in frequent]
    return (*levels, *([None] if np.any(gone & (weights > 0)) else []))


def _written(levels: Sequence[Any]) -> str:
    """What nearly all of some texts are: ``"numbers"``, ``"dates"``, or neither."""
    texts = [str(level).strip() for level in levels[:: max(len(levels) // 200, 1)]]  # a sample
    if np.mean([A_DATE.fullmatch(text) is not None for text in texts]) > NEARLY_ALL:
        return "dates"
    return "" if Number.of(texts, np.ones(len(texts))) is None else "numbers"
