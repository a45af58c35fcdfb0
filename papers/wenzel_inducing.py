"""Wenzel et al. (2017), Fig. 3: number and choice of inducing points, USPS 3 against 5.

Ten folds of the 1540 images; the kernel is one and the same for all fits, that which the default
tuning finds on 767 of them.
"""

from __future__ import annotations

from typing import Any

from bayesvm.compare.tasks import Task
from bayesvm.kernels import RBF, Scaled

from . import tenfold
from .experiment import Experiment
from .henao_table1 import load

KERNEL = Scaled(9.0, RBF(13.0))
COUNTS = (5, 10, 20, 50, 100, 200, 400)
WAYS = ("kmeans", "random")
KEYS = ["inducing", "points"]


def tasks(quick: bool, seed: int) -> list[Task]:
    folds = range(tenfold.QUICK_FOLDS if quick else tenfold.FOLDS)
    return [
        {"inducing": how, "points": m, "fold": fold, "seed": seed}
        for m in (COUNTS[1:5:2] if quick else COUNTS)
        for how in WAYS
        for fold in folds
    ]


def solve(task: Task) -> dict[str, float]:
    from bayesvm import BayesianSVC

    X, y = load("usps")
    train, test = tenfold.fold_of(X, y, task)
    model = BayesianSVC(
        KERNEL,
        task["points"],
        task["inducing"],
        likelihood="hinge",
        tune=False,
        standardize=False,
        random_state=task["fold"],
    )
    return tenfold.scored(lambda: model.fit(X[train], y[train]), X[test], y[test])[0]


def report(frame: Any, console: Any) -> None:
    table = tenfold.rows_of(frame, KEYS, ("error", "log_loss", "seconds"))
    tenfold.print_rows(console, "USPS, 3 against 5: mean over folds ± standard error", table, KEYS)
    console.print(
        "The paper draws its numbers: with k-means about 1 % of the rows as points is nearly as "
        "good as many, much quicker, and better than as many at random."
    )


def draw(frame: Any) -> Any:
    """Error and time against the number of points."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for ax, metric in zip(axes, ("error", "seconds")):
        for how, part in frame.groupby("inducing"):
            by = part.groupby("points")[metric]
            ax.errorbar(by.mean().index, by.mean(), yerr=by.std(), marker="o", ms=4, label=how)
        ax.set(xscale="log", xlabel="inducing points", ylabel=metric)
    axes[0].legend()
    return figure


EXPERIMENT = Experiment(
    name="wenzel-inducing",
    title="Wenzel et al. (2017), Fig. 3: inducing points, USPS 3 against 5",
    tasks=tasks,
    solve=solve,
    measured=tenfold.MEASURED,
    report=report,
    draw=draw,
)
