"""Rows outside memory: read in chunks again for every pass, or partitions of Dask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import add
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core.arrays import Chunked, computed, inner
from ..core.types import Array
from .levels import Placed, is_named, read

FAN = 8  # number of sums that one task adds


class Chunk(NamedTuple):
    """Rows ``(k, p)`` with labels ``(k,)`` and group labels, if given."""

    X: Any
    y: Array | None = None
    groups: Any = None


@dataclass(frozen=True, eq=False)
class Source(Chunked):
    """Rows (and labels, and groups) that are read in chunks, again for every pass.

    Made by :func:`~bayesvm.data.from_memmap`, :func:`~bayesvm.data.from_parquet` and
    :func:`~bayesvm.data.from_iterable`; accepted as ``X`` by the estimators.

    Parameters
    ----------
    read : callable
        Function that returns a new iterator of :class:`Chunk`.
    shape : tuple of int
        Numbers of rows and columns.
    names : tuple of str, optional
        Names of the columns.
    labelled : bool
        Whether chunks have labels.
    grouped : bool
        Whether chunks have group labels.
    """

    read: Callable[[], Iterator[Chunk]]
    shape: tuple[int, int]
    names: tuple[str, ...] | None = None
    labelled: bool = False
    grouped: bool = False

    def __len__(self) -> int:
        return self.shape[0]

    def chunks(self) -> Iterator[Chunk]:
        """Chunks in order, checked against the stated shape."""
        seen = 0
        for chunk in self.read():
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
        """The source with rows ``make(chunk, number of rows before it)`` in each chunk."""

        def read() -> Iterator[Chunk]:
            first = 0
            for chunk in self.read():
                yield chunk._replace(X=make(chunk, first))
                first += chunk.X.shape[0]

        return replace(self, read=read)


def check_finite(X: Any) -> None:
    """Raise an error for missing or infinite cells; usually one sum suffices to check."""
    if not np.isfinite(X.sum(dtype=float)) and not np.all(np.isfinite(X)):
        raise ValueError("Input X contains NaN or infinity; drop or impute such rows.")


def as_floats(X: Any) -> Any:
    """A NumPy or Dask array in single or double precision."""
    if X.dtype.kind in "mMcV":
        raise ValueError(
            f"X must hold real numbers; got {X.dtype}. Complex data not supported; give dates and "
            "times as numbers in a unit of your choice."
        )
    return X if X.dtype in (np.float32, np.float64) else X.astype(float)


# ---------------------------------------------------------------------------------------------
# Dask collections


class _Function:
    """Wrapper of a function that is passed as a value: Dask would call the function itself."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn


def _call(function: _Function, *args: Any) -> Any:
    return function.fn(*args)


def tasks(fn: Callable[..., Any], each: Iterable[tuple[Any, ...]]) -> list[Any]:
    """A task for each tuple of arguments; the function is sent once to every worker."""
    from dask.delayed import delayed

    # a literal with a key, so that workers copy it from each other
    function, call = delayed(_Function(fn), name=None, pure=False), delayed(_call, pure=False)
    return [call(function, *args) for args in each]


def _sum(parts: list[Any]) -> Any:
    return reduce(add, parts)


def tree_sum(sums: list[Any], fan: int = FAN) -> Any:
    """The sum of the results of tasks, ``fan`` at a time on the workers."""
    from dask.base import compute
    from dask.delayed import delayed

    join = delayed(_sum, pure=False)
    while len(sums) > 1:
        sums = [join(sums[i : i + fan]) for i in range(0, len(sums), fan)]
    return compute(sums[0])[0]


@dataclass(frozen=True, eq=False)
class DaskRows(Chunked):
    """A Dask array of rows that is partitioned along rows only."""

    array: Any
    names: tuple[str, ...] | None = None
    tables: tuple[Any, ...] | None = None  # partitions with group codes

    labelled: ClassVar[bool] = False
    grouped: ClassVar[bool] = False

    @staticmethod
    def of(X: Any) -> DaskRows:
        """From a Dask array or data frame; unknown partition lengths are computed."""
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

    def beside(self, codes: Array, table: Callable[..., Any]) -> DaskRows:
        """Rows with the codes of their groups, which are sent to the workers once."""
        from dask.base import persist
        from dask.delayed import delayed

        cuts = np.split(codes, np.cumsum(self.lengths)[:-1])
        placed = persist(*(delayed(part, pure=False) for part in cuts))
        return replace(self, tables=tuple(tasks(table, zip(self.parts, placed, strict=True))))


def _plain_frame(X: Any) -> Any:
    """A data frame whose columns have NumPy types."""
    from pandas.api.types import is_numeric_dtype

    kinds = dict(X.dtypes)
    other = [name for name, k in kinds.items() if not is_numeric_dtype(k) and k != np.dtype(object)]
    if other:
        raise ValueError(f"columns {other} of X are not numbers; leave them out or code them.")
    return X if all(isinstance(k, np.dtype) for k in kinds.values()) else X.astype(float)


def lazily(
    work: Callable[..., Array],
    X: Any,
    groups: Any,
    encoding: Any,
    numbered: bool = False,
    **options: Any,
) -> Any:
    """A lazy Dask array of the results of a function for each partition.

    ``work`` returns an array with a row (or an entry) for each row of ``X``; if ``numbered`` it
    also gets the number of the partition.  Group labels are computed at once and sliced for each
    partition; unknown partition lengths are then computed too.
    """
    import dask.array as da

    if X.ndim != 2:
        raise ValueError(f"X must have rows and columns; got shape {X.shape}.")
    names = list(X.columns) if hasattr(X, "to_dask_array") else None
    X = X if names is None else X.to_dask_array()
    if groups is not None and any(np.isnan(k) for k in X.chunks[0]):
        X = X.compute_chunk_sizes()
    X = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
    members = {} if groups is None else read(computed(groups), X.shape[0])
    group_names, group_kind = list(members), dict if is_named(groups) else Placed

    def of_partition(
        rows: Any, *columns: Array, block_id: tuple[int, ...] = (0,), empty: Array | None = None
    ) -> Array:
        if not rows.shape[0] and empty is not None:
            return empty
        arguments: dict[str, Any] = {"number": block_id[0]} if numbered else {}
        if names is not None:
            import pandas as pd

            rows = pd.DataFrame(rows, columns=names)
        if columns:
            cells = (column[:, 0] for column in columns)
            arguments["groups"] = group_kind(zip(group_names, cells, strict=True))
        return work(rows, **options, **arguments)

    row = np.zeros((1, X.shape[1]), dtype=X.dtype)
    for category in encoding.categories:
        row[0, category.column] = category.levels[0]
    few = of_partition(row, *[np.full((1, 1), None)] * len(members))
    one = few.ndim == 1
    kept = {} if one else {"chunks": (X.chunks[0], (few.shape[1],))}
    return da.map_blocks(
        partial(of_partition, empty=few[:0]),
        X,
        *(da.from_array(each[:, None], chunks=(X.chunks[0], 1)) for each in members.values()),
        dtype=few.dtype,
        meta=few[:0],
        drop_axis=1 if one else None,
        **kept,
    )
