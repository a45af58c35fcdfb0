"""Chen, Tiňo & Yao (2009), section III-B: parameters as the paper chooses them.

On each of the first five training parts of a set: theta and C of the soft margin, theta of the hard
margin and of the relevance vector machine by tenfold cross-validation on the grids of footnote 5;
the PCVM by Algorithm 1 from eight starts, that of least *test* error, as printed, and then C of a
support vector machine at its theta.  The paper takes the median over the five parts
(:func:`parameters`).  Widths of the grid: all 50 below 200
rows, every third up to 700, every sixth for image and splice.  Random starts have their theta
between a quarter of and sqrt(2) times the root of the number of columns; the paper does not print
its own.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from bayesvm import __version__
from bayesvm.datasets import load_raetsch

from . import chen_grid, chen_paper
from .chen_algorithm import PCVM
from .running import Task, table_of

MEASURED = ("theta", "C", "start", "error", "mean_error", "vectors")
METHODS = ("PCVM", "SVM soft", "SVM hard", "RVM")
PARTS = 5  # training parts of a set
# first widths in units of the root of the number of columns, and first weights
STARTS = (
    *((2.0**k, "random") for k in (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5)),
    (1.0, "svm"),
    (1.0, "rvm"),
)
RECORDED = Path(__file__).parent / "results" / "chen-tuning.csv"


def tasks(quick: bool, seed: int, sets: tuple[str, ...] = chen_paper.SETS) -> list[Task]:
    """Part by set by method, small sets first; ``quick``: the first part of two small sets."""
    order = sorted(sets, key=lambda name: chen_paper.TRAIN[chen_paper.SETS.index(name)])
    order = [name for name in order if name in ("heart", "thyroid")] if quick else order
    common = {"version": __version__, "seed": seed}
    return [
        common | {"set": name, "part": part, "method": method}
        for name in order
        for part in range(1, 2 if quick else PARTS + 1)
        for method in METHODS
    ]


def solve(task: Task) -> dict[str, float]:
    """The best parameters on one part."""
    bunch = load_raetsch(task["set"], task["part"])
    scale = StandardScaler().fit(bunch.data)
    X, y = scale.transform(bunch.data), np.where(bunch.target > bunch.target.min(), 1.0, -1.0)
    if task["method"] == "PCVM":
        X_test = scale.transform(bunch.data_test)
        y_test = np.where(bunch.target_test > bunch.target.min(), 1.0, -1.0)
        return best_start(X, y, X_test, y_test, task["seed"])
    return best_of_grid(task["method"], X, y)


def best_start(X: Any, y: Any, X_test: Any, y_test: Any, seed: int) -> dict[str, float]:
    """Algorithm 1 from eight starts, the one of least test error; then C at its width."""
    fits = [
        PCVM(width * X.shape[1] ** 0.5, start, random_state=seed + k).fit(X, y)
        for k, (width, start) in enumerate(STARTS)
    ]
    errors = [float(np.mean(m.predict(X_test) != y_test)) for m in fits]
    k = int(np.argmin(errors))
    theta = fits[k].theta_
    costs = chen_grid.svm_errors(X, y, [theta], chen_grid.COSTS)[0]
    return {
        "theta": theta,
        "C": chen_grid.COSTS[middle(costs)],
        "start": float(k),
        "error": errors[k],
        "mean_error": float(np.mean(errors)),
        "vectors": float(fits[k].n_vectors_),
    }


def best_of_grid(method: str, X: Any, y: Any) -> dict[str, float]:
    """Tenfold cross-validation."""
    widths = chen_grid.WIDTHS[:: 1 if len(y) < 200 else 3 if len(y) <= 700 else 6]
    if method == "RVM":
        errors = chen_grid.rvm_errors(X, y, widths)[:, None]
        costs = np.array([np.nan])
    elif method == "SVM hard":
        errors = chen_grid.svm_errors(X, y, widths, [1.0, 10.0, 100.0, chen_grid.HARD])[:, 3:]
        costs = np.array([chen_grid.HARD])
    else:
        costs = chen_grid.COSTS
        errors = chen_grid.svm_errors(X, y, widths, costs)
    k, j = divmod(middle(errors.ravel()), errors.shape[1])
    none = dict.fromkeys(("start", "mean_error", "vectors"), np.nan)
    return {"theta": float(widths[k]), "C": float(costs[j]), "error": float(errors[k, j])} | none


def middle(errors: Any) -> int:
    """Place of the least error, of several the one in the middle."""
    best = np.flatnonzero(errors <= np.min(errors) + 1e-12)
    return int(best[best.size // 2])


@cache
def parameters(method: str, name: str, path: Path = RECORDED) -> dict[str, Any]:
    """Medians over the parts of a set, as keywords of the machine; the start most often the best.

    For "SVM PCVM" the theta and C that belong to the PCVM.
    """
    with path.open(newline="") as handle:
        found = list(csv.DictReader(handle))
    own = "PCVM" if method == "SVM PCVM" else method
    rows = [row for row in found if row["set"] == name and row["method"] == own]
    if len(rows) < PARTS:
        raise ValueError(
            f"{path} has {len(rows)} of {PARTS} parts of {name} for {own}: run chen-tuning first."
        )
    theta, C = (float(np.median([float(row[key]) for row in rows])) for key in ("theta", "C"))
    if method == "PCVM":
        kinds = [STARTS[int(float(row["start"]))][1] for row in rows]
        return {"theta": theta, "start": max(("svm", "rvm", "random"), key=kinds.count)}
    if method == "RVM":
        return {"theta": theta}
    return {"C": C, "gamma": theta**-2.0}


def report(frame: Any, console: Any) -> None:
    """Medians by set, what they cost in CPU seconds, and which starts were the best."""
    title = "Median theta (and C) over the first parts; CPU seconds of one part"
    table = table_of(title, ("set", *METHODS, "C at PCVM's theta"))
    by = frame.groupby(["set", "method"])
    middle, seconds = by[["theta", "C"]].median(), by["cpu_seconds"].mean()
    for name in (s for s in chen_paper.SETS if s in set(frame["set"])):
        cells = []
        for method in METHODS:
            if (name, method) not in middle.index:
                cells.append("")
                continue
            theta, C = middle.loc[(name, method)]
            also = f", {C:g}" if method == "SVM soft" else ""
            cells.append(f"{theta:.2f}{also}; {seconds[(name, method)]:.1f}")
        at = (name, "PCVM")
        table.add_row(name, *cells, f"{middle.at[at, 'C']:g}" if at in middle.index else "")
    console.print(table)
    own = frame[frame["method"] == "PCVM"]
    kinds = [STARTS[int(k)][1] for k in own["start"].dropna()]
    told = ", ".join(f"{kind} {kinds.count(kind)}" for kind in dict.fromkeys(k for _, k in STARTS))
    console.print(f"Best start of the PCVM: {told}")
    console.print(
        f"Test error of the best start {100 * own['error'].mean():.2f} %, of all starts "
        f"{100 * own['mean_error'].mean():.2f} %"
    )
