"""The least that our passes can cost: their arithmetic, bare.

As many rows are visited as a fit of ours visited, block by block on a pool of threads with one BLAS
thread each, into buffers that are used again.  No bound, no solve, no convergence check, no
calibration.  The block is the fastest of a few sizes, so that this floor does not rest on our own
choice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from machine import cores

BLOCK_BYTES = (2**18, 2**19, 2**20, 2**21, 2**22)


def prepare(X: Any, y: Any, seed: int, passes: dict[str, float]) -> Callable[[], None]:
    """What is to be timed: rows visited ``passes`` times (keys as in ``bench_bayesvm.passes``)."""
    make = _sparse_blocks if sparse.issparse(X) else _dense_blocks
    sums = sum(count for kind, count in passes.items() if kind.startswith("stats_"))
    share = min(max(passes.get("gram", 0.0) / sums - 1.0, 0.0), 1.0)  # rows in a second product
    visits, sizes = make(X, np.where(y > 0, 1.0, -1.0), seed, share)
    with workers() as pool:
        first = next(iter(visits.values()))
        size = min(sizes, key=lambda size: _seconds(pool, first, X.shape[0], size))

    def call() -> None:
        with workers() as pool:
            for kind, visit in visits.items():
                count = passes.get(kind, 0.0)
                while count > 1e-9:
                    _sweep(pool, visit, int(min(count, 1.0) * X.shape[0]), size)
                    count -= 1.0

    return call


@contextmanager
def workers() -> Iterator[ThreadPoolExecutor]:
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(cores()) as pool:
        yield pool


def _sweep(pool: ThreadPoolExecutor, visit: Any, rows: int, size: int) -> None:
    """Each thread takes every k-th block and keeps its own sums and buffers."""
    threads = cores()

    def share(k: int) -> None:
        for i in range(k * size, rows, threads * size):
            visit(k, i, min(i + size, rows))

    list(pool.map(share, range(threads)))


def _seconds(pool: ThreadPoolExecutor, visit: Any, rows: int, size: int) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        _sweep(pool, visit, min(rows, max(40_000, 4 * size)), size)
        times.append(time.perf_counter() - start)
    return min(times)


def _dense_blocks(X: Any, y: Any, seed: int, share: float) -> Any:
    n, p = X.shape
    rng = np.random.default_rng(seed)
    mu = rng.standard_normal(p)
    root = np.triu(rng.standard_normal((p, p))) / p
    sample = X[: min(n, 10_000)]
    center, inverse = sample.mean(axis=0), 1.0 / sample.std(axis=0)
    largest = max(min(n, BLOCK_BYTES[-1] // (8 * p)), 2 * p, 64)
    held = [
        (np.empty((largest, p)), np.empty((largest, p)), np.zeros((2, p, p)), np.zeros(p))
        for _ in range(cores())
    ]

    def visit(k: int, start: int, stop: int) -> None:
        C, T, (S, H), r = held[k]
        C, T = C[: stop - start], T[: stop - start]
        np.subtract(X[start:stop], center, out=C)
        C *= inverse
        u = 1.0 - y[start:stop] * (C @ mu)
        np.matmul(C, root, out=T)
        w = 1.0 / np.sqrt(u * u + np.einsum("ij,ij->i", T, T))
        np.multiply(C, np.sqrt(w)[:, None], out=T)
        S += T.T @ T
        some = int(share * (stop - start))
        if some:
            np.multiply(C[:some], w[:some, None], out=T[:some])
            H += T[:some].T @ T[:some]
        r += C.T @ (y[start:stop] * (1.0 + u * w))

    sizes = {max(b // (8 * p), 2 * p, 64) for b in BLOCK_BYTES}
    return {"stats_dense": visit}, sizes


def _sparse_blocks(X: Any, y: Any, seed: int, share: float) -> Any:
    """One block: SciPy's sparse products hold Python's lock, so threads would only take turns."""
    n, p = X.shape
    squares = sparse.csr_array((X.data**2, X.indices, X.indptr), X.shape)
    mu, variance = np.random.default_rng(seed).standard_normal((2, p)) ** 2
    weight = np.ones(n)

    some = squares[: int(share * n)]  # cut once, because cutting sparse rows copies them

    def part(A: Any, stop: int) -> Any:
        return A if stop == A.shape[0] else A[:stop]

    def rows(k: int, start: int, stop: int) -> Any:
        u = 1.0 - y[:stop] * (part(X, stop) @ mu)
        weight[:stop] = 1.0 / np.sqrt(u * u + part(squares, stop) @ variance)
        return u

    def stats(k: int, start: int, stop: int) -> None:
        u, few = rows(k, start, stop), int(share * stop)
        part(squares, stop).T @ weight[:stop]
        if few:
            part(some, few).T @ weight[:few]
        part(X, stop).T @ (y[:stop] * (1.0 + u * weight[:stop]))

    def product(k: int, start: int, stop: int) -> None:
        A = part(X, stop)
        A.T @ (weight[:stop] * (A @ mu))

    return {"stats_diagonal": stats, "rows": rows, "product": product}, {n}
