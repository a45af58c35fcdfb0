"""Predictions for Dask collections: lazy arrays, computed partition by partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.types import Array
from .levels import Placed, is_named
from .sources import DaskRows, is_dask, lazy_columns, plain_column


def computed(*arrays: Any) -> tuple[Any, ...]:
    """Arrays, those of Dask computed."""
    return tuple(x.compute() if is_dask(x) else x for x in arrays)


def lazily(
    work: Callable[..., Array],
    X: Any,
    groups: Any,
    encoding: Any,
    numbered: bool = False,
    **options: Any,
) -> Any:
    """A Dask array of the results of a function for each partition.

    ``work`` returns an array with a row (or an entry) for each row of ``X``; if ``numbered`` it is
    given the number of the partition.
    """
    import dask.array as da

    if X.ndim != 2:
        raise ValueError(f"X must have rows and columns; got shape {X.shape}.")
    members = {} if groups is None else _lazy_groups(X, groups)
    columns = list(X.columns) if hasattr(X, "to_dask_array") else None
    X = X if columns is None else X.to_dask_array()
    X = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
    factors = tuple(members), is_named(groups)
    call = _Call(work, columns, *factors, options, numbered)
    row = np.zeros((1, X.shape[1]), dtype=X.dtype)
    for category in encoding.categories:
        row[0, category.column] = category.levels[0]
    few = call(row, *[np.full((1, 1), None)] * len(members))
    one = few.ndim == 1
    kept = {} if one else {"chunks": (X.chunks[0], (few.shape[1],))}
    return da.map_blocks(
        replace(call, empty=few[:0]),
        X,
        *(column[:, None] for column in members.values()),
        dtype=few.dtype,
        meta=few[:0],
        drop_axis=1 if one else None,
        **kept,
    )


@dataclass(frozen=True, eq=False)
class _Call:
    """A function of rows and options as one of the rows and groups of one partition."""

    work: Callable[..., Array]
    columns: list[str] | None  # of data frames
    factors: tuple[str, ...]
    named: bool  # whether groups are found by name
    options: dict[str, Any]
    numbered: bool
    empty: Array | None = None  # the result for a partition without rows

    def __call__(self, X: Array, *members: Array, block_id: tuple[int, ...] = (0,)) -> Array:
        if not X.shape[0] and self.empty is not None:
            return self.empty
        rows, options = X, dict(self.options)
        if self.columns is not None:
            import pandas as pd

            rows = pd.DataFrame(X, columns=self.columns)
        if self.factors:
            groups = {name: x[:, 0] for name, x in zip(self.factors, members, strict=True)}
            options["groups"] = groups if self.named else Placed(groups)
        if self.numbered:
            options["number"] = block_id[0]
        return self.work(rows, **options)


def _lazy_groups(X: Any, groups: Any) -> dict[str, Any]:
    """Columns of groups in the partitions of rows whose lengths need not be known."""
    held = lazy_columns(groups)
    if held is None or not all(map(is_dask, held.values())):
        return DaskRows.of(X).columns_of(groups)
    found = {
        name: plain_column(x).to_dask_array() if hasattr(x, "to_dask_array") else x
        for name, x in held.items()
    }
    chunks = (None,) * X.npartitions if hasattr(X, "to_dask_array") else X.chunks[0]
    if all(_may_match(chunks, x.chunks[0]) for x in found.values()):
        return found
    return DaskRows.of(X).columns_of(groups)


def _may_match(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether partitions are of the same lengths, as far as these are known."""
    known = (x == y for x, y in zip(a, b, strict=False) if x is not None and x == x and y == y)
    return len(a) == len(b) and all(known)
