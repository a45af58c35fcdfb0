"""Rows in blocks: of arrays, of files, of anything that can be read again."""

from .arrays import Blocks, balanced_rows, block_rows, cut, rows_of_all_classes
from .sources import Source, Streamed, from_iterable, from_memmap, from_parquet

__all__ = [
    "Blocks",
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
