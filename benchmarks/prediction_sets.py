"""Prediction sets on the tabular sets: their coverage and size, beside split conformal of MAPIE.

    python benchmarks/prediction_sets.py --jobs 16 --folds 2 3 --out prediction_sets.csv

``ours``: ``predict_set`` of one fit to all training rows of a fold.  ``lac`` and ``aps``: the same
model fitted to two thirds of these rows, and sets of MAPIE's ``SplitConformalClassifier`` from the
others.  Coverage is the share of test rows whose set holds their label, size the mean number of
labels in a set, empty the share of sets without any.  Rows in the file are not computed again.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split

import pool
import tabular
from bayesvm import BayesianLinearSVC, BayesianSVC
from tabular_tables import decimals, table

MODELS: dict[str, Any] = {"kernel": BayesianSVC, "linear": BayesianLinearSVC}
METHODS = ("ours", "nonempty", "by_class", "lac", "aps")
PARTS = ("coverage", "size", "empty", "worst")
FIELDS = [
    *("set", "fold", "model", "n", "classes", "accuracy"),
    *(f"{method}_{part}" for method in METHODS for part in PARTS),
    "cpu_s",
]
COVERAGE = 0.9
CALIBRATION = 1 / 3  # of the training rows, for MAPIE
FEW = 10  # test rows of a class, from which on its own coverage is looked at


def scores(inside: np.ndarray, codes: np.ndarray) -> dict[str, float]:
    """Coverage, mean size, share of empty sets, and the least coverage of a class of some rows."""
    hit = inside[np.arange(codes.size), codes]
    counts = np.bincount(codes)
    each = np.bincount(codes, hit)[counts >= FEW] / counts[counts >= FEW]
    size = inside.sum(axis=1)
    return {
        "coverage": float(hit.mean()),
        "size": float(size.mean()),
        "empty": float(np.mean(size == 0)),
        "worst": float(each.min()) if each.size else np.nan,
    }


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose rows are the probabilities of a fitted one."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Given:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(X)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes_[np.argmax(X, axis=1)]


def split_conformal(kind: Any, X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> dict[str, Any]:
    """MAPIE's sets by the label's probability, and of more than two classes by cumulated ones."""
    from mapie.classification import SplitConformalClassifier

    few = np.unique(y, return_counts=True)[1].min() < 2
    rows = np.arange(len(y))
    fit, held = train_test_split(
        rows, test_size=CALIBRATION, random_state=0, stratify=None if few else y
    )
    classes = np.unique(y)
    model = kind(random_state=0).fit(X.iloc[fit], y[fit])
    known = np.isin(y[held], model.classes_)
    places = np.searchsorted(classes, model.classes_)
    P, P_new = (model.predict_proba(rows) for rows in (X.iloc[held[known]], new))
    out = {}
    for score in ("lac", "aps") if classes.size > 2 else ("lac",):
        given = Given().fit(P, model.classes_)
        conformal = SplitConformalClassifier(
            given, confidence_level=COVERAGE, conformity_score=score, prefit=True, random_state=0
        )
        conformal.conformalize(P, y[held[known]])
        inside = np.zeros((len(new), classes.size), dtype=bool)
        inside[:, places] = conformal.predict_set(P_new)[1][:, :, 0]
        out[score] = inside
    return out


def work(name: str, fold: int, model: str) -> pool.Row:
    """Sets of the test rows of a fold."""
    X, y = tabular.load(name)
    train, test = tabular.division(y, fold)
    begun = time.process_time()
    fitted = MODELS[model](random_state=0).fit(X.iloc[train], y[train])
    new, codes = X.iloc[test], np.searchsorted(fitted.classes_, y[test])
    found = {
        "ours": fitted.predict_set(new, COVERAGE),
        "nonempty": fitted.predict_set(new, COVERAGE, allow_empty=False),
        "by_class": fitted.predict_set(new, COVERAGE, by_class=True),
        **split_conformal(MODELS[model], X.iloc[train], y[train], new),
    }
    row: pool.Row = {"set": name, "fold": fold, "model": model, "n": len(train)}
    row["classes"] = fitted.classes_.size
    row["accuracy"] = f"{np.mean(fitted.predict(new) == y[test]):.6f}"
    for method in METHODS:
        told = scores(found[method], codes) if method in found else {}
        row |= {f"{method}_{part}": f"{told[part]:.6f}" if told else "" for part in PARTS}
    return row | {"cpu_s": f"{time.process_time() - begun:.3f}"}


WORDS = {
    "ours": "`predict_set(X)`",
    "nonempty": "`predict_set(X, allow_empty=False)`",
    "by_class": "`predict_set(X, by_class=True)`",
    "lac": "MAPIE, LAC",
    "aps": "MAPIE, APS",
}


def score_table(rows: pd.DataFrame) -> str:
    """Means over sets and folds, by model and method."""
    head = ["model", "sets by", "data sets", "folds of them", "coverage", "size", "empty"]
    head.append("least coverage of a class")
    lines = []
    for model, part in rows.groupby("model"):
        counts = [str(part["set"].nunique()), str(len(part))]
        for method in METHODS:
            means = (decimals(part[f"{method}_{x}"].mean(), 3) for x in PARTS)
            lines.append([model, WORDS[method], *counts, *means])
    return table(head, lines)


def main() -> None:
    parser = pool.arguments(__doc__ or "", "prediction_sets.csv")
    parser.add_argument("--folds", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--models", nargs="+", choices=[*MODELS], default=[*MODELS])
    given = parser.parse_args()
    sizes = tabular._sizes()

    def cheap_first(name: str, fold: int, model: str) -> float:
        n, p, classes = sizes[name]
        return -float(n**2 * classes if model == "kernel" else n * p**2 * classes / 100)

    jobs = [(s, f, m) for m in given.models for f in given.folds for s in tabular.sets()]
    pool.run(work, jobs, given.out, FIELDS, given.jobs, given.seconds, cheap_first)
    print(score_table(pd.read_csv(given.out)))


if __name__ == "__main__":
    main()
