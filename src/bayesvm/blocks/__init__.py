"""Rows cut into blocks: those of arrays, of files and iterators, of Dask collections."""

from ..inputs.readers import from_iterable, from_memmap, from_parquet
from ..inputs.sources import Source
from .arrays import Blocks, Streamed, balanced_rows, block_rows, rows_of_all_classes, sparse_rows
from .cut import cut
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
    "sparse_rows",
]
