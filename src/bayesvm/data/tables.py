"""Reading of input tables: categorical columns, missing cells, conversion to numbers.

A categorical column becomes indicators of its levels, or one column for two levels.  Missing cells
of a numeric column are replaced by its mean, with an extra indicator column unless they are rare.
All estimators read tables this way; an :class:`Encoding` stores what was learned from the training
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, time, timedelta
from numbers import Integral, Number
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, get_tags
from sklearn.utils.validation import validate_data

from ..core import arrays
from ..core.arrays import is_dask, kind_of
from ..core.parameters import is_number, warn
from ..core.types import Array
from .labels import check_weights
from .levels import FLAG, Category, absent, find_levels
from .sources import DaskRows

MERGED_ROWS = 50_000  # equal rows are merged up to this number of rows
EXACT = 2**53  # integers up to here are exact in double precision
TEXT = (str, bool, np.bool_)
# Prefixes of type names in NumPy, pandas, polars and Arrow; and types of single cells
KINDS: dict[str, tuple[tuple[str, ...], tuple[type, ...]]] = {
    "times": (
        ("date", "time", "duration"),
        (np.datetime64, np.timedelta64, date, time, timedelta),  # pandas' types are subclasses
    ),
    "nested": (("array", "large_list", "list", "struct"), (list, tuple, set, dict, np.ndarray)),
    "text": (("bool", "cat", "dictionary", "enum", "large_string", "str", "utf8"), TEXT),
}


# ---------------------------------------------------------------------------------------------
# Where rows are stored


def check_in_memory(X: Any, what: str, kinds: Sequence[str] = ("memory",)) -> None:
    """Raise an error for rows that are read in chunks or, by default, stored on a device."""
    if kind_of(X) not in kinds:
        raise ValueError(
            f"{what} needs all rows as one array in memory; got {type(X).__name__}. Load the rows, "
            "or leave it out."
        )


def read_elsewhere(estimator: Any, X: Any, reset: bool) -> Any:
    """Tensors, or rows that are read in blocks, with columns checked against the estimator."""
    X = DaskRows.of(X) if is_dask(X) else X
    if len(X.shape) != 2:
        raise ValueError(f"X must have rows and columns; got shape {tuple(X.shape)}.")
    if not X.shape[0]:
        raise ValueError("X has no rows.")
    if kind_of(X) != "source":  # checked on its device
        xp = arrays.of(X)
        if xp.isdtype(X.dtype, "complex floating"):
            raise ValueError(f"Complex data not supported: X must hold real numbers; got {X.dtype}")
        X = X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float64)
        if not bool(xp.all(xp.isfinite(X))):
            raise ValueError("Input X contains NaN or infinity; drop or impute such rows.")
    elif reset and X.grouped and not estimator._has_effects:
        warn(
            f"the source has groups, which {type(estimator).__name__} leaves aside: MixedSVC has "
            "effects of groups. If they are weights of rows, give them to fit as sample_weight."
        )
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if kind_of(X) == "source" and X.names is not None:
        if reset:
            estimator.feature_names_in_ = np.array(X.names, dtype=object)
        known = list(getattr(estimator, "feature_names_in_", X.names))
        if list(X.names) != known:
            raise ValueError(f"the columns of X must be {known}, in that order; got {X.names}.")
    return X


# ---------------------------------------------------------------------------------------------
# Tables in memory


def read_table(estimator: Any, X: Any, reset: bool, weights: Any = None) -> Any:
    """Numeric columns of a table in memory, from any library.

    With ``reset`` the estimator takes over its column names and learns the encoding from the rows
    with positive weight.
    """
    if sparse.issparse(X) and not estimator._accept_sparse:
        raise TypeError(
            f"Sparse data was passed for X, but {type(estimator).__name__} takes dense rows. "
            "BayesianLinearSVC takes sparse ones; or make them dense: X.toarray(), and "
            "sparse_output=False of OneHotEncoder and others (sparse_threshold=0 of "
            "ColumnTransformer)."
        )
    is_floats = type(X) is np.ndarray and X.dtype.kind == "f"  # no categorical columns
    X = X if is_floats else check_table(X, reset)
    pairwise = get_tags(estimator).input_tags.pairwise
    complete = not estimator._allows_nan or pairwise or sparse.issparse(X)
    if not reset and estimator.encoding_.fill is None:  # the means of columns are unknown
        complete = complete or estimator._kept_missing() is not None
    if not reset:
        which = [category.column for category in estimator.encoding_.categories]
    elif pairwise or (is_floats and isinstance(estimator.categorical, str)):
        which = []
    else:
        which = find_categories(X, estimator.categorical)
    cells: dict[int, Array] = {}
    if which:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        X, cells = split(X, which)
    checks: dict[str, Any] = {
        "accept_sparse": "csr" if estimator._accept_sparse else False,
        "dtype": [np.float64, np.float32],
        "ensure_all_finite": True if complete else "allow-nan",
    }
    with explained(estimator, X):
        if not which:
            X = validate_data(estimator, X, reset=reset, **checks)
        elif len(which) < estimator.n_features_in_:
            X = check_array(X, input_name="X", **checks)
        else:
            X = np.empty((len(cells[which[0]]), 0))
    if pairwise and reset and X.shape[0] != X.shape[1]:
        raise ValueError(
            "kernel='precomputed' needs the square matrix of kernel values of the training rows; "
            f"got shape {X.shape}."
        )
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        if not X.has_canonical_format:  # duplicate entries of a cell are summed
            X = X.copy()
            X.sum_duplicates()
    names = estimator._input_names()
    if not estimator._allows_nan:
        check_no_cell_missing(cells, names, estimator._of_missing_cells())
    if reset:
        kept = None if complete else estimator._kept_missing()
        estimator.encoding_ = Encoding.learn(X, cells, check_weights(weights, X), names, kept)
    return estimator.encoding_.codes(X, cells, names)


def check_table(X: Any, reset: bool = True) -> Any:
    """The table if it can be read as numbers, else an error; masked cells become missing."""
    X = check_kind(X)
    check_numbers(X, reset)
    return X


def check_kind(X: Any) -> Any:
    """Raise an error for non-tables and duplicate column names; masked cells become missing."""
    if X is None or isinstance(X, str | bytes | Number | Mapping | Set | Generator):
        raise ValueError(
            "X must be a table of numbers: an array with rows and columns, a data frame, a sparse "
            f"matrix or a list of rows; got {'None' if X is None else f'{X!r:.60}'}."
        )
    if hasattr(X, "collect") and hasattr(X, "lazy"):  # of polars
        raise ValueError("X is a LazyFrame, whose rows are not known yet; give X.collect().")
    if getattr(getattr(X, "dtype", None), "kind", "") == "V":
        raise ValueError(
            f"X must be a table of numbers; got a structured array of {X.dtype}. Give its fields "
            "as columns: numpy.lib.recfunctions.structured_to_unstructured(X)."
        )
    names = column_names(X)
    if names is not None and not names:
        raise ValueError("X has no columns: 0 feature(s) while a minimum of 1 is required.")
    names = names or []
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
    """Raise an error for dates and times, which NumPy converts to numbers of an arbitrary unit.

    Checks ``columns``, by default all.  At ``fit`` (``reset``) integers that are too large for a
    float cause a warning.
    """
    rows = as_table(X)
    if rows is None:
        return
    kinds: dict[str, list[int]] = {}
    for j, dtype in enumerate(column_types(rows)):
        if columns is None or j in columns:
            kinds.setdefault(kind_of_column(rows, j, dtype), []).append(j)
            if reset and dtype in ("int64", "uint64"):
                cells = np.asarray(column_of(rows, j))
                if cells.dtype.kind in "iu" and np.any((cells > EXACT) | (cells < -EXACT)):
                    kinds.setdefault("rounded", []).append(j)

    def holding(at: list[int]) -> str:
        return f"{in_words(at, column_names(X))} of X hold{'s' * (len(at) == 1)}"

    if "times" in kinds:
        raise ValueError(
            f"{holding(kinds['times'])} dates or times, which are not numbers. Give numbers in a "
            "unit of your choice, for instance days since the first: (x - x.min()) / "
            "numpy.timedelta64(1, 'D')."
        )
    if "nested" in kinds:
        raise ValueError(
            f"{holding(kinds['nested'])} lists or records; give each of their parts a column, or "
            "leave them out."
        )
    if "rounded" in kinds:
        warn(
            f"{holding(kinds['rounded'])} whole numbers beyond 2**53, which are rounded: different "
            "ones may become equal. Subtract a constant if differences matter; leave the column "
            "out if it names rows."
        )


def kind_of_column(rows: Any, j: int, dtype: str) -> str:
    """The kind of cells in a column: "times", "nested", "text" or "numbers"."""
    for kind, (beginnings, types) in KINDS.items():
        if dtype.startswith(beginnings):
            return kind
        if dtype == "object" and any(isinstance(c, types) for c in np.asarray(column_of(rows, j))):
            return kind
    return "numbers"


def find_categories(X: Any, categorical: Any, columns: Sequence[int] | None = None) -> list[int]:
    """Positions of the categorical columns of a table, or among the given ``columns``.

    These are columns of text, categories or booleans, and the columns in ``categorical``.
    """
    named = [] if isinstance(categorical, str) else list(categorical or ())
    if categorical is None or (isinstance(categorical, str) and categorical == "error"):
        return []
    rows = as_table(X)
    if rows is None or (isinstance(X, np.ndarray) and X.dtype.kind == "b" and not named):
        return []
    names, types = column_names(X), column_types(rows)
    found = {_position(column, names, len(types)) for column in named}
    few = range(len(types)) if columns is None else columns
    for j in few:
        if j in found or kind_of_column(rows, j, types[j]) != "text":
            continue
        found.add(j)
        cells = np.asarray(column_of(rows, j)) if types[j] == "object" else np.empty(0)
        other = [c for c in cells[~absent(cells)] if not isinstance(c, TEXT)]
        if other:
            text = next(c for c in cells if isinstance(c, TEXT))
            raise ValueError(
                f"column {str(names[j] if names else j)!r} of X cannot be read as numbers: it "
                f"holds text, such as {text!r}, beside other values, such as {other[0]!r}. "
                "Make it all text, or all numbers with NaN for missing cells."
            )
    return sorted(found & set(few))


def _position(column: Any, names: Sequence[str] | None, count: int) -> int:
    if isinstance(column, str):
        if names is None or column not in names:
            raise ValueError(f"categorical names the column {column!r}, which X does not have.")
        return list(names).index(column)
    if not is_number(column, 0, count, Integral):
        raise ValueError(
            f"categorical holds names or positions of columns, from 0 to {count - 1}; got "
            f"{column!r}."
        )
    return int(column)


def split(X: Any, categories: Sequence[int]) -> tuple[Any, dict[int, Array]]:
    """The numeric columns as a table, and the cells of the categorical columns by position."""
    rows = as_table(X)
    if rows is None:
        raise ValueError("X must be a table with rows and columns.")
    plain = [j for j in range(np.shape(rows)[1]) if j not in set(categories)]
    cells = {j: cells_of(column_of(rows, j)) for j in categories}
    if hasattr(rows, "column_names"):  # of Arrow
        return rows.select(plain), cells
    return (rows.iloc[:, plain] if hasattr(rows, "iloc") else rows[:, plain]), cells


# ---------------------------------------------------------------------------------------------
# Encoding


@dataclass(frozen=True, eq=False)
class Encoding:
    """Encoding of a table as numeric columns, learned from training rows."""

    count: int  # columns of the table
    categories: tuple[Category, ...] = ()
    fill: Array | None = None  # (count,), replaces missing numbers; None leaves them missing
    flagged: tuple[int, ...] = ()  # numeric columns with a missing indicator

    @classmethod
    def learn(
        cls,
        numbers: Any,
        cells: dict[int, Array],
        weights: Array,
        names: Sequence[str],
        kept: Sequence[int] | None = (),
        rare: float = 0.01,
    ) -> Encoding:
        """Learn levels and means from training rows.

        ``numbers`` are the numeric columns, ``cells`` the categorical columns by position.  Missing
        cells of the numeric columns ``kept`` stay missing (``None``: of all numeric columns), those
        of others become the mean, with an indicator unless they are a smaller share than ``rare``.
        """
        c, count = weights, numbers.shape[1] + len(cells)
        categories: tuple[Category, ...] = ()
        for j, values in cells.items():
            categories = (*categories, Category(j, find_levels(values, c, names[j])))
        if kept is None or sparse.issparse(numbers):
            return cls(count, categories)
        plain = np.delete(np.arange(count), list(cells))
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.einsum("i,ij->j", c, numbers, dtype=float) / c.sum()
        flagged: dict[bytes, int] = {}  # columns that are missing together share a flag
        for k in np.flatnonzero(~np.isfinite(means)):
            is_missing = np.isnan(numbers[:, k])
            known = c[~is_missing].sum()
            means[k] = (c[~is_missing] / known) @ numbers[~is_missing, k] if known else 0.0
            if rare <= 1.0 - known / c.sum() < 1.0 and plain[k] not in kept:
                flagged.setdefault(np.packbits(is_missing & (c > 0)).tobytes(), int(plain[k]))
        fill = np.full(count, np.nan)
        fill[plain] = means
        fill[list(kept)] = np.nan
        return cls(count, categories, fill, tuple(flagged.values()))

    @property
    def parts(self) -> list[tuple[int, Category | None, int]]:
        """Columns of the table with their encoding (numbers, indicators, a flag) and its width."""
        kinds: dict[int, Category | None] = dict.fromkeys(range(self.count))
        for category in self.categories:
            kinds[category.column] = category
        parts: list[tuple[int, Category | None, int]] = []
        for j, kind in kinds.items():
            parts.append((j, kind, 1 if kind is None else kind.width))
            if j in self.flagged:
                parts.append((j, FLAG, 1))
        return parts

    @property
    def is_plain(self) -> bool:
        """Whether the encoded columns equal the columns of the table."""
        return not (self.categories or self.flagged)

    @property
    def made(self) -> tuple[tuple[int, ...], ...]:
        """Encoded columns of each column of the table."""
        made: dict[int, tuple[int, ...]] = dict.fromkeys(range(self.count), ())
        first = 0
        for j, _, width in self.parts:
            made[j] += tuple(range(first, first + width))
            first += width
        return tuple(made.values())

    @property
    def levels(self) -> list[tuple[int, ...]]:
        """Encoded columns that are the indicators of all levels of one categorical column."""
        made = self.made
        return [made[each.column] for each in self.categories if each.width > 1]

    @property
    def groups(self) -> tuple[int, ...] | None:
        """Index of the length scale of each encoded column; ``None`` if all are separate.

        Indicators of one categorical column share a length scale.
        """
        if self.is_plain:
            return None
        parts, groups = self.parts, list[int]()
        for k, (_, _, width) in enumerate(parts):
            groups += [k] * width
        return tuple(groups) if len(groups) > len(parts) else None

    @property
    def scales(self) -> Array | None:
        """The unit of each indicator, NaN for numeric columns; None if there is no indicator."""
        if self.is_plain:
            return None
        scales = list[float]()
        for _, kind, width in self.parts:
            scales += [np.nan if kind is None else kind.scale] * width
        return np.array(scales)

    def names(self, given: Sequence[str]) -> list[str]:
        """Names of the encoded columns, from the column names of the table."""
        names = list[str]()
        for j, kind, _ in self.parts:
            name = f"{given[j]}_missing" if kind is FLAG else str(given[j])
            names += [name] if kind is None else kind.named(name)
        return names

    def group_names(self, given: Sequence[str]) -> list[str]:
        """Names of the groups of encoded columns."""
        each = self.parts
        return [f"{given[j]}_missing" if kind is FLAG else str(given[j]) for j, kind, _ in each]

    def codes(self, numbers: Any, cells: dict[int, Array], names: Sequence[str]) -> Any:
        """Encoded columns of rows, which are given as in :meth:`learn`."""
        if sparse.issparse(numbers):
            return numbers
        plain = np.delete(np.arange(self.count), list(cells))
        is_missing = np.zeros((1, len(plain)), dtype=bool)
        if self.fill is not None and numbers.size and np.isnan(numbers.min()):
            is_missing = np.isnan(numbers)
            numbers = np.where(is_missing, self.fill[plain].astype(numbers.dtype), numbers)
        if self.is_plain:
            return numbers
        n, parts = numbers.shape[0], []
        for j, kind, _ in self.parts:
            if kind is not None and j in cells:
                parts.append(kind.indicators(cells[j], names[j]))
            else:
                column = (numbers if kind is None else is_missing)[:, np.searchsorted(plain, j)]
                parts.append(np.broadcast_to(column, n)[:, None])
        return np.ascontiguousarray(np.hstack(parts, dtype=float))


# ---------------------------------------------------------------------------------------------
# Columns and cells


def as_table(X: Any) -> Any:
    """A table whose columns can be read one by one; ``None`` if it has no columns."""
    if hasattr(X, "columns") or hasattr(X, "column_names"):
        return X
    try:
        rows = X if hasattr(X, "dtype") else np.array(X, dtype=object)
    except ValueError:  # rows of unequal lengths
        return None
    return rows if len(np.shape(rows)) == 2 and not sparse.issparse(rows) else None


def column_names(X: Any) -> list[str] | None:
    """Column names of a data frame of any library; ``None`` for an array."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else [str(name) for name in names]


def column_types(rows: Any) -> list[str]:
    """Names of the types of the columns of a table, in lower case."""
    if hasattr(rows, "column_names"):  # of Arrow
        types = rows.schema.types
    else:
        types = rows.dtypes if hasattr(rows, "dtypes") else [rows.dtype] * rows.shape[1]
    return [str(getattr(kind, "name", kind)).lower() for kind in types]


def column_of(rows: Any, j: int) -> Any:
    """A column of a data frame of any library, or of an array."""
    if hasattr(rows, "column_names"):  # of Arrow
        return rows.column(j)
    return rows.iloc[:, j] if hasattr(rows, "iloc") else rows[:, j]


def cells_of(column: Any) -> Array:
    """Cells of a column as an array of text, booleans or numbers; other types become text."""
    arrow = hasattr(column, "to_pylist")
    cells = np.array(column.to_pylist(), dtype=object) if arrow else np.asarray(column)
    if cells.dtype.kind != "O":
        return cells
    rest = [not isinstance(c, str | Number | np.bool_) for c in cells] & ~absent(cells)
    if rest.any():  # such as intervals
        cells = cells.copy()
        cells[rest] = [str(c) for c in cells[rest]]
    return cells


def blank_rows(X: Any) -> Array:
    """Mask of the rows of a table in which all cells are missing."""
    rows = as_table(X)
    is_missing = [absent(cells_of(column_of(rows, j))) for j in range(np.shape(rows)[1])]
    out: Array = np.logical_and.reduce(is_missing)
    return out


# ---------------------------------------------------------------------------------------------
# Error messages that name columns


def in_words(at: Sequence[int] | Array, names: Sequence[str] | None) -> str:
    which = [str(j) if names is None else repr(str(names[j])) for j in at[:5]]
    rest = f" and {len(at) - 5} others" if len(at) > 5 else ""
    return f"column{'s' * (len(at) > 1)} {', '.join(which)}{rest}"


@contextmanager
def explained(estimator: Any, X: Any, names: Sequence[str] | None = None) -> Iterator[None]:
    """Add column names and advice to errors of scikit-learn's checks."""
    try:
        yield
    except (TypeError, ValueError) as error:  # scikit-learn's own advice is left out
        text = str(error)
        if text.startswith("Input X contains NaN"):
            found, count = _columns_with(X, lambda x: np.isnan(_floats(x)), names)
            text = _of_missing(found, count, estimator._of_missing_cells())
        elif text.startswith("Input X contains infinity"):
            found, _ = _columns_with(X, lambda x: np.isinf(_floats(x)), names)
            text = f"{text} See {found}."
        elif "inhomogeneous" in text:
            lengths = sorted({len(row) for row in X if hasattr(row, "__len__")})
            text = (
                "the rows of X must all have the same number of cells; got rows of "
                f"{', '.join(map(str, lengths[:5]))} cells."
            )
        elif text.startswith(("could not convert string", "float() argument")):
            found, _ = _columns_with(
                X, lambda x: np.isnan(_floats(x)) & ~absent(np.asarray(x)), names
            )
            text = (
                f"{found} of X cannot be read as numbers ({text}). Encode text, for instance by "
                "sklearn.preprocessing.OneHotEncoder in a pipeline, or leave it out."
            )
        else:
            raise
        raise type(error)(text) from None


def check_no_cell_missing(cells: dict[int, Array], names: Sequence[str], hint: str) -> None:
    counts = {j: int(absent(values).sum()) for j, values in cells.items()}
    if count := sum(counts.values()):
        found = in_words([j for j, k in counts.items() if k], names)
        raise ValueError(_of_missing(found, count, hint))


def _of_missing(found: str, count: int, hint: str) -> str:
    return f"Input X contains NaN: {count} cell{'s' * (count > 1)} in {found}. {hint}"


def check_complete(X: Array, columns: Sequence[int], names: Sequence[str]) -> None:
    """Raise an error for missing cells in columns that cannot have any, such as group slopes."""
    some = [j for j in columns if np.isnan(X[:, j]).any()]
    if some:
        raise ValueError(
            f"column {names[some[0]]!r} has missing cells, for which the model has no "
            "distribution; fill them in."
        )


def _columns_with(
    X: Any, wrong: Callable[[Any], Array], names: Sequence[str] | None
) -> tuple[str, int]:
    """Names of the columns with cells of a kind, and the number of such cells."""
    if sparse.issparse(X):
        cells = X.tocoo()
        counts = np.bincount(cells.col[wrong(cells.data)], minlength=X.shape[1])
    else:
        rows = as_table(X)
        counts = np.array([wrong(column_of(rows, j)).sum() for j in range(np.shape(rows)[1])])
    found = in_words(np.flatnonzero(counts), column_names(X) if names is None else names)
    return found, int(counts.sum())


def _floats(column: Any) -> Array:
    """Cells as numbers; NaN for cells that are not numbers."""
    cells = np.asarray(column)
    if cells.dtype.kind in "biuf":
        return cells.astype(float)
    out = np.full(cells.shape, np.nan)
    for i, cell in enumerate(cells):
        with suppress(TypeError, ValueError):
            out[i] = float(cell)
    return out
