"""Henao, Yuan & Carin (2014), Table 1: error on six benchmark sets, ten folds.

Wisconsin without its 16 incomplete rows.  ECM is the paper's BSVM as it is printed
(:mod:`papers.henao_ecm`), ``BayesianSVC`` the hinge with this package's inference; beside them
stand the support vector machine by grid search and GPC, by expectation propagation as there
(:mod:`papers.ep`) and by Laplace's method.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bayesvm.core.types import Array
from bayesvm.datasets import load_benchmark, load_usps

from . import tenfold
from .ep import fit_ep
from .factor_models import MEASURED as MEASURED
from .factor_models import judged
from .henao_ecm import fit_ecm
from .running import Task, table_of

METHODS = ("BayesianSVC", "ECM", "SVC", "GPC", "GPC, EP")
PLAIN = {"ECM": fit_ecm, "GPC, EP": fit_ep}
# set: rows, then error in % of BSVM, SVM, GPC
_PRINTED = {
    "ionosphere": (351, 5.98, 5.71, 7.41),
    "sonar": (208, 11.06, 11.54, 12.50),
    "wisconsin": (683, 2.93, 3.07, 2.64),
    "crabs": (200, 1.5, 2.0, 2.5),
    "pima": (768, 21.88, 24.22, 22.01),
    "usps": (1540, 1.49, 1.56, 1.69),
}
SIZES = {name: int(row[0]) for name, row in _PRINTED.items()}
PRINTED = {
    name: {"BayesianSVC": row[1], "ECM": row[1], "SVC": row[2]}
    | dict.fromkeys(("GPC", "GPC, EP"), row[3])
    for name, row in _PRINTED.items()
}


def load(name: str) -> tuple[Array, Array]:
    """Complete rows and labels."""
    if name == "usps":
        bunch = load_usps(resampled=True)
        parts = (bunch.data, bunch.data_test), (bunch.target, bunch.target_test)
        return np.concatenate(parts[0]), np.concatenate(parts[1])
    bunch = load_benchmark(name)
    whole = np.isfinite(bunch.data).all(axis=1)
    return bunch.data[whole], bunch.target[whole]


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set by fold by method; ``quick`` leaves USPS out and takes two folds."""
    return [
        {"set": name, "method": method, "fold": fold, "seed": seed}
        for name, n in SIZES.items()
        for fold in range(tenfold.QUICK_FOLDS if quick else tenfold.FOLDS)
        for method in METHODS
        if not (quick and n > tenfold.QUICK_ROWS)
    ]


def solve(task: Task) -> dict[str, float]:
    """Fit on nine tenths, score on the rest."""
    X, y = load(task["set"])
    train, test = tenfold.fold_of(X, y, task)
    method = task["method"]
    fit: Any = PLAIN.get(method, partial(tenfold.fit, method, seed=task["seed"]))
    return judged(lambda: fit(X[train], y[train]), X[test], y[test])


def report(frame: Any, console: Any) -> None:
    methods = [m for m in METHODS if m in set(frame.method)]
    title = "Error in %: mean over folds ± standard error (the paper's); log loss"
    table = table_of(title, ("set", *methods))
    by = frame.groupby(["set", "method"])
    error, loss = by.error.agg(["mean", "sem", "count"]) * [100, 100, 1], by.log_loss.mean()
    for name in (s for s in SIZES if s in set(frame.set)):
        cells = []
        for m in methods:
            if (name, m) not in error.index:
                cells.append("–")
                continue
            mean, sem, count = error.loc[(name, m)]
            few = "" if count >= tenfold.FOLDS else f", {count:.0f} folds"
            cells.append(
                f"{mean:.1f} ± {sem:.1f} ({PRINTED[name][m]:.1f}), {loss[name, m]:.3f}{few}"
            )
        table.add_row(name, *cells)
    console.print(table)
    cpu = by.cpu.mean().unstack()
    console.print("Seconds of processor a fit")
    console.print(cpu.loc[[s for s in SIZES if s in cpu.index], methods].round(1).to_string())
