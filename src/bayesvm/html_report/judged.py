"""Rows that a model has not seen, predicted by it and by simple models."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.utils import get_tags

from ..core.types import Array
from ..inspection.display import Inside
from ..inspection.tables import pandas_for

MODEL, BOOSTING, LOGISTIC, BASE = "this model", "boosting", "logistic regression", "base rate"
FOLDS, FOLDS_SLOW = 5, 3  # the latter of slow models
FEWEST = 20  # rows, below which there are no folds
# Rows of the folds, so that a report of 5,000 rows and 50 columns takes less than 30 seconds:
MOST = 10_000
MOST_KEPT = 5_000  # of large models whose predictions of rows left out are known
MOST_SLOW = 1_500  # of models whose cost grows with the cube of the rows, and of sampled ones


@dataclass(frozen=True)
class Judged:
    """Predictions of rows left out.

    Parameters
    ----------
    rows : array of shape (n,)
        Positions of the rows in the table.
    codes, folds, weights : arrays of shape (n,)
        Classes by position, number of the fold that left each row out, weights.
    units : array of shape (n,)
        What was sampled independently: rows, or groups of them, by number.
    proba : dict of arrays of shape (n, n_classes)
        By name of the model: this one and simple ones.
    total : int
        Rows of the whole table.
    how : {"folds", "groups", "new"}
        Left out by folds of rows or of groups, or never part of the training rows.
    lower, upper : arrays of shape (n, n_classes), optional
        Intervals of these probabilities.
    novelty : array of shape (n,), optional
        How unlike the training rows.
    fitted : Judged, optional
        The same rows as predicted by the model itself, which has seen them.
    """

    rows: Array
    codes: Array
    folds: Array
    weights: Array
    units: Array
    proba: Mapping[str, Array]
    total: int
    how: str = "folds"
    lower: Array | None = None
    upper: Array | None = None
    novelty: Array | None = None
    fitted: Judged | None = None

    @property
    def P(self) -> Array:
        """Probabilities by this model."""
        return self.proba[MODEL]


@dataclass(frozen=True)
class Rows:
    """A labelled table: cells, positions of labels in ``classes``, and what else a fit takes."""

    X: Any
    codes: Array
    classes: Array
    groups: Any = None
    weights: Array | None = None

    def take(self, some: Array) -> Rows:
        groups = None if self.groups is None else take(self.groups, some)
        weights = None if self.weights is None else self.weights[some]
        return replace(
            self, X=take(self.X, some), codes=self.codes[some], groups=groups, weights=weights
        )

    @property
    def for_fit(self) -> dict[str, Any]:
        given = {"groups": self.groups, "sample_weight": self.weights}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def for_predictions(self) -> dict[str, Any]:
        return {} if self.groups is None else {"groups": self.groups}


def take(X: Any, rows: Array) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def is_slow(model: Any) -> bool:
    """Whether a fit has as many coefficients as rows, or is sampled."""
    machine = model.machines_[0]
    drawn = getattr(machine, "draws", None) is not None
    return drawn or hasattr(model, "kernel_") or hasattr(model, "n_vectors_")


def thinned(codes: Array, most: int) -> Array:
    """Positions of at most so many rows, drawn in proportion to the classes, in order."""
    if codes.size <= most:
        return np.arange(codes.size)
    order = np.random.default_rng(0).permutation(codes.size)
    order = order[np.argsort(codes[order], kind="stable")]
    return np.sort(order[np.linspace(0, codes.size - 1, most).astype(int)])


def by_folds(model: Any, data: Rows, level: float) -> Judged | None:
    """Rows left out one fold at a time; ``None`` if there are too few."""
    inside = Inside.of(model)
    some = thinned(data.codes, MOST_SLOW if is_slow(inside.model) else MOST)
    whole, part = data, data.take(some)
    counts = np.bincount(part.codes, minlength=len(data.classes))
    if part.codes.size < FEWEST or np.sort(counts)[-2] < 2:
        return None
    slow = is_slow(inside.model) and part.codes.size > MOST_SLOW // 2
    k = min(FOLDS_SLOW if slow else FOLDS, int(np.sort(counts)[-2]))
    units, how = np.arange(some.size), "folds"
    splitter: Any = StratifiedKFold(k, shuffle=True, random_state=0)
    if part.groups is not None:
        first = np.asarray(part.groups).reshape(some.size, -1)[:, 0]
        codes = np.unique(first.astype(str), return_inverse=True)[1]
        if codes.max() >= 2 * FOLDS:
            units, how = codes, "groups"
            splitter = StratifiedGroupKFold(k, shuffle=True, random_state=0)
    parts = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence and of rare classes: those of the model
        for number, (train, test) in enumerate(splitter.split(units, part.codes, units)):
            parts.append((number, test, one_fold(model, part, train, test, level)))
    order = np.concatenate([test for _, test, _ in parts])
    back = np.argsort(order)

    def joined(name: str) -> Any:
        each = [getattr(found, name) for *_, found in parts]
        return None if each[0] is None else np.concatenate(each)[back]

    names = list(parts[0][2].proba)
    proba = {
        name: np.concatenate([found.proba[name] for *_, found in parts])[back] for name in names
    }
    folds = np.concatenate([np.full(test.size, number) for number, test, _ in parts])[back]
    # rows of groups left out are all unlike the training rows
    novel = None if how == "groups" else joined("novelty")
    ends = joined("lower"), joined("upper"), novel
    weights = np.ones(some.size) if part.weights is None else part.weights
    given = (some, part.codes, folds, weights, units, proba, whole.codes.size, how)
    return Judged(*given, *ends, fitted=predicted(model, part, level))


def as_recorded(model: Any, data: Rows, held: Any, level: float) -> Judged | None:
    """Rows left out of fits of the past, beside boosting; ``None`` if they are not these rows.

    ``held`` are predictions as ``bayesvm fit`` keeps them, with positions of rows in ``data``.
    """
    if held is None or data.groups is not None or not held.rows.size or sparse.issparse(data.X):
        return None
    n, inside = data.codes.size, Inside.of(model)
    if held.rows.max() >= n or not np.array_equal(data.codes[held.rows], held.codes):
        return None
    most = MOST_KEPT if is_slow(inside.model) else MOST
    some = thinned(held.codes, most)
    part, folds = data.take(held.rows[some]), held.folds[some]
    proba = {MODEL if name == "model" else name: P[some] for name, P in held.proba.items()}
    boosted = np.zeros_like(proba[MODEL])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in np.unique(folds):
            train, test = np.flatnonzero(folds != k), np.flatnonzero(folds == k)
            inner, outer = part.take(train), part.take(test)
            seen, new = inner.X, outer.X
            for step in map(clone, inside.before):
                seen = step.fit(seen, data.classes[inner.codes]).transform(seen)
                new = step.transform(new)
            seen, new = (as_frame(X, inside.model) for X in (seen, new))
            boosted[test] = rivals(seen, new, inner, len(data.classes))[BOOSTING]
    base = proba.pop(BASE)
    proba |= {BOOSTING: boosted, BASE: base}
    given = (held.rows[some], part.codes, folds, held.weights[some], np.arange(some.size), proba, n)
    return Judged(*given, fitted=predicted(model, part, level))


def on_new_rows(model: Any, data: Rows, level: float) -> Judged:
    """Rows that were never part of the training rows."""
    slow = is_slow(Inside.of(model).model)
    some = thinned(data.codes, MOST_SLOW if slow else MOST)
    part, inside = data.take(some), Inside.of(model)
    shares = inside.model.fit_.masses / inside.model.fit_.masses.sum()
    base = {BASE: np.tile(shares, (some.size, 1))}
    found = predicted(model, part, level)
    weights = np.ones(some.size) if part.weights is None else part.weights
    return replace(
        found, rows=some, weights=weights, units=np.arange(some.size), total=data.codes.size,
        proba={**found.proba, **base}, how="new",
    )  # fmt: skip


def one_fold(model: Any, data: Rows, train: Array, test: Array, level: float) -> Judged:
    """Predictions of the rows ``test`` by models fitted to the rows ``train``."""
    inner, outer = data.take(train), data.take(test)
    if get_tags(Inside.of(model).model).input_tags.pairwise:
        inner = replace(inner, X=data.X[np.ix_(train, train)])
        outer = replace(outer, X=data.X[np.ix_(test, train)])
    fitted = fit_again(model, inner)
    found = predicted(fitted, outer, level)
    proba = dict(found.proba)
    if not get_tags(Inside.of(model).model).input_tags.pairwise:
        inside = Inside.of(fitted)
        seen, new = (as_frame(inside.rows(rows.X), inside.model) for rows in (inner, outer))
        proba |= rivals(seen, new, inner, len(data.classes))
    mass = np.bincount(inner.codes, inner.weights, minlength=len(data.classes)) + 0.5
    proba[BASE] = np.tile(mass / mass.sum(), (test.size, 1))
    return replace(found, proba=proba)


def fit_again(model: Any, data: Rows) -> Any:
    """The same model, fitted to other rows."""
    new, given = clone(model), data.for_fit
    inner = new[-1] if isinstance(new, Pipeline) else new
    quiet = {"verbose": 0, "checkpoint": None, "callbacks": None}
    inner.set_params(**{k: v for k, v in quiet.items() if k in inner.get_params(deep=False)})
    if isinstance(new, Pipeline):
        given = {f"{new.steps[-1][0]}__{name}": value for name, value in given.items()}
    return new.fit(data.X, data.classes[data.codes], **given)


def predicted(model: Any, data: Rows, level: float) -> Judged:
    """What a model predicts of rows, with intervals and novelty where it has them."""
    inside, given = Inside.of(model), data.for_predictions
    rows, n = inside.rows(data.X), data.codes.size
    at = np.searchsorted(data.classes, inside.model.classes_)

    def spread_out(P: Array) -> Array:
        out = np.zeros((n, len(data.classes)))
        out[:, at] = P
        return out

    proba = {MODEL: spread_out(inside.model.predict_proba(rows, **given))}
    lower = upper = novel = None
    if has_spread(inside.model):
        ends = inside.model.predict_interval(rows, level=level, **given)
        lower, upper = (spread_out(end) for end in ends)
        if inside.model.fit_.left_out is not None and inside.model._knows_novelty:
            novel = inside.model.novelty(rows, **given)
    none = np.zeros(n, dtype=int)
    return Judged(
        none, data.codes, none, none, none, proba, n, lower=lower, upper=upper, novelty=novel
    )


def has_spread(model: Any) -> bool:
    """Whether a fit has a posterior distribution and is no point estimate."""
    posterior = getattr(model.machines_[0], "posterior", None)
    return posterior is None or bool(posterior.has_spread)


def as_frame(X: Any, model: Any) -> Any:
    """A table of a fitted model's columns, for other models; without the label of a formula."""
    if sparse.issparse(X):
        return X
    frame = pandas_for("report").DataFrame(X)
    held = getattr(model, "_formula", None)
    frame = frame.drop(columns=[held.response], errors="ignore") if held is not None else frame
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def rivals(train: Any, test: Any, data: Rows, n_classes: int) -> dict[str, Array]:
    """Probabilities by logistic regression and boosting, with scikit-learn's defaults."""
    numbers = make_column_selector(dtype_include=["number", "bool"])
    others = make_column_selector(dtype_exclude=["number", "bool"])
    levels: Any = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5)
    codes: Any = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1,
        min_frequency=5,
    )  # fmt: skip
    ready: tuple[Any, Any] = (MaxAbsScaler(), None)
    if not sparse.issparse(train):
        filled = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
        ready = (
            make_column_transformer((filled, numbers), (levels, others), sparse_threshold=0),
            make_column_transformer((codes, others), remainder="passthrough"),
        )
    elif train.shape[1] <= 500:
        train, test = train.toarray(), test.toarray()
    models = {LOGISTIC: make_pipeline(ready[0], LogisticRegression(max_iter=1000))}
    if not sparse.issparse(train):
        boosting = HistGradientBoostingClassifier(random_state=0)
        models[BOOSTING] = make_pipeline(ready[1] or "passthrough", boosting)
    out = {}
    for name, model in models.items():
        weight = {f"{model.steps[-1][0]}__sample_weight": data.weights}
        model.fit(train, data.codes, **weight)
        out[name] = np.zeros((test.shape[0], n_classes))
        out[name][:, model.classes_] = model.predict_proba(test)
    return out
