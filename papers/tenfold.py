"""Kernel machines by ten-fold cross-validation: what the tables of Wenzel and of Henao share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesvm.core.types import Array

from .running import Task, table_of

MEASURED = ("error", "brier", "log_loss", "seconds")
FOLDS, QUICK_FOLDS, QUICK_ROWS = 10, 2, 800


def grid_and_platt(X: Array, y: Array) -> tuple[Any, dict[str, float]]:
    """A support vector machine by grid search, with Platt's method: the model, the point chosen.

    32 points by five folds, then a sigmoid on five-fold decision values of the best.
    """
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    grid = {
        "svc__C": [0.1, 1.0, 10.0, 100.0],
        "svc__gamma": [2.0**k / X.shape[1] for k in (3, 2, 1, 0, -1, -3, -5, -7)],
    }
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=folds).fit(X, y)
    best = CalibratedClassifierCV(search.best_estimator_, cv=folds, ensemble=False)
    return best.fit(X, y), search.best_params_


def fit(method: str, X: Array, y: Array, seed: int) -> Any:
    """One of the methods, everything it tunes tuned."""
    if method == "SVC":
        return grid_and_platt(X, y)[0]
    if method == "GPC":
        kernel = ConstantKernel(4.0) * RBF(np.sqrt(X.shape[1]))
        return make_pipeline(StandardScaler(), GaussianProcessClassifier(kernel)).fit(X, y)
    from bayesvm import BayesianSVC

    return BayesianSVC("rbf", likelihood="hinge", random_state=seed).fit(X, y)


def fold_of(X: Array, y: Array, task: Task) -> tuple[Array, Array]:
    """Rows to learn from and rows to score."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=task["seed"])
    return list(folds.split(X, y))[task["fold"]]  # type: ignore[no-any-return]


def scored(train: Callable[[], Any], X: Array, y: Array) -> tuple[dict[str, float], Any]:
    """Train, score on rows that were not seen; CPU seconds of the training, and the model."""
    start = time.process_time()
    model = train()
    seconds = time.process_time() - start
    p = model.predict_proba(X)[:, 1]
    hit = y == model.classes_[1]
    return {
        "error": float(np.mean((p > 0.5) != hit)),
        "brier": float(brier_score_loss(hit, p)),
        "log_loss": float(log_loss(hit, p, labels=[False, True])),
        "seconds": seconds,
    }, model


def rows_of(frame: Any, keys: list[str], measures: Sequence[str]) -> Any:
    """Mean of each measure and its standard error, by some columns."""
    by = frame.groupby(keys, sort=False)[list(measures)]
    return by.agg(["mean", "sem"]).reset_index()


def print_rows(console: Any, title: str, table: Any, keys: list[str]) -> None:
    """What :func:`rows_of` gives, as a table."""
    measures = [m for m in dict.fromkeys(table.columns.get_level_values(0)) if m not in keys]
    out = table_of(title, (*keys, *measures), len(keys))
    for _, row in table.iterrows():
        cells = [str(row[(k, "")]) for k in keys]
        cells += [f"{row[(m, 'mean')]:.4f} ± {row[(m, 'sem')]:.4f}" for m in measures]
        out.add_row(*cells)
    console.print(out)
