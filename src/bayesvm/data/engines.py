"""Engines, which map functions over blocks of rows: serially, on threads or on Dask workers."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ContextDecorator
from dataclasses import dataclass, field
from functools import cache, cached_property, partial, reduce
from operator import add
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from joblib import cpu_count
from threadpoolctl import ThreadpoolController

from ..core import arrays
from ..core.parameters import check_parameters, is_among
from ..core.types import Block
from .blocks import blocks_of, entries
from .sources import FAN, tasks, tree_sum


def available_memory() -> int:
    """Bytes of free memory according to Linux and its control group, otherwise two GiB."""
    free, info = [2**31], Path("/proc/meminfo")
    if info.is_file():
        free = [1024 * int(info.read_text().partition("MemAvailable:")[2].split()[0])]
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.is_file() and limit.read_text().strip() != "max":
        free.append(max(0, int(limit.read_text()) - int(used.read_text())))
    return min(free)


@dataclass(frozen=True)
class Serial:
    """Process blocks in order, on the calling thread.

    Other engines inherit from this one and override what they do differently.

    Parameters
    ----------
    dtype : {"auto", "float32", "float64"}, default="auto"
        Precision in which columns are stored and multiplied; sums over rows are always float64.
        ``"auto"`` is float32 for kernel machines on more than 50,000 rows, unless fitted by EM, and
        float64 otherwise.
    memory : int, optional
        Bytes for storing the columns of a kernel machine on more than 50,000 rows, by default half
        of the free memory.  Columns that need more are computed again on every pass.
    """

    dtype: str = field(default="auto", kw_only=True)
    memory: int | None = field(default=None, kw_only=True)
    on_device: ClassVar[bool] = False  # whether rows are moved to the memory of a device
    block_bytes: ClassVar[int] = 0  # least size of the columns of a block

    def collect(
        self, fn: Callable[..., Any], blocks: Iterable[Block], *vectors: Any
    ) -> Iterator[Any]:
        """Results of ``fn(block, *entries)`` for all blocks, in order.

        ``vectors`` are arrays with an entry for each row, sliced for each block, or numbers.
        """
        for b in blocks:
            yield fn(b, *entries(vectors, b.at) if vectors else ())

    def sum(self, fn: Callable[..., Any], blocks: Iterable[Block], *vectors: Any) -> Any:
        """Sum of the results of ``fn``, in the order of the blocks."""
        total = None
        for b in blocks:
            own = entries(vectors, b.at) if vectors else ()
            total = fn(b, *own) if total is None else total + fn(b, *own)
        return total

    def check(self) -> None:
        """Raise an error for invalid fields, or if the engine cannot run on this machine."""
        if not is_among(self.dtype, ("auto", "float32", "float64")):
            raise ValueError(
                f"dtype={self.dtype!r} is not known; choose 'auto', 'float32' or 'float64'."
            )
        check_parameters({"memory": self.memory})

    def available(self) -> int:
        """Bytes available for columns: half of the free memory."""
        return available_memory() // 2

    def place(self, x: Any) -> Any:
        """An array in the memory of the engine."""
        return x

    def empty(self, rows: Any, width: int, dtype: str) -> Any:
        """An uninitialised array of ``width`` columns, one row for each of ``rows``."""
        return arrays.empty(rows, width, dtype)


class OneBlasThread(ContextDecorator):
    """A context or decorator under which BLAS uses one thread.

    Most products of a fit are small.  BLAS on all cores wastes processor time on them: ten times
    as much on 16 cores, for a longer fit.  The limit applies to the whole process; if several
    threads fit at once, it ends with the last fit.
    """

    def __init__(self) -> None:
        self.lock, self.inside = Lock(), 0
        self.limit: Any = None

    @cached_property
    def libraries(self) -> ThreadpoolController:
        """Libraries with thread pools; the search is slow and done once."""
        return ThreadpoolController()

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.limit = self.libraries.limit(limits=1, user_api="blas")
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                self.limit.restore_original_limits()


one_blas_thread = OneBlasThread()


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """The pool of all passes; starting its threads takes longer than a pass over few rows."""
    return ThreadPoolExecutor(workers)


if hasattr(os, "register_at_fork"):  # a child process has no threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


@dataclass(frozen=True)
class Threads(Serial):
    """Thread pool over blocks of rows.

    BLAS uses one thread in each worker, because BLAS threads would compete with the pool for cores.
    Results are added in the order of the blocks, so they are identical for any number of workers.

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
        """Results for all blocks, in order; at most two blocks per worker are read ahead."""
        workers, ahead = self.workers, deque[Future[Any]]()
        try:
            with one_blas_thread:
                for block in blocks:
                    own = entries(vectors, block.at) if vectors else ()
                    ahead.append(_pool(workers).submit(fn, block, *own))
                    if len(ahead) > 2 * workers:
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()

    def sum(self, fn: Callable[..., Any], blocks: Iterable[Any], *vectors: Any) -> Any:
        return reduce(add, self.collect(fn, blocks, *vectors))


@dataclass(frozen=True)
class Dask(Serial):
    """Process the partitions of a Dask collection on the workers that store them.

    A pass sends the model once to every worker and a few numbers for each row (label, weight,
    variance of f) to its partition.  Each worker cuts its partitions into blocks that fit its
    cache, and the results are summed in a tree.  The rows themselves are never sent.  Persist
    collections that fit into the workers' memory; others are read again for every pass.  A
    partition that is lost with its worker is computed again.

    Parameters
    ----------
    fan : int, default=8
        Number of sums that one task of the tree adds.
    dtype, memory
        As in :class:`Serial`; ``memory`` is the total of all workers.
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
        """Bytes available for columns on all workers together."""
        try:
            from distributed import get_client

            workers = get_client().scheduler_info(n_workers=-1)["workers"].values()
        except (ImportError, ValueError, TypeError):  # no cluster: Dask runs in this process
            return super().available()
        return sum(w["memory_limit"] or 0 for w in workers) // 4


def _each(fn: Callable[..., Any], *part: Any) -> list[Any]:
    return [fn(block, *vectors) for block, vectors in blocks_of(*part)]


def _sum(fn: Callable[..., Any], *part: Any) -> Any:
    return reduce(add, _each(fn, *part))
