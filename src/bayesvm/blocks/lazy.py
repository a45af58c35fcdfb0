"""Answers about Dask collections, computed when they are asked for."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..core.types import Array
from ..inputs.dask import DaskRows, is_dask, lazy_columns, plain_column
from ..inputs.levels import is_named


def lazily(
    estimator: Any,
    method: str,
    X: Any,
    groups: Any = None,
    numbered: bool = False,
    **options: Any,
) -> Any:
    """A Dask array of what a method says of each partition, computed when asked for.

    ``method`` gives an array with a row (or an entry) for each row of ``X``; if ``numbered`` it is
    told the number of the partition.
    """
    if X.ndim != 2:
        raise ValueError(f"X must have rows and columns; got shape {X.shape}.")
    columns, members = None, {} if groups is None else _lazy_groups(X, groups)
    known = getattr(estimator, "factors_", ())
    if not is_named(groups) and len(known) == len(members):
        members = dict(zip(known, members.values(), strict=True))
    if hasattr(X, "to_dask_array"):
        columns, X = list(X.columns), X.to_dask_array()
    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    answer = _numbered_answer if numbered else _answer
    ask = partial(answer, estimator, method, columns, tuple(members), options)
    nobody = np.full((1, 1), None, dtype=object)
    few = ask(np.zeros((1, X.shape[1]), dtype=X.dtype), *[nobody] * len(members))
    kept = {} if few.ndim == 1 else {"chunks": (X.chunks[0], (few.shape[1],))}
    import dask.array as da

    beside = [column[:, None] for column in members.values()]
    drop = 1 if few.ndim == 1 else None
    ask = partial(ask, none=few[:0])
    return da.map_blocks(ask, X, *beside, dtype=few.dtype, meta=few[:0], drop_axis=drop, **kept)


def _answer(
    estimator: Any,
    method: str,
    columns: list[str] | None,
    factors: tuple[str, ...],
    options: dict[str, Any],
    X: Array,
    *members: Array,
    none: Array | None = None,
) -> Array:
    if not X.shape[0] and none is not None:
        return none
    if columns is not None:
        import pandas as pd

        X = pd.DataFrame(X, columns=columns)
    if factors:
        groups = {name: x[:, 0] for name, x in zip(factors, members, strict=True)}
        options = options | {"groups": groups}
    return getattr(estimator, method)(X, **options)  # type: ignore[no-any-return]


def _numbered_answer(
    estimator: Any,
    method: str,
    columns: list[str] | None,
    factors: tuple[str, ...],
    options: dict[str, Any],
    *rows: Array,
    none: Array | None = None,
    block_id: tuple[int, ...] = (0,),
) -> Array:
    options = options | {"number": block_id[0]}
    return _answer(estimator, method, columns, factors, options, *rows, none=none)


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


def at_hand(*arrays: Any) -> tuple[Any, ...]:
    """Arrays, those of Dask computed."""
    return tuple(x.compute() if is_dask(x) else x for x in arrays)


def _may_match(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether partitions are of the same lengths, as far as these are known."""
    known = (x == y for x, y in zip(a, b, strict=False) if x is not None and x == x and y == y)
    return len(a) == len(b) and all(known)
