"""Blocks of the partitions of a Dask collection, which stay on the workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.arrays import inner, joined, pick
from ..core.types import Array, Block, Rows
from .blocks import Blocks, Pick, piece
from .sources import check_finite, tasks


@dataclass(frozen=True, eq=False)
class DaskBlocks(Blocks):
    """Partitions of Dask rows, each cut into blocks on its worker."""

    held: tuple[Any, ...] | None = None  # columns kept on the workers, one a partition
    in_memory = False
    remote = True

    @property
    def _rows(self) -> tuple[Any, ...]:
        return tuple(self.X.parts) if self.held is None else self.held

    def parts(self, *vectors: Any) -> list[tuple[Any, ...]]:
        """Arguments of :func:`blocks_of` for each partition, with its entries of the vectors.

        A task cuts the partition itself: blocks that were the result of another task would be as
        large as the rows, and might be sent between workers.
        """
        lengths = self.X.lengths
        ends = np.cumsum([0, *lengths]).tolist()
        numbers = np.cumsum([0, *(-(-k // self.size) for k in lengths)]).tolist()
        return [
            (rows, self.size, number, *(piece(x, slice(first, last)) for x in vectors))
            for rows, number, first, last in zip(self._rows, numbers, ends, ends[1:], strict=False)
        ]

    def kept(self, model: Any) -> DaskBlocks:
        """The same partitions with a model's columns, which stay on the workers."""
        from dask.base import persist

        held = persist(*tasks(model.rows, ((x,) for x in self.X.parts)))
        return replace(self, held=tuple(held), ready=True)

    def take(self, rows: Array, pick: Pick = pick) -> Blocks:
        """Chosen rows, brought here."""
        from dask.base import compute

        order = np.argsort(rows, kind="stable")
        ends = np.cumsum([0, *self.X.lengths])
        cuts = np.split(rows[order], np.searchsorted(rows[order], ends[1:-1]))
        wanted = zip(self._rows, cuts, ends, strict=False)
        found = compute(*tasks(_take, ((x, at - first) for x, at, first in wanted if at.size)))
        back = np.argsort(order, kind="stable")
        extra = [b.extra for b in found]
        whole = extra[0] if isinstance(extra[0], float) else np.concatenate(extra)[back]
        return Blocks(joined([b.X for b in found])[back], self.size, self.ready, whole)


def blocks_of(
    rows: Any, size: int, number: int, *vectors: Any
) -> list[tuple[Block, tuple[Any, ...]]]:
    """The blocks of one partition, numbered from ``number``, and their entries of the vectors."""
    blocks = _partition(rows, size)
    if not blocks.ready:
        check_finite(inner(blocks.X))
    return [
        (b._replace(number=number + b.number), tuple(piece(x, b.at) for x in vectors))
        for b in blocks
    ]


def _take(rows: Any, at: Array) -> Blocks:
    some = _partition(rows, at.size).take(at)
    if not some.ready:
        check_finite(inner(some.X))
    return some


def _partition(rows: Any, size: int) -> Blocks:
    if isinstance(rows, Rows):
        return Blocks(rows.C, size, True, rows.extra)
    return Blocks(rows, size)
