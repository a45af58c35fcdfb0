"""Groups as users give them: one column or several, of any kind of label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..types import Array


class Effects(NamedTuple):
    """What the groups of a factor have of their own."""

    intercept: bool = True
    slopes: tuple[int, ...] = ()


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
            empty = absent(values)
            if empty.any():
                raise ValueError(
                    f"groups: {int(empty.sum())} of {n} rows have no value in '{name}'. Every row "
                    "of the training data needs a group: leave such rows out, or give each a label "
                    "of its own."
                )
            try:
                level, code = np.unique(_labels(values), return_inverse=True)
            except TypeError as error:
                raise ValueError(
                    f"groups: the labels in '{name}' are of several kinds and cannot be compared; "
                    "make them all strings or all numbers."
                ) from error
            levels.append(level)
            codes.append(code.astype(np.int32))
        return cls(tuple(columns), tuple(levels)), np.stack(codes, axis=1)

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
        if hasattr(groups, "columns") or isinstance(groups, Mapping):
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


def read(groups: Any, n: int) -> dict[str, Array]:
    """Columns of groups by name."""
    if hasattr(groups, "columns") or isinstance(groups, Mapping):  # a frame, of whichever library
        names = groups.columns if hasattr(groups, "columns") else groups
        columns = {str(name): np.asarray(groups[name]) for name in names}
    else:
        # a list may hold NaN beside strings, which NumPy would make the string 'nan'
        held = hasattr(groups, "dtype")
        values = np.asarray(groups) if held else np.array(groups, dtype=object)
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
    text = {"U", "S"}
    if (levels.dtype.kind in text) != (values.dtype.kind in text):
        raise ValueError(
            f"groups: the labels in '{name}' are of type {values.dtype}, but those of the training "
            f"data were of type {levels.dtype}; none could match."
        )
    at = np.minimum(np.searchsorted(levels, values), levels.size - 1)
    return np.where(levels[at] == values, at, -1).astype(np.int32)


def effects(random: Any, factors: Sequence[str], names: Sequence[str]) -> list[Effects]:
    """What each factor's groups have of their own, from the argument ``random``."""
    if not isinstance(random, Mapping):
        return [_effects(random, names)] * len(factors)
    unknown = [k for k in random if k not in factors]
    if unknown:
        raise ValueError(
            f"random names factors {unknown} that are not in groups; groups has {list(factors)}."
        )
    return [_effects(random.get(k, "intercept"), names) for k in factors]


def _effects(random: Any, names: Sequence[str]) -> Effects:
    if isinstance(random, Effects):
        return random
    if isinstance(random, str):
        if random not in ("intercept", "slope"):
            raise ValueError(
                f"random={random!r} is not known; choose 'intercept', 'slope' (all columns), a "
                "list of columns that have slopes, or a dict of these by factor."
            )
        return Effects(slopes=tuple(range(len(names))) if random == "slope" else ())
    if not isinstance(random, Sequence | np.ndarray):
        raise ValueError(
            "random must be 'intercept', 'slope', a list of columns or a dict by factor; got "
            f"{random!r}."
        )
    slopes = tuple(_column(column, names) for column in random)
    if len(set(slopes)) != len(slopes):
        raise ValueError(f"random={random!r} names a column twice.")
    return Effects(slopes=slopes)


def _column(column: Any, names: Sequence[str]) -> int:
    if isinstance(column, str):
        if column in names:
            return list(names).index(column)
    elif (
        isinstance(column, int | np.integer)
        and not isinstance(column, bool)
        and -len(names) <= column < len(names)
    ):
        return int(column) % len(names)
    raise ValueError(
        f"random names a column {column!r} that X does not have; its {len(names)} columns are "
        f"{', '.join(list(names)[:8])}{', ...' if len(names) > 8 else ''}."
    )


class Asked(NamedTuple):
    """Rows and groups on their way to where both are checked."""

    X: Any
    groups: Any


def asked(X: Any, groups: Any) -> Asked:
    return X if isinstance(X, Asked) else Asked(X, groups)


def some_of(groups: Any, keep: Array, n: int) -> Any:
    """Groups of some rows, whatever holds them."""
    return {name: column[keep] for name, column in read(groups, n).items()}
