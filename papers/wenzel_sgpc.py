"""Wenzel et al. (2017), section 5.3: is S-GPC unstable, for several of its settings?

Waveform with the kernel, the 100 points and the folds of Fig. 1 (:mod:`papers.wenzel_runtime`);
three rules for the steps, rates a factor of ten apart, two sizes of minibatches.  The gradient is
that of the bound of all 4,500 rows, so its rates are small.  Further fits have other length scales
of the kernel and other numbers of points, S-BSVM beside them.  Where the fit is lost to numbers
that are not finite, ``finite`` is 0 and probabilities are one half.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesvm.core.types import Array
from bayesvm.kernels import RBF, Scaled

from . import tenfold
from .running import Task
from .wenzel_methods import BATCH, StochasticGPC, stochastic
from .wenzel_table1 import load

RATES = {
    "Adam": (1e-3, 1e-2, 1e-1, 1.0),
    "Adadelta": (0.1, 1.0, 10.0),
    "gradient": (1e-5, 1e-4, 1e-3, 1e-2),
}
BATCHES, PASSES, POINTS, FOLDS = (BATCH, 100), (4, 16), 100, 3
# other kernels and numbers of points, each with these rules and rates
OTHERS = [(2.0, POINTS), (3.5, POINTS), (7.0, POINTS), (10.0, POINTS), (5.0, 25), (5.0, 400)]
RULES = [("Adam", 0.01), ("Adam", 0.1), ("Adadelta", 10.0), ("gradient", 1e-3), ("gradient", 1e-2)]
MEASURED = (*tenfold.MEASURED, "finite")
KEYS = ["rule", "rate", "batch", "passes", "length", "points"]


def tasks(quick: bool, seed: int) -> list[Task]:
    """Rule by rate by minibatch by passes by fold; ``quick`` takes one rate, once."""
    settings = [
        (rule, rate, batch, k, 5.0, POINTS)
        for rule, rates in RATES.items()
        for rate in (rates[1:2] if quick else rates)
        for batch in (BATCHES[1:] if quick else BATCHES)
        for k in (PASSES[:1] if quick else PASSES)
    ]
    if not quick:
        settings += [(*rule, BATCH, PASSES[1], *other) for other in OTHERS for rule in RULES]
        settings += [("S-BSVM", 0.0, BATCH, 8, *other) for other in OTHERS]
    return [
        dict(zip(KEYS, setting)) | {"fold": fold, "seed": seed}
        for setting in settings
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
    kernel, points, seed = (
        Scaled(1.0, RBF(task["length"] / np.sqrt(2.0))),
        task["points"],
        task["fold"],
    )
    how = {key: task[key] for key in KEYS[:4]}
    if task["rule"] == "S-BSVM":
        model = stochastic(points, "kmeans", seed, task["passes"], kernel=kernel)
    else:
        model = Whole(points, **how, random_state=seed, kernel=kernel)
    with np.errstate(all="ignore"):
        scores, model = tenfold.scored(lambda: model.fit(X[train], y[train]), X[test], y[test])
    return scores | {"finite": float(getattr(model, "finite_", True))}


def report(frame: Any, console: Any) -> None:
    table = tenfold.rows_of(frame, KEYS, ("error", "log_loss", "seconds", "finite"))
    tenfold.print_rows(console, "waveform: mean over folds ± standard error", table, KEYS)
    console.print("The paper: S-GPC 'is very unstable leading to bad prediction performance'.")
