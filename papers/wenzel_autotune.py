"""Wenzel et al. (2017), Fig. 2: the length scale that the bound finds, against a grid of them.

The paper does not name its data set; the four smallest of its Table 1 are taken by ten folds, and
three folds of 10,000 rows of SUSY, for which its footnote 7 has a length scale of 5 by tuning:
exp(-|x - x'|² / 25), 0.83 in the units here.  Of SUSY 1,000 rows of each fold are learned from.
The paper's kernel has weight one, and so has this one.  The grid has 22 values, a third of an
octave apart.  The bound is maximised to its end, and for five evaluations of it and its gradient,
the number of steps that the paper needs.  Beside the bound of the hinge stands the evidence of a
logistic model, by which ``BayesianSVC`` tunes.  Those fits are by full passes; by minibatches of
ten, with a fifth of the rows as points, are a second grid, and eq. 12 as it is printed
(:mod:`papers.wenzel_svi`): ten updates of q, one step in the length scale, and so on.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesvm.core.types import Array
from bayesvm.datasets import load_susy
from bayesvm.gp.evidence import Evidence, LogNormal, maximise
from bayesvm.gp.inducing import choose_points
from bayesvm.gp.posterior import Process
from bayesvm.gp.sites import Labels, TrainingData
from bayesvm.inference import Progress
from bayesvm.inference.progress import Monitor
from bayesvm.kernels import RBF, Scaled
from bayesvm.likelihoods import Hinge, Logistic

from . import tenfold, wenzel_table1
from .running import Task
from .wenzel_methods import COUNT, stochastic
from .wenzel_svi import tune

FOLDS = dict.fromkeys(("breast_cancer", "diabetis", "heart", "flare_solar"), 10) | {"susy": 3}
GRID = tuple(float(x) for x in np.round(2.0 ** np.linspace(-3.0, 4.0, 22), 4))  # over sqrt(p)
ROWS = 1000  # to learn from, at most
RULES = {  # what is maximised, evaluations at most
    "bound": (Hinge().expected, 40),
    "bound, 5 steps": (Hinge().expected, 5),
    "evidence": (Logistic().tight, 40),
}
STOCHASTIC = {"eq. 12, 5 steps": 5, "eq. 12, 100 steps": 100}
RATE = 1.0  # of the first step, in the logarithm; the paper states none
BIAS = 3.0
MEASURED = (*tenfold.MEASURED, "length_scale", "steps")
PRINTED = "5 steps, 0.3 s, at the optimum of a grid of 1000 that takes 188 s"


def tasks(quick: bool, seed: int) -> list[Task]:
    """The grids and the rules, by set and fold; ``quick`` takes a third of the grid."""
    sets = {"breast_cancer": tenfold.QUICK_FOLDS} if quick else FOLDS
    grid = GRID[::3] if quick else GRID
    return [
        {"set": name, "method": method, "scale": x, "fold": fold, "seed": seed}
        for name, folds in sets.items()
        for method, x in [
            *(("grid", x) for x in grid),
            *((r, 0.0) for r in RULES),
            *(("S-BSVM grid", x) for x in grid if name != "susy"),
            *((r, 0.0) for r in STOCHASTIC),
        ]
        for fold in range(folds)
    ]


def load(name: str) -> tuple[Array, Array]:
    """Rows and labels."""
    if name == "susy":
        bunch = load_susy()
        return bunch.data, bunch.target
    return wenzel_table1.load(name)


def found(rule: str, X: Array, y: Array) -> tuple[float, int]:
    """The length scale of most bound at weight one, from the square root of the columns.

    And the number of evaluations of the bound and its gradient.
    """
    A = StandardScaler().fit_transform(X)
    n, p = A.shape
    labels = Labels(np.where(y > 0, 1.0, -1.0), np.ones(n), np.arange(n), n)
    prior = LogNormal(np.array([0.5 * np.log(p)]), np.array([1.5**2]))
    start = RBF(float(np.sqrt(p)))
    seen = TrainingData(A, labels, (y > 0).astype(int), BIAS**2, p)
    site, most = RULES[rule]
    score, steps = Evidence(Process(start, BIAS**2), seen, site, prior), 0

    def watch(progress: Progress, state: Any) -> bool:
        nonlocal steps
        steps = progress.iteration
        return steps >= most

    theta, _ = maximise(score, start.theta, prior.step, Monitor(watch), most)
    return float(np.exp(theta[0])), steps


def stepped(rule: str, X: Array, y: Array, fold: int) -> float:
    """The length scale after some steps of eq. 12, from the square root of the columns."""
    A, rng = StandardScaler().fit_transform(X), np.random.default_rng(fold)
    start = float(np.sqrt(A.shape[1]))
    Z = choose_points(A, round(COUNT * len(A)), "kmeans", RBF(start), rng)
    signs = np.where(y > 0, 1.0, -1.0)
    tuned = tune(A, signs, Z, np.sqrt(2.0) * start, STOCHASTIC[rule], RATE, rng)
    return tuned.theta / np.sqrt(2.0)


def solve(task: Task) -> dict[str, float]:
    from bayesvm import BayesianSVC
    from bayesvm.inference import VB

    X, y = load(task["set"])
    train, test = tenfold.fold_of(X, y, task)
    if len(train) > ROWS:
        train = np.random.default_rng(task["seed"]).permutation(train)[:ROWS]
    start, p = time.process_time(), X.shape[1]
    scale, steps = task["scale"] * np.sqrt(p), 0
    if task["method"] in RULES:
        scale, steps = found(task["method"], X[train], y[train])
    elif task["method"] in STOCHASTIC:
        scale = stepped(task["method"], X[train], y[train], task["fold"])
        steps = STOCHASTIC[task["method"]]
    kernel, searching = Scaled(1.0, RBF(scale)), time.process_time() - start

    def fit() -> Any:
        if task["method"] == "S-BSVM grid" or task["method"] in STOCHASTIC:
            points = round(COUNT * len(train))
            machine = stochastic(points, "kmeans", task["fold"], kernel=kernel)
            return make_pipeline(StandardScaler(), machine).fit(X[train], y[train])
        how: dict[str, Any] = {"likelihood": "hinge", "inference": VB(bound="augmented")}
        model = BayesianSVC(kernel, tune=False, **how)
        return model.fit(X[train], y[train])

    scores, _ = tenfold.scored(fit, X[test], y[test])
    scores["seconds"] += searching
    return {**scores, "length_scale": float(scale / np.sqrt(p)), "steps": float(steps)}


def report(frame: Any, console: Any) -> None:
    keys = ["set", "method", "scale"]
    table = tenfold.rows_of(frame, keys, ("error", "log_loss", "seconds", "length_scale", "steps"))
    for name, part in table.groupby(("set", ""), sort=False):
        for method in ("grid", "S-BSVM grid"):
            grid = part[part[("method", "")] == method]
            if len(grid):
                best = grid.loc[grid[("log_loss", "mean")].idxmin()]
                console.print(
                    f"{name}, {method} of {len(grid)}: {grid[('seconds', 'mean')].sum():.2f} s a "
                    f"fold; least log loss {best[('log_loss', 'mean')]:.4f}, at a length scale of "
                    f"{best[('scale', '')]:.3g} square roots of the columns"
                )
        rows = part[~part[("method", "")].isin(["grid", "S-BSVM grid"])]
        tenfold.print_rows(console, f"{name}: length scales found", rows, keys)
    console.print(f"The paper: {PRINTED}.")
