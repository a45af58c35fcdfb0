"""Blocks of rows in memory, read in chunks or of Dask; samples of rows that have all labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, repeat
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ..core.arrays import distinct, double, inner, is_foreign, joined, part, pick, to_numpy, total
from ..core.types import Array, Block, Rows

Pick = Callable[[Any, Any], Any]  # chosen rows of an array
Over = Callable[[Callable[[slice], Any], int, int], list[Any]]  # results for slices of n rows
PIECE = 2**18  # labels looked at in one go
CACHE_BYTES = 2**21  # a block's columns should fit a core's share of the cache
ENTRIES, ENTRIES_A_COLUMN = 2**21, 8  # of a block of sparse rows, at least


def in_turn(fn: Callable[[slice], Any], n: int, size: int) -> list[Any]:
    """Results for slices of n rows, ``size`` each but the last."""
    return [fn(slice(i, min(i + size, n))) for i in range(0, n, size)]


def block_rows(K: int, wide: int = 0, least: int = 0, sums: int = 2) -> int:
    """Rows per block: columns in cache, but enough rows that adding S up costs little.

    Sums over groups are ``wide``; the K columns take ``least`` bytes or more.  There are ``sums``
    rows for each column of S.
    """
    W = max(K, wide, 1)
    return max(CACHE_BYTES // (8 * W), sums * W, 64, least // (8 * max(K, 1)))


def sparse_rows(X: Any) -> int:
    """Rows per block of sparse rows that are only multiplied with vectors; blocks are even.

    They are large enough to be worth a thread, and much larger than the sums over their rows.
    """
    parts = max(1, X.nnz // max(ENTRIES, ENTRIES_A_COLUMN * X.shape[1]))
    return max(1, -(-X.shape[0] // parts))


@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows with labels and weights, cut into blocks of ``size``; those of dense arrays are views.

    ``ready`` means that X holds the assembled columns of a model rather than its input.
    """

    X: Any
    y: Any
    c: Any
    size: int
    ready: bool = False
    extra: Array | float = 0.0  # variance of f outside the columns, where those are ready
    unit: Any = 1.0  # weight of one row, that of its class: see Block
    in_memory: ClassVar[bool] = True  # X is one array, of this process or of a device
    remote: ClassVar[bool] = False  # rows are held by the workers of a cluster

    @cached_property
    def _parts(self) -> list[Any] | None:
        """Sparse rows are sliced once: SciPy copies a slice, and again when it is transposed."""
        if len(self) == 1:
            return [self.X]
        if not sparse.issparse(inner(self.X)):
            return None
        return [self.X[i : i + self.size] for i in range(0, self.n, self.size)]

    @cached_property
    def _alike(self) -> Array | None:
        """Weights of the rows of a block, if all rows have the same."""
        if distinct(self.c) is self.c:
            return None
        return np.full(min(self.size, self.n), self.c[0])

    @property
    def n(self) -> int:
        return int(self.y.shape[0])

    @property
    def width(self) -> int:
        return int(self.X.shape[1])

    @cached_property
    def weight(self) -> float:
        """Total weight of the rows."""
        some = distinct(self.c)
        return float(total(some)) * (1 if some is self.c else self.n)

    @property
    def copies(self) -> Any:
        """Rows that each row represents: c without class weights."""
        return self.c / self.unit

    @property
    def gone(self) -> Array:
        """What leaving one row out takes from its weight."""
        return np.minimum(self.c, self.unit)

    def __len__(self) -> int:
        return -(-self.n // self.size)

    def __iter__(self) -> Iterator[Block]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, k: int) -> Block:
        if not 0 <= k < len(self):
            raise IndexError(k)
        rows = slice(k * self.size, min((k + 1) * self.size, self.n))
        X = self._parts[k] if self._parts is not None else part(self.X, rows)
        extra, unit = (x if isinstance(x, float) else x[rows] for x in (self.extra, self.unit))
        held = Rows(X, extra) if self.ready else None
        y, alike = self.y[rows], self._alike
        c = self.c[rows] if alike is None else alike[: rows.stop - rows.start]
        return Block(X, y if y.dtype == np.float64 else double(y), c, k, held, unit)

    def unlabelled(self) -> Blocks:
        """The same rows for what does not depend on labels, which need not be converted."""
        if not self.in_memory or not isinstance(self.y, np.ndarray):
            return self
        return replace(self, y=np.broadcast_to(0.0, self.y.shape))

    def assembled(self, rows: Rows) -> Blocks:
        """The same rows with a model's columns in place of its input."""
        return Blocks(rows.C, self.y, self.c, self.size, True, rows.extra, self.unit)

    def take(self, rows: Array, scale: float = 1.0, pick: Pick = pick) -> Blocks:
        """Chosen rows, in memory, with ``scale`` times their weight; ``pick`` gathers them."""
        X, y = (pick(x, rows) for x in (self.X, self.y))
        some = distinct(self.c)
        c = pick(some, rows) if some is self.c else np.broadcast_to(some, rows.shape)
        extra, unit = (
            x if isinstance(x, float) else pick(x, rows) for x in (self.extra, self.unit)
        )
        return Blocks(X, y, c if scale == 1.0 else scale * c, self.size, self.ready, extra, unit)

    def balanced(
        self, most: int, rng: np.random.Generator, pick: Pick = pick, over: Over = in_turn
    ) -> tuple[Blocks, Array]:
        """At most so many rows, half of each label if it has them; rows that each represents."""
        rows, share = balanced_rows(self.y, most, rng, over)
        some = self if self.in_memory and rows.size == self.n else self.take(rows, pick=pick)
        return some.on_host(), share

    def on_host(self) -> Blocks:
        """The same rows on the host."""
        if not is_foreign(self.X):
            return self
        names = ("X", "y", "c", "extra", "unit")
        return replace(self, **{name: to_numpy(getattr(self, name)) for name in names})

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[Blocks]:
        """Random minibatches that together have every row once, scaled up to all rows."""
        for rows in even_parts(rng.permutation(self.n), size):
            yield self.take(rows, self.n / rows.size)


class Streamed(Blocks):
    """Rows of a :class:`~bayesvm.blocks.Source` in blocks, wherever its chunks end.

    A block and its number are those of the same rows in an array, so draws do not depend on how
    the source is cut.
    """

    in_memory = False

    def _pieces(
        self, sizes: Iterable[int], rng: np.random.Generator | None = None
    ) -> Iterator[tuple[Any, Array]]:
        """Rows and their numbers in parts of given sizes, shuffled within chunks by ``rng``."""
        sizes, first = chain(sizes, repeat(self.size)), 0
        lacking, parts = next(sizes), []
        for X, *_ in self.X.chunks():
            n, i = X.shape[0], 0
            rows = first + (np.arange(n) if rng is None else rng.permutation(n))
            X = X if rng is None else X[rows - first]
            while i < n:
                x, at = X[i : i + lacking], rows[i : i + lacking]
                lacking, i = lacking - at.size, i + at.size
                if lacking:
                    parts.append((x.copy(), at))  # a view would keep the whole chunk
                    continue
                parts.append((x, at))
                yield _whole(parts)
                lacking, parts = next(sizes), []
            first += n
        if parts:
            yield _whole(parts)

    def __iter__(self) -> Iterator[Block]:
        for k, (X, rows) in enumerate(self._pieces(())):
            at = slice(int(rows[0]), int(rows[-1]) + 1)
            c = np.ascontiguousarray(self.c[at])
            yield Block(X, double(self.y[at]), c, k, unit=self._unit(at))

    def _unit(self, rows: Any) -> Any:
        return self.unit if isinstance(self.unit, float) else self.unit[rows]

    def take(self, rows: Array, scale: float = 1.0, pick: Pick = pick) -> Blocks:
        order = np.argsort(rows, kind="stable")
        parts, start, end, sorted_rows = [], 0, 0, rows[order]
        for X, *_ in self.X.chunks():
            begin, end = end, int(np.searchsorted(sorted_rows, start + X.shape[0]))
            parts.append(X[sorted_rows[begin:end] - start])
            start += X.shape[0]
        X = joined(parts)[np.argsort(order, kind="stable")]
        y, c = self.y[rows], scale * self.c[rows]
        return Blocks(X, y, c, self.size, unit=self._unit(rows))

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[Blocks]:
        """Minibatches that have every row once, shuffled within chunks: shuffle files first."""
        for X, rows in self._pieces(even_sizes(self.n, size), rng):
            y, c = self.y[rows], self.c[rows] * (self.n / rows.size)
            yield Blocks(X, y, c, self.size, unit=self._unit(rows))


def _whole(parts: list[tuple[Any, Array]]) -> tuple[Any, Array]:
    if len(parts) == 1:
        return parts[0]
    return joined([x for x, _ in parts]), np.concatenate([rows for _, rows in parts])


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


def balanced_rows(
    y: Array, most: int, rng: np.random.Generator, over: Over = in_turn
) -> tuple[Array, Array]:
    """Rows drawn from each label in ascending order, and how many each represents."""
    y = to_numpy(y > 0) if is_foreign(y) else y  # a byte a row, if it has to be sent
    counts = counted(y, 2, over)
    negative, positive = map(int, counts.sum(axis=0))
    (up, many), (down, rest) = balanced_ranks((positive, negative), most, rng)
    rows = ranked(y, [down, up], counts, over)
    found = np.concatenate(rows)
    order = np.argsort(found, kind="stable")
    return found[order], np.repeat([rest, many], [down.size, up.size])[order]


def balanced_ranks(
    counts: tuple[int, int], most: int, rng: np.random.Generator
) -> list[tuple[Array, float]]:
    """Which rows of either label to take, by their ranks, and how many each represents.

    All of them up to ``most`` rows; beyond, half of ``most`` of each label, or all it has.  The
    ranks depend on the counts alone: wherever rows are, the same ones are taken.
    """
    out = []
    for count in counts:
        take = count if sum(counts) <= most else min(count, most // 2)
        ranks = np.arange(count) if take == count else np.sort(rng.choice(count, take, False))
        out.append((ranks, count / max(take, 1)))
    return out


def rows_of_all_classes(
    codes: Array, most: int, rng: np.random.Generator, over: Over = in_turn
) -> Array:
    """At most so many rows, in ascending order, drawn from every class.

    A class has as large a part of them as of all rows, but at least a quarter of what equal parts
    would be (and one row), or all its rows.
    """
    counts = counted(codes, int(codes.max()) + 1, over)
    each = counts.sum(axis=0)
    ranks = [
        np.sort(rng.choice(count, part, replace=False))
        for count, part in zip(each, _parts(each, most), strict=True)
    ]
    return np.sort(np.concatenate(ranked(codes, ranks, counts, over)), kind="stable")


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


def counted(codes: Array, classes: int, over: Over = in_turn) -> Array:
    """Rows of each class in each piece of the rows, ``(pieces, classes)``.

    Of two classes codes, or labels, above zero are the second.  ``over`` applies a function to
    slices of the rows, as engines do.
    """

    def count(at: slice) -> Any:
        if classes != 2:
            return np.bincount(codes[at], minlength=classes)
        second = np.count_nonzero(codes[at] > 0)  # many times quicker
        return at.stop - at.start - second, second

    return np.array(over(count, codes.size, PIECE), dtype=np.intp).reshape(-1, classes)


def ranked(codes: Array, ranks: list[Array], counts: Array, over: Over = in_turn) -> list[Array]:
    """Places of rows of each class, by their ranks among these, from :func:`counted`.

    Of all rows no list is made.
    """
    first = np.cumsum(counts, axis=0) - counts
    cuts = [np.searchsorted(each, [*first[:, k], codes.size]) for k, each in enumerate(ranks)]

    def find(at: slice) -> list[Array]:
        piece, own, found = at.start // PIECE, codes[at], []
        second = own > 0
        for k, (each, cut) in enumerate(zip(ranks, cuts, strict=True)):
            some = each[cut[piece] : cut[piece + 1]] - first[piece, k]
            if some.size:
                here = own == k if len(ranks) != 2 else second if k else ~second
                some = at.start + np.flatnonzero(here)[some]
            found.append(some)
        return found

    none = [np.empty(0, dtype=np.intp)] * len(ranks)
    return [np.concatenate(x) for x in zip(none, *over(find, codes.size, PIECE), strict=True)]


# ---------------------------------------------------------------------------------------------
# Dask collections, whose rows stay on the workers
