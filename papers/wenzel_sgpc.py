"""Wenzel et al. (2017), section 5.3: is S-GPC unstable, for several of its settings?

Waveform with the kernel, the 100 points and the folds of Fig. 1 (:mod:`papers.wenzel_runtime`);
three rules for the steps, rates a factor of ten apart, two sizes of minibatches.  The gradient is
that of the bound of all 4,500 rows, so its rates are small.  Where the fit is lost to numbers that
are not finite, ``finite`` is 0 and probabilities are one half.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesvm.compare.tasks import Task
from bayesvm.core.types import Array

from . import tenfold
from .experiment import Experiment
from .wenzel_methods import BATCH, StochasticGPC
from .wenzel_table1 import load

RATES = {
    "Adam": (1e-3, 1e-2, 1e-1, 1.0),
    "Adadelta": (0.1, 1.0, 10.0),
    "gradient": (1e-5, 1e-4, 1e-3, 1e-2),
}
BATCHES, PASSES, POINTS, FOLDS = (BATCH, 100), (4, 16), 100, 3
MEASURED = (*tenfold.MEASURED, "finite")
KEYS = ["rule", "rate", "batch", "passes"]


def tasks(quick: bool, seed: int) -> list[Task]:
    """Rule by rate by minibatch by passes by fold; ``quick`` takes one rate, once."""
    return [
        {"rule": rule, "rate": rate, "batch": batch, "passes": k, "fold": fold, "seed": seed}
        for rule, rates in RATES.items()
        for rate in (rates[1:2] if quick else rates)
        for batch in (BATCHES[1:] if quick else BATCHES)
        for k in (PASSES[:1] if quick else PASSES)
        for fold in range(1 if quick else FOLDS)
    ]


class Whole(StochasticGPC):
    """S-GPC with probabilities of one half where numbers are not finite."""

    def predict_proba(self, X: Array) -> Array:
        with np.errstate(all="ignore"):
            p = super().predict_proba(X)
        self.finite_ = bool(np.isfinite(p).all())
        return p if self.finite_ else np.full_like(p, 0.5)


def solve(task: Task) -> dict[str, float]:
    X, y = load("waveform")
    train, test = tenfold.fold_of(X, y, task)
    how = {key: task[key] for key in KEYS}
    model = Whole(POINTS, **how, random_state=task["fold"])
    with np.errstate(all="ignore"):
        scores, model = tenfold.scored(lambda: model.fit(X[train], y[train]), X[test], y[test])
    return scores | {"finite": float(model.finite_)}


def report(frame: Any, console: Any) -> None:
    table = tenfold.rows_of(frame, KEYS, ("error", "log_loss", "seconds", "finite"))
    tenfold.print_rows(console, "waveform: mean over folds ± standard error", table, KEYS)
    console.print("The paper: S-GPC 'is very unstable leading to bad prediction performance'.")


def draw(frame: Any) -> Any:
    """Error against the rate, one line a rule and size of minibatches."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
    last = frame[frame["passes"] == frame["passes"].max()]
    for (rule, batch), part in last.groupby(["rule", "batch"], sort=False):
        by = part.groupby("rate")["error"].mean()
        ax.plot(by.index, by, "o-", ms=4, label=f"{rule}, minibatches of {batch}")
    ax.set(xscale="log", xlabel="rate", ylabel="error")
    ax.legend(fontsize="small")
    return figure


EXPERIMENT = Experiment(
    name="wenzel-sgpc",
    title="Wenzel et al. (2017), section 5.3: S-GPC with several settings, waveform",
    tasks=tasks,
    solve=solve,
    measured=MEASURED,
    report=report,
    draw=draw,
)
