"""Novelty: percentiles of held-out rows, and rows of another data set pushed through.

    python benchmarks/novelty.py --jobs 16 --folds 2 3 --out novelty.csv

``uniform``: the novelty of the test rows of a fold, which should be uniform over [0, 1], by the
statistic of Kolmogorov and Smirnov and its p-value for two samples, on sets of numbers only with
few equal rows.
``pair``: a model of one set is given rows of another as they stand, columns matched by position;
the area under the curve that tells these rows from held-out ones by their novelty, and how sure
the model is of them: the mean of the largest probability, and the same at a row far away.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kstest, kstwobign
from sklearn.metrics import roc_auc_score

import pool
import tabular
from bayesvm import BayesianLinearSVC, BayesianSVC
from tabular_tables import decimals, table

MODELS: dict[str, Any] = {"kernel": BayesianSVC, "linear": BayesianLinearSVC}
FIELDS = [
    *("part", "set", "other", "fold", "model", "n", "ks", "p_value"),
    *("auc", "sure_here", "sure_there", "sure_far", "largest_class", "cpu_s"),
]
SETS = 20  # of numbers, the smallest of more than
LEAST_ROWS = 150
MOST_EQUAL = 0.05  # rows that occur more than once
PAIRS = [
    ("wdbc", "ionosphere"),
    ("vertebra-column-2c", "bupa"),
    ("statlog-vehicle-silhouettes", "parkinsons"),
]
FAR = 1e3  # standard deviations


def numbers(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns of numbers and classes of a set."""
    X, y = tabular.load(name)
    return X.select_dtypes("number").astype(float), y


def chosen() -> list[str]:
    """Sets of numbers only, with few equal rows, by their size."""
    index = pd.read_csv(tabular.home() / "index.csv").sort_values("rows", kind="stable")
    index = index[(index["text_columns"] == 0) & (index["rows"] >= LEAST_ROWS)]
    out: list[str] = []
    for name in index["set"]:
        X, _ = numbers(name)
        if X.duplicated(keep=False).mean() <= MOST_EQUAL:
            out.append(name)
        if len(out) == SETS:
            break
    return out


def work(part: str, name: str, other: str, fold: int, model: str) -> pool.Row:
    """Novelty of held-out rows, and of those of another set."""
    X, y = numbers(name)
    Z = numbers(other)[0] if other else X
    p = min(X.shape[1], Z.shape[1])
    X, Z = X.iloc[:, :p], Z.iloc[:, :p].set_axis(X.columns[:p], axis=1)
    train, test = tabular.division(y, fold)
    begun = time.process_time()
    fitted = MODELS[model](random_state=0).fit(X.iloc[train], y[train])
    here = fitted.novelty(X.iloc[test])
    ks = kstest(here, "uniform").statistic
    effective = len(train) * len(test) / len(y)  # percentiles are of a sample too
    p_value = kstwobign.sf(ks * np.sqrt(effective))
    far = X.iloc[train].mean() + FAR * X.iloc[train].std() * np.resize([1.0, -1.0], p)
    counts = np.unique(y[train], return_counts=True)[1]
    row: pool.Row = {
        **{"part": part, "set": name, "other": other, "fold": fold, "model": model},
        **{"n": len(train), "ks": f"{ks:.6f}", "p_value": f"{p_value:.6g}"},
        "auc": "",
        "sure_here": f"{fitted.predict_proba(X.iloc[test]).max(axis=1).mean():.6f}",
        "sure_there": "",
        "sure_far": f"{fitted.predict_proba(far.to_frame().T).max():.6f}",
        "largest_class": f"{counts.max() / counts.sum():.6f}",
    }
    if other:
        there = fitted.novelty(Z)
        which = np.repeat([0, 1], [len(here), len(there)])
        row["auc"] = f"{roc_auc_score(which, np.concatenate([here, there])):.6f}"
        row["sure_there"] = f"{fitted.predict_proba(Z).max(axis=1).mean():.6f}"
    return row | {"cpu_s": f"{time.process_time() - begun:.3f}"}


def uniform_table(rows: pd.DataFrame) -> str:
    """How uniform the percentiles of held-out rows are, by model."""
    head = ["model", "sets", "folds of them", "p < 0.05", "p < 0.001", "mean KS", "sure far away"]
    lines = []
    for model, part in rows[rows["part"] == "uniform"].groupby("model"):
        p = part["p_value"]
        counts = part["set"].nunique(), len(part), sum(p < 0.05), sum(p < 0.001)
        means = part["ks"].mean(), part["sure_far"].mean()
        lines.append([model, *map(str, counts), *(decimals(x, 3) for x in means)])
    share = rows[rows["part"] == "uniform"]["largest_class"].mean()
    return (
        table(head, lines)
        + f"\n\nThe largest class has a share of {decimals(share, 3)} on average."
    )


def pair_table(rows: pd.DataFrame) -> str:
    """Rows of another set, by model and pair."""
    columns = ("auc", "sure_here", "sure_there", "sure_far", "largest_class")
    lines = []
    pairs = rows[rows["part"] == "pair"].groupby(["model", "set", "other"])
    for names, part in pairs:
        lines.append([*names, *(decimals(part[c].mean(), 3) for c in columns)])
    head = ["model", "fitted to", "rows of", "AUC", "sure of held-out rows", "of the others"]
    return table([*head, "far away", "largest class"], lines)


def main() -> None:
    parser = pool.arguments(__doc__ or "", "novelty.csv")
    parser.add_argument("--folds", type=int, nargs="+", default=[2, 3])
    given = parser.parse_args()
    jobs = [("uniform", s, "", f, m) for s in chosen() for f in given.folds for m in MODELS]
    jobs += [("pair", a, b, f, m) for a, b in PAIRS for f in given.folds for m in MODELS]
    pool.run(work, jobs, given.out, FIELDS, given.jobs, given.seconds)
    rows = pd.read_csv(given.out)
    print(uniform_table(rows), pair_table(rows), sep="\n\n")


if __name__ == "__main__":
    main()
