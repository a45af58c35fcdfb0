"""Tables as estimators read them: which columns hold categories, and all as columns of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Number
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite, check_array, get_tags
from sklearn.utils.validation import validate_data

from ..core.parameters import is_number
from ..core.types import Array, Engine
from .encoding import Encoding, finite_totals
from .levels import absent
from .reading import (
    as_rows,
    as_table,
    check_table,
    column_names,
    column_of,
    explained,
    in_words,
)

FLOATS = [np.float64, np.float32]
CATEGORICAL = (
    "bool", "category", "categorical", "dictionary", "enum", "large_string", "str", "utf8"
)  # fmt: skip


def read_table(estimator: Any, X: Any, reset: bool, weights: Any = None) -> Any:
    """Columns of numbers of a table in memory.

    With ``reset`` its columns become the estimator's, and their encoding is learned from the rows
    of positive weight.
    """
    if sparse.issparse(X) and not estimator._accept_sparse:
        raise TypeError(
            f"Sparse data was passed for X, but {type(estimator).__name__} takes dense rows. "
            "BayesianLinearSVC takes sparse ones; or make them dense: X.toarray(), and "
            "sparse_output=False of OneHotEncoder and others (sparse_threshold=0 of "
            "ColumnTransformer)."
        )
    engine = estimator._reader
    if not reset and (plain := plain_numbers(estimator, X, engine)) is not None:
        return estimator.encoding_.codes(plain, {}, (), complete=True)
    X, pairwise = check_table(X, reset), get_tags(estimator).input_tags.pairwise
    complete = not estimator._allows_nan or pairwise or sparse.issparse(X)
    if not reset and estimator.encoding_.fill is None:  # means of columns are not known
        complete = complete or estimator._kept_missing() is not None
    how: dict[str, Any] = {
        "accept_sparse": "csr" if estimator._accept_sparse else False,
        "dtype": FLOATS,
        "ensure_all_finite": False,  # sums of columns show that
    }
    if not reset:
        which = [category.column for category in estimator.encoding_.categories]
    else:
        which = [] if pairwise else find_categories(X, estimator.categorical)
    cells: dict[int, Array] = {}
    if which:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        X, cells = split(X, which)
    with explained(estimator, X):
        if not which:
            X = as_rows(validate_data(estimator, X, reset=reset, **how))
        elif len(which) < estimator.n_features_in_:
            X = check_array(X, input_name="X", **how)
        else:
            X = np.empty((len(cells[which[0]]), 0))
        masses = row_masses(weights, X.shape[0])
        totals = finite_totals(X, engine, masses)
        if totals is None:
            assert_all_finite(X, allow_nan=not complete, input_name="X")
    names = estimator._input_names()
    if not estimator._allows_nan:
        check_no_cell_missing(cells, names, estimator._of_missing_cells())
    if reset:
        kept = None if complete else estimator._kept_missing()
        estimator.encoding_ = Encoding.learn(X, cells, masses, names, kept, totals)
    return estimator.encoding_.codes(X, cells, names, complete=totals is not None)


def plain_numbers(estimator: Any, X: Any, engine: Engine) -> Array | None:
    """Rows of finite numbers in the columns of the fit, which need no further check.

    ``None`` for all others: those are checked one thing after another, which takes longer than the
    prediction of a row.
    """
    named = "feature_names_in_" in estimator.__dict__
    if estimator.encoding_.categories:
        return None
    if named and hasattr(X, "iloc") and hasattr(X, "dtypes"):
        known = estimator.feature_names_in_
        if X.ndim != 2 or X.shape[1] != known.size or not np.array_equal(X.columns, known):
            return None
        if any(each not in FLOATS for each in X.dtypes):
            return None
        X = X.to_numpy()
    elif named or type(X) is not np.ndarray:
        return None
    if X.ndim != 2 or X.shape[1] != estimator.n_features_in_ or not X.size or X.dtype not in FLOATS:
        return None
    return None if finite_totals(X, engine) is None else X


def row_masses(sample_weight: Any, n: int) -> Array | None:
    """Weights of rows; none where they are all alike, or wrong, which is found out later."""
    try:
        given = np.asarray(sample_weight)
        weights = np.asarray(given.real, dtype=float)
    except (TypeError, ValueError):
        return None
    right = weights.shape == (n,) and np.all(np.isfinite(weights)) and weights.min(initial=0) >= 0
    return weights if right and weights.sum() > 0 else None


def check_no_cell_missing(cells: dict[int, Array], names: Sequence[str], hint: str) -> None:
    gone = {j: int(absent(values).sum()) for j, values in cells.items()}
    if count := sum(gone.values()):
        found = in_words([j for j, k in gone.items() if k], names)
        raise ValueError(
            f"Input X contains NaN: {count} cell{'s' * (count > 1)} in {found}. {hint}"
        )


def find_categories(X: Any, categorical: Any, columns: Sequence[int] | None = None) -> list[int]:
    """Positions of the columns of categories of a table, or among some ``columns`` of it.

    Those of text, categories or truth values, and those that ``categorical`` names.
    """
    if categorical is None or (isinstance(categorical, str) and categorical == "error"):
        return []
    if sparse.issparse(X):
        return []
    given = [] if isinstance(categorical, str) else list(categorical)
    if not given and isinstance(X, np.ndarray) and X.dtype.kind not in "OUT":
        return []
    rows = as_table(X)
    if rows is None:
        return []
    count, names = np.shape(rows)[1], column_names(X)
    found = {_position(column, names, count) for column in given}
    few = range(count) if columns is None else columns
    for j in few:
        if j not in found and _is_category(column_of(rows, j), str(names[j] if names else j)):
            found.add(j)
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


def _is_category(column: Any, name: str) -> bool:
    """Whether a column holds text, categories or truth values; an array of truth values is one."""
    kind = getattr(column, "dtype", getattr(column, "type", None))
    if isinstance(kind, np.dtype) and kind.kind in "UT":
        return True
    if str(kind).lower().startswith(CATEGORICAL):
        return True
    if str(kind).lower() != "object":
        return False
    cells = np.asarray(column)
    if not any(isinstance(cell, str | bool | np.bool_) for cell in cells):
        return False
    rest = [c for c in cells[~absent(cells)] if not isinstance(c, str | bool | np.bool_)]
    if rest:
        text = next(c for c in cells if isinstance(c, str | bool | np.bool_))
        raise ValueError(
            f"column {name!r} of X cannot be read as numbers: it holds text, such as {text!r}, "
            f"beside other values, such as {rest[0]!r}. Make it all text, or all numbers with NaN "
            "for missing cells."
        )
    return True


def split(X: Any, categories: Sequence[int]) -> tuple[Any, dict[int, Array]]:
    """The columns of numbers as a smaller table, and the cells of the others by position."""
    rows = as_table(X)
    if rows is None:
        raise ValueError("X must be a table with rows and columns.")
    plain = [j for j in range(np.shape(rows)[1]) if j not in set(categories)]
    cells = {j: cells_of(column_of(rows, j)) for j in categories}
    if hasattr(rows, "column_names"):  # of Arrow
        return rows.select(plain), cells
    return (rows.iloc[:, plain] if hasattr(rows, "iloc") else rows[:, plain]), cells


def cells_of(column: Any) -> Array:
    """Cells of a column as an array of text, truth values or numbers; others, as text."""
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
    """Which rows of a table have no cell that is known."""
    rows = as_table(X)
    gone = [absent(cells_of(column_of(rows, j))) for j in range(np.shape(rows)[1])]
    out: Array = np.logical_and.reduce(gone)
    return out
