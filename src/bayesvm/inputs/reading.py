"""Rows, labels and weights as users give them, checked and made ready."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..core import arrays
from ..core.arrays import is_foreign
from ..core.types import Array
from .dask import DaskRows, is_dask
from .levels import absent
from .sources import Source
from .weights import class_factors, real_weights

MERGED_ROWS = 50_000  # beyond it equal rows are not looked for
FEW = 4  # classes that are looked for one by one
LEAST_WEIGHT, MOST_WEIGHT = 1e-15, 1e15  # of a row: sums of their squares keep their digits


def check_complete(X: Array, columns: Sequence[int], names: Sequence[str]) -> None:
    """Refuse missing cells in columns that have no distribution for them."""
    some = [j for j in columns if np.isnan(X[:, j]).any()]
    if some:
        raise ValueError(
            f"column {names[some[0]]!r} has missing cells, for which the model has no "
            "distribution; fill them in."
        )


def check_slopes(X: Array, own: Sequence[Any], names: Sequence[str]) -> None:
    """Slopes of groups multiply columns, which must then be known."""
    for j in {j for e in own for j in e.slopes}:
        if np.isnan(X[:, j]).any():
            raise ValueError(
                f"column {names[j]!r} has missing cells and a slope for each group; a column with "
                "slopes must be complete. Fill it in, or leave it out of random."
            )


def check_weights(
    sample_weight: Any, class_weight: Any, y: Any, classes: Any, X: Any = None
) -> Any:
    """Weights of rows: sample weight times class weight, checked."""
    if isinstance(X, DaskRows):
        return X.weights(sample_weight, class_weight, y, classes)
    n = y.shape[0]
    c: Any = 1.0 if sample_weight is None else real_weights(sample_weight)
    if np.ndim(c) == 0:
        # where rows are not held, one number however many there are
        c = np.broadcast_to(c, (n,)) if is_source(X) else np.full(n, c)
        if sample_weight is None and class_weight is None:
            return c
    elif c.shape != (n,):
        raise ValueError(
            f"sample_weight must have shape ({n},), one number per row; got {c.shape}."
        )
    some = c[:1] if c.strides == (0,) else c
    if not np.all(np.isfinite(some)):
        raise ValueError("sample_weight contains NaN or infinity; give finite numbers.")
    if np.any(some < 0):
        raise ValueError(
            f"sample_weight contains negative values (the smallest is {c.min():g}); weights count "
            "how often a row is seen, so they must be at least 0."
        )
    if np.any((some > 0) & (some < LEAST_WEIGHT)) or np.any(some > MOST_WEIGHT):
        raise ValueError(
            f"sample_weight must be 0 or between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}; got values "
            f"from {some[some > 0].min():g} to {some.max():g}. Divide all by a common factor."
        )
    if not np.any(some > 0):
        raise ValueError("all sample weights are zero, so no row is left to learn from.")
    if class_weight is None:
        return c
    masses = _masses(y, c, len(classes))
    return c * class_factors(class_weight, masses, classes)[y]


def whole(copies: Array) -> Any:
    """Numbers of copies of rows that a chain gives scores of their own."""
    if np.any(copies != np.round(copies)):
        raise ValueError(
            "with inference='gibbs', sample_weight must be whole numbers: each copy of a row has "
            "scores of its own. Use inference='vb', or round the weights."
        )
    return copies.astype(int)


def repeated(X: Array, copies: Array) -> Array:
    """Rows, those with missing cells as often as they count: a chain draws each copy's cells."""
    gone = np.isnan(X).any(axis=1)
    if np.any(copies[gone] != np.round(copies[gone])):
        raise ValueError(
            "with missing='model' and inference='gibbs', sample_weight must be whole numbers where "
            "a row has missing cells: each copy of such a row has cells of its own. Use "
            "inference='vb', or round the weights."
        )
    times = np.where(gone, copies, 1.0)
    return np.repeat(np.arange(copies.size), times.astype(int))


def shared(c: Array, copies: Array, each: Array) -> tuple[Array, Array]:
    """Weights and counts of rows that were repeated."""
    times = np.bincount(each, minlength=c.size)[each]
    return c[each] / times, copies[each] / times


def check_two_sided(y: Any, c: Array, classes: Any) -> None:
    """Every class must be present, with weight."""
    if len(classes) < 2:
        raise ValueError(
            f"a classifier needs at least two classes in y; got one class, {classes[0]}. Check "
            "that y was not filtered or encoded away."
        )
    if is_dask(y):  # each label occurs, and no weight is zero
        return
    present = _present(y, c, len(classes))
    for k, label in enumerate(classes):
        if not present[k]:
            raise ValueError(
                f"class {label} has no row of positive weight; drop it from y or give it weight."
            )


def _pieces(n: int) -> Iterator[slice]:
    """Rows a few at a time, so that nothing as large as all of them is made on the way."""
    return (slice(i, i + 2**18) for i in range(0, n, 2**18))


def _masses(y: Array, c: Array, k: int) -> Array:
    """Total weight of each class."""
    return sum((np.bincount(y[at], c[at], k) for at in _pieces(y.shape[0])), np.zeros(k))


def _present(y: Array, c: Array, k: int) -> Array:
    """Whether each class has a row of positive weight; mostly the first rows settle it."""
    seen = np.zeros(k, dtype=bool)
    for at in _pieces(y.shape[0]):
        seen |= np.bincount(y[at][c[at] > 0], minlength=k) > 0
        if seen.all():
            break
    return seen


def encode(y: Any, X: Any = None) -> tuple[Any, Array]:
    """The classes and the place of each label among them, in as few bytes as will do."""
    if isinstance(X, DaskRows):
        return X.encode(y)
    if y is None:
        return _encode_chunks(X)
    if y.dtype.kind in "iub" and y.size and y.min() >= 0 and (most := int(y.max())) < 2**15:
        if most < FEW and all(np.any(y == k) for k in range(most + 1)):  # they are the codes
            return np.arange(most + 1).astype(y.dtype), y.astype(_small(most + 1))
        seen = np.zeros(most + 1, dtype=bool)  # millions of small numbers: by a table
        for at in _pieces(y.size):
            seen[y[at].astype(np.intp)] = True
        place, classes = np.cumsum(seen) - 1, np.flatnonzero(seen).astype(y.dtype)
        return classes, _filled(y, len(classes), lambda part: place[part.astype(np.intp)])
    classes = np.unique(y)
    return classes, _filled(y, len(classes), lambda part: np.searchsorted(classes, part))


def _filled(y: Array, k: int, code: Callable[[Array], Array]) -> Array:
    """Codes of labels of k classes."""
    codes = np.empty(y.shape[0], dtype=_small(k))
    for at in _pieces(codes.size):
        codes[at] = code(y[at])
    return codes


def _small(k: int) -> Any:
    """The smallest whole numbers that count to k."""
    return next(kind for kind in (np.int8, np.int16, np.intp) if k <= np.iinfo(kind).max)


def _encode_chunks(source: Any) -> tuple[Any, Array]:
    """The same for labels that come with the rows; never are all of them held as they are."""
    try:
        parts = [encode(np.asarray(chunk.y)) for chunk in source.chunks()]
        kinds = {found.dtype.kind in "US" for found, _ in parts if found.size}
        if len(kinds) > 1:  # NumPy would make them all text
            raise TypeError("some are text and some are numbers")
        classes = np.unique(np.concatenate([found for found, _ in parts]))
        gone = bool(np.any(classes != classes))
    except TypeError as error:
        raise ValueError(f"labels must be of one kind and none missing ({error}).") from error
    if gone:
        raise ValueError("y contains NaN; drop rows without a label.")
    if classes.dtype.kind not in "iub":
        check_classification_targets(np.repeat(classes, 2))  # it is surprised by labels seen once
    codes, first = np.empty(len(source), dtype=_small(len(classes))), 0
    for found, part in parts:
        codes[first : first + part.size] = np.searchsorted(classes, found)[part]
        first += part.size
    return classes, codes


def is_large(X: Any) -> bool:
    """Whether rows are too many to be merged and looked at all at once."""
    return is_source(X) or X.shape[0] > MERGED_ROWS


def check_positive_weights(c: Any) -> None:
    if not is_dask(c) and c.strides != (0,) and not np.all(c > 0):
        raise ValueError(
            "rows that are read in blocks need positive weights; leave rows of weight zero out."
        )


def read_foreign(estimator: Any, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
    """Rows in another array library than NumPy, checked where they are, and labels in NumPy."""
    xp = arrays.of(X)
    if X.ndim != 2:
        raise ValueError(f"X must have rows and columns; got shape {tuple(X.shape)}.")
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError(f"Complex data not supported: X must hold real numbers; got {X.dtype}.")
    if not xp.isdtype(X.dtype, "real floating"):
        X = xp.astype(X, xp.float64)
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError("Input X contains NaN or infinity; drop or impute such rows.")
    if reset:
        estimator.n_features_in_ = int(X.shape[1])
        estimator.__dict__.pop("feature_names_in_", None)
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    if not reset and y is None:
        return X, None
    return X, read_labels(arrays.to_numpy(y) if is_foreign(y) else y, int(X.shape[0]))


def is_source(X: Any) -> bool:
    """Whether rows are read in chunks rather than held."""
    return isinstance(X, Source | DaskRows) or is_dask(X)


def check_served(X: Any, what: str) -> None:
    """Refuse rows that are read in chunks, where an answer needs them at once."""
    if is_source(X):
        raise ValueError(
            f"{what} needs rows as one array; got {type(X).__name__}. Give it a chunk at a time."
        )


def check_in_memory(X: Any, what: str) -> None:
    """Refuse rows that are read in chunks or held by a device where rows are changed in place."""
    if is_source(X) or is_foreign(X):
        raise ValueError(
            f"{what} needs all rows as one array in memory; got {type(X).__name__}. Load the rows, "
            "or leave it out."
        )


def read_source(estimator: Any, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
    """A source whose columns are those of the estimator, and its labels."""
    if is_dask(X):
        X = DaskRows.of(X)
    n, p = X.shape
    if not n:
        raise ValueError("X has no rows.")
    if reset and X.grouped and not estimator._has_effects:
        warnings.warn(
            f"the source has groups, which {type(estimator).__name__} leaves aside: MixedSVC has "
            "effects of groups. If they are weights of rows, give them to fit as sample_weight.",
            UserWarning,
            stacklevel=4,
        )
    if reset:
        estimator.n_features_in_ = p
        estimator.__dict__.pop("feature_names_in_", None)
        if X.names is not None:
            estimator.feature_names_in_ = np.array(X.names, dtype=object)
    elif p != estimator.n_features_in_:
        raise ValueError(
            f"X has {p} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    elif X.names is not None and hasattr(estimator, "feature_names_in_"):
        known = list(estimator.feature_names_in_)
        if list(X.names) != known:
            raise ValueError(f"the columns of X must be {known}, in that order; got {X.names}.")
    if not reset and y is None:
        return X, None
    if y is not None and isinstance(X, DaskRows):
        return X, X.aligned(y)
    if y is None:
        if not X.labelled:
            raise ValueError(
                "the source has no labels: give y to fit, or name the column that holds them "
                "(target= of from_parquet, pairs of rows and labels for from_iterable)."
            )
        return X, None  # they come with the rows
    return X, read_labels(y, n)


def labels_of(X: Any, y: Any) -> Any:
    """Labels to judge predictions by: those given, else those that come with the rows."""
    if y is not None:
        return y if is_dask(y) or is_foreign(y) else plain_labels(y)
    if not (isinstance(X, Source) and X.labelled):
        raise ValueError(
            "score needs y, one label for each row, unless X is a source that has labels (target= "
            "of from_parquet, pairs of rows and labels for from_iterable)."
        )
    return np.concatenate([chunk.y for chunk in X.chunks()])


def read_labels(y: Any, n: int) -> Array:
    """Labels as an array, one for each row, of one kind and none missing."""
    if y is None:
        raise ValueError(
            "fitting requires y to be passed, but the target y is None; give a label for each row."
        )
    y = plain_labels(y)
    if y.shape[0] != n:
        raise ValueError(
            f"inconsistent numbers of samples: X has {n} rows but y has {y.shape[0]} labels."
        )
    return y


def plain_labels(y: Any, name: str = "y") -> Array:
    """Labels as an array, of one kind and none missing."""
    hidden = int(np.ma.count_masked(y)) if isinstance(y, np.ma.MaskedArray) else 0
    is_list = not hasattr(y, "__array__")  # of which NumPy would make text if one label is
    y = column_or_1d(np.asarray(y, dtype=object if is_list else None), warn=True)
    if gone := hidden or int(absent(y).sum()):
        raise ValueError(
            f"Input {name} contains NaN: {gone} of {len(y)} labels are missing. Leave such rows "
            "out, or give them a class of their own."
        )
    y = _of_one_kind(y, name)
    y = np.asarray(y.tolist()) if is_list else y
    if y.dtype.kind not in "iub":  # whole numbers are classes; to look at them all takes long
        assert_all_finite(y, input_name=name)
        check_classification_targets(y)
    return y


def _of_one_kind(y: Array, name: str) -> Array:
    """Labels that can be compared with each other; numbers among objects as plain numbers."""
    plain = y
    if y.dtype.kind == "O":
        text = np.array([isinstance(label, str | bytes) for label in y], dtype=bool)
        if text.any() and not text.all():
            raise ValueError(
                f"the labels in {name} must be of one kind; some are text, such as "
                f"{y[text][0]!r}, and some are not, such as {y[~text][0]!r}. Make them all text, "
                f"or all numbers."
            )
        if text.all():
            return y
        with suppress(ValueError):  # lists of several lengths
            plain = np.asarray(y.tolist())
    if plain.dtype.kind not in "iubfUSTmM" or plain.shape != y.shape:
        kind = type(y[0]).__name__ if y.dtype.kind == "O" else y.dtype
        raise ValueError(
            f"Unknown label type: the labels in {name} must be numbers, text or truth values; got "
            f"{kind}. Make them text: [str(label) for label in {name}]."
        )
    return plain


def as_rows(X: Any) -> Any:
    """CSR for sparse input (row slices must be cheap), each cell once; arrays as they are."""
    if not sparse.issparse(X):
        return X
    X = sparse.csr_array(X)
    if not X.has_canonical_format:  # entries of one cell add up
        X = X.copy()
        X.sum_duplicates()
    return X


def is_sparse(X: Any) -> bool:
    return bool(sparse.issparse(X))
