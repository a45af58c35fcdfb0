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
from ..core.types import Array, Engine
from .levels import absent

FLAGGED = 0.01  # share of missing cells from which on a column of numbers has an indicator of them
MOST_LEVELS = 100  # of a column, the most frequent; rarer ones are coded as unknown ones are
NEARLY_ALL = 0.9  # share of rows with a text of their own from which on it names rows
SUMMED = 2**19  # entries that a thread adds up in one go: their bytes fit a core's cache
SAMPLE = 200  # levels that are looked at for numbers and dates
A_NUMBER = re.compile(
    r"[-+(]?[$€£¥]? ?(?!0\d)\d[\d.,' ]*(e[-+]?\d+)?( ?[^\W\d_]{1,3}| ?[%€$£¥°])?\)?"
)
A_DATE = re.compile(r"\d{1,4}([-/.])(\d{1,2}|[A-Za-z]{3,9})\1\d{2,4}([ T]\d{1,2}:\d\d.*)?")
APART = 2.0  # squared distance of two levels; two rows of a standardised column are as far apart
TRUTH = (bool, np.bool_)


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
        levels = ["missing" if level is None else str(level) for level in self.levels]
        if self.levels == (False, True) and all(isinstance(k, TRUTH) for k in self.levels):
            return [name]
        return [f"{name}_{level}" for level in levels[-self.width :]]

    def indicators(self, cells: Array, name: str, out: Array) -> None:
        """Indicators of levels; no level is as near to an unknown one as another."""
        given, gone = cells.tolist(), absent(cells)
        text = any(isinstance(level, str) for level in self.levels)
        if not gone.all() and text != any(
            isinstance(cell, str) for cell, no in zip(given, gone, strict=True) if not no
        ):
            kinds = ("text", "no text") if text else ("no text", "text")
            raise ValueError(
                f"column {name!r} held {kinds[0]} in the training data and holds {kinds[1]} now, "
                "so that no level could match. Give it the type it had."
            )
        at = {level: k for k, level in enumerate(self.levels)}
        code = np.array(
            [at.get(None if no else cell, -1) for cell, no in zip(given, gone, strict=True)],
            dtype=np.intp,
        )
        if self.width == 1 and len(self.levels) == 2:
            out[:, 0] = np.where(code < 0, 0.5, code)
            return
        rows = np.flatnonzero(code >= 0)
        out[rows, code[rows]] = 1.0


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
        totals: Array | None = None,
    ) -> Encoding:
        """Levels and means of training rows.

        ``numbers`` are the columns of numbers, ``cells`` those of categories by position.  Missing
        cells of the columns of numbers ``kept`` stay missing; of all of them if it is ``None``.
        ``totals`` are the weighted sums of ``numbers``, if no cell is missing.
        """
        count = numbers.shape[1] + len(cells)
        categories = tuple(
            Category(j, _levels(values, weights, names[j])) for j, values in cells.items()
        )
        if kept is None or sparse.issparse(numbers):
            return cls(count, categories)
        plain = [j for j in range(count) if j not in cells]
        fill, flagged = np.full(count, np.nan), []
        means, share, gone = _means(numbers, weights, totals)
        fill[plain] = means
        seen: set[bytes] = set()
        for k in np.flatnonzero((share >= FLAGGED) & (share < 1.0)):
            if plain[k] in kept:
                continue
            pattern = np.packbits(gone[:, k]).tobytes()  # columns that are missing together
            if pattern not in seen:
                flagged.append(plain[k])
            seen.add(pattern)
        fill[list(kept)] = np.nan
        return cls(count, categories, fill, tuple(flagged))

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
    def width(self) -> int:
        """Number of columns made."""
        return sum(max(width, 1) for *_, width in self._layout)

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
            np.full(max(width, 1), one_of_two(width) if category is None else category.scale)
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

    def codes(
        self, numbers: Any, cells: dict[int, Array], names: Sequence[str], complete: bool = False
    ) -> Any:
        """Columns of numbers of rows, which are given as in :meth:`learn`.

        If they are ``complete`` no cell is missing.
        """
        if sparse.issparse(numbers):
            return numbers
        incomplete = not complete and self.fill is not None and bool(np.isnan(numbers).any())
        if self.is_plain and not incomplete:
            return numbers
        plain = [j for j in range(self.count) if j not in cells]
        gone = np.isnan(numbers) if incomplete or self.flagged else None
        if gone is not None and self.fill is not None:
            numbers = np.where(gone, self.fill[plain].astype(numbers.dtype), numbers)
        if self.is_plain:
            return numbers
        at = {j: k for k, j in enumerate(plain)}
        out, first = np.zeros((numbers.shape[0], self.width)), 0
        for j, category, width in self._layout:
            if category is not None:
                category.indicators(cells[j], names[j], out[:, first : first + width])
            elif width:
                out[:, first] = numbers[:, at[j]]
            elif gone is not None:
                out[:, first] = gone[:, at[j]]
            first += max(width, 1)
        return out


def one_of_two(width: int) -> float:
    """The unit of a column of numbers, none, or of an indicator of missing cells."""
    return float("nan") if width else Category(0, (False, True)).scale


# ---------------------------------------------------------------------------------------------
# What is learned


def _levels(cells: Array, weights: Array | None, name: str) -> tuple[Any, ...]:
    """The most frequent levels of a column, sorted, and None last if cells are missing."""
    weights = np.ones(cells.size) if weights is None else weights
    gone = absent(cells)
    some = ~gone & (weights > 0)
    mass: dict[Any, float] = {}
    for cell, c in zip(cells[some].tolist(), weights[some].tolist(), strict=True):
        mass[cell] = mass.get(cell, 0.0) + c
    levels = sorted(mass, key=_order)
    if len(levels) > MOST_LEVELS:
        if what := _written(levels):
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
    step = max(len(levels) // SAMPLE, 1)
    some = [level.strip() for level in levels[::step] if isinstance(level, str)]
    for what, form in (("dates", A_DATE), ("numbers", A_NUMBER)):
        if some and sum(form.fullmatch(text) is not None for text in some) > NEARLY_ALL * len(some):
            return what
    return ""


def _order(level: Any) -> Any:
    return (isinstance(level, str), level)


def _means(
    numbers: Array, weights: Array | None, totals: Array | None
) -> tuple[Array, Array, Array]:
    """Means of the cells that are not missing, zero where all are; shares and places of others."""
    n = numbers.shape[0]
    if totals is not None:
        mass = n if weights is None else weights.sum()
        return totals / mass, np.zeros(totals.size), np.zeros((n, 0), dtype=bool)
    weights = np.ones(n) if weights is None else weights
    gone = np.isnan(numbers)
    mass = weights @ ~gone
    means = _average(np.where(gone, 0.0, numbers), weights, np.where(mass > 0, mass, 1.0))
    return means, 1.0 - mass / weights.sum(), gone & (weights > 0)[:, None]


def finite_totals(numbers: Any, engine: Engine, weights: Array | None = None) -> Array | None:
    """Sums of dense columns, if these are finite: then no cell is missing or infinite."""
    if sparse.issparse(numbers) or not numbers.size:
        return None

    n, p = numbers.shape

    def total(at: slice) -> Array:
        x = numbers[at].astype(float, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            if weights is None:
                return np.asarray(np.einsum("ij->j", x))
            return np.asarray(np.einsum("i,ij->j", weights[at], x))

    parts = engine.over(total, n, max(1, SUMMED // p))
    found: Array = parts[0] if len(parts) == 1 else np.sum(parts, axis=0)
    return found if np.all(np.isfinite(found)) else None


def _average(numbers: Array, weights: Array, mass: Any) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        total = weights @ numbers
        if not np.all(np.isfinite(total)):  # each share is finite where the sum is not
            return np.asarray((numbers * (weights[:, None] / mass)).sum(axis=0, dtype=float))
    return np.asarray(total / mass, dtype=float)
