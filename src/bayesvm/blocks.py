"""Cutting rows into blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .types import Array, Block, Rows

CACHE_BYTES = 2**21  # a block's columns should fit a core's share of the cache


def block_rows(K: int) -> int:
    """Rows per block: columns in cache, but enough rows that adding S up costs little."""
    return int(max(CACHE_BYTES // (8 * max(K, 1)), 2 * K, 64))


@dataclass(frozen=True, eq=False)
class Blocks(Sequence[Block]):
    """Rows of an array cut into blocks of ``size``; blocks of dense rows are views.

    ``ready`` says that X already holds the assembled columns of a model rather than its input.
    """

    X: Any
    y: Array
    c: Array
    size: int
    ready: bool = False
    extra: Array | float = 0.0  # variance of f outside the columns, where those are ready
    copies: Array | float = 1.0  # rows that each row stands for; c has class weights in it too

    @cached_property
    def _parts(self) -> list[Any] | None:
        """Sparse rows are sliced once: SciPy copies a slice, and again when it is transposed."""
        if not sparse.issparse(self.X):
            return None
        if len(self) == 1:
            return [self.X]
        return [self.X[i : i + self.size] for i in range(0, self.n, self.size)]

    @property
    def n(self) -> int:
        return int(self.y.shape[0])

    def __len__(self) -> int:
        return -(-self.n // self.size)

    def __getitem__(self, k: Any) -> Any:
        if not 0 <= k < len(self):
            raise IndexError(k)
        rows = slice(k * self.size, (k + 1) * self.size)
        X = self.X[rows] if self._parts is None else self._parts[k]
        held = Rows(X, _some(self.extra, rows)) if self.ready else None
        return Block(X, self.y[rows], self.c[rows], k, held)

    def assembled(self, rows: Rows) -> Blocks:
        """The same rows with a model's columns in place of its input."""
        return replace(self, X=rows.C, extra=rows.extra, ready=True)

    def take(self, rows: Array, scale: float = 1.0) -> Blocks:
        """Chosen rows, each counted ``scale`` times more."""
        extra = _some(self.extra, rows)
        copies = _some(self.copies, rows)
        X, y, c = self.X[rows], self.y[rows], scale * self.c[rows]
        return replace(self, X=X, y=y, c=c, extra=extra, copies=copies)

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[Blocks]:
        """Random minibatches that together visit every row once, scaled up to all rows."""
        order = rng.permutation(self.n)
        for i in range(0, self.n, size):
            rows = order[i : i + size]
            yield self.take(rows, self.n / rows.size)


def _some(extra: Array | float, rows: Any) -> Array | float:
    return extra[rows] if isinstance(extra, np.ndarray) else extra
