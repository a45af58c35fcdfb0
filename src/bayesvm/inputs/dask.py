"""Rows, labels, weights and groups that are Dask collections, read where their partitions are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, ClassVar

import numpy as np

from .cells import as_floats
from .levels import read

FAN = 8  # sums that are added up in one task


def is_dask(X: Any) -> bool:
    """Whether an object is a Dask collection, without importing Dask."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "dask")


class _Function:
    """A function as a value: Dask would call a bare one."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn


def _call(function: _Function, *args: Any) -> Any:
    return function.fn(*args)


def tasks(fn: Callable[..., Any], each: Iterable[tuple[Any, ...]]) -> list[Any]:
    """A task for each tuple of arguments; the function is sent once to every worker."""
    from dask.delayed import delayed

    # a literal with a key, so that workers pass it on to each other
    function, call = delayed(_Function(fn), name=None, pure=False), delayed(_call, pure=False)
    return [call(function, *args) for args in each]


def _sum(parts: list[Any]) -> Any:
    return reduce(add, parts)


def tree_sum(sums: list[Any], fan: int = FAN) -> Any:
    """The results of tasks, added up ``fan`` at a time on the workers."""
    from dask.base import compute
    from dask.delayed import delayed

    join = delayed(_sum, pure=False)
    while len(sums) > 1:
        sums = [join(sums[i : i + fan]) for i in range(0, len(sums), fan)]
    return compute(sums[0])[0]


@dataclass(frozen=True, eq=False)
class DaskRows:
    """A Dask array of rows, cut between rows only."""

    array: Any
    names: tuple[str, ...] | None = None
    tables: tuple[Any, ...] | None = None  # partitions with codes of groups beside the rows

    labelled: ClassVar[bool] = False
    grouped: ClassVar[bool] = False

    @staticmethod
    def of(X: Any) -> DaskRows:
        """From a Dask array or data frame; lengths that are not known are computed."""
        names = None
        if hasattr(X, "to_dask_array"):
            names = tuple(str(name) for name in X.columns)
            X = _plain_frame(X).to_dask_array(lengths=True)
        if any(np.isnan(k) for k in X.chunks[0]):
            X = X.compute_chunk_sizes()
        if X.ndim != 2:
            raise ValueError(f"X must have rows and columns; got shape {X.shape}.")
        # a filter may have left partitions empty
        some = tuple(k for k in X.chunks[0] if k) or (0,)
        if len(X.chunks[1]) > 1 or len(some) < len(X.chunks[0]):
            X = X.rechunk({0: some, 1: -1})
        return DaskRows(as_floats(X), names)

    @property
    def shape(self) -> tuple[int, int]:
        return (int(self.array.shape[0]), int(self.array.shape[1]))

    @cached_property
    def parts(self) -> list[Any]:
        return list(self.tables or self.array.to_delayed()[:, 0])

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(int(k) for k in self.array.chunks[0])

    def aligned(self, y: Any, what: str = "y") -> Any:
        """A column with one entry per row, in the same partitions."""
        import dask.array as da

        if hasattr(y, "to_dask_array"):
            if y.ndim == 2 and len(y.columns) == 1:
                y = y[y.columns[0]]
            y = (plain_column(y) if y.ndim == 1 else y).to_dask_array(lengths=True)
        lazy = is_dask(y)
        y = y if lazy else np.asarray(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if lazy and any(np.isnan(k) for k in y.chunks[0]):
            y = y.compute_chunk_sizes()
        if y.shape != self.shape[:1]:
            raise ValueError(f"X has {self.shape[0]} rows but {what} has shape {y.shape}.")
        if not lazy:
            return da.from_array(y, chunks=(self.lengths,))
        return y if y.chunks[0] == self.array.chunks[0] else y.rechunk((self.lengths,))

    # ----- groups

    def columns_of(self, groups: Any) -> dict[str, Any]:
        """Columns of groups by name, in the partitions of the rows."""
        held = lazy_columns(groups)
        found = read(groups, self.shape[0]) if held is None else held
        return {name: self.aligned(x, f"groups {name!r}") for name, x in found.items()}

    def _encoded(self, fn: Callable[..., Any], columns: dict[str, Any]) -> list[Any]:
        """Tasks of a function of the columns of each partition and its number of rows."""
        parts = zip(*(column.to_delayed() for column in columns.values()), strict=True)
        each = (dict(zip(columns, part, strict=True)) for part in parts)
        return tasks(fn, zip(each, self.lengths, strict=True))

    def total(self, fn: Callable[..., Any], columns: dict[str, Any]) -> Any:
        """The sum of a function of the columns of each partition and its number of rows."""
        return tree_sum(self._encoded(fn, columns))

    def beside(
        self, encode: Callable[..., Any], columns: dict[str, Any], table: Callable[..., Any]
    ) -> DaskRows:
        """Rows beside the codes of their groups, which are computed once and stay there."""
        from dask.base import persist

        codes = persist(*self._encoded(encode, columns))
        return replace(self, tables=tuple(tasks(table, zip(self.parts, codes, strict=True))))


def lazy_columns(groups: Any) -> dict[str, Any] | None:
    """Columns of groups by name if some are Dask's, else ``None``."""
    if isinstance(groups, Mapping):
        lazy = any(is_dask(x) for x in groups.values())
        return {str(name): x for name, x in groups.items()} if lazy else None
    if not is_dask(groups):
        return None
    if not hasattr(groups, "to_dask_array"):
        if groups.ndim == 1:
            return {"group": groups}
        return {f"group{k}": groups[:, k] for k in range(groups.shape[1])}
    if groups.ndim == 2:
        return {str(name): groups[name] for name in groups.columns}
    return {"group" if groups.name is None else str(groups.name): groups}


def plain_column(series: Any) -> Any:
    """A column whose partitions are NumPy's arrays."""
    return series if isinstance(series.dtype, np.dtype) else series.astype(object)


def _plain_frame(X: Any) -> Any:
    """A frame whose columns are NumPy's."""
    from pandas.api.types import is_numeric_dtype

    kinds = dict(X.dtypes)
    other = [name for name, k in kinds.items() if not is_numeric_dtype(k) and k != np.dtype(object)]
    if other:
        raise ValueError(f"columns {other} of X are not numbers; leave them out or code them.")
    return X if all(isinstance(k, np.dtype) for k in kinds.values()) else X.astype(float)
