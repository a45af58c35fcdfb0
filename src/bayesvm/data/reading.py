"""Rows as users give them: where they are, and which cells are not numbers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from datetime import date, time, timedelta
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse

from ..core import arrays
from ..core.arrays import is_foreign
from ..core.parameters import warn
from ..core.types import Array
from .sources import DaskRows, Source, is_dask

MERGED_ROWS = 50_000  # beyond it equal rows are not looked for
TIMES = (np.datetime64, np.timedelta64, date, time, timedelta)  # pandas' own are kinds of these
EXACT = 2**53  # whole numbers up to here are floats of double precision


def kind_of(X: Any) -> str:
    """Where rows are: in "memory", in a "source" read in chunks, or on a "device"."""
    X = X.numbers if isinstance(X, arrays.Composite) else X
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return "memory"
    if isinstance(X, Source | DaskRows) or is_dask(X):
        return "source"
    return "device" if is_foreign(X) else "memory"


def is_source(X: Any) -> bool:
    """Whether rows are read in chunks rather than held."""
    return kind_of(X) == "source"


def is_large(X: Any) -> bool:
    """Whether rows are too many to be merged and looked at all at once."""
    return is_source(X) or X.shape[0] > MERGED_ROWS


def is_sparse(X: Any) -> bool:
    return bool(sparse.issparse(X))


def as_rows(X: Any) -> Any:
    """CSR for sparse input (row slices must be cheap), each cell once; arrays as they are."""
    if not sparse.issparse(X):
        return X
    X = sparse.csr_array(X)
    if not X.has_canonical_format:  # entries of one cell add up
        X = X.copy()
        X.sum_duplicates()
    return X


def check_served(X: Any, what: str) -> None:
    """Refuse rows that are read in chunks, where they are needed all at once."""
    if is_source(X):
        raise ValueError(
            f"{what} needs rows as one array; got {type(X).__name__}. Give it a chunk at a time."
        )


def check_in_memory(X: Any, what: str) -> None:
    """Refuse rows that are read in chunks or held by a device where rows are changed in place."""
    if kind_of(X) != "memory":
        raise ValueError(
            f"{what} needs all rows as one array in memory; got {type(X).__name__}. Load the rows, "
            "or leave it out."
        )


def check_complete(X: Array, columns: Sequence[int], names: Sequence[str]) -> None:
    """Refuse missing cells in columns that have no distribution for them."""
    some = [j for j in columns if np.isnan(X[:, j]).any()]
    if some:
        raise ValueError(
            f"column {names[some[0]]!r} has missing cells, for which the model has no "
            "distribution; fill them in."
        )


def check_slopes(X: Array, own: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse missing cells in columns that have slopes for each group."""
    for j in {j for e in own for j in e.slopes}:
        if np.isnan(X[:, j]).any():
            raise ValueError(
                f"column {names[j]!r} has missing cells and a slope for each group; a column with "
                "slopes must be complete. Fill it in, or leave it out of random."
            )


def read_foreign(estimator: Any, X: Any, reset: bool) -> Any:
    """Rows in another array library than NumPy, checked where they are."""
    xp = arrays.of(X)
    if X.ndim != 2:
        raise ValueError(f"X must have rows and columns; got shape {tuple(X.shape)}.")
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError(f"Complex data not supported: X must hold real numbers; got {X.dtype}.")
    if not xp.isdtype(X.dtype, "real floating"):
        X = xp.astype(X, xp.float64)
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError("Input X contains NaN or infinity; drop or impute such rows.")
    _check_columns(estimator, int(X.shape[1]), None, reset)
    return X


def read_source(estimator: Any, X: Any, reset: bool) -> Any:
    """A source whose columns are those of the estimator."""
    X = DaskRows.of(X) if is_dask(X) else X
    if not X.shape[0]:
        raise ValueError("X has no rows.")
    if reset and X.grouped and not estimator._has_effects:
        warn(
            f"the source has groups, which {type(estimator).__name__} leaves aside: MixedSVC has "
            "effects of groups. If they are weights of rows, give them to fit as sample_weight."
        )
    _check_columns(estimator, X.shape[1], X.names, reset)
    return X


def _check_columns(estimator: Any, p: int, names: tuple[str, ...] | None, reset: bool) -> None:
    """Keep number and names of the columns at ``fit``; refuse others afterwards."""
    if reset:
        estimator.n_features_in_ = p
        estimator.__dict__.pop("feature_names_in_", None)
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        return
    if p != estimator.n_features_in_:
        raise ValueError(
            f"X has {p} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    known = estimator.__dict__.get("feature_names_in_")
    if names is not None and known is not None and list(names) != list(known):
        raise ValueError(f"the columns of X must be {list(known)}, in that order; got {names}.")


# ---------------------------------------------------------------------------------------------
# Cells of tables


def check_table(X: Any, reset: bool = True) -> Any:
    """Rows that can be read as numbers, or a refusal; masked cells become missing ones."""
    X = check_kind(X)
    check_numbers(X, reset)
    return X


def check_kind(X: Any) -> Any:
    """Refuse what is no table, or has two columns of one name; masked cells become missing ones."""
    if X is None or isinstance(X, str | bytes | Number | Mapping | Set | Generator):
        raise ValueError(
            "X must be a table of numbers: an array with rows and columns, a data frame, a sparse "
            f"matrix or a list of rows; got {'None' if X is None else f'{X!r:.60}'}."
        )
    if _kind(X) == "V":
        raise ValueError(
            f"X must be a table of numbers; got a structured array of {X.dtype}. Give its fields "
            "as columns: numpy.lib.recfunctions.structured_to_unstructured(X)."
        )
    names = column_names(X) or []
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(
            f"X has {names.count(twice)} columns named {twice!r}; names must be unique. "
            "Rename them, for instance X.columns = [f'x{j}' for j in range(X.shape[1])]."
        )
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        return np.ma.filled(X.astype(float), np.nan)
    return X


def check_numbers(X: Any, reset: bool = True, columns: Sequence[int] | None = None) -> None:
    """Refuse dates and times, which NumPy reads as numbers in whatever unit they are held in.

    Of the ``columns``, or all.  At ``fit`` (``reset``) whole numbers that are too large for a float
    are warned of.
    """
    rows = None if sparse.issparse(X) else as_table(X)
    if rows is None:
        return
    names, few = column_names(X), range(np.shape(rows)[1]) if columns is None else columns
    kinds = [getattr(each, "kind", "O") for each in getattr(rows, "dtypes", ())]  # of pandas
    if times := _columns_where(rows, [j for j in few if not _is_plain(kinds, j)], _has_times):
        raise ValueError(
            f"{in_words(times, names)} of X hold{'s' * (len(times) == 1)} dates or times, which "
            "are not numbers. Give numbers in a unit of your choice, for instance days since the "
            "first: (x - x.min()) / numpy.timedelta64(1, 'D')."
        )
    if reset and (rounded := _columns_where(rows, few, _is_rounded)):
        warn(
            f"{in_words(rounded, names)} of X hold{'s' * (len(rounded) == 1)} whole numbers "
            "beyond 2**53, which are rounded: different ones may become equal. Subtract a constant "
            "if differences matter; leave the column out if it names rows."
        )


@contextmanager
def explained(estimator: Any, X: Any, names: Sequence[str] | None = None) -> Iterator[None]:
    """Errors of scikit-learn's checks with the columns they are about and what can be done."""
    try:
        yield
    except (TypeError, ValueError) as error:  # what it recommends instead is not shown
        text = str(error)
        if text.startswith("Input X contains NaN"):
            found, count = _columns_with(X, lambda x: np.isnan(_floats(x)), names)
            more = f": {count} cell{'s' * (count > 1)} in {found}. {estimator._of_missing_cells()}"
            raise ValueError(f"Input X contains NaN{more}") from None
        if text.startswith("Input X contains infinity"):
            found, _ = _columns_with(X, lambda x: np.isinf(_floats(x)), names)
            raise ValueError(f"{text} See {found}.") from None
        if "inhomogeneous" in text and (lengths := _lengths(X)):
            raise ValueError(
                "the rows of X must all have the same number of cells; got rows of "
                f"{', '.join(map(str, lengths[:5]))} cells."
            ) from None
        if text.startswith(("could not convert string", "float() argument")):
            found, _ = _columns_with(X, _is_no_number, names)
            raise type(error)(
                f"{found} of X cannot be read as numbers ({text}). Encode text, for instance by "
                "sklearn.preprocessing.OneHotEncoder in a pipeline, or leave it out."
            ) from None
        raise


def column_names(X: Any) -> list[str] | None:
    """Names of the columns of a frame, whichever library's; none of an array."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else [str(name) for name in names]


def column_of(rows: Any, j: int) -> Any:
    """A column of a frame, whichever library's, or of an array."""
    if hasattr(rows, "column_names"):  # of Arrow
        return rows.column(j)
    return rows.iloc[:, j] if hasattr(rows, "iloc") else rows[:, j]


def _kind(X: Any) -> str:
    """NumPy's letter for the kind of an array; ``"O"`` for what is none."""
    return str(getattr(getattr(X, "dtype", None), "kind", "O"))


def as_table(X: Any) -> Any:
    """Rows whose columns can be looked at one by one; none where there are no columns."""
    if hasattr(X, "columns") or hasattr(X, "column_names"):
        return X
    try:
        rows = X if hasattr(X, "dtype") else np.array(X, dtype=object)
    except ValueError:  # rows of several lengths
        return None
    return rows if len(np.shape(rows)) == 2 else None


def _columns_where(rows: Any, columns: Sequence[int], has: Callable[[Any], bool]) -> list[int]:
    """Columns of some kind; if an array of one kind has it nowhere, none has."""
    if _kind(rows) != "O" and not has(rows):
        return []
    return [j for j in columns if has(column_of(rows, j))]


def _is_plain(kinds: Sequence[str], j: int) -> bool:
    """Whether a column of a frame holds numbers or truth values, by the letters of its columns."""
    return len(kinds) > j and kinds[j] in "biuf"


def _has_times(column: Any) -> bool:
    kind = np.asarray(column[:1]).dtype.kind  # a column that is no array of objects is of one kind
    if kind == "O":
        return any(isinstance(cell, TIMES) for cell in np.ravel(np.asarray(column)))
    return kind in "mM"


def _is_rounded(column: Any) -> bool:
    if np.asarray(column[:1]).dtype not in (np.int64, np.uint64):
        return False
    values = np.asarray(column)
    if values.dtype.kind not in "iu" or not values.size:
        return False
    return bool(values.max() > EXACT or values.min() < -EXACT)


def _columns_with(
    X: Any, wrong: Callable[[Any], Array], names: Sequence[str] | None
) -> tuple[str, int]:
    """Columns with cells of a kind, as text, and the number of such cells."""
    if sparse.issparse(X):
        cells = X.tocoo()
        counts = np.bincount(cells.col[wrong(cells.data)], minlength=X.shape[1])
    else:
        plain = hasattr(X, "iloc") or isinstance(X, np.ndarray)
        rows = X if plain else np.array(X, dtype=object)
        counts = np.array([wrong(column_of(rows, j)).sum() for j in range(rows.shape[1])])
    found = in_words(np.flatnonzero(counts), column_names(X) if names is None else names)
    return found, int(counts.sum())


def in_words(at: Sequence[int] | Array, names: Sequence[str] | None) -> str:
    which = [str(j) if names is None else repr(str(names[j])) for j in at[:5]]
    rest = f" and {len(at) - 5} others" if len(at) > 5 else ""
    return f"column{'s' * (len(at) > 1)} {', '.join(which)}{rest}"


def _lengths(X: Any) -> list[int]:
    """Distinct numbers of cells of rows; none where rows are not lists."""
    try:
        return sorted({len(row) for row in X})
    except TypeError:
        return []


def _is_no_number(column: Any) -> Array:
    given = np.asarray(column)
    if given.dtype.kind in "biuf":
        return np.zeros(given.shape, dtype=bool)
    other = np.array([not (cell is None or isinstance(cell, Number)) for cell in given], dtype=bool)
    other[other] = np.isnan(_floats(given[other]))
    return other


def _floats(column: Any) -> Array:
    """Cells as numbers; NaN for what is none."""

    def number(cell: Any) -> float:
        try:
            return float(cell)
        except (TypeError, ValueError):
            return np.nan

    try:
        return np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        return np.array([number(cell) for cell in np.asarray(column)], dtype=float)
