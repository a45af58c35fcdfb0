"""Models of the tabular benchmark: what is fitted to the rows of a training fold.

All models get the same frame.  Peers get columns of text as indicators, except gradient boosting,
which has a way of its own with categories; ours take the frame as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from bayesvm import BayesianLinearSVC, BayesianSVC

SEARCH_ROWS = 3_000  # most rows on which the grid of the SVC is searched: its time is cubic
MANY = 5_000  # beyond so many rows or
MANY_CLASSES = 20  # so many classes the peers' inner folds are 3 instead of 5
FEW_CS = 7  # values of C there, instead of 10


def text_columns(X: pd.DataFrame) -> list[str]:
    """Columns that do not hold numbers."""
    return [c for c in X.columns if not pd.api.types.is_numeric_dtype(X[c])]


def indicators(X: pd.DataFrame) -> Any:
    """A transformer that makes indicators of text columns and leaves the others alone."""
    hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer((hot, text_columns(X)), remainder="passthrough")


def folds(y: np.ndarray) -> StratifiedKFold:
    """Inner folds of a peer: five, or three where rows or classes are many; never more than rows.

    At least two: a class with one row is in one of them only.
    """
    least = int(np.unique(y, return_counts=True)[1].min())
    many = len(y) > MANY or np.unique(y).size > MANY_CLASSES
    return StratifiedKFold(max(2, min(3 if many else 5, least)), shuffle=True, random_state=0)


# ---------------------------------------------------------------------------------------------
# Ours


def ours(kind: Any, options: dict[str, Any]) -> Callable[[pd.DataFrame, np.ndarray], tuple]:
    """A fit of one of our classes with these options and everything else at its default."""

    def fit(X: pd.DataFrame, y: np.ndarray) -> tuple[Any, str]:
        model = kind(random_state=0, **options)
        if text_columns(X) and "categorical" not in model.get_params():
            model = make_pipeline(indicators(X), model)
        model.fit(X, y)
        last = model[-1] if hasattr(model, "steps") else model
        return model, describe(last)

    return fit


def describe(model: Any) -> str:
    """Kernel and number of inducing points of a kernel machine; nothing of a linear one."""
    told = ""
    with suppress(Exception):  # a note: no fit fails for the want of it
        kernel = model.kernel_
        told = re.sub(r"\d+\.\d+", lambda m: f"{float(m[0]):.3g}", " ".join(f"{kernel!r}".split()))
        told = f"{told[:200]} points {len(model.inducing_points_)}"
    return told


# ---------------------------------------------------------------------------------------------
# Peers


def logistic_cv(X: pd.DataFrame, y: np.ndarray) -> tuple[Any, str]:
    """Multinomial logistic regression, penalty by cross-validated log loss."""
    inner = folds(y)
    model = make_pipeline(
        indicators(X),
        StandardScaler(),
        LogisticRegressionCV(
            Cs=10 if inner.n_splits == 5 else FEW_CS,
            cv=inner,
            scoring="neg_log_loss",
            max_iter=300,
        ),
    ).fit(X, y)
    return model, f"C {np.ravel(model[-1].C_)[0]:.4g}"


def svc_grid(X: pd.DataFrame, y: np.ndarray) -> tuple[Any, str]:
    """A Gaussian support vector machine by grid search, then a sigmoid on left-out decisions."""
    columns = make_pipeline(indicators(X), StandardScaler())
    p = columns.fit(X).transform(X).shape[1]
    grid = {
        "svc__C": [0.1, 1.0, 10.0, 100.0],
        "svc__gamma": [2.0**k / p for k in (3, 1, -1, -3, -5)],
    }
    some = np.arange(len(y))
    if len(y) > SEARCH_ROWS:
        split = StratifiedShuffleSplit(1, train_size=SEARCH_ROWS, random_state=0)
        some = np.sort(next(split.split(some, y))[0])
    search = GridSearchCV(make_pipeline(columns, SVC()), grid, cv=folds(y[some]))
    best = search.fit(X.iloc[some], y[some]).best_estimator_
    model = CalibratedClassifierCV(best, method="sigmoid", cv=folds(y), ensemble=False).fit(X, y)
    chosen = search.best_params_
    return model, f"C {chosen['svc__C']:g} gamma {chosen['svc__gamma']:.4g} p {p}"


def boosting(X: pd.DataFrame, y: np.ndarray) -> tuple[Any, str]:
    """Gradient boosting at its defaults; text as categories."""
    return _Categories(HistGradientBoostingClassifier(random_state=0), X, y), ""


class _Categories:
    """Text columns as pandas categories whose levels are those of the training rows."""

    def __init__(self, model: Any, X: pd.DataFrame, y: np.ndarray) -> None:
        self.types = {c: pd.CategoricalDtype(sorted(X[c].unique())) for c in text_columns(X)}
        model.set_params(categorical_features="from_dtype")
        self.model = model.fit(self.typed(X), y)
        self.classes_ = self.model.classes_

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        return self.model.predict_proba(self.typed(X))

    def typed(self, X: pd.DataFrame) -> pd.DataFrame:
        """Text that was not among the training rows is a missing value."""
        known = {c: X[c].where(X[c].isin(t.categories)) for c, t in self.types.items()}
        return X.assign(**known).astype(self.types)


def forest(X: pd.DataFrame, y: np.ndarray) -> tuple[Any, str]:
    """A random forest at its defaults."""
    return make_pipeline(indicators(X), RandomForestClassifier(random_state=0)).fit(X, y), ""


LIKELIHOODS = ("hinge", "logistic")
MODELS: dict[str, Callable[[pd.DataFrame, np.ndarray], tuple[Any, str]]] = {
    "kernel": ours(BayesianSVC, {}),
    "linear": ours(BayesianLinearSVC, {}),
    **{f"kernel_{k}": ours(BayesianSVC, {"likelihood": k}) for k in LIKELIHOODS},
    **{f"linear_{k}": ours(BayesianLinearSVC, {"likelihood": k}) for k in LIKELIHOODS},
    "logistic_cv": logistic_cv,
    "svc_grid": svc_grid,
    "boosting": boosting,
    "forest": forest,
}
PEERS = ("logistic_cv", "svc_grid", "boosting", "forest")
WORDS = {
    "kernel": "`BayesianSVC()`",
    "kernel_hinge": '`BayesianSVC(likelihood="hinge")`',
    "kernel_logistic": '`BayesianSVC(likelihood="logistic")`',
    "linear": "`BayesianLinearSVC()`",
    "linear_hinge": '`BayesianLinearSVC(likelihood="hinge")`',
    "linear_logistic": '`BayesianLinearSVC(likelihood="logistic")`',
    "logistic_cv": "`LogisticRegressionCV`",
    "svc_grid": "`SVC`, grid search, sigmoid",
    "boosting": "`HistGradientBoostingClassifier`",
    "forest": "`RandomForestClassifier`",
}


def cost(model: str, n: int, p: int, classes: int) -> float:
    """Guessed seconds of a fit to ``n`` rows, to begin with the longest."""
    k = 1 if classes == 2 else classes
    m = min(n, 5_000) / 1_000
    if model.startswith("kernel"):
        return 0.5 + 2.0 * m**2.5 * (1 + k / 3) + 1e-4 * n
    if model.startswith("linear"):
        return 0.05 + 1e-7 * n * p * p * k
    return {
        "logistic_cv": 1e-6 * n * (p + 20) * k * 30,
        "svc_grid": 10 * min(m, 2.0) ** 2 + 0.2 * m**2 * k**0.5 + 1e-3 * p * m,
        "boosting": 1.0 * k + 1e-5 * n * k,
        "forest": 0.5 + 1e-4 * n * p**0.5,
    }[model]
