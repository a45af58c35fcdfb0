"""More than two classes: what they cost in units of a fit of two, and scores beside an SVC.

    python benchmarks/classes.py --sets connectionist-vowel led7digit --folds 0 1 --out classes.csv
    python benchmarks/classes.py --simulated 10000 26 --out classes.csv

One row a set, fold and model: classes, seconds, CPU seconds of the fit and of predictions, its
ratio to a fit of two classes to as many of the same rows (the largest half of the classes against
the others), PR AUC, log loss, error.  The SVC has a grid over C and gamma by five folds, and
probabilities by a sigmoid.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesvm import BayesianSVC
from tabular import division, load, pr_auc, row_losses

FIELDS = (
    *("set", "fold", "model", "n", "p", "classes", "seconds", "cpu_s", "cpu_predict", "ratio"),
    *("pr_auc", "log_loss", "error"),
)


def simulated(n: int, classes: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Three clusters a class in sixteen columns; a quarter of the rows are for tests."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, 3, 16)) * 1.1
    n = n * 4 // 3
    codes = rng.integers(0, classes, n)
    X = centres[codes, rng.integers(0, 3, n)] + 0.9 * rng.normal(size=(n, 16))
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(16)]), codes


def halves(y: np.ndarray) -> np.ndarray:
    """The classes with the most rows, as many as have half of them, against the others."""
    labels, counts = np.unique(y, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    first = np.searchsorted(np.cumsum(counts[order]), 0.5 * y.size) + 1
    return np.isin(y, labels[order[: min(first, labels.size - 1)]]).astype(int)


def svc() -> Any:
    """A support vector classifier with a grid, then a sigmoid."""
    model = make_pipeline(StandardScaler(), SVC())
    grid = {"svc__C": [1, 10, 100, 1000], "svc__gamma": ["scale", 0.3, 0.1, 0.03, 0.01, 0.003]}
    return CalibratedClassifierCV(GridSearchCV(model, grid, cv=3), ensemble=False)


def timed(model: Any, X: Any, y: np.ndarray) -> tuple[Any, float, float]:
    """The fitted model, seconds and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return model, time.perf_counter() - wall, time.process_time() - cpu


def rows_of(name: str, X: pd.DataFrame, y: np.ndarray, fold: int, models: list[str]) -> Any:
    """One row for each model."""
    train, test = division(y, fold)
    A, B = X.iloc[train], X.iloc[test]
    if "svc" in models:
        wide = pd.get_dummies(X).astype(float)
        C, D = wide.iloc[train], wide.iloc[test]
    binary = timed(BayesianSVC(random_state=0), A, halves(y[train]))[2] if "kernel" in models else 0
    for kind in models:
        inputs = (A, B) if kind == "kernel" else (C, D)
        model = BayesianSVC(random_state=0) if kind == "kernel" else svc()
        model, seconds, cpu = timed(model, inputs[0], y[train])
        start = time.process_time()
        P = model.predict_proba(inputs[1])
        spent = time.process_time() - start
        codes = np.searchsorted(model.classes_, y[test])
        loss, wrong = row_losses(codes, P)
        ratio = cpu / binary if kind == "kernel" else np.nan
        shape = (*A.shape, len(model.classes_))
        scores = pr_auc(codes, P), float(np.mean(loss)), float(np.mean(wrong))
        yield name, fold, kind, *shape, seconds, cpu, spent, ratio, *scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=[])
    parser.add_argument("--folds", nargs="*", type=int, default=[0])
    parser.add_argument("--models", nargs="*", default=["kernel", "svc"])
    parser.add_argument("--simulated", nargs=2, type=int, help="rows and classes")
    parser.add_argument("--out", type=Path, default=Path("classes.csv"))
    given = parser.parse_args()
    work = [(name, fold, load(name)) for name in given.sets for fold in given.folds]
    if given.simulated:
        n, classes = given.simulated
        work.append((f"simulated-{n}-{classes}", 0, simulated(n, classes)))
    with given.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        for name, fold, (X, y) in work:
            for row in rows_of(name, X, y, fold, given.models):
                writer.writerow([f"{x:.4g}" if isinstance(x, float) else x for x in row])
                file.flush()
                print(*row[:6], *(f"{x:.4g}" for x in row[6:]), flush=True)


if __name__ == "__main__":
    main()
