"""Wenzel et al. (2017), Table 1: error, Brier score and time on seven sets of Rätsch.

Ten folds of the distinct patterns, as in the paper.  Its methods have one fixed kernel, that of
:mod:`papers.wenzel_methods`, GPC by Laplace's method and by expectation propagation; beside them
stand ``BayesianSVC`` and the support vector machine by grid search, which tune their own.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesvm.core.types import Array
from bayesvm.datasets import load_raetsch

from . import tenfold, wenzel_methods
from .running import Task, mean_and_error, table_of

# set: rows; error of S-BSVM, ECM, GPC, SVM; Brier score; seconds; standard deviation of S-BSVM's
# error over the ten folds
_PRINTED = """
breast_cancer  263  .26 .27 .27 .27  .18 .19 .18 .19   .32  1.4  6.7  .04  .07
diabetis       768  .22 .25 .23 .24  .16 .17 .15 .16   3.9   33   67  .11  .06
flare_solar    144  .36 .36 .36 .36  .22 .25 .24 .24   .08  .26  1.8  .01  .12
german        1000  .24 .25 .25 .27  .17 .17 .17 .18    12   80  115  .15  .11
heart          270  .16 .19 .16 .17  .13 .14 .12 .12   .34  2.2    6  .04  .06
splice        2991  .13 .11 .32 .14  .17 .18 .40 .11    18  406  419  1.3  .03
waveform      5000  .09 .10 .10 .10  .06 .15 .06 .06  12.5  264 8691  2.3  .02
"""
MEASURED = tenfold.MEASURED
FIXED = ("S-BSVM", "ECM", "GPC", "SVM")  # as the paper names them
METHODS = (*FIXED, "S-BSVM, k-means", "BayesianSVC", "SVC", "GPC, EP")
_ROWS = [line.split() for line in _PRINTED.strip().splitlines()]
SIZES = {row[0]: int(row[1]) for row in _ROWS}
PRINTED = {
    metric: {r[0]: dict(zip(FIXED, map(float, r[at : at + 4]))) for r in _ROWS}
    for metric, at in (("error", 2), ("brier", 6), ("seconds", 10))
}
ERROR_SD = {row[0]: float(row[14]) for row in _ROWS}
HUNDRED = ("german", "splice", "waveform")  # sets with 100 inducing points, not a fifth of the rows


def load(name: str) -> tuple[Array, Array]:
    """Distinct patterns and labels."""
    bunch = load_raetsch(name, realisation=None)
    return bunch.data, bunch.target


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set by method by fold; ``quick`` takes the smaller sets and their first folds."""
    folds = range(tenfold.QUICK_FOLDS if quick else tenfold.FOLDS)
    return [
        {"set": name, "method": method, "fold": fold, "seed": seed}
        for name, n in sorted(SIZES.items(), key=lambda item: -item[1])  # the longest first
        for method in METHODS
        for fold in folds
        if not (quick and n > tenfold.QUICK_ROWS)
    ]


def fit(method: str, name: str, X: Array, y: Array, seed: int) -> Any:
    """One of the methods; those of the paper on standardised columns."""
    if method == "SVC":
        return tenfold.grid_and_platt(X, y)[0]
    if method == "BayesianSVC":
        from bayesvm import BayesianSVC

        return BayesianSVC(random_state=seed).fit(X, y)
    points = 100 if name in HUNDRED else round(wenzel_methods.COUNT * len(X))
    made = {
        "S-BSVM": lambda: wenzel_methods.stochastic(points, "optimise", seed),
        "S-BSVM, k-means": lambda: wenzel_methods.stochastic(points, "kmeans", seed),
        "ECM": lambda: wenzel_methods.AllRows(point=True),
        "GPC": wenzel_methods.gpc,
        "GPC, EP": wenzel_methods.PropagatedGPC,
        "SVM": wenzel_methods.svm,
    }[method]()
    return make_pipeline(StandardScaler(), made).fit(X, y)


def solve(task: Task) -> dict[str, float]:
    """Fit on nine tenths, score on the rest."""
    X, y = load(task["set"])
    train, test = tenfold.fold_of(X, y, task)
    made = partial(fit, task["method"], task["set"], X[train], y[train], task["seed"])
    return tenfold.scored(made, X[test], y[test])[0]


def report(frame: Any, console: Any) -> None:
    """A table per measure, the paper's in brackets; then what the paper claims of it."""
    methods = [m for m in METHODS if (frame["method"] == m).any()]
    tables = {m: mean_and_error(frame, m, SIZES, METHODS) for m in MEASURED}
    for metric, (mean, se) in tables.items():
        known = PRINTED.get(metric, {})
        title = f"{metric}: mean over folds ± standard error (the paper's)"
        table = table_of(title, ("set", *methods))
        for name in mean.index:
            cells = (_cell(mean, se, known, name, m) for m in methods)
            table.add_row(name, *cells)
        console.print(table)
    mean, seconds = tables["error"][0], tables["seconds"][0]
    for other in FIXED[1:]:
        if {other, "S-BSVM"} <= set(methods):
            ratio = seconds[other] / seconds["S-BSVM"]
            console.print(
                f"{other}: {ratio.min():.2g} to {ratio.max():.2g} times the time of S-BSVM; its "
                f"error is larger on {(mean[other] > mean['S-BSVM']).sum()} of {len(mean)} sets"
            )


def _cell(mean: Any, se: Any, known: Any, name: str, method: str) -> str:
    if np.isnan(mean.at[name, method]):
        return "–"
    printed = known.get(name, {}).get(method)
    ours = f"{mean.at[name, method]:.3f} ± {se.at[name, method]:.3f}"
    return ours + ("" if printed is None else f" ({printed:.4g})")
