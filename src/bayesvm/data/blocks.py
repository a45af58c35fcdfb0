"""Blocks of rows in memory, in chunks or in Dask; samples of rows with all labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, repeat
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ..core.arrays import inner, is_foreign, joined, to_numpy
from ..core.types import Array, Block, Rows
from .sources import DaskRows, Source, check_finite, tasks

CACHE_BYTES = 2**21  # a block's columns should fit a core's share of the cache
ENTRIES, ENTRIES_A_COLUMN = 2**21, 8  # least size of a block of sparse rows


def block_rows(K: int, wide: int = 0, least: int = 0, sums: int = 2) -> int:
    """Rows per block: columns fit in the cache, but summing S over blocks costs little.

    ``wide`` is the width of sums over groups, ``least`` the least number of bytes of the K columns
    and ``sums`` the number of rows per column of S.
    """
    W = max(K, wide, 1)
    return max(CACHE_BYTES // (8 * W), sums * W, 64, least // (8 * max(K, 1)))


def sparse_rows(X: Any) -> int:
    """Rows per block of sparse rows that are only multiplied by vectors; sizes are equal.

    Blocks are large enough to be worth a thread, and much larger than the sums over their rows.
    """
    parts = max(1, X.nnz // max(ENTRIES, ENTRIES_A_COLUMN * X.shape[1]))
    return max(1, -(-X.shape[0] // parts))


@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows cut into blocks of ``size``; blocks of dense arrays are views.

    ``has_columns`` means that X contains the assembled columns of a model instead of its input.
    """

    X: Any
    size: int
    has_columns: bool = False
    extra: Array | float = 0.0  # variance of f beyond the columns, if they are assembled
    in_memory: ClassVar[bool] = True  # X is one array, in this process or on a device
    remote: ClassVar[bool] = False  # rows are stored on the workers of a cluster

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def width(self) -> int:
        return int(self.X.shape[1])

    def __len__(self) -> int:
        return -(-self.n // self.size)

    @cached_property
    def _slices(self) -> list[Any]:
        """Slices of sparse rows, made once because SciPy copies them."""
        return [self.X[i : i + self.size] for i in range(0, self.n, self.size)]

    def __iter__(self) -> Iterator[Block]:
        n, size, extra = self.X.shape[0], self.size, self.extra
        for number, first in enumerate(range(0, n, size)):
            at = slice(first, min(first + size, n))
            if n <= size:
                X = self.X
            else:
                is_sparse = sparse.issparse(inner(self.X))
                X = self._slices[number] if is_sparse else self.X[at]
            own = extra if isinstance(extra, float) else extra[at]
            yield Block(X, at, number, Rows(X, own) if self.has_columns else None)

    def with_columns(self, rows: Rows) -> Blocks:
        """The rows with assembled columns of a model instead of its input."""
        return Blocks(rows.C, self.size, True, rows.extra)

    def take(self, rows: Array) -> Blocks:
        """Selected rows, in memory."""
        extra = self.extra if isinstance(self.extra, float) else self.extra[rows]
        return Blocks(self.X[rows], self.size, self.has_columns, extra)

    def on_host(self) -> Blocks:
        """The rows on the host."""
        if not is_foreign(self.X):
            return self
        return replace(self, X=to_numpy(self.X), extra=to_numpy(self.extra))

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Array, Blocks]]:
        """Random minibatches of an epoch, with every row once: row numbers, and rows."""
        for rows in even_parts(rng.permutation(self.n), size):
            yield rows, self.take(rows)


class Streamed(Blocks):
    """Rows of a :class:`~bayesvm.data.Source` in blocks, independent of its chunks.

    Blocks and their numbers are the same as for an array, so draws do not depend on the chunks
    of the source.
    """

    in_memory = False

    def _pieces(
        self, sizes: Iterable[int], rng: np.random.Generator | None = None
    ) -> Iterator[tuple[Any, Array]]:
        """Rows and their numbers in parts of the given sizes, shuffled within chunks by ``rng``."""
        sizes, first = chain(sizes, repeat(self.size)), 0
        lacking = next(sizes)
        parts: list[tuple[Any, Array]] = []
        for X, *_ in self.X.chunks():
            order = np.arange(X.shape[0]) if rng is None else rng.permutation(X.shape[0])
            X, rows = X if rng is None else X[order], first + order
            first += rows.size
            while rows.size:
                parts.append((X[:lacking], rows[:lacking]))
                X, rows = X[lacking:], rows[lacking:]
                lacking -= parts[-1][1].size
                if not lacking:
                    yield _whole(parts)
                    lacking, parts = next(sizes), []
            if parts:  # a view would keep the whole chunk in memory
                parts[-1] = parts[-1][0].copy(), parts[-1][1]
        if parts:
            yield _whole(parts)

    def __iter__(self) -> Iterator[Block]:
        for k, (X, rows) in enumerate(self._pieces(())):
            yield Block(X, slice(int(rows[0]), int(rows[-1]) + 1), k)

    def take(self, rows: Array) -> Blocks:
        order = np.argsort(rows, kind="stable")
        parts, start, end, sorted_rows = [], 0, 0, rows[order]
        for X, *_ in self.X.chunks():
            begin, end = end, int(np.searchsorted(sorted_rows, start + X.shape[0]))
            parts.append(X[sorted_rows[begin:end] - start])
            start += X.shape[0]
        return Blocks(joined(parts)[np.argsort(order, kind="stable")], self.size)

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[tuple[Array, Blocks]]:
        """Minibatches of an epoch, shuffled only within chunks: shuffle files beforehand."""
        sizes = map(len, even_parts(np.arange(self.n), size))
        for X, rows in self._pieces(sizes, rng):
            yield rows, Blocks(X, self.size)


@dataclass(frozen=True, eq=False)
class DaskBlocks(Blocks):
    """Partitions of Dask rows, each cut into blocks on its worker."""

    held: tuple[Any, ...] | None = None  # columns stored on the workers, one per partition
    in_memory = False
    remote = True

    @property
    def _rows(self) -> tuple[Any, ...]:
        return tuple(self.X.parts) if self.held is None else self.held

    def parts(self, *vectors: Any) -> list[tuple[Any, ...]]:
        """Arguments of :func:`blocks_of` for each partition, with its slices of the vectors.

        Each task cuts its partition itself: blocks as the result of a separate task would be as
        large as the rows, and might be sent between workers.
        """
        lengths = self.X.lengths
        ends = np.cumsum([0, *lengths]).tolist()
        numbers = np.cumsum([0, *(-(-k // self.size) for k in lengths)]).tolist()
        return [
            (rows, self.size, number, *entries(vectors, slice(first, last)))
            for rows, number, first, last in zip(self._rows, numbers, ends, ends[1:], strict=False)
        ]

    def with_columns(self, model: Any) -> DaskBlocks:
        """The partitions with assembled columns of a model, which stay on the workers."""
        from dask.base import persist

        held = persist(*tasks(model.rows, ((x,) for x in self.X.parts)))
        return replace(self, held=tuple(held), has_columns=True)

    def take(self, rows: Array) -> Blocks:
        """Selected rows, moved to this process."""
        from dask.base import compute

        order = np.argsort(rows, kind="stable")
        ends = np.cumsum([0, *self.X.lengths])
        cuts = np.split(rows[order], np.searchsorted(rows[order], ends[1:-1]))
        wanted = zip(self._rows, cuts, ends, strict=False)
        found = compute(*tasks(_take, ((x, at - first) for x, at, first in wanted if at.size)))
        back = np.argsort(order, kind="stable")
        extra = [b.extra for b in found]
        whole = extra[0] if isinstance(extra[0], float) else np.concatenate(extra)[back]
        return Blocks(joined([b.X for b in found])[back], self.size, self.has_columns, whole)


def _whole(parts: list[tuple[Any, Array]]) -> tuple[Any, Array]:
    if len(parts) == 1:
        return parts[0]
    return joined([x for x, _ in parts]), np.concatenate([rows for _, rows in parts])


def blocks_of(
    rows: Any, size: int, number: int, *vectors: Any
) -> list[tuple[Block, tuple[Any, ...]]]:
    """The blocks of one partition, numbered from ``number``, and their slices of the vectors."""
    blocks = _partition(rows, size)
    return [(b._replace(number=number + b.number), tuple(entries(vectors, b.at))) for b in blocks]


def _partition(rows: Any, size: int) -> Blocks:
    """A partition as blocks, of assembled columns or of input rows, which must be finite."""
    if isinstance(rows, Rows):
        return Blocks(rows.C, size, True, rows.extra)
    check_finite(inner(rows))
    return Blocks(rows, size)


def _take(rows: Any, at: Array) -> Blocks:
    return _partition(rows, at.size).take(at)


def cut(X: Any, size: int) -> Blocks:
    """Rows of any kind in blocks of ``size``."""
    kinds = {Source: Streamed, DaskRows: DaskBlocks}
    return kinds.get(type(X), Blocks)(X, size)


def entries(vectors: Iterable[Any], at: slice) -> list[Any]:
    """Slices of vectors that have an entry for each row; plain numbers unchanged."""
    out = []
    for x in vectors:
        out.append(x if isinstance(x, float) else x[at, ...])
    return out


# ---------------------------------------------------------------------------------------------
# Samples of rows


def even_parts(order: Array, size: int) -> list[Array]:
    """The smallest number of consecutive parts of at most ``size``, equal in size up to one.

    Every minibatch is scaled up to all rows.  A small last minibatch would give each of its rows a
    large weight, and its noise would remain at the end of an epoch.
    """
    return np.array_split(order, max(-(-order.size // size), 1))


def balanced_rows(y: Any, most: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Sample up to ``most`` rows, half of each label if possible, and each row's sampling weight.

    Rows are in ascending order; rows of positive ``y`` are drawn first.
    """
    positive = to_numpy(y > 0).ravel()
    found, shares = [], []
    for mask in (positive, ~positive):
        count = np.count_nonzero(mask)
        few = positive.size > most and count > most // 2
        some = rng.choice(count, most // 2, replace=False) if few else slice(None)
        found.append(np.flatnonzero(mask)[some])
        shares.append(np.full(found[-1].size, count / max(found[-1].size, 1)))
    rows = np.concatenate(found)
    order = np.argsort(rows)
    return rows[order], np.concatenate(shares)[order]


def rows_of_all_classes(codes: Array, most: int, rng: np.random.Generator) -> Array:
    """Sample up to ``most`` rows from all classes, in ascending order.

    The sample is proportional to the classes, but every class gets at least a quarter of an equal
    share (and one row), or all its rows.
    """
    counts = np.bincount(codes)
    order, ends = np.argsort(codes, kind="stable"), np.cumsum(counts)
    drawn = [
        order[end - count : end][rng.choice(count, part, replace=False)]
        for count, end, part in zip(counts, ends, _parts(counts, most), strict=True)
    ]
    return np.sort(np.concatenate(drawn))


def _parts(counts: Array, most: int) -> Array:
    """Number of rows to draw from each class."""
    quarter = most // (4 * int(np.count_nonzero(counts)))
    least = np.minimum(counts, max(1, quarter))
    rare = np.zeros(counts.size, dtype=bool)
    while True:
        left = counts[~rare].sum()
        part = np.where(rare, least, (most - least[rare].sum()) * counts // max(left, 1))
        if not np.any(part < least):
            return np.minimum(part, counts)
        rare |= part < least
