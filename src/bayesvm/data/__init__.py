"""What users give, where rows live, and files: tables, labels, blocks, engines, checkpoints."""

from .blocks import Blocks, Streamed, balanced_rows, block_rows, rows_of_all_classes, sparse_rows
from .cut import cut
from .dask import Dask
from .dask_blocks import DaskBlocks
from .gpu import Gpu
from .readers import from_iterable, from_memmap, from_parquet
from .serial import Serial
from .sources import Source
from .threads import Threads

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
