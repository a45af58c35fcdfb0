"""Wenzel et al. (2017), Fig. 1: error on rows held out against training time, waveform.

5000 rows, the paper's kernel (weight one, its length scale of 5 is 5/√2 here), 100 inducing points,
minibatches of 10.  A method is stopped after a number of passes and fitted anew with more; k-means
is in the time.  The support vector machine has one time only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.svm import SVC

from bayesvm.compare.tasks import Task
from bayesvm.inference import SVI, VB
from bayesvm.kernels import RBF, Scaled

from . import tenfold
from .experiment import Experiment
from .wenzel_table1 import load

KERNEL = Scaled(1.0, RBF(5.0 / np.sqrt(2.0)))
PASSES = {
    "stochastic": (1, 2, 4),
    "stochastic, adaptive": (1, 2, 4),
    "batch": (7, 10, 16, 32, 64),
    "batch, tight": (7, 10, 16, 32),
    "SVC": (1,),
}
KEYS = ["method", "passes"]


def tasks(quick: bool, seed: int) -> list[Task]:
    folds = range(tenfold.QUICK_FOLDS if quick else tenfold.FOLDS)
    return [
        {"method": method, "passes": k, "fold": fold, "seed": seed}
        for method, passes in PASSES.items()
        for k in (passes[:1] if quick else passes)
        for fold in folds
    ]


def machine(method: str, passes: int, seed: int) -> Any:
    from bayesvm import BayesianSVC

    if method == "SVC":
        svc = SVC(C=2.0 * KERNEL.weight, gamma=0.5 / KERNEL.kernel.length_scale**2)
        return CalibratedClassifierCV(svc, ensemble=False)
    options: dict[str, Any] = {"inference": "vb", "likelihood": "hinge", "max_iter": passes}
    if method.startswith("stochastic"):
        options["inference"] = SVI(10, adaptive=method.endswith("adaptive"))
    elif not method.endswith("tight"):
        options["inference"] = VB(bound="augmented")
    return BayesianSVC(KERNEL, 100, tune=False, standardize=False, random_state=seed, **options)


def solve(task: Task) -> dict[str, float]:
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    X, y = load("waveform")
    train, test = tenfold.fold_of(X, y, task)
    model = machine(task["method"], task["passes"], task["fold"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # that is the experiment
        return tenfold.scored(lambda: model.fit(X[train], y[train]), X[test], y[test])[0]


def report(frame: Any, console: Any) -> None:
    table = tenfold.rows_of(frame, KEYS, ("error", "log_loss", "seconds"))
    tenfold.print_rows(console, "waveform: mean over folds ± standard error", table, KEYS)
    console.print("The paper, by then: S-BSVM 0.09 after 12.5 s, ECM 0.10 after 264 s (Table 1).")


def draw(frame: Any) -> Any:
    """Error against seconds, one line a method."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for method, part in frame.groupby("method", sort=False):
        by = part.groupby("passes")[["seconds", "error"]].mean().sort_values("seconds")
        ax.plot(by["seconds"], by["error"], "o-", ms=4, label=method)
    ax.set(xscale="log", xlabel="seconds of training", ylabel="error")
    ax.legend(fontsize="small")
    return figure


EXPERIMENT = Experiment(
    name="wenzel-runtime",
    title="Wenzel et al. (2017), Fig. 1: error against training time, waveform",
    tasks=tasks,
    solve=solve,
    measured=tenfold.MEASURED,
    report=report,
    draw=draw,
)
