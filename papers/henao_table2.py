"""Henao, Yuan & Carin (2014), Table 2: 100 pseudo-inputs on USPS, FITC and variational.

3 against 5 in the resampled division (767 and 773 images), 4 against the rest in the usual one
(7291 and 2007).  As in the paper: FITC-BSVM by ECM and eq. 10 (:mod:`papers.henao_ecm`), FITC-GPC
by expectation propagation (:mod:`papers.ep`), and both with every row a point.  By variational
inference: hinge and probit likelihood with FITC, kernel and pseudo-inputs both moved by the bound,
or pseudo-inputs where k-means puts them; without FITC; and with a kernel tuned by evidence.
Repetitions differ in where k-means begins.  Other numbers of pseudo-inputs, on 3 against 5, are
for the claim that more of them err less.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesvm.core.types import Array
from bayesvm.datasets import load_usps
from bayesvm.gp.inducing import choose_points
from bayesvm.kernels import RBF, Scaled

from . import tenfold
from .ep import fit_ep
from .factor_models import MEASURED as MEASURED
from .factor_models import judged
from .henao_ecm import fit_ecm, fit_fitc
from .running import Task

START = Scaled(4.0, RBF(10.0))
POINTS = 100
NUMBERS = (25, 50, 200, 400)
# method: likelihood, approximation, how the kernel is tuned, where the points are
METHODS = {
    "FITC-BSVM, moved": ("hinge", "fitc", "bound", "optimise"),
    "FITC-GPC, moved": ("probit", "fitc", "bound", "optimise"),
    "FITC-BSVM": ("hinge", "fitc", "bound", "kmeans"),
    "FITC-GPC": ("probit", "fitc", "bound", "kmeans"),
    "variational, moved": ("hinge", "variational", "bound", "optimise"),
    "variational": ("hinge", "variational", "bound", "kmeans"),
    "variational, evidence": ("hinge", "variational", "evidence", "kmeans"),
}
FULL = {"full BSVM": "hinge", "full GPC": "probit"}  # every row a point, on 3 against 5
PLAIN = {  # as in the paper
    "FITC-BSVM, ECM": fit_fitc,
    "FITC-GPC, EP": lambda X, y, points, standardize: fit_ep(
        X, y, points=points, standardize=standardize
    ),
    "full BSVM, ECM": lambda X, y, points, standardize: fit_ecm(X, y, standardize=standardize),
    "full GPC, EP": lambda X, y, points, standardize: fit_ep(X, y, standardize=standardize),
}
FITC = tuple(m for m in PLAIN if m.startswith("FITC"))
# task: rows to learn from, then error in %, its standard deviation and seconds of BSVM, GPC
PRINTED = {
    "3 v 5": (767, (3.49, 0.29, 46), (3.69, 0.26, 102)),
    "4 v rest": (7291, (2.44, 0.17, 116), (2.59, 0.17, 604)),
}
REPETITIONS, TWICE = 10, 2  # the second: other numbers of points by ECM and EP
KEYS = ["task", "method", "points"]


def load(name: str) -> tuple[Array, Array, Array, Array]:
    """Rows and labels to learn from, and to score."""
    bunch = load_usps(resampled=name == "3 v 5")
    y, y_test = bunch.target, bunch.target_test
    if name == "4 v rest":
        y, y_test = np.where(y == 4, 1, -1), np.where(y_test == 4, 1, -1)
    return bunch.data, y, bunch.data_test, y_test


def tasks(quick: bool, seed: int) -> list[Task]:
    """Every way, several times; ``quick`` leaves the larger task and other numbers out."""
    table = [
        (name, m, POINTS) for name in (["3 v 5"] if quick else PRINTED) for m in (*METHODS, *FITC)
    ]
    more = [] if quick else [("3 v 5", m, M) for M in NUMBERS for m in ("FITC-BSVM", "FITC-GPC")]
    found: list[Task] = [
        {"task": name, "method": m, "points": M, "repetition": k, "seed": seed}
        for name, m, M in table + more
        for k in range(2 if quick else REPETITIONS)
    ]
    found += [
        {"task": "3 v 5", "method": m, "points": M, "repetition": k, "seed": seed}
        for M in (() if quick else NUMBERS[:-1])
        for m in FITC
        for k in range(TWICE)
    ]
    exact = (
        [] if quick else [*FULL, *(m for m in PLAIN if m not in FITC)]
    )  # nothing differs between repetitions
    return found + [
        {"task": "3 v 5", "method": m, "points": PRINTED["3 v 5"][0], "repetition": 0, "seed": seed}
        for m in exact
    ]


def solve(task: Task) -> dict[str, float]:
    from bayesvm import BayesianSVC

    X, y, X_test, y_test = load(task["task"])
    method, seed = task["method"], task["seed"] + task["repetition"]
    if method in PLAIN:
        points = None
        if method in FITC:
            rng = np.random.default_rng(seed)
            points = choose_points(X, task["points"], "kmeans", START, rng)
        return judged(lambda: PLAIN[method](X, y, points, False), X_test, y_test)
    full = (FULL.get(method), "variational", "bound", "kmeans")
    likelihood, approximation, tune, where = METHODS.get(method, full)
    model = BayesianSVC(
        START,
        None if method in FULL else task["points"],
        inducing=where,
        approximation=approximation,
        likelihood=likelihood,
        tune=tune,
        standardize=False,
        random_state=seed,
    )
    return judged(lambda: model.fit(X, y), X_test, y_test)


def report(frame: Any, console: Any) -> None:
    percent = frame.assign(error=100 * frame.error)
    table = tenfold.rows_of(percent, KEYS, ("error", "log_loss", "cpu"))
    tenfold.print_rows(console, "Error in %: mean over repetitions ± standard error", table, KEYS)
    spread = percent.groupby(KEYS, sort=False).error.std(ddof=1)
    console.print("Standard deviations of the error over repetitions")
    console.print(spread.round(2).to_string())
    for name, (n, ours, theirs) in PRINTED.items():
        console.print(
            f"The paper, {name} ({n} rows): FITC-BSVM {ours[0]:.2f} ± {ours[1]:.2f} %, "
            f"{ours[2]} s, FITC-GPC {theirs[0]:.2f} ± {theirs[1]:.2f} %, {theirs[2]} s"
        )
