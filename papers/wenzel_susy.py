"""Wenzel et al. (2017), section 5.2: five million collisions of SUSY.

All rows are fetched where there is a network and a folder to keep them in (``BAYESVM_DATA``); the
last 500,000 are then the test set.  Otherwise the sample of 10,000 rows in the folder is used, by
five folds.  S-BSVM is the paper's: its kernel, 64 points, minibatches of 100.  For its time on as
many rows as the paper has, it is also fitted to five million that are drawn from the rows of the
first fold with noise of a tenth of a standard deviation, and scored on the real rows of that fold.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.error import URLError

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesvm.datasets import fetch_susy, load_susy

from .running import Task, table_of
from .wenzel_methods import stochastic

METHODS = ("S-BSVM", "BayesianSVC", "BayesianSVC, 64 points", "LogisticRegression", "boosting")
DRAWN = ("S-BSVM, one pass", "S-BSVM, two passes", "BayesianSVC, 64 points")
PASSES = {"S-BSVM, one pass": 1, "S-BSVM, two passes": 2}  # else eight
MEASURED = ("auc", "brier", "log_loss", "seconds")
FOLDS, TEST = 5, 500_000
ROWS, NOISE = 5_000_000, 0.1  # drawn from the sample
NAMES = {"all": "all", "sample": "10,000", "drawn": "5,000,000, drawn"}
PAPER = {"auc": 0.84, "brier": 0.22, "seconds": 600.0}  # 64 inducing points, all rows


def tasks(quick: bool, seed: int) -> list[Task]:
    """All rows if they can be had; ``quick`` takes two folds of the sample."""
    data, folds = "all", 1
    try:
        if quick:
            raise OSError("the sample was chosen")
        fetch_susy()
    except (OSError, URLError, ValueError) as error:
        if not quick:
            print(f"All rows of SUSY cannot be had ({error}); the sample of 10,000 is used.")
        data, folds = "sample", 2 if quick else FOLDS
    drawn = [] if quick or data == "all" else [("drawn", m, 1) for m in DRAWN]
    return [
        {"data": kind, "method": method, "fold": fold, "seed": seed}
        for kind, method, many in drawn + [(data, m, folds) for m in METHODS]
        for fold in range(many)
    ]


def split(task: Task) -> tuple[Any, Any, Any, Any]:
    """Training and test rows."""
    if task["data"] == "all":
        held = fetch_susy()
        X, y = held.data, np.asarray(held.target)
        return X[:-TEST], y[:-TEST], X[-TEST:], y[-TEST:]
    held = load_susy()
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=task["seed"])
    train, test = list(folds.split(held.data, held.target))[task["fold"]]
    if task["data"] == "drawn":
        rng, X = np.random.default_rng(task["seed"]), held.data[train]
        chosen = rng.integers(0, len(train), ROWS)
        train, X = train[chosen], X[chosen].astype(np.float32)
        X += NOISE * held.data.std(axis=0) * rng.standard_normal(X.shape, dtype=np.float32)
        return X, held.target[train], held.data[test], held.target[test]
    return held.data[train], held.target[train], held.data[test], held.target[test]


def fit(method: str, X: Any, y: Any, seed: int) -> Any:
    if method == "LogisticRegression":
        return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    if method == "boosting":
        return HistGradientBoostingClassifier(random_state=seed).fit(X, y)
    if method.startswith("S-BSVM"):
        machine = stochastic(64, "optimise", seed, PASSES.get(method, 8), batch=100)
        return make_pipeline(StandardScaler(), machine).fit(X, y)
    from bayesvm import BayesianSVC

    points: Any = 64 if method.endswith("points") else "auto"
    papers = {"kernel": "rbf", "likelihood": "hinge"}
    return BayesianSVC(n_inducing=points, random_state=seed, **papers).fit(X, y)


def solve(task: Task) -> dict[str, float]:
    X, y, X_test, y_test = split(task)
    start = time.process_time()
    model = fit(task["method"], X, y, task["seed"])
    seconds = time.process_time() - start
    p, hit = model.predict_proba(X_test)[:, 1], y_test > 0
    return {
        "auc": float(roc_auc_score(hit, p)),
        "brier": float(brier_score_loss(hit, p)),
        "log_loss": float(log_loss(hit, p, labels=[False, True])),
        "seconds": seconds,
    }


def report(frame: Any, console: Any) -> None:
    table = table_of("SUSY: means over folds", ("rows", "method", *MEASURED), left=2)
    for (kind, method), row in (
        frame.groupby(["data", "method"], sort=False)[list(MEASURED)].mean().iterrows()
    ):
        table.add_row(NAMES[kind], method, *(f"{row[k]:.4f}" for k in MEASURED))
    printed = (f"{PAPER[k]:g}" if k in PAPER else "" for k in MEASURED)
    table.add_row("all", "the paper, 64 points", *printed)
    console.print(table)
