"""Blocks shared among threads, each with one BLAS thread, summed in a fixed order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from threadpoolctl import ThreadpoolController

from ..types import Block


@dataclass(frozen=True)
class Threads:
    """Thread pool over row blocks.

    BLAS is held to one thread in each worker: its own threads would fight the pool for cores, and
    on a busy machine spin.  Results are added in the order of the blocks, so the number of workers
    changes nothing, not even the last bit.

    Parameters
    ----------
    n_jobs : int, optional
        Number of workers; ``None`` or ``-1`` takes all cores this process may use.
    """

    n_jobs: int | None = None

    @property
    def workers(self) -> int:
        if self.n_jobs is None or self.n_jobs < 0:
            cores = (
                len(os.sched_getaffinity(0))
                if hasattr(os, "sched_getaffinity")
                else os.cpu_count() or 1
            )
            return max(1, cores + 1 + self.n_jobs) if self.n_jobs else cores
        return max(1, self.n_jobs)

    def collect(self, fn: Callable[[Block], Any], blocks: Sequence[Block]) -> Iterator[Any]:
        with (
            blas().limit(limits=1, user_api="blas"),
            ThreadPoolExecutor(self.workers) as pool,
        ):
            # a few ahead: blocks that are read from a file are not to pile up
            ahead: deque[Future[Any]] = deque()
            for block in blocks:
                ahead.append(pool.submit(fn, block))
                if len(ahead) > 2 * self.workers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()

    def sum(self, fn: Callable[[Block], Any], blocks: Sequence[Block]) -> Any:
        return reduce(add, self.collect(fn, blocks))


_CONTROLLER: list[ThreadpoolController] = []


def blas() -> ThreadpoolController:
    """The controller of this process's BLAS; finding the libraries takes milliseconds, so once."""
    if not _CONTROLLER:
        _CONTROLLER.append(ThreadpoolController())
    return _CONTROLLER[0]
