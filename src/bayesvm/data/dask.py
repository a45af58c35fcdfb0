"""The engine that processes the partitions of a Dask collection on its workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

from .dask_blocks import blocks_of
from .memory import SHARE
from .serial import Serial
from .sources import FAN, tasks, tree_sum


@dataclass(frozen=True)
class Dask(Serial):
    """Process the partitions of a Dask collection on the workers that hold them.

    A pass sends the model once to every worker and a few numbers for each row (label, weight,
    variance of f) with its partition, cuts each partition there into blocks that fit its cache, and
    adds the sums up in a tree.  The rows themselves are never sent.  Collections that fit the
    workers' memory should be persisted first; others are read again for every pass.  A partition
    that is lost with its worker is computed again.

    Parameters
    ----------
    fan : int, default=8
        Sums added up in one task of the tree.
    dtype, memory
        As in :class:`Serial`; the memory is that of all workers together.
    """

    fan: int = FAN

    def sum(self, fn: Callable[..., Any], blocks: Any, *vectors: Any) -> Any:
        if not blocks.remote:
            return super().sum(fn, blocks, *vectors)
        return tree_sum(tasks(partial(_sum, fn), blocks.parts(*vectors)), self.fan)

    def collect(self, fn: Callable[..., Any], blocks: Any, *vectors: Any) -> Iterator[Any]:
        if not blocks.remote:
            return super().collect(fn, blocks, *vectors)
        from dask.base import compute

        parts = compute(*tasks(partial(_each, fn), blocks.parts(*vectors)))
        return (item for part in parts for item in part)

    def available(self) -> int:
        """Bytes that columns may take on all workers together."""
        try:
            from distributed import get_client

            workers = get_client().scheduler_info(n_workers=-1)["workers"].values()
        except (ImportError, ValueError, TypeError):  # no cluster: all is done in this process
            return super().available()
        return int(SHARE * sum(w["memory_limit"] or 0 for w in workers) / 2)


def _each(fn: Callable[..., Any], *part: Any) -> list[Any]:
    return [fn(block, *vectors) for block, vectors in blocks_of(*part)]


def _sum(fn: Callable[..., Any], *part: Any) -> Any:
    return reduce(add, _each(fn, *part))
