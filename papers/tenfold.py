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

from bayesvm.compare.tasks import Task
from bayesvm.core.types import Array

METHODS = ("BayesianSVC", "SVC", "GPC")
MEASURED = ("error", "brier", "log_loss", "seconds")
MOST_ROWS = {"GPC": 1000}  # its time grows with the cube of the rows, without inducing points
FOLDS, QUICK_FOLDS, QUICK_ROWS = 10, 2, 800

Loader = Callable[[str], tuple[Array, Array]]


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


def tasks_of(sizes: dict[str, int], quick: bool, seed: int) -> list[Task]:
    """Set by method by fold; ``quick`` takes the smaller sets and their first folds."""
    folds = range(QUICK_FOLDS if quick else FOLDS)
    return [
        {"set": name, "method": method, "fold": fold, "seed": seed}
        for name, n in sizes.items()
        for method in METHODS
        for fold in folds
        if n <= MOST_ROWS.get(method, n) and not (quick and n > QUICK_ROWS)
    ]


def solve(task: Task, load: Loader) -> dict[str, float]:
    """Fit on nine tenths, score on the rest."""
    X, y = load(task["set"])
    train, test = fold_of(X, y, task)

    def train_it() -> Any:
        return fit(task["method"], X[train], y[train], task["seed"])

    return scored(train_it, X[test], y[test])[0]


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
    from rich.table import Table

    out = Table(title=title)
    measures = [m for m in dict.fromkeys(table.columns.get_level_values(0)) if m not in keys]
    for k in keys:
        out.add_column(k)
    for m in measures:
        out.add_column(m, justify="right")
    for _, row in table.iterrows():
        cells = [str(row[(k, "")]) for k in keys]
        cells += [f"{row[(m, 'mean')]:.4f} ± {row[(m, 'sem')]:.4f}" for m in measures]
        out.add_row(*cells)
    console.print(out)


def summary(frame: Any, metric: str, sets: Sequence[str]) -> tuple[Any, Any]:
    """Mean over folds and its standard error, by set and method."""
    by = frame.groupby(["set", "method"])[metric]
    mean, se = by.mean().unstack(), (by.std(ddof=1) / np.sqrt(by.count())).unstack()
    rows = [s for s in sets if s in mean.index]
    columns = [m for m in METHODS if m in mean.columns]
    return mean.loc[rows, columns], se.loc[rows, columns]


def report(
    frame: Any,
    console: Any,
    printed: dict[str, dict[str, dict[str, float]]],
    theirs: str,
    error_se: dict[str, float] | None = None,
) -> None:
    """A table per measure, ours and in brackets the paper's; then on how many sets ours is worse.

    ``printed`` has the paper's numbers by measure, set and method of ours that stands beside;
    ``theirs`` is what the paper calls its own, ``error_se`` the standard errors of its errors, if
    it gives them.
    """
    from rich.table import Table

    sets = list(printed["error"])
    for metric in MEASURED:
        mean, se = summary(frame, metric, sets)
        known = printed.get(metric, {})
        table = Table(title=f"{metric}: mean over folds ± standard error (the paper's)")
        for column in ("set", *mean.columns):
            table.add_column(column, justify="left" if column == "set" else "right")
        for name in mean.index:
            cells = [
                _cell(mean.at[name, m], se.at[name, m], known.get(name, {}).get(m))
                for m in mean.columns
            ]
            table.add_row(name, *cells)
        console.print(table)
    mean, se = summary(frame, "error", sets)
    ours, worse = "BayesianSVC", []
    for name in mean.index:
        slack = np.hypot(se.at[name, ours], (error_se or {}).get(name, 0.0))
        if mean.at[name, ours] > printed["error"][name][ours] + slack:
            worse.append(name)
    console.print(
        f"The error of {ours} is more than one standard error above that of the paper's {theirs} "
        f"on {len(worse)} of {len(mean)} sets" + (f": {', '.join(worse)}" if worse else "")
    )


def _cell(mean: float, se: float, theirs: float | None) -> str:
    if np.isnan(mean):
        return "–"
    return f"{mean:.4f} ± {se:.4f}" + ("" if theirs is None else f" ({theirs:.4g})")


def draw(frame: Any, sets: Sequence[str]) -> Any:
    """Error and Brier score by set, one mark a method."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", sharey=True)
    for ax, metric in zip(axes, ("error", "brier")):
        mean, se = summary(frame, metric, sets)
        for k, method in enumerate(mean.columns):
            at = np.arange(len(mean)) + 0.15 * (k - 1)
            bar = np.nan_to_num(se[method].to_numpy())
            ax.errorbar(mean[method], at, xerr=bar, fmt="o", ms=4, label=method)
        ax.set(yticks=np.arange(len(mean)), yticklabels=mean.index, xlabel=metric)
        ax.grid(alpha=0.3)
    axes[0].invert_yaxis()
    axes[0].legend(fontsize="small")
    return figure
