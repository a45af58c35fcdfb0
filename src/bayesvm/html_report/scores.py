"""Out-of-sample predictions of the model and of baselines, and their scores."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy import sparse
from scipy.stats import beta
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, precision_recall_curve, roc_curve
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.utils import get_tags, resample
from threadpoolctl import threadpool_limits

from ..core.types import Array
from ..data.storage import THIS_MODEL, HeldOut
from ..inspection.display import Inside
from ..inspection.tables import tails

BOOSTING, LOGISTIC, BASE = "boosting", "logistic regression", "base rate"
METRICS = ("log_loss", "brier", "error", "auc")


@dataclass(frozen=True)
class Rows:
    """A labelled table: cells, positions of labels in ``classes``, and other inputs of a fit."""

    X: Any
    codes: Array
    classes: Array
    groups: Any = None
    weights: Array | None = None

    def take(self, some: Array) -> Rows:
        """Rows by their positions."""
        X, groups = (x.iloc[some] if hasattr(x, "iloc") else x if x is None else x[some]
                     for x in (self.X, self.groups))  # fmt: skip
        weights = None if self.weights is None else self.weights[some]
        return replace(self, X=X, codes=self.codes[some], groups=groups, weights=weights)

    @property
    def y(self) -> Array:
        """Labels."""
        return np.asarray(self.classes[self.codes])

    @property
    def options(self) -> dict[str, Any]:
        """Groups, as an option of predictions."""
        return {} if self.groups is None else {"groups": self.groups}

    @property
    def fit_options(self) -> dict[str, Any]:
        """Groups and weights, as options of a fit."""
        return self.options | ({} if self.weights is None else {"sample_weight": self.weights})

    @property
    def mass(self) -> Array:
        """Weights of the rows, 1 by default."""
        return np.ones(self.codes.size) if self.weights is None else self.weights


class Predictions(NamedTuple):
    """Probabilities of rows by a fitted model, with intervals and novelty if available."""

    P: Array
    lower: Array | None = None
    upper: Array | None = None
    novelty: Array | None = None


def thinned(codes: Array, most: int) -> Array:
    """Positions of at most ``most`` rows, sampled in proportion to the classes, in order."""
    every = np.arange(codes.size)
    if codes.size <= most:
        return every
    return np.sort(resample(every, replace=False, n_samples=most, stratify=codes, random_state=0))


def is_pairwise(model: Any) -> bool:
    """Whether a model takes kernel values instead of rows."""
    return bool(get_tags(Inside.of(model).model).input_tags.pairwise)


# ---------------------------------------------------------------------------------------------
# Predictions


def predict(model: Any, X: Any, options: dict[str, Any], level: float) -> Predictions:
    """Predictions of an estimator at its rows, with intervals and novelty if available."""
    P = model.predict_proba(X, **options)
    posterior = getattr(model.machines_[0], "posterior", None)
    if posterior is not None and not posterior.has_spread:
        return Predictions(P)
    lower, upper = model.predict_interval(X, level, **options)
    known = model.fit_.left_out is not None and model._knows_novelty
    return Predictions(P, lower, upper, model.novelty(X, **options) if known else None)


def cross_validated(
    model: Any,
    data: Rows,
    by_group: bool = True,
    n_folds: int = 5,
    jobs: int = 1,
    callbacks: Any = None,
    ready: Callable[[], bool] = lambda: True,
) -> HeldOut | None:
    """Cross-validated predictions of each row; ``None`` if there are too few rows.

    Folds leave out whole groups if ``by_group`` and there are at least ten groups.  A fold starts
    only if ``ready``, so that the predictions may cover fewer rows.
    """
    n, second = data.codes.size, int(np.sort(np.bincount(data.codes, minlength=2))[-2])
    if second < 2:
        return None
    units, how = np.arange(n), "folds"
    splitter: Any = StratifiedKFold(min(n_folds, second), shuffle=True, random_state=0)
    if data.groups is not None and by_group:
        first = np.asarray(data.groups).reshape(n, -1)[:, 0].astype(str)
        codes = np.unique(first, return_inverse=True)[1]
        if codes.max() >= 2 * n_folds:
            units, how = codes, "groups"
            splitter = StratifiedGroupKFold(min(n_folds, second), shuffle=True, random_state=0)
    model = clone(model)
    inner = model[-1] if isinstance(model, Pipeline) else model
    own = {"verbose": 0, "checkpoint": None, "callbacks": callbacks}
    own |= {"n_jobs": 1} if jobs > 1 else {}
    inner.set_params(**{name: own[name] for name in own.keys() & inner.get_params(deep=False)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rare classes in folds
        pairs = splitter.split(units, data.codes, units)
        tasks = (delayed(one_fold)(model, data, *pair) for pair in pairs if ready())
        done = list(Parallel(n_jobs=jobs, pre_dispatch=jobs)(tasks))
    if not done:
        return None
    rows = np.concatenate([test for test, _ in done])
    order = np.argsort(rows)
    folds = np.repeat(np.arange(len(done)), [test.size for test, _ in done])[order]
    proba = {name: np.concatenate([P[name] for _, P in done])[order] for name in done[0][1]}
    at = rows[order]
    return HeldOut(at, data.codes[at], folds, data.mass[at], units[at], proba, n, how)


def one_fold(model: Any, data: Rows, train: Array, test: Array) -> tuple[Array, dict[str, Array]]:
    """Positions and probabilities of the rows ``test`` by models fitted to the rows ``train``."""
    inner, outer = data.take(train), data.take(test)
    if is_pairwise(model):
        inner, outer = (replace(part, X=part.X[:, train]) for part in (inner, outer))
    new = clone(model)
    options = inner.fit_options
    if isinstance(new, Pipeline):
        options = {f"{new.steps[-1][0]}__{name}": value for name, value in options.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit to all rows has already warned
        new.fit(inner.X, inner.y, **options)
        inside = Inside.of(new)
        X, X_test = inside.rows(inner.X), inside.rows(outer.X)
        proba = {THIS_MODEL: np.zeros((test.size, len(data.classes)))}  # a fold may lack a class
        at = np.searchsorted(data.classes, new.classes_)
        proba[THIS_MODEL][:, at] = inside.model.predict_proba(X_test, **outer.options)
        if not is_pairwise(model):
            seen, unseen = as_frame(X, inside), as_frame(X_test, inside)
            with threadpool_limits(1):  # boosting is slower with several threads
                proba |= rivals(seen, unseen, inner)
    shares = np.bincount(inner.codes, inner.mass, minlength=len(data.classes)) + 0.5
    return test, proba | {BASE: np.tile(shares / shares.sum(), (test.size, 1))}


def recorded(held: HeldOut | None, data: Rows | None) -> HeldOut | None:
    """Predictions stored by ``bayesvm fit``; ``None`` if they belong to other rows."""
    if held is None or not held.rows.size:
        return None
    n = held.rows.size if data is None else data.codes.size
    if data is not None and (
        data.groups is not None
        or held.rows.max() >= n
        or not np.array_equal(data.codes[held.rows], held.codes)
    ):
        return None
    return replace(held, units=np.arange(held.rows.size), total=n)


def held_out(
    model: Any, data: Rows, new: bool, kept: Any, level: float,
    most: int = 5000, most_slow: int = 1500,
) -> HeldOut | None:  # fmt: skip
    """Predictions of new rows, stored predictions, or predictions by cross-validation.

    Of large tables at most ``most`` rows are used, or ``most_slow`` if the model is refitted and
    has a kernel or a sampler.
    """
    inside = Inside.of(model)
    inner = inside.model
    if new:
        some = thinned(data.codes, most)
        part = data.take(some)
        fitted = predict(inner, inside.rows(part.X), part.options, level)
        rows = np.arange(some.size)
        shares = np.tile(inner.fit_.masses / inner.fit_.masses.sum(), (some.size, 1))
        proba = {THIS_MODEL: fitted.P, BASE: shares}
        return HeldOut(some, part.codes, np.zeros_like(rows), part.mass, rows, proba,
                       data.codes.size, "new", fitted)  # fmt: skip
    if (found := recorded(kept, data)) is not None:
        found = found.take(thinned(found.codes, most))
    else:
        drawn = getattr(inner.machines_[0], "draws", None) is not None
        slow = drawn or hasattr(inner, "kernel_") or hasattr(inner, "n_vectors_")
        some = thinned(data.codes, most_slow if slow else most)
        if (found := cross_validated(model, data.take(some))) is None:
            return None
        found = replace(found, rows=some[found.rows], total=data.codes.size)
    part = data.take(found.rows)
    return replace(found, fitted=predict(inner, inside.rows(part.X), part.options, level))


def as_frame(X: Any, inside: Inside) -> Any:
    """Rows as the estimator receives them, as a frame, without the label of a formula."""
    if sparse.issparse(X):
        return X
    frame, names = pd.DataFrame(X), inside.names(made=False)
    formula = getattr(inside.model, "_formula", None)
    frame = frame if formula is None else frame.drop(columns=[formula.response], errors="ignore")
    known = not hasattr(X, "columns") and len(names) == frame.shape[1]
    return frame.set_axis(names if known else [str(name) for name in frame.columns], axis=1)


def rivals(train: Any, test: Any, data: Rows) -> dict[str, Array]:
    """Probabilities by logistic regression and gradient boosting, default settings."""
    models: dict[str, Any] = {}
    if sparse.issparse(train):
        models[LOGISTIC] = make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=1000))
    else:
        numbers = make_column_selector(dtype_include=["number", "bool"])
        others = make_column_selector(dtype_exclude=["number", "bool"])
        levels: Any = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5)
        codes: Any = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1,
                                    encoded_missing_value=-1, min_frequency=5)  # fmt: skip
        filled = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
        columns = make_column_transformer((filled, numbers), (levels, others), sparse_threshold=0)
        models[LOGISTIC] = make_pipeline(columns, LogisticRegression(max_iter=1000))
        coded = make_column_transformer((codes, others), remainder="passthrough")
        models[BOOSTING] = make_pipeline(coded, HistGradientBoostingClassifier(random_state=0))
    out = {}
    for name, model in models.items():
        weights = {f"{model.steps[-1][0]}__sample_weight": data.weights}
        model.fit(train, data.codes, **weights)
        out[name] = np.zeros((test.shape[0], len(data.classes)))
        out[name][:, model.classes_] = model.predict_proba(test)
    return out


# ---------------------------------------------------------------------------------------------
# Scores


def scores(held: HeldOut, level: float = 0.9, repeats: int = 400) -> Any:
    """Log loss, Brier score, error and AUC of each model, as a data frame.

    Intervals are percentiles of the bootstrap over rows (or groups, if folds leave out groups); all
    models use the same resamples, so that differences are paired.
    """
    n = int(held.units.max()) + 1
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1.0 / n), size=repeats)
    counts = np.vstack([np.ones(held.units.size), drawn[:, held.units]]) * held.weights
    values = {name: metrics(held.codes, P, counts) for name, P in held.proba.items()}
    names = ["value", "lower", "upper", "difference", "difference_lower", "difference_upper"]
    frames = []
    for found in values.values():
        parts = (np.vstack([x[:1], np.quantile(x[1:], tails(level), axis=0)])
                 for x in (found, found - values[THIS_MODEL]))  # fmt: skip
        frames.append(pd.DataFrame(np.vstack(list(parts)).T, METRICS, names))
    return pd.concat(frames, keys=values, names=["model", "metric"])


def by_fold(held: HeldOut) -> Any:
    """The same scores in each fold, a row for each model and fold."""
    folds = np.unique(held.folds)
    counts = (held.folds == folds[:, None]) * held.weights
    parts = {name: pd.DataFrame(metrics(held.codes, P, counts), folds, METRICS)
             for name, P in held.proba.items()}  # fmt: skip
    return pd.concat(parts, names=["model", "fold"]).reset_index()


def metrics(codes: Array, P: Array, counts: Array) -> Array:
    """Log loss, Brier score, error and AUC for each row of weights, ``(lines, metrics)``."""
    n, K = P.shape
    hit = codes[:, None] == np.arange(K)
    loss = -np.log(np.maximum(P[np.arange(n), codes], 1e-15))
    brier = np.sum((P - hit) ** 2, axis=1) / (2 if K == 2 else 1)
    each = np.stack([loss, brier, P.argmax(axis=1) != codes], axis=1)
    plain = counts @ each / counts.sum(axis=1, keepdims=True)
    some = [1] if K == 2 else [k for k in range(K) if 0 < hit[:, k].sum() < n]
    areas = np.mean([auc(hit[:, k], P[:, k], counts) for k in some], axis=0) if some else np.nan
    return np.column_stack([plain, np.broadcast_to(areas, len(plain))])


def auc(hit: Array, p: Array, counts: Array) -> Array:
    """Area under the ROC curve for each row of weights; ties count half."""
    order = np.argsort(p, kind="stable")
    first = np.flatnonzero(np.diff(p[order], prepend=-1.0))  # of each run of equal values
    yes = np.add.reduceat(np.where(hit[order], counts[:, order], 0.0), first, axis=1)
    no = np.add.reduceat(np.where(hit[order], 0.0, counts[:, order]), first, axis=1)
    below = np.cumsum(no, axis=1) - 0.5 * no
    pairs = yes.sum(axis=1) * no.sum(axis=1)
    out: Array = np.sum(yes * below, axis=1) / np.where(pairs > 0, pairs, np.nan)
    return out


def reliability(held: HeldOut, level: float = 0.9, bins: int = 10, least: int = 20) -> Any:
    """Observed frequency against predicted probability in bins of equal size.

    For two classes the probability of the second; for more the probability of the predicted label.
    A bin has at least ``least`` rows; intervals of frequencies are Jeffreys'.
    """
    n, K = held.P.shape
    label = np.full(n, 1) if K == 2 else held.P.argmax(axis=1)
    p, hit = held.P[np.arange(n), label], held.codes == label
    rows = []
    for some in np.array_split(np.argsort(p, kind="stable"), max(1, min(bins, n // least))):
        w = held.weights[some] / held.weights[some].sum()
        yes = some.size * float(w @ hit[some])
        ends = beta.ppf(tails(level), yes + 0.5, some.size - yes + 0.5)
        rows.append([some.size, float(w @ p[some]), yes / some.size, *ends])
    names = ["rows", "predicted", "observed", "lower", "upper"]
    return pd.DataFrame(rows, columns=names)


def curves(held: HeldOut, classes: Array) -> tuple[Any, Any]:
    """ROC and precision-recall curves of each class (of two, the second), as data frames."""
    roc, pr = [pd.DataFrame()], [pd.DataFrame()]
    for k in [1] if len(classes) == 2 else range(len(classes)):
        hit, p = held.codes == k, held.P[:, k]
        if not 0 < hit.sum() < hit.size:
            continue
        x, y, t = roc_curve(hit, p, sample_weight=held.weights)
        roc.append(pd.DataFrame({"class": classes[k], "threshold": t, "fpr": x, "tpr": y}))
        y, x, t = precision_recall_curve(hit, p, sample_weight=held.weights)
        table = {"class": classes[k], "threshold": [*t, np.inf], "recall": x, "precision": y}
        pr.append(pd.DataFrame(table))
    return pd.concat(roc, ignore_index=True), pd.concat(pr, ignore_index=True)


def thresholds(held: HeldOut) -> Any:
    """Rows of two classes by their label and by whether P reaches a threshold, as a data frame."""
    grid = np.arange(1, 100) / 100
    above, hit = held.P[:, 1] >= grid[:, None] - 1e-12, held.codes == 1
    table = {
        "tp": (above & hit).sum(axis=1),
        "fp": (above & ~hit).sum(axis=1),
        "fn": (~above & hit).sum(axis=1),
        "tn": (~above & ~hit).sum(axis=1),
    }
    return pd.DataFrame(table, index=pd.Index(grid, name="threshold"))


def confusion(held: HeldOut, classes: Array) -> Any:
    """Rows by true class (lines) and most probable class (columns), as a data frame."""
    counts = confusion_matrix(held.codes, held.P.argmax(axis=1), labels=np.arange(len(classes)))
    index, columns = pd.Index(classes, name="true"), pd.Index(classes, name="given")
    return pd.DataFrame(counts, index=index, columns=columns)
