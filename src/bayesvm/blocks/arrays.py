"""Cutting rows into blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ..core.arrays import double, is_foreign, part, pick, to_numpy, total
from ..core.types import Array, Block, Rows

PIECE = 2**20  # labels looked at in one go
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

    @property
    def width(self) -> int:
        return int(self.X.shape[1])

    @property
    def weight(self) -> float:
        """Total weight of the rows."""
        return float(total(self.c))

    def __len__(self) -> int:
        return -(-self.n // self.size)

    def __getitem__(self, k: Any) -> Any:
        if not 0 <= k < len(self):
            raise IndexError(k)
        rows = slice(k * self.size, min((k + 1) * self.size, self.n))
        X = self._parts[k] if self._parts is not None else part(self.X, rows)
        extra = self.extra if isinstance(self.extra, float) else self.extra[rows]
        held = Rows(X, extra) if self.ready else None
        return Block(X, double(self.y[rows]), self.c[rows], k, held)

    def assembled(self, rows: Rows) -> Blocks:
        """The same rows with a model's columns in place of its input."""
        return replace(self, X=rows.C, extra=rows.extra, ready=True)

    def take(self, rows: Array, scale: float = 1.0) -> Blocks:
        """Chosen rows, each counted ``scale`` times more."""
        X, y, c = (pick(x, rows) for x in (self.X, self.y, self.c))
        extra = self.extra if isinstance(self.extra, float) else pick(self.extra, rows)
        copies = self.copies if isinstance(self.copies, float) else pick(self.copies, rows)
        return replace(self, X=X, y=y, c=scale * c, extra=extra, copies=copies)

    def balanced(self, most: int, rng: np.random.Generator) -> tuple[Blocks, Array]:
        """At most so many rows, half of each label if it has them; rows that each stands for."""
        rows, share = balanced_rows(self.y, most, rng)
        return (self if rows.size == self.n else self.take(rows)).home(), share

    def home(self) -> Blocks:
        """The same rows on the host."""
        if not is_foreign(self.X):
            return self
        X, y, c = (to_numpy(x) for x in (self.X, self.y, self.c))
        extra = self.extra if isinstance(self.extra, float) else to_numpy(self.extra)
        return replace(self, X=X, y=y, c=c, extra=extra)

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[Blocks]:
        """Random minibatches that together visit every row once, scaled up to all rows."""
        for rows in even_parts(rng.permutation(self.n), size):
            yield self.take(rows, self.n / rows.size)


def even_sizes(n: int, size: int) -> Array:
    """Sizes of as few parts of at most ``size`` as hold ``n``: none larger by more than one.

    Every minibatch is scaled up to all rows.  A last one of the few rows left over would count each
    of them many times, and the end of an epoch is where its noise stays.
    """
    parts = max(-(-n // size), 1)
    return np.diff(np.arange(parts + 1) * n // parts)


def even_parts(order: Array, size: int) -> list[Array]:
    """Consecutive parts of at most ``size``, of equal length but for one."""
    return np.split(order, np.cumsum(even_sizes(order.size, size))[:-1])


def balanced_rows(y: Array, most: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Rows drawn from each label in ascending order, and how many each stands for."""
    up = to_numpy(y > 0)  # a byte a row, if it has to travel
    positive = int(np.count_nonzero(up))
    both = balanced_ranks((positive, up.size - positive), most, rng)
    rows = [nth(up, side, ranks) for side, (ranks, _) in zip((True, False), both, strict=True)]
    share = [np.full(ranks.size, each) for ranks, each in both]
    found = np.concatenate(rows)
    order = np.argsort(found)
    return found[order], np.concatenate(share)[order]


def balanced_ranks(
    counts: tuple[int, int], most: int, rng: np.random.Generator
) -> list[tuple[Array, float]]:
    """Which rows of either label to take, by their ranks among these, and what each stands for.

    All of them up to ``most`` rows; beyond, half of ``most`` of each label, or all it has.  The
    ranks depend on the counts alone: wherever rows are, the same ones are taken.
    """
    out = []
    for count in counts:
        take = count if sum(counts) <= most else min(count, most // 2)
        ranks = np.arange(count) if take == count else np.sort(rng.choice(count, take, False))
        out.append((ranks, count / max(take, 1)))
    return out


def rows_of_all_classes(codes: Array, most: int, rng: np.random.Generator) -> Array:
    """At most so many rows, in ascending order, drawn from every class.

    A class has as large a part of them as of all rows, but at least a quarter of what equal parts
    would be (and one row), or all its rows.
    """
    size = int(codes.max()) + 1
    pieces = (codes[i : i + PIECE] for i in range(0, codes.size, PIECE))
    counts = np.sum([np.bincount(piece, minlength=size) for piece in pieces], axis=0)
    drawn = [
        nth(codes, k, np.sort(rng.choice(count, part, replace=False)))
        for k, (count, part) in enumerate(zip(counts, _parts(counts, most), strict=True))
    ]
    return np.sort(np.concatenate(drawn))


def _parts(counts: Array, most: int) -> Array:
    """How many rows to draw of each class."""
    quarter = most // (4 * int(np.count_nonzero(counts)))
    least = np.minimum(counts, max(1, quarter))
    rare = np.zeros(counts.size, dtype=bool)
    while True:
        left = counts[~rare].sum()
        part = np.where(rare, least, (most - least[rare].sum()) * counts // max(left, 1))
        if not np.any(part < least):
            return np.minimum(part, counts)
        rare |= part < least


def nth(codes: Array, code: Any, ranks: Array) -> Array:
    """Places of the rows of a class, by their ranks among these; of all rows no list is made."""
    parts, before = [np.empty(0, dtype=np.intp)], 0
    for i in range(0, codes.size, PIECE):
        places = np.flatnonzero(codes[i : i + PIECE] == code)
        a, b = np.searchsorted(ranks, [before, before + places.size])
        parts.append(i + places[ranks[a:b] - before])
        before += places.size
    return np.concatenate(parts)


def cut(X: Any, y: Any, c: Any, size: int) -> Any:
    """Rows in blocks of ``size``; input that is not an array knows how to cut itself."""
    return X.cut(y, c, size) if hasattr(X, "cut") else Blocks(X, y, c, size)
