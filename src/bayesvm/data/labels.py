"""Labels and weights as users give them, and training rows with both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..core import arrays
from ..core.types import Array
from .levels import absent
from .reading import kind_of
from .sources import DaskRows, Source, is_dask

NEAR = 4096  # difference of labels that are whole numbers up to which a table has all of them
LEAST_WEIGHT, MOST_WEIGHT = 1e-15, 1e15  # of a row: sums of their squares keep their digits
ROUNDING = 1e-6  # of the sum of a row's probabilities


class Training(NamedTuple):
    """Training rows with the numbers of their classes and their weights."""

    X: Any
    classes: Array
    codes: Any  # (n,), places of the labels in ``classes``
    c: Any  # (n,), sample weight times class weight
    copies: Any  # (n,), sample weight alone
    chosen: Array | None = None  # numbers of the rows in the input, unless all are here in order

    @property
    def unit(self) -> Any:
        """The weight of one row: that of its class."""
        if self.c is self.copies:
            return 1.0
        return np.divide(self.c, self.copies, out=np.ones(self.c.shape), where=self.c > 0)

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def rows(self) -> Array:
        """Numbers of the rows in the input."""
        return np.arange(self.codes.shape[0]) if self.chosen is None else self.chosen

    @property
    def is_repeated(self) -> bool:
        """Whether rows of the input occur more than once, with soft labels."""
        return self.chosen is not None and self.chosen.size != self.n_given

    @property
    def n_given(self) -> int:
        """Rows of the input; those with soft labels are repeated."""
        return int(self.codes.shape[0]) if self.chosen is None else int(self.chosen[-1]) + 1

    @property
    def masses(self) -> Array:
        """Total weight of each class."""
        return class_masses(self.codes, self.c, len(self.classes))

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any, class_weight: Any) -> Training:
        """Checked rows with the codes of their labels and with their weights."""
        classes, codes = encode(y, X)
        c = check_weights(sample_weight, class_weight, codes, classes, X)
        copies = c
        if class_weight is not None:
            copies = check_weights(sample_weight, None, codes, classes, X)
        check_two_sided(codes, c, classes)
        return cls(X, classes, codes, c, copies)

    def weighted(self) -> Training:
        """The rows of positive weight; a source must have no others."""
        if kind_of(self.X) == "source":
            check_positive_weights(self.c)
        elif not np.all(self.c > 0):
            return self.take(np.flatnonzero(self.c > 0))
        return self

    def take(self, at: Array) -> Training:
        c, rows = self.c[at], self.rows[at]
        copies = c if self.copies is self.c else self.copies[at]
        return Training(arrays.pick(self.X, at), self.classes, self.codes[at], c, copies, rows)

    def repeated(self) -> Training:
        """Rows with missing cells as often as they count: a chain draws each copy's cells."""
        gone, copies = np.isnan(self.X).any(axis=1), self.copies
        if np.any(copies[gone] != np.round(copies[gone])):
            raise ValueError(
                "with missing='model' and inference='gibbs', sample_weight must be whole numbers "
                "where a row has missing cells: each copy of such a row has cells of its own. Use "
                "inference='vb', or round the weights."
            )
        times = np.where(gone, copies, 1.0).astype(int)
        at = np.repeat(np.arange(copies.size), times)
        some = self.take(at)
        c = some.c / times[at]
        return some._replace(c=c, copies=c if some.copies is some.c else some.copies / times[at])


# ---------------------------------------------------------------------------------------------
# Labels


def labels_of(X: Any, y: Any) -> Any:
    """Labels to score predictions with: those given, else those of the source."""
    if y is not None:
        return y if is_dask(y) or arrays.is_foreign(y) else plain_labels(y)
    if not (isinstance(X, Source) and X.labelled):
        raise ValueError(
            "score needs y, one label for each row, unless X is a source that has labels (target= "
            "of from_parquet, pairs of rows and labels for from_iterable)."
        )
    return np.concatenate([chunk.y for chunk in X.chunks()])


def read_labels(y: Any, X: Any) -> Any:
    """Labels, one for each of the rows X, of one kind and none missing; ``None`` if X has them."""
    if y is None and kind_of(X) == "source":
        if X.labelled:
            return None
        raise ValueError(
            "the source has no labels: give y to fit, or name the column that holds them "
            "(target= of from_parquet, pairs of rows and labels for from_iterable)."
        )
    if y is None:
        raise ValueError(
            "fitting requires y to be passed, but the target y is None; give a label for each row."
        )
    if isinstance(X, DaskRows):  # a number for each row is held here
        y = X.aligned(y).compute()
    given = kind_of(X) == "device" and arrays.is_foreign(y)
    y = plain_labels(arrays.to_numpy(y) if given else y)
    if y.shape[0] != X.shape[0]:
        raise ValueError(
            f"inconsistent numbers of samples: X has {X.shape[0]} rows but y has {y.shape[0]} "
            "labels."
        )
    return y


def plain_labels(y: Any, name: str = "y") -> Array:
    """Labels as an array, of one kind and none missing."""
    hidden = int(np.ma.count_masked(y)) if isinstance(y, np.ma.MaskedArray) else 0
    is_list = not hasattr(y, "__array__")  # of which NumPy would make text if one label is
    y = column_or_1d(np.asarray(y, dtype=object if is_list else None), warn=True)
    if gone := hidden or (y.dtype.kind in "fmMO" and int(absent(y).sum())):
        raise ValueError(
            f"Input {name} contains NaN: {gone} of {len(y)} labels are missing. Leave such rows "
            "out, or give them a separate class."
        )
    y = _of_one_kind(y, name)
    y = np.asarray(y.tolist()) if is_list else y
    if y.dtype.kind not in "iub":  # whole numbers are classes; checking them all takes long
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


def encode(y: Any, X: Any = None) -> tuple[Any, Any]:
    """The classes and the place of each label among them, in as few bytes as will do."""
    if y is None:
        return _encode_chunks(X)
    if y.dtype.kind in "iubf" and y.size:  # two classes are found without sorting
        low, high = y.min(), y.max()
        others = y != low
        if np.count_nonzero(others) == (low != high) * np.count_nonzero(y == high):
            return np.unique(np.array([low, high], dtype=y.dtype)), others.view(np.int8)
    if y.dtype.kind in "iub" and y.dtype != np.uint64 and y.size:
        low = int(y.min())
        if int(y.max()) - low < NEAR:
            return _encode_near(y, low)
    # a few at a time, so that no array of all rows is made but the codes
    classes = np.unique(np.concatenate([y[:0], *(np.unique(y[at]) for at in _pieces(y.size))]))
    codes = np.empty(y.size, dtype=np.min_scalar_type(-len(classes)))
    for at in _pieces(y.size):
        codes[at] = np.searchsorted(classes, y[at])
    return classes, codes


def _encode_near(y: Array, low: int) -> tuple[Array, Array]:
    """The same for whole numbers from ``low`` that are near each other, by a table of them."""
    met = np.zeros(NEAR, dtype=bool)
    for at in _pieces(y.size):
        met[y[at].astype(np.intp) - low] = True
    found = np.flatnonzero(met)
    places = (np.cumsum(met) - 1).astype(np.min_scalar_type(-found.size))
    codes = np.empty(y.size, dtype=places.dtype)
    for at in _pieces(y.size):
        codes[at] = places[y[at].astype(np.intp) - low]
    return (low + found).astype(y.dtype), codes


def _pieces(n: int) -> Iterator[slice]:
    """Rows a few at a time."""
    return (slice(i, i + 2**18) for i in range(0, n, 2**18))


def _encode_chunks(source: Source) -> tuple[Array, Array]:
    """Classes and codes of labels that come with the rows; they are never held all at once."""
    with _comparable():
        parts = [encode(np.asarray(chunk.y)) for chunk in source.chunks()]
        if len({found.dtype.kind in "US" for found, _ in parts if found.size}) > 1:
            raise TypeError("some are text and some are numbers")  # NumPy would make them all text
        classes = _given(np.unique(np.concatenate([found for found, _ in parts])))
    if classes.dtype.kind not in "iub":
        check_classification_targets(np.repeat(classes, 2))  # it warns of labels that occur once
    kind = np.min_scalar_type(-len(classes))
    codes = [np.searchsorted(classes, found).astype(kind)[part] for found, part in parts]
    return classes, np.concatenate(codes)


@contextmanager
def _comparable() -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        raise ValueError(f"labels must be of one kind and none missing ({error}).") from error


def _given(classes: Array) -> Array:
    if np.any(classes != classes):
        raise ValueError("y contains NaN; drop rows without a label.")
    return classes


def check_two_sided(y: Any, c: Array, classes: Any) -> None:
    """Refuse labels that have not at least two classes, each with weight."""
    if len(classes) < 2:
        raise ValueError(
            f"a classifier needs at least two classes in y; got one class, {classes[0]}. Check "
            "that y was not filtered or encoded away."
        )
    if np.all(c > 0):
        return
    for label, mass in zip(classes, class_masses(y, c, len(classes)), strict=True):
        if not mass > 0:
            raise ValueError(
                f"class {label} has no row of positive weight; drop it from y or give it weight."
            )


# ---------------------------------------------------------------------------------------------
# Weights


def check_weights(
    sample_weight: Any, class_weight: Any, y: Any, classes: Any, X: Any = None
) -> Any:
    """Weights of rows: sample weight times class weight, checked."""
    if isinstance(X, DaskRows) and np.ndim(sample_weight):
        sample_weight = X.aligned(sample_weight, "sample_weight").compute()
    n = y.shape[0]
    c: Any = 1.0 if sample_weight is None else _real_weights(sample_weight)
    if np.ndim(c) == 0:
        c = np.full(n, c)
        if sample_weight is None and class_weight is None:
            return c
    elif c.shape != (n,):
        raise ValueError(
            f"sample_weight must have shape ({n},), one number per row; got {c.shape}."
        )
    if not np.all(np.isfinite(c)):
        raise ValueError("sample_weight contains NaN or infinity; give finite numbers.")
    if np.any(c < 0):
        raise ValueError(
            f"sample_weight contains negative values (the smallest is {c.min():g}); weights are "
            "numbers of repetitions, so they must be at least 0."
        )
    if np.any((c > 0) & (c < LEAST_WEIGHT)) or np.any(c > MOST_WEIGHT):
        raise ValueError(
            f"sample_weight must be 0 or between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}; got values "
            f"from {c[c > 0].min():g} to {c.max():g}. Divide all by a common factor."
        )
    if not np.any(c > 0):
        raise ValueError("all sample weights are zero, so no row is left to learn from.")
    if class_weight is None:
        return c
    return c * _class_factors(class_weight, class_masses(y, c, len(classes)), classes)[y]


def class_masses(y: Any, c: Any, k: int) -> Array:
    """Total weight of each class."""
    if k == 2 and y.size and np.all(c == c[0]):  # counted ten times as fast
        ones = np.count_nonzero(y)
        return float(c[0]) * np.array([y.size - ones, ones], dtype=float)
    return sum((np.bincount(y[at], c[at], k) for at in _pieces(y.shape[0])), np.zeros(k))


def _real_weights(sample_weight: Any) -> Array:
    """Weights of rows as floats: one for each, or one for all."""
    try:
        values = np.asarray(sample_weight)
        if values.dtype.kind == "O" and not any(isinstance(c, str | complex) for c in values.flat):
            values = np.asarray(sample_weight, dtype=float)
    except (TypeError, ValueError):  # what cannot be an array of numbers
        values = np.empty(0, dtype=object)
    if isinstance(sample_weight, np.ma.MaskedArray) and np.ma.is_masked(sample_weight):
        raise ValueError("sample_weight has masked values; give a number for every row.")
    if values.dtype.kind not in "biuf":
        hint = ""
        if isinstance(sample_weight, str | Mapping):
            hint = f" To weigh classes instead, set class_weight={sample_weight!r:.60}."
        got = f"{sample_weight!r:.60}" if values.ndim == 0 or not values.size else values.dtype
        raise ValueError(f"sample_weight must be real numbers, one for each row; got {got}.{hint}")
    return np.asarray(values, dtype=float)


def _class_factors(class_weight: Any, masses: Array, classes: Array) -> Array:
    """Weights of classes, whose rows have these total weights."""
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(
                f"class_weight={class_weight!r} is not known; use 'balanced', a dict or None."
            )
        with np.errstate(divide="ignore"):
            return np.where(masses > 0, masses.sum() / (len(classes) * masses), 0.0)
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be 'balanced', a dict or None; got {class_weight!r}.")
    unknown = [k for k in class_weight if k not in set(classes.tolist())]
    if unknown:
        plain = [k.item() if isinstance(k, np.generic) else k for k in unknown]
        raise ValueError(
            f"class_weight names {plain[:3]}, but the classes are {classes.tolist()[:10]}."
        )
    factors = np.array([float(class_weight.get(k, 1.0)) for k in classes])
    if np.any(factors < 0) or not np.all(np.isfinite(factors)):
        raise ValueError("class weights must be finite and at least 0.")
    return factors


def check_positive_weights(c: Any) -> None:
    if not np.all(c > 0):
        raise ValueError(
            "rows that are read in blocks need positive weights; leave rows of weight zero out."
        )


def whole(copies: Array) -> Any:
    """Whole numbers of copies of rows: a chain draws each copy's scores."""
    if np.any(copies != np.round(copies)):
        raise ValueError(
            "with inference='gibbs', sample_weight must be whole numbers: each copy of a row has "
            "separate scores. Use inference='vb', or round the weights."
        )
    return copies.astype(int)


# ---------------------------------------------------------------------------------------------
# Soft labels: a row with a probability of each class in place of a label


class SoftLabels(NamedTuple):
    """Classes, and their probabilities at rows, ``(n, classes)``."""

    classes: Array
    P: Array

    @staticmethod
    def read(y: Any) -> SoftLabels | None:
        """From a table of probabilities; ``None`` if y has one column, and so holds labels.

        The columns of a data frame are the classes; those of an array are 0, 1, ...
        """
        shape = getattr(y, "shape", None)
        if shape is None and isinstance(y, list | tuple) and len(y) and np.ndim(y[0]) == 1:
            shape = (len(y), len(y[0]))
        if shape is None or len(shape) != 2 or shape[1] < 2 or not hasattr(shape[0], "__index__"):
            return None
        names = list(y.columns) if hasattr(y, "columns") else range(shape[1])
        P = np.asarray(y)
        if P.dtype.kind not in "biuf" or not np.all(np.isfinite(P)) or np.any(P < 0):
            P = np.zeros(1)
        P = P.astype(float)
        if P.ndim != 2 or np.any(np.abs(P.sum(axis=1) - 1.0) > ROUNDING):
            raise ValueError(
                f"y of shape {tuple(shape)} must hold the probability of each class in its column, "
                "numbers of at least 0 that sum to one in each row; labels go into one column. Of "
                "several labels for each row, fit one model a column: "
                "sklearn.multioutput.MultiOutputClassifier around the estimator."
            )
        if len(set(names)) < len(names):
            raise ValueError(f"columns of y are classes and must differ; got {names[:10]}.")
        if never := [name for name, p in zip(names, P.sum(axis=0), strict=True) if not p > 0]:
            raise ValueError(
                f"class {never[0]} has a probability of zero in every row of y; leave it out."
            )
        order = np.argsort(np.array(names))
        return SoftLabels(np.array(names)[order], P[:, order] / P.sum(axis=1, keepdims=True))

    @property
    def likeliest(self) -> Array:
        """The most probable class of each row."""
        return self.classes[self.P.argmax(axis=1)]

    def training(self, X: Any, sample_weight: Any, class_weight: Any) -> Training:
        """Every row once for each class that it may have, weighted by the probability of that."""
        c = check_weights(sample_weight, None, self.P[:, 0], self.classes, X)
        rows, k = np.nonzero(self.P > 0)
        X, weight = arrays.pick(X, rows), c[rows] * self.P[rows, k]
        return Training.of(X, self.classes[k], weight, class_weight)._replace(chosen=rows)
