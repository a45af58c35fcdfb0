"""Predictions for Dask collections: lazy arrays, computed partition by partition."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
    names = list(X.columns) if hasattr(X, "to_dask_array") else None
    X = X if names is None else X.to_dask_array()
    X = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X

    def of_partition(
        rows: Any, *columns: Array, block_id: tuple[int, ...] = (0,), empty: Array | None = None
    ) -> Array:
        if not rows.shape[0] and empty is not None:
            return empty
        arguments: dict[str, Any] = {"number": block_id[0]} if numbered else {}
        if names is not None:
            import pandas as pd

            rows = pd.DataFrame(rows, columns=names)
        if members:
            own = {name: column[:, 0] for name, column in zip(members, columns, strict=True)}
            arguments["groups"] = own if is_named(groups) else Placed(own)
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
        *(column[:, None] for column in members.values()),
        dtype=few.dtype,
        meta=few[:0],
        drop_axis=1 if one else None,
        **kept,
    )


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
