"""Sources of rows: NumPy and Parquet files, and iterators."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .atomic import npy_header
from .levels import some_of
from .sources import Chunk, Source, as_floats
from .tables import check_table

CHUNK_BYTES = 2**24  # read at once
EXPECTED = (
    "every item must be rows of shape (k, p), or a tuple of rows and k labels, or a tuple of rows, "
    "labels and groups"
)


def from_memmap(X: Any, y: Any = None, groups: Any = None) -> Source:
    """Rows of a ``.npy`` file, read a few megabytes at a time.

    Estimators also accept a plain :class:`numpy.memmap`.  This source is for files larger than the
    address space of the process; it never maps or stores more than one chunk.

    Parameters
    ----------
    X : path to a ``.npy`` file, or numpy.memmap
        Rows, in C order.
    y : array-like, path to a ``.npy`` file, or numpy.memmap, optional
        Labels; they may also be given to ``fit``.
    groups : array-like of shape (n,) or (n, n_factors), data frame, or path, optional
        Group labels, for :class:`~bayesvm.MixedSVC`; they may also be given to ``fit``.

    Returns
    -------
    source : Source
        To be given to ``fit`` or ``predict_proba`` as X.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np
    >>> from bayesvm import BayesianLinearSVC
    >>> from bayesvm.data import from_memmap
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.npy"
    >>> X = np.random.default_rng(0).standard_normal((500, 3))
    >>> np.save(path, X)
    >>> model = BayesianLinearSVC().fit(from_memmap(path), X[:, 0] > 0)
    >>> model.predict_proba(from_memmap(path)).shape
    (500, 2)
    """
    if not isinstance(X, str | os.PathLike | np.memmap):
        raise TypeError(
            f"from_memmap needs a file or a numpy.memmap; got {type(X).__name__}, which fit takes "
            "as it is."
        )
    path, offset = Path(str(getattr(X, "filename", X))), 0
    if isinstance(X, np.memmap):
        shape, dtype = X.shape, X.dtype
    else:
        with path.open("rb") as file:
            shape, is_fortran, dtype = npy_header(file)
            offset = file.tell()
        if is_fortran and len(shape) > 1:
            raise ValueError(f"{str(path)!r} is in Fortran order; save it in C order.")
        if path.stat().st_size < offset + dtype.itemsize * math.prod(shape):
            raise ValueError(f"{str(path)!r} ends before its {shape[0]} rows do; write it again.")
    if len(shape) != 2:
        raise ValueError(f"X must have rows and columns; {str(path)!r} has shape {shape}.")
    if dtype.kind not in "fiub":
        raise ValueError(f"X must be real numbers; {str(path)!r} has type {dtype}.")
    y, groups = (np.load(x) if isinstance(x, str | os.PathLike) else x for x in (y, groups))
    labels = None if y is None else np.asarray(y)
    n, p = shape
    if labels is not None and labels.shape != (n,):
        raise ValueError(f"y must have one label for each of {n} rows; got {labels.shape}.")
    members = None if groups is None else some_of(groups, slice(None), n)
    size = max(1, CHUNK_BYTES // (8 * p))

    def read() -> Iterator[Chunk]:
        for first in range(0, n, size):
            part = slice(first, min(first + size, n))
            if isinstance(X, np.memmap):
                rows = np.array(X[part])
            else:  # a map of the whole file would need as much address space
                start = offset + first * p * dtype.itemsize
                count = (part.stop - first) * p
                rows = np.fromfile(path, dtype, count, offset=start).reshape(-1, p)
            own = None if labels is None else labels[part]
            yield Chunk(as_floats(rows), own, members and some_of(members, part, n))

    return Source(read, (n, p), None, labels is not None, members is not None)


def from_parquet(
    path: Any,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    batch_size: int | None = None,
    groups: str | Sequence[str] | None = None,
) -> Source:
    """Rows of Parquet, Arrow or Feather files, read in batches.

    Parameters
    ----------
    path : path or sequence of paths
        One file, several files, or a folder of ``*.parquet`` files.
    target : str, optional
        Name of the label column; without it give y to ``fit``.
    columns : sequence of str, optional
        Names of the columns to read; by default all except target and groups.
    batch_size : int, optional
        Number of rows per batch; by default about 16 MB.
    groups : str or sequence of str, optional
        Names of the columns of group labels, for :class:`~bayesvm.MixedSVC`.

    Returns
    -------
    source : Source
        To be given to ``fit`` or ``predict_proba`` as X.
    """
    try:
        import pyarrow.dataset as arrow
    except ImportError as error:
        raise ImportError(
            "reading Parquet and Arrow files needs pyarrow; install bayesvm[arrow]."
        ) from error
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    first = Path(paths[0])
    kind = "ipc" if first.suffix in (".arrow", ".feather", ".ipc") else "parquet"
    data = arrow.dataset([str(p) for p in paths] if len(paths) > 1 else str(first), format=kind)
    factors = [] if groups is None else [groups] if isinstance(groups, str) else list(groups)
    apart = [*([] if target is None else [target]), *factors]
    names = [name for name in (columns or data.schema.names) if name not in apart]
    wanted = [*names, *apart]
    unknown = [name for name in wanted if name not in data.schema.names]
    if unknown:
        raise ValueError(f"{str(first)!r} has no columns {unknown}; it has {data.schema.names}.")
    other = [name for name in names if not _is_number(data.schema.field(name).type)]
    if other:
        raise ValueError(
            f"columns {other} of {str(first)!r} are not numbers; name those to read with columns=, "
            "and labels with target= or groups=."
        )
    rows = batch_size or max(1, CHUNK_BYTES // (8 * len(names)))

    def read() -> Iterator[Chunk]:
        # one batch ahead: the default would read all of a small data set first
        options = {"batch_size": rows, "batch_readahead": 1, "fragment_readahead": 1}
        for batch in data.to_batches(columns=wanted, **options):
            if batch.num_rows:
                held = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in wanted}
                X = as_floats(np.stack([held[name] for name in names], axis=1))
                members = {name: held[name] for name in factors}
                yield Chunk(X, None if target is None else held[target], members or None)

    shape = (int(data.count_rows()), len(names))
    return Source(read, shape, tuple(names), target is not None, bool(factors))


def _is_number(kind: Any) -> bool:
    """Whether a type of Arrow is numeric."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    kinds = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(is_kind(kind) for is_kind in kinds)


def from_iterable(make: Callable[[], Iterable[Any]]) -> Source:
    """Rows from a function that returns iterators.

    Parameters
    ----------
    make : callable
        Returns a new iterator of dense rows ``(k, p)``, of tuples (rows, labels), or of tuples
        (rows, labels, group labels), with group labels as an array, a dict of arrays or a data
        frame (for :class:`~bayesvm.MixedSVC`).  It is called once to count the rows and once for
        every pass.  Give sample weights to ``fit``.

    Returns
    -------
    source : Source
        To be given to ``fit`` or ``predict_proba`` as X.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm import BayesianLinearSVC
    >>> from bayesvm.data import from_iterable
    >>> def days():
    ...     for day in range(5):
    ...         X = np.random.default_rng(day).standard_normal((100, 3))
    ...         yield X, X[:, 0] > 0
    >>> bool(BayesianLinearSVC().fit(from_iterable(days)).converged_)
    True
    """
    if not callable(make):
        raise TypeError(
            "from_iterable needs a function that returns a new iterator for every pass, such as "
            f"lambda: chunks; got {type(make).__name__}."
        )

    def read() -> Iterator[Chunk]:
        for item in make():
            parts = item if isinstance(item, tuple) else (item,)
            if not 1 <= len(parts) <= 3:
                raise ValueError(
                    f"{EXPECTED}; got a tuple of {len(parts)}. Weights of rows are given to fit, "
                    "as sample_weight."
                )
            if sparse.issparse(parts[0]):
                raise ValueError(
                    f"the rows of a source must be dense; got a {type(parts[0]).__name__} of shape "
                    f"{parts[0].shape}. Give its toarray(), a chunk at a time; or give fit all "
                    "rows as one sparse matrix."
                )
            try:
                rows = as_floats(np.asarray(check_table(parts[0])))
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"{EXPECTED}; got a {type(parts[0]).__name__} that cannot be read as rows of "
                    f"numbers ({error}). Encode text as numbers; rows and labels together are a "
                    "tuple, not a list."
                ) from error
            y = None if len(parts) == 1 or parts[1] is None else np.asarray(parts[1])
            if rows.ndim != 2 or (y is not None and y.shape != rows.shape[:1]):
                of_labels = "" if y is None else f" and labels of shape {y.shape}"
                raise ValueError(f"{EXPECTED}; got rows of shape {rows.shape}{of_labels}.")
            yield Chunk(rows, y, parts[2] if len(parts) == 3 else None)

    found = [(X.shape, y is not None, groups is not None) for X, y, groups in read()]
    shapes, *have = zip(*found, strict=True) if found else ([], [], [])
    n, widths = sum(shape[0] for shape in shapes), {shape[1] for shape in shapes}
    if not n:
        raise ValueError("the iterator gave no rows.")
    if len(widths) > 1:
        raise ValueError(f"all items must have the same columns; got widths {sorted(widths)}.")
    for what, some in zip(("labels", "groups"), have, strict=True):
        if len(set(some)) > 1:
            raise ValueError(f"some items have {what} and some have none; give them with all.")
    return Source(read, (n, widths.pop()), None, have[0][0], have[1][0])
