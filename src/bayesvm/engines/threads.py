"""Blocks shared among threads, each with one BLAS thread, summed in a fixed order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import islice
from threading import Lock
from typing import Any

import numpy as np
from joblib import cpu_count
from threadpoolctl import ThreadpoolController

from ..blocks.arrays import in_turn
from ..core.arrays import as_it_is
from .serial import TOGETHER, Serial, added

AHEAD = 4  # sums of results that wait to be added
GATHERED = 2**18  # entries of chosen rows that a thread copies in one go
# Columns from which K-sized algebra takes less time with a share of the cores.  If all take part,
# BLAS's threads wait for each other: on 16 idle cores a product of 1,000 x 1,000 takes 20 ms with
# one thread, 10 with four, and 35 to 50 with sixteen; a triangular one 9, 8, and 110 to 140.
SHARED_COLUMNS, MANY_COLUMNS = 500, 2000
FEW_CORES, MOST_COLUMNS = 4, 3000  # of so few all take part from so many columns on
_kept: ContextVar[dict[int, ThreadPoolExecutor] | None] = ContextVar("kept", default=None)


def cores() -> int:
    """Number of cores that this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    return _counted(usable, os.environ.get("LOKY_MAX_CPU_COUNT"))


@lru_cache
def _counted(usable: int, limit: str | None) -> int:
    """Cores, found once for each set of limits: joblib reads files of the system each time."""
    return int(cpu_count())


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
        return max(1, n if n >= 0 else cores() + 1 + n)

    def collect(self, fn: Callable[[Any], Any], blocks: Iterable[Any]) -> Iterator[Any]:
        """Results for all blocks, in their order; only a few blocks are read ahead."""
        most = 2 * self.workers
        with one_blas_thread(), self._pool() as pool:
            ahead: deque[Future[Any]] = deque()
            try:
                for block in blocks:
                    ahead.append(pool.submit(fn, block))
                    if len(ahead) > most:
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
            finally:  # a pool that is kept would go on
                for future in ahead:
                    future.cancel()
                wait(ahead)

    def sum(self, fn: Callable[[Any], Any], blocks: Iterable[Any]) -> Any:
        """Sum of the results, as of the reference; matrices that are large take long to add."""
        with self._pool() as pool:
            return added(self._added(pool, iter(self.collect(fn, blocks))))

    def _added(self, pool: ThreadPoolExecutor, results: Iterator[Any]) -> Iterator[Any]:
        """Sums of so many results at a time; only a few are kept."""
        ahead: deque[Future[Any]] = deque()
        while some := list(islice(results, TOGETHER)):
            ahead.append(pool.submit(added, some))
            del some
            if len(ahead) > AHEAD:
                yield ahead.popleft().result()
        for one in ahead:
            yield one.result()

    def _pool(self) -> AbstractContextManager[ThreadPoolExecutor]:
        """The threads that are kept, or new ones."""
        pools = _kept.get()
        if pools is None:
            return ThreadPoolExecutor(self.workers)
        if self.workers not in pools:
            pools[self.workers] = ThreadPoolExecutor(self.workers)
        return nullcontext(pools[self.workers])

    def over(self, fn: Callable[[slice], Any], n: int, size: int) -> list[Any]:
        parts = in_turn(as_it_is, n, size)
        return list(self.collect(fn, parts)) if n > size else super().over(fn, n, size)

    def pick(self, x: Any, rows: Any) -> Any:
        plain = all(isinstance(each, np.ndarray) and each.flags.c_contiguous for each in (x, rows))
        if not plain or x.ndim > 2 or rows.dtype.kind not in "iu":
            return super().pick(x, rows)
        out = np.empty((rows.size, *x.shape[1:]), x.dtype)

        def gather(at: slice) -> None:
            np.take(x, rows[at], axis=0, out=out[at], mode="clip")  # "raise" writes a copy first

        size = GATHERED // 8 if x.ndim == 1 else GATHERED // max(x.shape[1], 1)
        self.over(gather, rows.size, max(1, size))
        return out


if hasattr(os, "register_at_fork"):  # threads do not follow into a child process
    os.register_at_fork(after_in_child=lambda: _kept.set(None))


@contextmanager
def kept_threads() -> Iterator[None]:
    """Keep the threads of engines to the end, for all that is collected inside by this thread.

    A generator of results must not be used after it.

    To start sixteen takes about a millisecond, and a fit needs them some thirty times.
    """
    pools: dict[int, ThreadPoolExecutor] = {}
    before = _kept.set(pools)
    try:
        yield
    finally:
        _kept.reset(before)
        for pool in pools.values():
            pool.shutdown()


class _Limit:
    """Threads of BLAS limited while any thread of the process is inside.

    The limit of most libraries is the process's, not the thread's that sets it.  So the least of
    all that are held is set, and the last to leave lifts it, in whatever order they do.  (OpenBLAS
    on OpenMP has a limit for each thread, which each sets and lifts.)
    """

    def __init__(self) -> None:
        self.lock, self.held, self.before = Lock(), list[int](), [0]

    @cached_property
    def libraries(self) -> tuple[list[Any], list[Any]]:
        """Those with one limit, and those with one for each thread; found once, for it is slow."""
        shared: list[Any] = []
        apart: list[Any] = []
        for library in ThreadpoolController().select(user_api="blas").lib_controllers:
            openmp = getattr(library, "threading_layer", "") == "openmp"
            (apart if openmp and library.internal_api == "openblas" else shared).append(library)
        return shared, apart

    @contextmanager
    def __call__(self, threads: int = 1) -> Iterator[None]:
        """At most so many threads; fits in several threads of a process may ask for it at once."""
        with self.lock:
            shared, apart = self.libraries
            if not self.held:
                self.before = [library.num_threads for library in shared]
            self.held.append(threads)
            self._set(shared)
            own = [library.num_threads for library in apart]
            _limit(apart, [min(threads, most) for most in own])
        try:
            yield
        finally:
            with self.lock:
                _limit(apart, own)
                self.held.remove(threads)
                self._set(shared)

    def _set(self, libraries: list[Any]) -> None:
        _limit(libraries, [min([*self.held, most]) for most in self.before])


def _limit(libraries: list[Any], limits: list[int]) -> None:
    """Set the number of threads of each library."""
    for library, limit in zip(libraries, limits, strict=True):
        library.set_num_threads(limit)
        # newer versions of threadpoolctl ignore all threads but the first that sets a limit, until
        # that one releases it
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread()


limited_blas = _Limit()


def one_blas_thread() -> AbstractContextManager[None]:
    """BLAS limited to one thread."""
    return limited_blas()


@cache
def _openmp() -> Any:
    """Libraries that use OpenMP, found once, for it is slow."""
    return ThreadpoolController().select(user_api="openmp")


def openmp_threads(workers: int | None) -> AbstractContextManager[Any]:
    """So many threads at most for what this thread runs by OpenMP; ``None`` changes nothing."""
    if workers is None:
        return nullcontext()
    found = _openmp()
    now = min((library.num_threads for library in found.lib_controllers), default=workers)
    return found.limit(limits=min(workers, now), user_api="openmp")


def blas_threads(K: int, form: str = "dense", engine: Any = None) -> AbstractContextManager[None]:
    """A share of the cores for BLAS, or one where K-sized algebra is too small to share.

    It has no more threads than an ``engine`` of threads.
    """
    if form != "dense" or K < SHARED_COLUMNS:
        return one_blas_thread()
    most = cores()
    share = most // (4 if K < MANY_COLUMNS else 2)
    if K >= MOST_COLUMNS:
        share = max(share, min(most, FEW_CORES))
    return limited_blas(max(1, min(share, getattr(engine, "workers", most))))
