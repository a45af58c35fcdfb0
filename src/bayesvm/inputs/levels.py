"""Labels of groups as users give them: one column or several, of any kind of label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import to_numpy
from ..core.types import Array


class Placed(dict[str, Array]):
    """Columns that were given without names of their own: they are told apart by their place."""


@dataclass(frozen=True, eq=False)
class Met:
    """Labels met in some rows; ``a + b`` joins two sets of rows."""

    names: tuple[str, ...]
    levels: tuple[Array, ...]  # sorted
    empty: tuple[int, ...]  # rows without a label
    n: int

    @classmethod
    def of(cls, groups: Any, n: int) -> Met:
        columns = read(groups, n)
        gone = [absent(values) for values in columns.values()]
        pairs = zip(columns.items(), gone, strict=True)
        levels = tuple(_sorted(name, _labels(x[~none])) for (name, x), none in pairs)
        return cls(tuple(columns), levels, tuple(int(none.sum()) for none in gone), n)

    def __add__(self, other: Met) -> Met:
        if self.names != other.names:
            raise ValueError(
                f"groups: some rows have factors {list(self.names)} and some have "
                f"{list(other.names)}; all parts must have the same."
            )
        levels = tuple(map(_joined, self.names, self.levels, other.levels))
        empty = tuple(a + b for a, b in zip(self.empty, other.empty, strict=True))
        return Met(self.names, levels, empty, self.n + other.n)


@dataclass(frozen=True, eq=False)
class Factors:
    """Grouping factors with the levels seen in training, sorted."""

    names: tuple[str, ...]
    levels: tuple[Array, ...]

    @classmethod
    def learn(cls, groups: Any, n: int) -> tuple[Factors, Array]:
        """Factors of training rows, and their codes ``(n, factors)``."""
        columns = read(groups, n)
        levels, codes = [], []
        for name, values in columns.items():
            _check_given(name, int(absent(values).sum()), n)
            level, code = _sorted(name, _labels(values), return_inverse=True)
            levels.append(level)
            codes.append(code.astype(np.int32))
        return cls(tuple(columns), tuple(levels)), np.stack(codes, axis=1)

    @classmethod
    def of(cls, met: Met) -> Factors:
        """Factors of training rows that were seen a part at a time."""
        for name, empty in zip(met.names, met.empty, strict=True):
            _check_given(name, empty, met.n)
        return cls(met.names, met.levels)

    def encode(self, groups: Any, n: int) -> Array:
        """Codes of new rows, -1 where a group was not seen, not given or is missing."""
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
            unknown = set(columns) - set(self.names)
            if unknown:
                raise ValueError(
                    f"groups has columns {sorted(columns)}, but the model was fitted with "
                    f"{list(self.names)}."
                )
            columns = {name: columns[name] for name in self.names}
        for k, (level, values) in enumerate(zip(self.levels, columns.values(), strict=True)):
            given = ~absent(values)
            if given.any():
                out[given, k] = _find(level, _labels(values[given]), self.names[k])
        return out


def _check_given(name: str, empty: int, n: int) -> None:
    if empty:
        raise ValueError(
            f"groups: {empty} of {n} rows have no value in '{name}'. Every row of the training "
            "data needs a group: leave such rows out, or give each a label of its own."
        )


def _sorted(name: str, labels: Array, **options: Any) -> Any:
    """Distinct labels, and what else :func:`numpy.unique` is asked for."""
    try:
        return np.unique(labels, **options)
    except TypeError as error:
        raise _several_kinds(name) from error


def _several_kinds(name: str) -> ValueError:
    return ValueError(
        f"groups: the labels in '{name}' are of several kinds and cannot be compared; make them "
        "all strings or all numbers."
    )


def _is_text(labels: Array) -> bool:
    return labels.dtype.kind in "US"


def _joined(name: str, a: Array, b: Array) -> Array:
    """Distinct labels of two parts."""
    if not (a.size and b.size):
        return a if a.size else b
    if _is_text(a) != _is_text(b):  # NumPy would make them all text
        raise _several_kinds(name)
    return _sorted(name, np.concatenate([a, b]))  # type: ignore[no-any-return]


def is_named(groups: Any) -> bool:
    """Whether columns are found by their names: those of a frame or a dict."""
    if isinstance(groups, Mapping):
        return not isinstance(groups, Placed)
    # a single column of Dask has the attribute too
    return hasattr(groups, "columns") and getattr(groups, "ndim", 2) == 2


def read(groups: Any, n: int) -> dict[str, Array]:
    """Columns of groups by name."""
    if is_named(groups) or isinstance(groups, Placed):
        names = groups.columns if hasattr(groups, "columns") else groups
        columns = {str(name): np.asarray(groups[name]) for name in names}
    else:
        groups = to_numpy(groups)
        # a list may hold NaN beside strings, which NumPy would make the string 'nan'
        held = hasattr(groups, "dtype")
        values = np.asarray(groups) if held else np.array(groups, dtype=object)
        if isinstance(groups, np.ma.MaskedArray) and np.ma.is_masked(groups):
            values = values.astype(object)
            values[np.ma.getmaskarray(groups)] = None
        name = getattr(groups, "name", None)
        if values.ndim == 1:
            columns = {"group" if name is None else str(name): values}
        elif values.ndim == 2:
            columns = {f"group{k}": column for k, column in enumerate(values.T)}
        else:
            raise ValueError(
                f"groups must be one column or a table of them; got an array of shape "
                f"{values.shape}."
            )
    if not columns:
        raise ValueError("groups has no columns; leave it out for a model without groups.")
    for name, column in columns.items():
        if column.shape != (n,):
            raise ValueError(
                f"groups: '{name}' must have one label for each of {n} rows; got shape "
                f"{column.shape}."
            )
    return columns


def absent(values: Array) -> Array:
    """Which labels are missing."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    return np.array([_is_nothing(v) for v in values], dtype=bool)


def _is_nothing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA
        return True


def _labels(values: Array) -> Array:
    """Labels as an array that NumPy can sort quickly."""
    if values.dtype.kind != "O":
        return values
    found: Array = np.asarray(values.tolist())
    # strings beside numbers would all be made strings
    one_kind = len({isinstance(v, str) for v in values}) <= 1
    return found if one_kind and found.shape == values.shape else values


def _find(levels: Array, values: Array, name: str) -> Array:
    """Positions among sorted levels, -1 where there is none."""
    try:
        if _is_text(levels) != _is_text(values):
            raise TypeError("text is not compared with what is not")
        at = np.minimum(np.searchsorted(levels, values), levels.size - 1)
    except TypeError as error:
        raise ValueError(
            f"groups: the labels in '{name}' are of type {values.dtype}, but those of the training "
            f"data were of type {levels.dtype}; none could match."
        ) from error
    return np.where(levels[at] == values, at, -1).astype(np.int32)


def some_of(groups: Any, keep: Array | slice, n: int) -> Any:
    """Groups of some rows, whatever holds them."""
    some = {name: column[keep] for name, column in read(groups, n).items()}
    return some if is_named(groups) else Placed(some)
