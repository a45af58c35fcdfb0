"""Blocks of the partitions of a Dask collection, which stay on the workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core.arrays import inner, joined, pick
from ..core.types import Array, Block, Rows
from ..inputs.sources import check_finite, is_dask, tasks
from .arrays import (
    Blocks,
    Over,
    Pick,
    balanced_ranks,
    counted,
    in_turn,
    ranked,
)


@dataclass(frozen=True, eq=False)
class DaskBlocks(Blocks):
    """Partitions of Dask rows, each cut into blocks on its worker."""

    held: tuple[Any, ...] | None = None  # columns kept on the workers, one a partition
    in_memory = False
    remote = True

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @cached_property
    def weight(self) -> float:
        return float(self.c.sum().compute())

    @property
    def _columns(self) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Rows, labels and weights of each partition."""
        rows = self.X.parts if self.held is None else self.held
        y, c, unit = (_split(x, len(rows)) for x in (self.y, self.c, self.unit))
        return zip(rows, y, c, unit, strict=True)

    @cached_property
    def parts(self) -> list[tuple[Any, ...]]:
        """Arguments of :func:`blocks_of` for each partition.

        A task cuts the partition itself: blocks that were the result of another task would be as
        large as the rows, and might be sent between workers.
        """
        before = np.cumsum([0, *(-(-k // self.size) for k in self.X.lengths)])
        return [
            (*part, self.size, int(first))
            for part, first in zip(self._columns, before, strict=False)
        ]

    def kept(self, model: Any) -> DaskBlocks:
        """The same partitions with a model's columns, which stay on the workers."""
        from dask.base import persist

        held = persist(*tasks(model.rows, ((x,) for x in self.X.parts)))
        return replace(self, held=tuple(held), ready=True)

    def _gather(self, wanted: list[Array], scale: float = 1.0) -> Blocks:
        """Chosen rows of each partition, brought here."""
        from dask.base import compute

        each = zip(self._columns, wanted, strict=True)
        found = compute(*tasks(_take, ((*part, at) for part, at in each if at.size)))
        y, c, extra, unit = (
            each[0] if isinstance(each[0], float) else np.concatenate(each)
            for each in zip(*((b.y, b.c, b.extra, b.unit) for b in found), strict=True)
        )
        X = joined([b.X for b in found])
        return Blocks(X, y, scale * c, self.size, self.ready, extra, unit)

    def take(self, rows: Array, scale: float = 1.0, pick: Pick = pick) -> Blocks:
        """Chosen rows, in ascending order, brought here."""
        lengths = np.array(self.X.lengths)
        cuts = _cuts(rows, np.cumsum(lengths), lengths)
        return self._gather([rows[a:b] - first for a, b, first in cuts], scale)

    def balanced(
        self, most: int, rng: np.random.Generator, pick: Pick = pick, over: Over = in_turn
    ) -> tuple[Blocks, Array]:
        """The rows that :meth:`Blocks.balanced` takes, found on the workers."""
        from dask.base import compute

        labels = _split(self.y, len(self.X.lengths))
        counts = np.array(compute(*tasks(_count_sides, ((y,) for y in labels))))  # (parts, 2)
        ends = np.cumsum(counts, axis=0)
        both = balanced_ranks((int(ends[-1, 0]), int(ends[-1, 1])), most, rng)
        wanted = [
            [ranks[a:b] - first for a, b, first in _cuts(ranks, ends[:, side], counts[:, side])]
            for side, (ranks, _) in enumerate(both)
        ]
        some = self._gather(list(compute(*tasks(_find_sides, zip(labels, *wanted, strict=True)))))
        return some, np.where(some.y > 0, both[0][1], both[1][1])


def blocks_of(rows: Any, y: Any, c: Any, unit: Any, size: int, first: int) -> list[Block]:
    """The blocks of one partition, numbered on from those before it."""
    blocks = _partition(rows, y, c, unit, size)
    if not blocks.ready:
        check_finite(inner(blocks.X))
    return [b._replace(number=first + b.number) for b in blocks]


def _take(rows: Any, y: Any, c: Any, unit: Any, at: Array) -> Blocks:
    some = _partition(rows, y, c, unit, at.size).take(at)
    if not some.ready:
        check_finite(inner(some.X))
    return some


def _partition(rows: Any, y: Any, c: Any, unit: Any, size: int) -> Blocks:
    X, extra, ready = (rows.C, rows.extra, True) if isinstance(rows, Rows) else (rows, 0.0, False)
    none = np.zeros(X.shape[0])
    y, c, unit = none if y is None else y, none if c is None else c, 1.0 if unit is None else unit
    return Blocks(X, y, c, size, ready, extra, unit)


def _split(x: Any, parts: int) -> list[Any]:
    """The partitions of a column; a number or a placeholder has none."""
    return list(x.to_delayed()) if is_dask(x) else [None] * parts


def _count_sides(y: Array) -> tuple[int, int]:
    return int((y > 0).sum()), int((y < 0).sum())


def _find_sides(y: Array, positive: Array, negative: Array) -> Array:
    """Rows of either label by their ranks among these, in ascending order."""
    return np.sort(np.concatenate(ranked(y, [negative, positive], counted(y, 2))))


def _cuts(numbers: Array, ends: Array, lengths: Array) -> Iterator[tuple[int, int, int]]:
    """Where sorted numbers of rows fall into partitions: from, to, and the partition's first."""
    edges = np.searchsorted(numbers, np.concatenate([[0], ends]))
    return zip(edges[:-1].tolist(), edges[1:].tolist(), (ends - lengths).tolist(), strict=True)
