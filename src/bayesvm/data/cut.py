"""Rows of any kind, cut into blocks."""

from __future__ import annotations

from typing import Any

from .blocks import Blocks, Streamed
from .dask_blocks import DaskBlocks
from .sources import DaskRows, Source


def cut(X: Any, size: int) -> Blocks:
    """Rows in blocks of ``size``."""
    kinds = {Source: Streamed, DaskRows: DaskBlocks}
    return kinds.get(type(X), Blocks)(X, size)
