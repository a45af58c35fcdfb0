"""Rows that are not held: read again for every pass in chunks, or partitions of Dask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from ..core import arrays
from ..core.arrays import inner
from ..core.types import Array
from .levels import read

FAN = 8  # sums that are added up in one task
EXPECTED = (
    "every item must be rows of shape (k, p), or a tuple of rows and k labels, or a tuple of rows, "
    "labels and groups"
)


class Chunk(NamedTuple):
    """Rows ``(k, p)``, with their labels ``(k,)`` and labels of groups, if given."""

    X: Any
    y: Array | None = None
    groups: Any = None

    @classmethod
    def of(cls, item: Any) -> Chunk:
        """From an item of a reader: rows, rows with labels, or rows with labels and groups."""
        parts = item if isinstance(item, tuple) else (item,)
        if not 1 <= len(parts) <= 3:
            raise ValueError(
                f"{EXPECTED}; got a tuple of {len(parts)}. Weights of rows are given to fit, as "
                "sample_weight."
            )
        if sparse.issparse(parts[0]):
            raise ValueError(
                f"the rows of a source must be dense; got a {type(parts[0]).__name__} of shape "
                f"{parts[0].shape}. Give its toarray(), a chunk at a time; or give fit all rows as "
                "one sparse matrix."
            )
        return cls(*parts)


@dataclass(frozen=True, eq=False)
class Source:
    """Rows (and labels, and groups) that are read in chunks, again for every pass.

    Made by :func:`~bayesvm.data.from_memmap`, :func:`~bayesvm.data.from_parquet` and
    :func:`~bayesvm.data.from_iterable`; accepted as ``X`` by the estimators.

    Parameters
    ----------
    read : callable
        Gives a new iterator of chunks, each a tuple of rows ``(k, p)``, labels ``(k,)`` or
        ``None``, and labels of groups or nothing.
    shape : tuple of int
        Numbers of rows and columns.
    names : tuple of str, optional
        Names of the columns.
    labelled : bool
        Whether chunks hold labels.
    grouped : bool
        Whether chunks hold labels of groups.
    """

    read: Callable[[], Iterator[Any]]
    shape: tuple[int, int]
    names: tuple[str, ...] | None = None
    labelled: bool = False
    grouped: bool = False

    def __len__(self) -> int:
        return self.shape[0]

    def chunks(self) -> Iterator[Chunk]:
        """Chunks in order, checked against the stated shape."""
        seen = 0
        for item in self.read():
            chunk = Chunk.of(item)
            X = inner(chunk.X)
            if X.ndim != 2 or X.shape[1] != self.shape[1]:
                raise ValueError(
                    f"every chunk must have shape (k, {self.shape[1]}); got {X.shape}."
                )
            check_finite(X)
            seen += X.shape[0]
            yield chunk
        if seen != self.shape[0]:
            raise ValueError(
                f"the source gave {self.shape[0]} rows before and {seen} now; it must give the "
                "same rows in the same order whenever it is read."
            )

    def mapped(self, make: Callable[[Chunk, int], Any]) -> Source:
        """The same chunks with other rows, made from a chunk and the number of rows before it."""

        def read() -> Iterator[Chunk]:
            first = 0
            for item in self.read():
                chunk = Chunk.of(item)
                yield chunk._replace(X=make(chunk, first))
                first += chunk.X.shape[0]

        return replace(self, read=read)


def check_finite(X: Any) -> None:
    """Refuse cells that are missing or infinite; mostly one sum settles it."""
    if not np.isfinite(X.sum(dtype=float)) and not np.all(np.isfinite(X)):
        raise ValueError("Input X contains NaN or infinity; drop or impute such rows.")


def as_floats(X: Any) -> Any:
    """An array, NumPy's or Dask's, in single or double precision."""
    if X.dtype.kind in "mMcV":
        raise ValueError(
            f"X must hold real numbers; got {X.dtype}. Complex data not supported; give dates and "
            "times as numbers in a unit of your choice."
        )
    return X if X.dtype in (np.float32, np.float64) else X.astype(float)


# ---------------------------------------------------------------------------------------------
# Dask collections


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


# ---------------------------------------------------------------------------------------------
# Where rows are


def kind_of(X: Any) -> str:
    """Where rows are: in "memory", in a "source" read in chunks, or on a "device"."""
    if arrays.is_numpy(X):
        return "memory"
    X = arrays.inner(X)
    if isinstance(X, Source | DaskRows) or is_dask(X):
        return "source"
    return "device" if arrays.is_foreign(X) else "memory"


def is_source(X: Any) -> bool:
    """Whether rows are read in chunks rather than held."""
    return kind_of(X) == "source"
