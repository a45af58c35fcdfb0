"""Rows of any kind, cut into blocks."""

from __future__ import annotations

from typing import Any

from ..inputs.sources import DaskRows, Source
from .arrays import (
    Blocks,
    Streamed,
)
from .dask import DaskBlocks


def cut(X: Any, y: Any, c: Any, size: int, unit: Any = 1.0) -> Blocks:
    """Rows with their labels and weights in blocks of ``size``; ``unit`` are class weights."""
    kinds = {Source: Streamed, DaskRows: DaskBlocks}
    return kinds.get(type(X), Blocks)(X, y, c, size, unit=unit)
