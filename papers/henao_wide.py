r"""FactorSVC on few rows of many columns, of which few may carry the label.

Not in the paper, which says that "the data likelihood is dominating over the labels likelihood":
what that costs, and what helps.  The three gene sets by five folds; 75 rows of the two larger ones
to learn from, the other rows to score; and simulated tables of 79 rows and 4000 columns with 20
factors of 30 % of the columns each, half of the variance, and a label that moves 15 columns by 1.2
standard deviations and no factor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesvm.core.types import Array
from bayesvm.datasets import load_gene_expression

from .factor_models import MEASURED as TIMED
from .factor_models import judged
from .running import Task, table_of

SETS = ("metabric", "gravier", "subramanian", "metabric, 75 rows", "gravier, 75 rows", "simulated")
FOLDS, REPETITIONS = 5, 5
ROWS, COLUMNS, CARRIERS, NEW = 79, 4000, 15, 1000
LABELS = 1000.0  # how often labels count, where they count more
LINEAR = {"classifier": "linear", "coef_prior": "lasso"}
# FactorSVC with these options
FACTORS: dict[str, dict[str, Any]] = {
    "kernel, auto": {},
    "kernel, all columns": {"columns": "all"},
    "linear, auto": LINEAR,
    "linear, all columns": LINEAR | {"columns": "all"},
    "linear, two steps": LINEAR | {"columns": "all", "joint": False},
    "linear, 40 factors": LINEAR | {"columns": "all", "n_factors": 40},
    "linear, labels x 1000": LINEAR | {"columns": "all", "class_weight": {-1: LABELS, 1: LABELS}},
}
METHODS = (*FACTORS, "logistic, l1", "PLS-DA")
QUICK = ("linear, auto", "linear, all columns", "logistic, l1", "PLS-DA")
FEW = ("linear, 40 factors", "linear, labels x 1000")  # run on simulated tables only
MEASURED = (*TIMED, "columns", "span")
KEYS = ["set", "method"]


def few_of_many(n: int, rng: np.random.Generator, A: Array) -> tuple[Array, Array]:
    """Rows of the simulated table with loadings A, ``(factors, columns)``."""
    S = rng.standard_normal((n, len(A))) @ A
    X = np.sqrt(0.5) * (S + rng.standard_normal(S.shape))
    y = rng.choice([-1, 1], n)
    X[:, :CARRIERS] += 0.6 * y[:, None]
    return X, y


def rows(name: str, number: int, seed: int) -> tuple[Array, Array, Array, Array]:
    """Rows and labels to learn from, and to score."""
    if name == "simulated":
        rng = np.random.default_rng([seed, number])
        A = rng.standard_normal((20, COLUMNS)) * (rng.random((20, COLUMNS)) < 0.3)
        A /= np.sqrt(np.square(A).sum(axis=0).mean())
        return *few_of_many(ROWS, rng, A), *few_of_many(NEW, rng, A)
    bunch = load_gene_expression(name.split(",")[0])
    X, y = bunch.data, bunch.target
    if "," in name:
        train, test = train_test_split(
            np.arange(len(y)), train_size=75, stratify=y, random_state=seed + number
        )
    else:
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        train, test = list(folds.split(X, y))[number]
    keep = X[train].std(axis=0) > 0
    return X[train][:, keep], y[train], X[test][:, keep], y[test]


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set by repetition by method; ``quick`` has one repetition of the quickest."""
    sets = ["metabric, 75 rows"] if quick else [*SETS[3:], *SETS[:3]]
    return [
        {"set": name, "method": method, "repetition": k, "seed": seed}
        for name in sets
        for k in range(1 if quick else REPETITIONS if name in SETS[3:] else FOLDS)
        for method in (QUICK if quick else METHODS)
        if method not in FEW or name == "simulated"
    ]


def baseline(method: str, X: Array, y: Array) -> Any:
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    scaled = StandardScaler().fit(X)
    Z = scaled.transform(X)
    if method == "PLS-DA":
        pls = PLSRegression(2).fit(Z, y)
        link = LogisticRegressionCV(Cs=5, cv=folds, scoring="neg_log_loss").fit(pls.transform(Z), y)
        return make_pipeline(scaled, pls, link)
    model = LogisticRegressionCV(
        Cs=np.logspace(-2, 2, 9), penalty="l1", solver="liblinear", cv=folds, scoring="neg_log_loss"
    )
    return make_pipeline(scaled, model.fit(Z, y))


def solve(task: Task) -> dict[str, float]:
    from bayesvm import FactorSVC

    X, y, X_new, y_new = rows(task["set"], task["repetition"], task["seed"])
    method, kept = task["method"], []

    def train() -> Any:
        if method not in FACTORS:
            return baseline(method, X, y)
        kept.append(FactorSVC(**{"random_state": task["seed"]} | FACTORS[method]).fit(X, y))
        return kept[0]

    found = judged(train, X_new, y_new)
    if not kept:
        return found | {"columns": np.nan, "span": np.nan}
    share = np.nan
    if task["set"] == "simulated":
        share = span(kept[0].loadings_ / kept[0].scale_[:, None])
    return found | {"columns": len(kept[0].columns_), "span": share}


def span(A: Array) -> float:
    """Share of the direction of the labels, equal in the columns that carry them, that lies in the
    space of the loadings; of K directions drawn at random it is K over the number of columns."""
    Q = np.linalg.qr(A)[0]
    return float(np.square(Q[:CARRIERS].sum(axis=0)).sum() / CARRIERS)


def report(frame: Any, console: Any) -> None:
    by = frame.groupby(KEYS)
    for title, text in (
        ("Error in %: mean ± standard error", cell(by.error, 100.0, 1)),
        ("Log loss", cell(by.log_loss, 1.0, 3)),
        ("Columns used, median", lambda key: f"{by.columns.median()[key]:.0f}"),
        ("Share of the labels' direction in the space of the loadings", cell(by.span, 1.0, 4)),
        ("Seconds of processor a fit", cell(by.cpu, 1.0, 1)),
    ):
        sets = [s for s in SETS if s in set(frame["set"])]
        table = table_of(title, ("method", *sets))
        for method in (m for m in METHODS if m in set(frame.method)):
            keys = [(name, method) for name in sets]
            table.add_row(method, *(text(k) if k in by.groups else "–" for k in keys))
        console.print(table)


def cell(column: Any, times: float, digits: int) -> Callable[[tuple[str, str]], str]:
    mean, error = times * column.mean(), times * column.sem()
    return lambda key: f"{mean[key]:.{digits}f} ± {error[key]:.{digits}f}"
