"""Validation of labels, regression targets and weights; training data."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import assert_all_finite, check_array, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..core import arrays
from ..core.arrays import computed, kind_of
from ..core.types import Array
from .levels import absent, joined_labels
from .sources import Source

LEAST_WEIGHT, MOST_WEIGHT = 1e-15, 1e15  # of a row, so that sums of squares are accurate
LARGEST = 1e150  # regression target, whose square does not overflow


class Training(NamedTuple):
    """Training rows of positive weight, with class codes and weights.

    A regression has its targets in place of codes, and no classes.
    """

    X: Any
    classes: Array
    codes: Any  # (n,), positions of the labels in ``classes``
    c: Any  # (n,), sample weight times class weight
    unit: Any = 1.0  # (n,), weight of the row's class; 1.0 without class weights
    chosen: Array | None = None  # row numbers in the input; None for all rows in order
    n_given: int = 0  # number of rows of the input

    @property
    def copies(self) -> Any:
        """Sample weights."""
        return self.c / self.unit

    @property
    def rows(self) -> Array:
        """Numbers of the rows in the input."""
        return np.arange(self.codes.shape[0]) if self.chosen is None else self.chosen

    @property
    def masses(self) -> Array:
        """Total weight of each class."""
        return np.bincount(self.codes, self.c, len(self.classes))

    @classmethod
    def of(cls, X: Any, y: Array, sample_weight: Any, class_weight: Any) -> Training:
        """Encode labels, validate weights, and leave out rows of weight zero."""
        check_consistent_length(X, y)
        classes = np.unique(y)
        # in the smallest type of integers
        codes = np.searchsorted(classes, y).astype(np.min_scalar_type(-len(classes)))
        c, unit = check_weights(sample_weight, X), 1.0
        masses = np.bincount(codes, c, len(classes))
        if len(classes) < 2:
            raise ValueError(
                f"a classifier needs at least two classes in y; got one class, {classes[0]}. Check "
                "that y was not filtered or encoded away."
            )
        if class_weight is not None:
            factors = class_factors(class_weight, masses, classes)
            unit, masses = factors[codes], masses * factors
        if not np.all(masses > 0):
            raise ValueError(
                f"class {classes[masses.argmin()]} has no row of positive weight; drop it from y "
                "or give it weight."
            )
        data = cls(X, classes, codes, c * unit, unit, n_given=len(codes))
        return data if np.all(data.c > 0) else data.take(np.flatnonzero(data.c > 0))

    def take(self, at: Array) -> Training:
        """Selected rows, in memory."""
        if kind_of(self.X) == "source":
            raise ValueError(
                "rows that are read in blocks need positive weights; leave rows of weight zero out."
            )
        unit = self.unit if isinstance(self.unit, float) else self.unit[at]
        rows = self._replace(X=self.X[at], codes=self.codes[at], c=self.c[at], unit=unit)
        return rows._replace(chosen=self.rows[at])

    def repeated(self) -> Training:
        """The data with incomplete rows repeated by weight: chains draw the cells of each copy."""
        is_missing = np.isnan(self.X).any(axis=1)
        times = np.ones(is_missing.size, dtype=int)
        times[is_missing] = whole(
            self.copies[is_missing],
            "with missing='model' and inference='gibbs', sample_weight must be whole numbers "
            "where a row has missing cells: each copy of such a row has cells of its own.",
        )
        at = np.repeat(np.arange(is_missing.size), times)
        some = self.take(at)
        return some._replace(c=some.c / times[at])


# ---------------------------------------------------------------------------------------------
# Labels


def labels_of(X: Any, y: Any) -> Array:
    """The labels y, by default the labels of the source."""
    if y is None and isinstance(X, Source) and X.labelled:
        y = joined_labels([np.asarray(chunk.y) for chunk in X.chunks()])
    if y is None:
        raise ValueError(
            "fit and score requires y to be passed, but the target y is None; give a label for "
            "each row. A source may have them: target= of from_parquet, pairs of rows and labels "
            "for from_iterable."
        )
    y = computed(y)  # labels of all rows are stored in memory
    return plain_labels(arrays.to_numpy(y) if arrays.is_foreign(y) else y)


def plain_labels(y: Any, name: str = "y") -> Array:
    """Labels as an array, of one type and none missing; objects become numbers if possible."""
    hidden = int(np.ma.count_masked(y)) if isinstance(y, np.ma.MaskedArray) else 0
    is_list = not hasattr(y, "__array__")  # NumPy would convert all labels to text if one is text
    y = column_or_1d(np.asarray(y, dtype=object if is_list else None), warn=True)
    if missing := hidden or (y.dtype.kind in "fmMO" and int(absent(y).sum())):
        raise ValueError(
            f"Input {name} contains NaN: {missing} of {len(y)} labels are missing. Leave such rows "
            "out, or give them a separate class."
        )
    plain, allowed = y, "iubfUSTmM"
    if y.dtype.kind == "O":
        text = np.array([isinstance(label, str | bytes) for label in y], dtype=bool)
        if text.any() and not text.all():
            raise ValueError(
                f"the labels in {name} must be of one kind; some are text, such as "
                f"{y[text][0]!r}, and some are not, such as {y[~text][0]!r}. Make them all text, "
                f"or all numbers."
            )
        if text.all() and not is_list:
            allowed += "O"
        else:
            with suppress(ValueError):  # lists of unequal lengths
                plain = np.asarray(y.tolist())
    if plain.dtype.kind not in allowed or plain.shape != y.shape:
        kind = type(y[0]).__name__ if y.dtype.kind == "O" else y.dtype
        raise ValueError(
            f"Unknown label type: the labels in {name} must be numbers, text or truth values; got "
            f"{kind}. Make them text: [str(label) for label in {name}]."
        )
    if plain.dtype.kind not in "iub":  # integers are finite, and checking them is slow
        assert_all_finite(plain, input_name=name)
        check_classification_targets(plain)
    return plain


# ---------------------------------------------------------------------------------------------
# Weights


def check_weights(sample_weight: Any, rows: Any) -> Array:
    """Validated sample weights as floats, one for each row."""
    sample_weight, n = computed(sample_weight), rows.shape[0]
    if sample_weight is None:
        return np.ones(n)
    if isinstance(sample_weight, np.ma.MaskedArray) and np.ma.is_masked(sample_weight):
        raise ValueError("sample_weight has masked values; give a number for every row.")
    c = np.asarray(sample_weight)
    if c.dtype.kind == "O":
        with suppress(TypeError, ValueError):
            c = c.astype(float)
    if c.dtype.kind not in "biuf":
        hint = ""
        if isinstance(sample_weight, str | Mapping):
            hint = f" To weigh classes instead, set class_weight={sample_weight!r:.60}."
        got = c.dtype if c.ndim else f"{sample_weight!r:.60}"
        raise ValueError(f"sample_weight must be real numbers, one for each row; got {got}.{hint}")
    c = np.full(n, c, dtype=float) if c.ndim == 0 else np.asarray(c, dtype=float)
    if c.shape != (n,):
        raise ValueError(
            f"sample_weight must have shape ({n},), one number per row; got {c.shape}."
        )
    if not np.all((c == 0) | ((c >= LEAST_WEIGHT) & (c <= MOST_WEIGHT))):
        raise ValueError(
            f"sample_weight must be 0 or between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}, not "
            f"negative or NaN; got values from {np.min(c):g} to {np.max(c):g}. Leave out rows "
            "without a weight, or divide all by a common factor."
        )
    if not np.any(c > 0):
        raise ValueError("all sample weights are zero, so no row is left to learn from.")
    return c


def class_factors(class_weight: Any, masses: Array, classes: Array) -> Array:
    """Class weights, from the total sample weight ``masses`` of each class."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        with np.errstate(divide="ignore"):
            return np.where(masses > 0, masses.sum() / (len(classes) * masses), 0.0)
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be 'balanced', a dict or None; got {class_weight!r}.")
    known = classes.tolist()
    if unknown := [getattr(k, "item", lambda k=k: k)() for k in class_weight if k not in known]:
        raise ValueError(f"class_weight names {unknown[:3]}, but the classes are {known[:10]}.")
    factors = np.array([float(class_weight.get(k, 1.0)) for k in known])
    if np.any(factors < 0) or not np.all(np.isfinite(factors)):
        raise ValueError("class weights must be finite and at least 0.")
    return factors


def whole(copies: Array, why: str = "") -> Array:
    """Integer numbers of copies of rows: a chain draws the scores of each copy."""
    number = np.round(copies)
    if np.any(np.abs(copies - number) > 1e-12 * copies):  # quotients of weights are rounded
        why = why or (
            "with inference='gibbs', sample_weight must be whole numbers: each copy of a row has "
            "separate scores."
        )
        raise ValueError(f"{why} Use inference='vb', or round the weights.")
    return number.astype(int)


# ---------------------------------------------------------------------------------------------
# Soft labels: a probability of each class for every row


class SoftLabels(NamedTuple):
    """Classes, and their probabilities for each row, ``(n, classes)``."""

    classes: Array
    P: Array

    @staticmethod
    def read(y: Any) -> SoftLabels | None:
        """From a table of probabilities; ``None`` if y has one column (of labels).

        The classes are the column names of a data frame, or 0, 1, ... for an array.
        """
        shape = getattr(y, "shape", None)
        if shape is None and isinstance(y, list | tuple) and len(y) and np.ndim(y[0]) == 1:
            shape = (len(y), len(y[0]))
        if shape is None or len(shape) != 2 or shape[1] < 2 or not hasattr(shape[0], "__index__"):
            return None
        names, P = np.array(list(getattr(y, "columns", range(shape[1])))), np.asarray(y)
        real = P.dtype.kind in "biuf" and P.shape == tuple(shape) and np.all(P >= 0)
        if not real or not np.allclose(P.sum(axis=1), 1.0, rtol=0.0, atol=1e-6):
            raise ValueError(
                f"y of shape {tuple(shape)} must hold the probability of each class in its column, "
                "numbers of at least 0 that sum to one in each row; labels go into one column. Of "
                "several labels for each row, fit one model a column: "
                "sklearn.multioutput.MultiOutputClassifier around the estimator."
            )
        if len(set(names)) < len(names):
            raise ValueError(f"columns of y are classes and must differ; got {list(names[:10])}.")
        if not np.all(present := P.any(axis=0)):
            raise ValueError(
                f"class {names[~present][0]} has a probability of zero in every row of y; leave it "
                "out."
            )
        order, P = np.argsort(names), P.astype(float)
        return SoftLabels(names[order], P[:, order] / P.sum(axis=1, keepdims=True))

    def training(self, X: Any, sample_weight: Any, class_weight: Any) -> Training:
        """Every row repeated for each class of positive probability, with that weight."""
        check_consistent_length(X, self.P)
        c = check_weights(sample_weight, X)
        rows, k = np.nonzero(self.P > 0)
        weight = c[rows] * self.P[rows, k]
        data = Training.of(X[rows], self.classes[k], weight, class_weight)
        return data._replace(chosen=rows[data.rows], n_given=len(self.P))


# ---------------------------------------------------------------------------------------------
# Regression targets


def read_numbers(y: Any, X: Any) -> Array:
    """Finite regression targets, one for each row of X."""
    if kind_of(X) != "memory":
        raise ValueError(
            "regression takes rows in memory: NumPy, SciPy sparse, pandas or polars; got "
            f"{type(X).__name__}. Rows read in blocks, on a device or of Dask are for classifiers."
        )
    if y is None:
        raise ValueError(
            "fitting requires y to be passed, but the target y is None; give a number for each row."
        )
    if isinstance(y, np.ma.MaskedArray) and np.ma.is_masked(y):
        raise ValueError("Input y contains NaN: some of its values are masked. Leave rows out.")
    y = column_or_1d(np.asarray(y), warn=True)
    try:
        y = y if y.dtype.kind in "biufc" else np.where(absent(y), np.nan, y).astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Unknown label type: y must be numbers ({error}). Classes are for BayesianLinearSVC "
            "and BayesianSVC."
        ) from error
    y = check_array(y, ensure_2d=False, dtype=float, input_name="y")
    check_consistent_length(X, y)
    if np.any(np.abs(y) > LARGEST):
        raise ValueError(
            "Input y contains infinity or a value too large: y must be finite, at most "
            f"{LARGEST:g} in size. Use another unit, or leave such rows out."
        )
    return y
