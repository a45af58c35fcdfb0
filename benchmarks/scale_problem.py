"""Many rows: 18 columns, a smooth but not additive rule, labels drawn from probabilities."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from bayesvm.inference.problem import Problem

COLUMNS = 18
SUMS = ("stats", "expectations")  # of the matrix of rows, by which inference learns from them
PIECE = 500_000  # rows drawn at once: the same rows whatever number is asked for


def piece(key: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels 0 or 1 of one piece."""
    rng = np.random.default_rng((2026, key))
    X = rng.standard_normal((n, COLUMNS), dtype=np.float32)
    f = 1.5 * np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] - 0.5
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-1.5 * f))).astype(np.int8)


def simulate(n: int) -> tuple[np.ndarray, np.ndarray]:
    """All rows at once."""
    X, y = np.empty((n, COLUMNS), np.float32), np.empty(n, np.int8)
    for key, i in enumerate(range(0, n, PIECE)):
        some, labels = piece(key, PIECE)
        X[i : i + PIECE], y[i : i + PIECE] = some[: n - i], labels[: n - i]
    return X, y


def held_out(n: int = 200_000) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are in no training set."""
    return piece(10**6, n)


class Passes:
    """Rows, seconds and processor seconds of each sum over rows while this context is open."""

    def __init__(self, synchronise: Callable[[], None] = lambda: None) -> None:
        self.calls: list[tuple[int, float, float]] = []
        self.patches = [mock.patch.object(Problem, k, self.timed(k, synchronise)) for k in SUMS]

    def timed(self, name: str, synchronise: Callable[[], None]) -> Callable[..., Any]:
        plain = getattr(Problem, name)

        def call(problem: Problem, *args: Any, **options: Any) -> Any:
            synchronise()
            wall, busy = time.perf_counter(), time.process_time()
            out = plain(problem, *args, **options)
            synchronise()
            spent = time.perf_counter() - wall, time.process_time() - busy
            self.calls.append((problem.n, *spent))
            return out

        return call

    def __enter__(self) -> Passes:
        for patch in self.patches:
            patch.start()
        return self

    def __exit__(self, *error: object) -> None:
        for patch in self.patches:
            patch.stop()
