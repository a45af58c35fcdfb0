"""Blocks shared among threads, each with one BLAS thread, summed in a fixed order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, reduce
from operator import add
from typing import Any

from joblib import cpu_count
from threadpoolctl import ThreadpoolController

from ..core.arrays import as_it_is
from .blocks import in_turn, piece
from .serial import Serial


@cache
def _libraries() -> ThreadpoolController:
    """Libraries with threads of their own, found once, for it is slow."""
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """BLAS limited to one thread."""
    limit: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limit


@dataclass(frozen=True)
class Threads(Serial):
    """Thread pool over blocks of rows.

    BLAS uses one thread in each worker: its own threads would compete with the pool for cores.
    Results are added in the order of the blocks, so the number of workers changes nothing, not even
    the last bit.

    Parameters
    ----------
    n_jobs : int, optional
        Number of workers; ``None`` or ``-1`` is one for each core this process may use.
    dtype, memory
        As in :class:`Serial`.
    """

    n_jobs: int | None = None

    @property
    def workers(self) -> int:
        n = -1 if self.n_jobs is None else self.n_jobs
        return max(1, n if n >= 0 else cpu_count() + 1 + n)

    def collect(
        self, fn: Callable[..., Any], blocks: Iterable[Any], *vectors: Any
    ) -> Iterator[Any]:
        """Results for all blocks, in their order; at most two blocks a worker are read ahead."""
        workers, ahead = self.workers, deque[Future[Any]]()
        pool = ThreadPoolExecutor(workers)
        try:
            with one_blas_thread():
                for block in blocks:
                    ahead.append(pool.submit(fn, block, *(piece(x, block.at) for x in vectors)))
                    if len(ahead) > 2 * workers:
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def sum(self, fn: Callable[..., Any], blocks: Iterable[Any], *vectors: Any) -> Any:
        return reduce(add, self.collect(fn, blocks, *vectors))

    def over(self, fn: Callable[[slice], Any], n: int, size: int) -> list[Any]:
        parts = in_turn(as_it_is, n, size)
        return list(self.collect(fn, parts)) if n > size else super().over(fn, n, size)
