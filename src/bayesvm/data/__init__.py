"""Input and storage of data: tables, labels, blocks of rows, engines, files, checkpoints."""

from .blocks import (
    Blocks,
    DaskBlocks,
    Streamed,
    balanced_rows,
    block_rows,
    cut,
    rows_of_all_classes,
    sparse_rows,
)
from .engines import Dask, Serial, Threads
from .gpu import Gpu
from .readers import from_iterable, from_memmap, from_parquet
from .sources import Source

__all__ = [
    "Blocks",
    "Dask",
    "DaskBlocks",
    "Gpu",
    "Serial",
    "Source",
    "Streamed",
    "Threads",
    "balanced_rows",
    "block_rows",
    "cut",
    "from_iterable",
    "from_memmap",
    "from_parquet",
    "rows_of_all_classes",
    "sparse_rows",
]
