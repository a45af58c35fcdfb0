"""Levels: of groups, with integer codes, and of categorical columns, with indicators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import to_numpy
from ..core.parameters import warn
from ..core.types import Array
from .cleaning_columns import Number, looks_like_dates


class Placed(dict[str, Array]):
    """Columns of group labels without names, which are matched by position."""


@dataclass(frozen=True, eq=False)
class Levels:
    """Grouping factors and their group labels."""

    names: tuple[str, ...] = ()  # of the factors
    labels: tuple[Array, ...] = ()  # of each factor, distinct and sorted: codes are positions

    @classmethod
    def learn(cls, groups: Any, n: int) -> tuple[Levels, Array]:
        """Factors and labels of ``n`` training rows, and codes ``(n, factors)`` of the labels.

        Missing labels raise an error.
        """
        columns = read(groups, n)
        labels, codes = [], np.empty((n, len(columns)), dtype=np.int32)
        for k, (name, values) in enumerate(columns.items()):
            if missing := int(absent(values).sum()):
                raise ValueError(
                    f"groups: {missing} of {n} rows have no value in '{name}'. Every row of the "
                    "training data needs a group: leave such rows out, or give each a separate "
                    "label."
                )
            try:
                distinct, at = np.unique(_plain(values), return_inverse=True)
            except TypeError as error:
                raise ValueError(
                    f"groups: the labels in '{name}' are of several kinds and cannot be compared; "
                    "make them all strings or all numbers."
                ) from error
            labels.append(distinct)
            codes[:, k] = at.reshape(-1)
        return cls(tuple(columns), tuple(labels)), codes

    def codes(self, groups: Any, n: int) -> Array:
        """Codes ``(n, factors)``; -1 for a group that is unknown, missing or not given."""
        out = np.full((n, len(self.names)), -1, dtype=np.int32)
        if groups is None:
            return out
        columns = read(groups, n)
        if len(columns) != len(self.names):
            raise ValueError(
                f"groups has {len(columns)} columns, but the model was fitted with "
                f"{len(self.names)}: {', '.join(self.names)}."
            )
        if is_named(groups):
            if set(columns) - set(self.names):
                raise ValueError(
                    f"groups has columns {sorted(columns)}, but the model was fitted with "
                    f"{list(self.names)}."
                )
            columns = {name: columns[name] for name in self.names}
        for k, (labels, values) in enumerate(zip(self.labels, columns.values(), strict=True)):
            given = np.flatnonzero(~absent(values))
            found = _plain(values[given])
            if given.size and _kind(labels) != _kind(found):
                raise ValueError(
                    f"groups: the labels in '{self.names[k]}' are of type {found.dtype}, but those "
                    f"of the training data were of type {labels.dtype}; none could match."
                )
            at = np.minimum(np.searchsorted(labels, found), labels.size - 1)
            known = labels[at] == found
            out[given[known], k] = at[known]
        return out


def is_named(groups: Any) -> bool:
    """Whether columns are matched by name: for a data frame or a dict."""
    if isinstance(groups, Mapping):
        return not isinstance(groups, Placed)
    # a single column of Dask has the attribute too
    return hasattr(groups, "columns") and getattr(groups, "ndim", 2) == 2


def read(groups: Any, n: int) -> dict[str, Array]:
    """Columns of group labels by name."""
    if isinstance(groups, Mapping) or is_named(groups):
        names = groups if isinstance(groups, Mapping) else groups.columns
        columns = {str(name): np.asarray(groups[name]) for name in names}
    else:
        groups = groups if isinstance(groups, np.ndarray) else to_numpy(groups)
        # in a list with strings, NumPy would convert NaN to the string 'nan'
        held = hasattr(groups, "dtype")
        values = np.asarray(groups) if held else np.array(groups, dtype=object)
        if isinstance(groups, np.ma.MaskedArray) and np.ma.is_masked(groups):
            values = values.astype(object)
            values[np.ma.getmaskarray(groups)] = None
        if values.ndim not in (1, 2):
            raise ValueError(
                f"groups must be one column or a table of them; got an array of shape "
                f"{values.shape}."
            )
        name = getattr(groups, "name", None)
        columns = {"group" if name is None else str(name): values}
        if values.ndim == 2:
            columns = {f"group{k}": column for k, column in enumerate(values.T)}
    if not columns:
        raise ValueError("groups has no columns; leave it out for a model without groups.")
    for name, column in columns.items():
        if column.shape != (n,):
            raise ValueError(
                f"groups: '{name}' must have one label for each of {n} rows; got shape "
                f"{column.shape}."
            )
    return columns


def joined_groups(parts: Sequence[dict[str, Array]]) -> dict[str, Array]:
    """Columns of group labels, concatenated over the parts of a source."""
    names = list(parts[0])
    for part in parts:
        if list(part) != names:
            raise ValueError(
                f"groups: some rows have factors {names} and some have {list(part)}; all parts "
                "must have the same."
            )
    return {name: joined_labels([part[name] for part in parts]) for name in names}


def joined_labels(parts: Sequence[Array]) -> Array:
    """Concatenated labels, as objects if some are text: NumPy would convert all to text."""
    if len({_kind(part) for part in parts}) > 1:
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts)


def some_of(groups: Any, keep: Array | slice, n: int) -> Any:
    """Group labels of selected rows, from any container."""
    some = {name: column[keep] for name, column in read(groups, n).items()}
    return some if is_named(groups) else Placed(some)


def absent(values: Array) -> Array:
    """Mask of missing labels: NaN, NaT, None or pandas.NA."""
    if values.dtype.kind in "fmM":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    return np.array([_is_absent(value) for value in values], dtype=bool)


def _is_absent(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA
        return True


def _plain(values: Array) -> Array:
    """Labels as an array that NumPy sorts quickly."""
    if values.dtype.kind != "O":
        return values
    found: Array = np.asarray(values.tolist())
    # NumPy would convert numbers beside strings to strings
    one_kind = len({isinstance(v, str) for v in values}) <= 1
    return found if one_kind and found.shape == values.shape else values


def _kind(labels: Array) -> str:
    """The kind of labels; only labels of one kind can be compared."""
    return {"U": "text", "S": "text", "M": "time", "m": "duration", "O": "any"}.get(
        labels.dtype.kind, "number"
    )


# ---------------------------------------------------------------------------------------------
# Categorical columns


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


def find_levels(
    cells: Array, weights: Array, name: str, most: int = 100, nearly_all: float = 0.9
) -> tuple[Any, ...]:
    """The ``most`` frequent levels of a column, sorted, and None last if cells are missing.

    Other levels are coded as unknown.  Warns if there are many levels that look like dates, numbers
    or identifiers: more distinct values than a share ``nearly_all`` of the rows.
    """
    counted, is_missing = weights > 0, absent(cells)
    known = counted & ~is_missing
    mass: dict[Any, float] = {}
    for cell, c in zip(cells[known].tolist(), weights[known].tolist(), strict=True):
        mass[cell] = mass.get(cell, 0.0) + c
    levels = sorted(mass, key=lambda level: (isinstance(level, str), level))
    if len(levels) > most:
        texts = [level.strip() for level in levels if isinstance(level, str)]
        is_odd = texts and (looks_like_dates(texts) or Number.of(texts, np.ones(len(texts))))
        if is_odd or len(levels) > nearly_all * known.sum():
            warn(
                f"column {name!r} has {len(levels)} different values, such as {levels[0]!r}, which "
                "are taken for categories. If they are dates or numbers, put "
                "bayesvm.TableCleaner() before the estimator, which reads them; if they name rows, "
                "leave the column out."
            )
        frequent = set(sorted(levels, key=lambda k: -mass[k])[:most])
        levels = [level for level in levels if level in frequent]
    return (*levels, *([None] if np.any(counted & is_missing) else []))
