"""Rows of Dask collections: partitions that stay on the workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import add
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from ..core.arrays import inner, joined
from ..core.types import Array, Block, Rows
from ..inputs.cells import as_floats
from ..inputs.levels import read
from ..inputs.weights import class_factors, real_weights
from . import Blocks
from .arrays import balanced_ranks, nth
from .sources import check_finite

FAN = 8  # sums that are added up in one task


def is_dask(X: Any) -> bool:
    """Whether an object is a Dask collection, without importing Dask."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "dask")


class _Held:
    """A function as a value: Dask would call a bare one."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn


def _sum(visit: _Held, *part: Any) -> Any:
    return reduce(add, map(visit.fn, _cut(*part)))


def _each(visit: _Held, *part: Any) -> list[Any]:
    return list(map(visit.fn, _cut(*part)))


def _join(parts: list[Any]) -> Any:
    return reduce(add, parts)


def _total(sums: list[Any], fan: int = FAN) -> Any:
    """What tasks give, added up in a tree and brought here."""
    from dask.base import compute
    from dask.delayed import delayed

    join = delayed(_join, pure=False)
    while len(sums) > 1:
        sums = [join(sums[i : i + fan]) for i in range(0, len(sums), fan)]
    return compute(sums[0])[0]


def _apply(hand: _Held, *args: Any) -> Any:
    return hand.fn(*args)


@dataclass(frozen=True, eq=False)
class DaskRows:
    """A Dask array of rows, cut between rows only."""

    array: Any
    names: tuple[str, ...] | None = None
    tables: tuple[Any, ...] | None = None  # partitions with codes of groups beside the rows

    @staticmethod
    def of(X: Any) -> DaskRows:
        """From a Dask array or data frame; lengths that are not known are computed."""
        names = None
        if hasattr(X, "to_dask_array"):
            names = tuple(str(name) for name in X.columns)
            X = _plain_frame(X).to_dask_array(lengths=True)
        if any(np.isnan(k) for k in X.chunks[0]):
            X = X.compute_chunk_sizes()
        if X.ndim != 2:
            raise ValueError(f"X must have rows and columns; got shape {X.shape}.")
        # a filter may have left partitions empty
        some = tuple(k for k in X.chunks[0] if k) or (0,)
        if len(X.chunks[1]) > 1 or len(some) < len(X.chunks[0]):
            X = X.rechunk({0: some, 1: -1})
        return DaskRows(as_floats(X), names)

    @property
    def shape(self) -> tuple[int, int]:
        return (int(self.array.shape[0]), int(self.array.shape[1]))

    def chunks(self) -> Iterator[tuple[Array, None]]:
        """Partitions one after another, for those who must see them here."""
        for part in self.parts:
            yield part.compute(), None

    @cached_property
    def parts(self) -> list[Any]:
        return list(self.tables or self.array.to_delayed()[:, 0])

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(int(k) for k in self.array.chunks[0])

    def cut(self, y: Any, c: Any, size: int) -> DaskBlocks:
        return DaskBlocks(self, y, c, size)

    def aligned(self, y: Any, what: str = "y") -> Any:
        """A column with one entry per row, in the same partitions."""
        import dask.array as da

        if hasattr(y, "to_dask_array"):
            if y.ndim == 2 and len(y.columns) == 1:
                y = y[y.columns[0]]
            y = (plain_column(y) if y.ndim == 1 else y).to_dask_array(lengths=True)
        lazy = is_dask(y)
        y = y if lazy else np.asarray(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if lazy and any(np.isnan(k) for k in y.chunks[0]):
            y = y.compute_chunk_sizes()
        if y.shape != self.shape[:1]:
            raise ValueError(f"X has {self.shape[0]} rows but {what} has shape {y.shape}.")
        if not lazy:
            return da.from_array(y, chunks=(self.lengths,))
        return y if y.chunks[0] == self.array.chunks[0] else y.rechunk((self.lengths,))

    # ----- groups, where they are

    def columns_of(self, groups: Any) -> dict[str, Any]:
        """Columns of groups by name, in the partitions of the rows."""
        held = lazy_columns(groups)
        found = read(groups, self.shape[0]) if held is None else held
        return {name: self.aligned(x, f"groups {name!r}") for name, x in found.items()}

    def _asked(self, fn: Callable[..., Any], columns: dict[str, Any]) -> list[Any]:
        """What a function says of the columns of each partition and its number of rows."""
        from dask.delayed import delayed

        ask, hand = delayed(_apply, pure=False), delayed(_Held(fn), name=None, pure=False)
        parts = zip(*(column.to_delayed() for column in columns.values()), strict=True)
        each = (dict(zip(columns, part, strict=True)) for part in parts)
        return [ask(hand, part, n) for part, n in zip(each, self.lengths, strict=True)]

    def total(self, fn: Callable[..., Any], columns: dict[str, Any]) -> Any:
        """The sum of that."""
        return _total(self._asked(fn, columns))

    def beside(
        self, encode: Callable[..., Any], columns: dict[str, Any], table: Callable[..., Any]
    ) -> DaskRows:
        """Rows beside the codes of their groups, which are looked up once and stay there."""
        from dask.base import persist
        from dask.delayed import delayed

        codes, make = persist(*self._asked(encode, columns)), delayed(table, pure=False)
        return replace(self, tables=tuple(map(make, self.parts, codes)))

    # ----- labels and weights, where they are

    def encode(self, y: Any) -> tuple[Array, Any]:
        import dask.array as da

        try:
            classes = np.asarray(da.unique(y).compute())
            if classes.dtype == object and not any(isinstance(k, str) for k in classes):
                classes = np.asarray(classes.tolist())  # numbers of a column that may lack some
            gone = bool(np.any(classes != classes))
        except TypeError as error:
            raise ValueError(f"labels must be of one kind and none missing ({error}).") from error
        if gone:
            raise ValueError("y contains NaN; drop rows without a label.")
        check_classification_targets(classes)
        return classes, y.map_blocks(partial(np.searchsorted, classes), dtype=np.intp)

    def weights(self, sample_weight: Any, class_weight: Any, codes: Any, classes: Array) -> Any:
        import dask.array as da

        if sample_weight is None or np.ndim(sample_weight) == 0:
            level = 1.0 if sample_weight is None else float(real_weights(sample_weight))
            c = da.full(self.shape[0], level, chunks=(self.lengths,))
        else:
            given = self.aligned(sample_weight, "sample_weight")
            real_weights(np.empty(0, dtype=given.dtype))
            c = given.astype(float)
        masses = da.stack([da.where(codes == k, c, 0.0).sum() for k in range(len(classes))])
        masses, least = (np.asarray(x) for x in da.compute(masses, c.min()))
        if not np.all(np.isfinite(masses)) or not least > 0:
            raise ValueError("weights of rows on a cluster must be positive and finite.")
        if class_weight is None:
            return c
        factors = class_factors(class_weight, masses, classes)
        if not np.all(factors > 0):
            raise ValueError("class weights of rows on a cluster must be positive and finite.")
        return c * codes.map_blocks(lambda k: factors[k], dtype=float)


@dataclass(frozen=True, eq=False)
class DaskBlocks:
    """Partitions of rows with their labels and weights, each cut into blocks where it is."""

    X: DaskRows
    y: Any
    c: Any
    size: int
    held: tuple[Any, ...] | None = None  # columns kept on the workers, one a partition
    remote = True
    extra = 0.0

    @property
    def ready(self) -> bool:
        return self.held is not None

    @property
    def n(self) -> int:
        return self.X.shape[0]

    @property
    def width(self) -> int:
        return self.X.shape[1]

    @cached_property
    def weight(self) -> float:
        return float(self.c.sum().compute())

    @property
    def _columns(self) -> Iterator[tuple[Any, Any, Any]]:
        """Rows, labels and weights of each partition."""
        rows = self.X.parts if self.held is None else self.held
        y, c = (_split(x, len(rows)) for x in (self.y, self.c))
        return zip(rows, y, c, strict=True)

    @cached_property
    def parts(self) -> list[tuple[Any, ...]]:
        """What a visit to each partition is given.

        It cuts the partition itself: blocks that were a result of their own would be as large as
        the rows, and might be sent to where the visit is.
        """
        before = np.cumsum([0, *(-(-k // self.size) for k in self.X.lengths)])
        return [
            (*part, self.size, int(first))
            for part, first in zip(self._columns, before, strict=False)
        ]

    def kept(self, model: Any) -> DaskBlocks:
        """The same partitions with a model's columns, which stay on the workers."""
        from dask.base import persist
        from dask.delayed import delayed

        build = delayed(_apply, pure=False)
        hand = delayed(_Held(model.rows), name=None, pure=False)
        return replace(self, held=tuple(persist(*[build(hand, x) for x in self.X.parts])))

    def _gather(self, wanted: list[Array], scale: float = 1.0) -> Blocks:
        """Chosen rows of each partition, brought here."""
        from dask.base import compute
        from dask.delayed import delayed

        task = delayed(_some, pure=False)
        found = [task(*part, at) for part, at in zip(self._columns, wanted, strict=True) if at.size]
        X, y, c, extra = zip(*compute(*found), strict=True)
        left = 0.0 if isinstance(extra[0], float) else np.concatenate(extra)
        labels, weights = np.concatenate(y), scale * np.concatenate(c)
        return Blocks(joined(X), labels, weights, self.size, self.ready, left)

    def take(self, rows: Array, scale: float = 1.0) -> Blocks:
        """Chosen rows, in ascending order, brought here."""
        lengths = np.array(self.X.lengths)
        cuts = _cuts(rows, np.cumsum(lengths), lengths)
        return self._gather([rows[a:b] - first for a, b, first in cuts], scale)

    def balanced(self, most: int, rng: np.random.Generator) -> tuple[Blocks, Array]:
        """The rows that :meth:`Blocks.balanced` takes, found on the workers."""
        from dask.base import compute
        from dask.delayed import delayed

        labels = _split(self.y, len(self.X.lengths))
        counts = np.array(compute(*[delayed(_count_sides)(y) for y in labels]))  # (parts, 2)
        ends = np.cumsum(counts, axis=0)
        both = balanced_ranks((int(ends[-1, 0]), int(ends[-1, 1])), most, rng)
        wanted = [
            [ranks[a:b] - first for a, b, first in _cuts(ranks, ends[:, side], counts[:, side])]
            for side, (ranks, _) in enumerate(both)
        ]
        find = delayed(_find_sides, pure=False)
        picks = compute(*[find(y, a, b) for y, a, b in zip(labels, *wanted, strict=True)])
        some = self._gather(list(picks))
        return some, np.where(some.y > 0, both[0][1], both[1][1])


def _split(x: Any, parts: int) -> list[Any]:
    """The partitions of a column; a placeholder has none."""
    return list(x.to_delayed()) if is_dask(x) else [None] * parts


def _cut(rows: Any, y: Any, c: Any, size: int, first: int) -> list[Block]:
    """The blocks of one partition, numbered on from those before it."""
    X, extra, ready = (rows.C, rows.extra, True) if isinstance(rows, Rows) else (rows, 0.0, False)
    if not ready:
        check_finite(inner(X))
    none = np.empty(X.shape[0])
    blocks = Blocks(X, none if y is None else y, none if c is None else c, size, ready, extra)
    return [b._replace(number=first + b.number) for b in blocks]


def _some(rows: Any, y: Any, c: Any, at: Array) -> tuple[Array, Array, Array, Any]:
    X, extra = (rows.C, rows.extra) if isinstance(rows, Rows) else (rows, 0.0)
    none = np.zeros(at.size)
    left = extra if isinstance(extra, float) else extra[at]
    X = X[at]
    if not isinstance(rows, Rows):
        check_finite(inner(X))
    return X, none if y is None else y[at], none if c is None else c[at], left


def _count_sides(y: Array) -> tuple[int, int]:
    return int((y > 0).sum()), int((y < 0).sum())


def _find_sides(y: Array, positive: Array, negative: Array) -> Array:
    """Rows of either label by their ranks among these, in ascending order."""
    up = y > 0
    return np.sort(np.concatenate([nth(up, True, positive), nth(up, False, negative)]))


def _cuts(numbers: Array, ends: Array, lengths: Array) -> Iterator[tuple[int, int, int]]:
    """Where sorted numbers of rows fall into partitions: from, to, and the partition's first."""
    edges = np.searchsorted(numbers, np.concatenate([[0], ends]))
    return zip(edges[:-1].tolist(), edges[1:].tolist(), (ends - lengths).tolist(), strict=True)


def lazy_columns(groups: Any) -> dict[str, Any] | None:
    """Columns of groups by name where these are Dask's; ``None`` if they are at hand."""
    if isinstance(groups, Mapping):
        lazy = any(is_dask(x) for x in groups.values())
        return {str(name): x for name, x in groups.items()} if lazy else None
    if not is_dask(groups):
        return None
    if not hasattr(groups, "to_dask_array"):
        if groups.ndim == 1:
            return {"group": groups}
        return {f"group{k}": groups[:, k] for k in range(groups.shape[1])}
    if groups.ndim == 2:
        return {str(name): groups[name] for name in groups.columns}
    return {"group" if groups.name is None else str(groups.name): groups}


def plain_column(series: Any) -> Any:
    """A column whose partitions are NumPy's arrays."""
    return series if isinstance(series.dtype, np.dtype) else series.astype(object)


def _plain_frame(X: Any) -> Any:
    """A frame whose columns are NumPy's."""
    from pandas.api.types import is_numeric_dtype

    kinds = dict(X.dtypes)
    other = [name for name, k in kinds.items() if not is_numeric_dtype(k) and k != np.dtype(object)]
    if other:
        raise ValueError(f"columns {other} of X are not numbers; leave them out or code them.")
    return X if all(isinstance(k, np.dtype) for k in kinds.values()) else X.astype(float)
