"""Wenzel et al. (2017), Fig. 1: error on rows held out against training time, waveform.

5000 rows and the paper's kernel; 100 inducing points and minibatches of 10 for the stochastic
methods.  A method is stopped after a number of passes and fitted anew with more; k-means is in the
time, which is that of one core.  GPC and the support vector machine have one time only.  The
slowest, B-BSVM, is run in one fold.
"""

from __future__ import annotations

from typing import Any

from bayesvm.inference import VB

from . import tenfold
from .running import Task
from .wenzel_methods import KERNEL, AllRows, StochasticGPC, gpc, stochastic, svm
from .wenzel_table1 import load

PASSES = {
    "S-BSVM": (1, 2, 4, 8),
    "S-BSVM, decaying rate": (1, 2, 4, 8),
    "S-BSVM, points moved": (1, 4),
    "S-GPC": (1, 4, 16, 64),
    "100 points, batch": (7, 16, 64),
    "100 points, tight": (7, 16),
    "B-BSVM": (1, 2, 4, 8, 16, 32),
    "ECM": (1, 2, 4, 8, 16, 32),
    "GPC": (1,),
    "SVM": (1,),
}
ALL_ROWS = ("B-BSVM",)  # in the first fold only, where it takes four minutes
POINTS, FOLDS = 100, 4
MEASURED = tenfold.MEASURED
KEYS = ["method", "passes"]
# what the text says: times in units of that of S-BSVM
SAID = "ECM about 10 times, GPC about 5000 times, S-GPC and the SVM about as long as S-BSVM"


def tasks(quick: bool, seed: int) -> list[Task]:
    folds = range(tenfold.QUICK_FOLDS if quick else FOLDS)
    return [
        {"method": method, "passes": k, "fold": fold, "seed": seed}
        for fold in folds
        for method, passes in PASSES.items()
        if quick or fold == 0 or method not in ALL_ROWS
        for k in (passes[:1] if quick else passes)
    ]


def machine(method: str, passes: int, seed: int) -> Any:
    if method in ("GPC", "SVM"):
        return {"GPC": gpc, "SVM": svm}[method]()
    if method in ("B-BSVM", "ECM"):
        return AllRows(point=method == "ECM", max_iter=passes)
    if method == "S-GPC":
        return StochasticGPC(POINTS, passes, random_state=seed)
    if method.startswith("S-BSVM"):
        inducing = "optimise" if method.endswith("moved") else "kmeans"
        decaying = method.endswith("rate")
        return stochastic(POINTS, inducing, seed, passes, adaptive=not decaying)
    from bayesvm import BayesianSVC

    bound = "tight" if method.endswith("tight") else "augmented"
    how: dict[str, Any] = {"likelihood": "hinge", "inference": VB(passes, bound=bound)}
    how |= {"standardize": False, "probability": "probit", "intercept_scale": 1e-6}
    return BayesianSVC(KERNEL, POINTS, tune=False, random_state=seed, **how)


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
    table = tenfold.rows_of(frame, KEYS, ("error", "brier", "log_loss", "seconds"))
    tenfold.print_rows(console, "waveform: mean over folds ± standard error", table, KEYS)
    console.print(f"The paper: {SAID}. Table 1 there: S-BSVM 12.5 s, ECM 264 s, GPC 8691 s.")
