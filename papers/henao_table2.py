"""Henao, Yuan & Carin (2014), Table 2: 100 pseudo-inputs on USPS, FITC and variational.

3 against 5 in the resampled division (767 and 773 images), 4 against the rest in the usual one
(7291 and 2007).  The kernel is tuned by the bound through the points, as in the paper, or by the
rule that is ours.  Repetitions differ in where k-means puts the points.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesvm.compare.tasks import Task
from bayesvm.core.types import Array
from bayesvm.datasets import load_usps
from bayesvm.kernels import RBF, Scaled

from . import tenfold
from .experiment import Experiment

START = Scaled(4.0, RBF(10.0))
POINTS = 100
# task: rows to learn from, then error in % and its standard deviation of FITC-BSVM, FITC-GPC
PRINTED = {"3 v 5": (767, 3.49, 0.29, 3.69, 0.26), "4 v rest": (7291, 2.44, 0.17, 2.59, 0.17)}
REPETITIONS = 10
KEYS = ["task", "approximation", "tune"]


def load(name: str) -> tuple[Array, Array, Array, Array]:
    """Rows and labels to learn from, and to score."""
    bunch = load_usps(resampled=name == "3 v 5")
    y, y_test = bunch.target, bunch.target_test
    if name == "4 v rest":
        y, y_test = np.where(y == 4, 1, -1), np.where(y_test == 4, 1, -1)
    return bunch.data, y, bunch.data_test, y_test


def tasks(quick: bool, seed: int) -> list[Task]:
    """Every way, several times; ``quick`` leaves the larger task out."""
    return [
        {"task": name, "approximation": how, "tune": rule, "repetition": k, "seed": seed}
        for name in (["3 v 5"] if quick else PRINTED)
        for how in ("fitc", "variational")
        for rule in ("bound", "evidence")
        for k in range(2 if quick else REPETITIONS)
    ]


def solve(task: Task) -> dict[str, float]:
    from bayesvm import BayesianSVC

    X, y, X_test, y_test = load(task["task"])
    model = BayesianSVC(
        START,
        POINTS,
        approximation=task["approximation"],
        likelihood="hinge",
        tune=task["tune"],
        standardize=False,
        random_state=task["seed"] + task["repetition"],
    )
    return tenfold.scored(lambda: model.fit(X, y), X_test, y_test)[0]


def report(frame: Any, console: Any) -> None:
    table = tenfold.rows_of(frame, KEYS, ("error", "log_loss", "seconds"))
    tenfold.print_rows(console, "100 points: mean over repetitions ± standard error", table, KEYS)
    for name, (n, ours, sd, gpc, gpc_sd) in PRINTED.items():
        console.print(
            f"The paper, {name} ({n} rows): FITC-BSVM {ours:.2f} ± {sd:.2f} %, "
            f"FITC-GPC {gpc:.2f} ± {gpc_sd:.2f} %"
        )


def draw(frame: Any) -> Any:
    """Errors of the repetitions, and the paper's mean."""
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(frame["task"]))
    figure, axes = plt.subplots(
        1, len(names), figsize=(4.6 * len(names), 3.2), layout="constrained", squeeze=False
    )
    for ax, name in zip(axes[0], names):
        part = frame[frame["task"] == name]
        for k, (key, one) in enumerate(part.groupby(["approximation", "tune"])):
            ax.plot(one["error"] * 100, np.full(len(one), k), "o", ms=4, label=", ".join(key))
        ax.axvline(PRINTED[name][1], color="0.5", linestyle="--", label="paper, FITC-BSVM")
        ax.set(xlabel="error, %", yticks=[], title=name)
    axes[0][0].legend(fontsize="x-small")
    return figure


EXPERIMENT = Experiment(
    name="henao-table2",
    title="Henao, Yuan & Carin (2014), Table 2: FITC and variational, USPS",
    tasks=tasks,
    solve=solve,
    measured=tenfold.MEASURED,
    report=report,
    draw=draw,
)
