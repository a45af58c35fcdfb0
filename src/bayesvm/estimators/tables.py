"""Tables that terms read column by column: numbers for some, labels of groups for others."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..core.types import Array, Term
from ..data import tables
from ..data.encoding import Encoding
from ..data.tables import cells_of
from ..designs.table import Layout


@dataclass(frozen=True)
class TermTable:
    """The columns of a table that each term of a sum reads."""

    terms: Sequence[Term]  # their designs are parts, see bayesvm.terms
    names: Sequence[str]  # of all columns
    layout: Layout  # positions of columns, and which name groups
    reads: Sequence[Array]  # columns of numbers of each term, counted without those of groups
    numbers: Sequence[str]  # names of the columns of numbers

    @classmethod
    def of(
        cls,
        terms: Sequence[Term],
        names: Sequence[str],
        named: bool,
        encoding: Encoding | None = None,
    ) -> TermTable:
        """The table of terms for columns with these names, made up unless ``named``.

        With an ``encoding`` of the columns that do not name groups, columns of numbers are those
        that they become.
        """
        layout = Layout(tuple(names) if named else None, len(names))
        groups, reads = [], []
        for name, part, _ in terms:
            if part.factor is not None:
                with of_term(name):
                    groups.append(layout.position(part.factor))
        made = None if encoding is None else encoding.made
        layout = Layout(layout.names, layout.count, tuple(dict.fromkeys(groups)), made)
        for name, part, _ in terms:
            with of_term(name):
                reads.append(part.reads(layout))
        numbers = [name for j, name in enumerate(names) if j not in layout.groups]
        return cls(
            terms, names, layout, reads, numbers if encoding is None else encoding.names(numbers)
        )

    @property
    def plain(self) -> Array:
        """Positions of the columns that do not name groups."""
        return np.setdiff1d(np.arange(self.layout.count), self.layout.groups)

    @cached_property
    def read(self) -> Array:
        """The columns of numbers that some term reads."""
        return np.unique(np.concatenate([np.empty(0, dtype=int), *self.reads]))

    @property
    def unread(self) -> Array:
        """Those that no term reads."""
        return np.setdiff1d(np.arange(len(self.numbers)), self.read)

    @property
    def incomplete(self) -> list[int]:
        """Those whose missing cells have a distribution."""
        pairs = zip(self.terms, self.reads, strict=True)
        return [int(j) for (_, part, _), where in pairs if part.incomplete for j in where]

    def labels(self, X: Any) -> dict[str, Array]:
        """Labels of groups, by the name of their column."""
        groups = self.layout.groups
        return {self.names[j]: np.asarray(tables.column_of(_rows(X), j)) for j in groups}

    def values(
        self, X: Any, reset: bool, categories: Sequence[int]
    ) -> tuple[Array, dict[int, Array]]:
        """Columns that are not ``categories`` as numbers, zero where no term reads them; the rest.

        Columns are counted without those that name groups.
        """
        rows, plain, kinds = _rows(X), self.plain, set(categories)
        read = [int(k) for k in self.read if k not in kinds]
        tables.check_numbers(rows, reset, [int(j) for j in plain[self.read]])
        others = [k for k in range(plain.size) if k not in kinds]
        out = np.zeros((np.shape(rows)[0], len(others)))
        for k in read:
            try:
                column = tables.column_of(rows, int(plain[k]))
                out[:, others.index(k)] = np.asarray(column, dtype=float)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"column {self.names[plain[k]]!r} cannot be read as numbers ({error}). Encode "
                    "it, or leave it out of the terms."
                ) from error
        return out, {k: cells_of(tables.column_of(rows, int(plain[k]))) for k in categories}

    def check_complete(self, X: Array) -> None:
        """Refuse missing cells that no part has a distribution for."""
        for (name, part, _), where in zip(self.terms, self.reads, strict=True):
            if not part.incomplete:
                with of_term(name, " Or write Missing(Columns(...))."):
                    tables.check_complete(X, where.tolist(), self.numbers)

    def check_training(self, X: Array) -> None:
        """Refuse training cells that cannot be learned: in two terms, or never observed."""
        gone = np.isnan(X)
        if not gone.any():
            return
        self.check_complete(X)
        taken: set[int] = set()
        for (name, *_), where in zip(self.terms, self.reads, strict=True):
            some = [int(j) for j in where if gone[:, j].any()]
            if taken & set(some):
                raise ValueError(
                    f"term {name!r}: column {self.numbers[some[0]]!r} has missing cells and is in "
                    "two terms, each of which would fill them in its own way; put it in one."
                )
            never = [j for j in some if gone[:, j].all()]
            if never:
                raise ValueError(
                    f"term {name!r}: column {self.numbers[never[0]]!r} has no observed value at "
                    "all, so nothing can be learned of it. Drop it."
                )
            empty = int(gone[:, where].all(axis=1).sum()) if some else 0
            if empty:
                warnings.warn(
                    f"term {name!r}: {empty} row(s) have every cell missing.",
                    UserWarning,
                    stacklevel=3,
                )
            taken |= set(some)


@contextmanager
def of_term(name: str, hint: str = "") -> Iterator[None]:
    """Name the term in errors."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"term {name!r}: {error}{hint}") from error


def _rows(X: Any) -> Any:
    """Rows whose columns can be read one by one."""
    rows = X if hasattr(X, "columns") or hasattr(X, "dtype") else np.array(X, dtype=object)
    if sparse.issparse(rows) or len(np.shape(rows)) != 2:
        raise ValueError(
            "rows with groups must be a data frame or a dense array of two dimensions; got "
            f"{type(X).__name__} of shape {np.shape(X)}."
        )
    return rows
