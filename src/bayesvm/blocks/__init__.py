"""Rows cut into blocks: those of arrays, of files and iterators, of Dask collections."""

from typing import Any

from ..inputs.dask import DaskRows
from ..inputs.sources import Source, from_iterable, from_memmap, from_parquet
from .arrays import Blocks, Streamed, balanced_rows, block_rows, rows_of_all_classes
from .dask import DaskBlocks

__all__ = [
    "Blocks",
    "DaskBlocks",
    "Source",
    "Streamed",
    "balanced_rows",
    "block_rows",
    "cut",
    "from_iterable",
    "from_memmap",
    "from_parquet",
    "rows_of_all_classes",
]


def cut(X: Any, y: Any, c: Any, size: int) -> Blocks:
    """Rows with their labels and weights in blocks of ``size``."""
    kinds = {Source: Streamed, DaskRows: DaskBlocks}
    return kinds.get(type(X), Blocks)(X, y, c, size)
