"""Predictions for Dask collections: lazy arrays, computed partition by partition."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..core.types import Array
from .levels import Placed, is_named, read
from .sources import computed


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
    given the number of the partition.  Groups, of which each partition gets its own, are computed
    at once, and so are lengths of partitions that are not known then.
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
