"""Chen, Tiňo & Yao (2009), sections III-B, III-E and V: how vectors grow with the rows.

The paper: the vectors of the SVM grow almost linearly with the training points, those of the PCVM
do not, and its EM prunes rapidly.  Here rows of three sets that have many, other rows for the test;
the PCVM and the support vector machine as printed, with the parameters of ``chen-tuning``.
``early`` are the vectors after ten iterations of Algorithm 1, of at most 500.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesvm import __version__
from bayesvm.datasets import load_raetsch

from . import chen
from .running import Task, table_of

SETS = ("banana", "ringnorm", "waveform")
ROWS = (100, 200, 400, 800)
METHODS = ("PCVC", "PCVM", "RVC", "SVM soft")
TEST, DRAWS = 2000, 1
MEASURED = (*chen.MEASURED, "early", "iterations")


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set by number of rows, draw and method; ``quick``: 100 and 200 rows of banana, once."""
    common = {"version": __version__, "seed": seed}
    return [
        common | {"set": name, "rows": rows, "draw": draw, "method": method}
        for rows in (ROWS[:2] if quick else ROWS)
        for name in (SETS[:1] if quick else SETS)
        for draw in range(1 if quick else DRAWS)
        for method in METHODS
    ]


def solve(task: Task) -> dict[str, float]:
    """One machine on one draw."""
    whole = load_raetsch(task["set"], None)
    rng = np.random.default_rng((task["seed"], SETS.index(task["set"]), task["draw"]))
    rows = rng.permutation(np.repeat(np.arange(len(whole.target)), whole.counts))
    train, test = rows[TEST : TEST + task["rows"]], rows[:TEST]
    parameters = chen.tuned(task["method"], task["set"], 0)
    model = chen.build(task["method"], parameters, task["seed"])
    X, y = whole.data, whole.target
    found = chen.assess(model, X[train], y[train], X[test], y[test])
    if task["method"] != "PCVM":
        return found | {"early": np.nan, "iterations": np.nan}
    path = model[-1].path_
    return found | {"early": float(path[:10][-1]), "iterations": float(len(path))}


def slope(cell: Any) -> float:
    """Exponent of the vectors' growth with the rows, by least squares of logarithms."""
    means = cell.groupby("rows")["vectors"].mean()
    return float(np.polyfit(np.log(means.index), np.log(np.maximum(means, 1e-9)), 1)[0])


def report(frame: Any, console: Any) -> None:
    """Vectors by rows, and the exponent of their growth."""
    title = "Vectors (PCVM: after ten iterations), and the exponent of their growth"
    counts = sorted(set(frame["rows"]))
    table = table_of(title, ("set", "method", *counts, "exponent"), left=0)
    for (name, method), cell in frame.groupby(["set", "method"], sort=False):
        by = cell.groupby("rows")[["vectors", "early"]].mean()
        told = [
            f"{v:.0f}" + (f" ({e:.0f})" if method == "PCVM" else "")
            for v, e in zip(by["vectors"], by["early"])
        ]
        table.add_row(str(name), str(method), *told, f"{slope(cell):.2f}")
    console.print(table)
    made = frame["iterations"].dropna()
    console.print(
        f"Algorithm 1: {made.median():.0f} iterations (median), {(made < 500).mean():.0%} of the "
        "fits below the threshold of 1e-3 before the 500th"
    )
