"""Wenzel et al. (2017), section 5.5: means of a Gaussian mixture as inducing points.

The paper finds that mixtures fail "to converge for almost all datasets tried".  Those of
scikit-learn, with full and with diagonal covariances, with the ridge of 1e-6 that it adds to them
and without, on the sets of Fig. 3 and Table 1: which end with an error (a covariance that is
singular), which do not converge within its 100 rounds, and how the machine errs with their means
as points.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from . import tenfold, wenzel_table1
from .running import Task
from .wenzel_inducing import machine, rows

COUNTS = (5, 20, 100)
SHAPES, RIDGES, FOLDS = ("full", "diag"), (1e-6, 0.0), 3
MEASURED = (*tenfold.MEASURED, "failed", "converged", "rounds", "mixture_seconds")
KEYS = ["set", "covariances", "ridge", "points"]


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set by mixture by fold; ``quick`` takes two numbers of points on one small set."""
    sizes = {"heart": 270} if quick else {"usps": 1540} | wenzel_table1.SIZES
    return [
        {"set": name, "covariances": shape, "ridge": ridge, "points": m, "fold": k, "seed": seed}
        for m in (COUNTS[:2] if quick else COUNTS[::-1])  # the longest first
        for name, n in sizes.items()
        for shape in SHAPES
        for ridge in RIDGES
        for k in range(1 if quick else FOLDS)
        if m <= n / 2
    ]


def solve(task: Task) -> dict[str, float]:
    """Fit the mixture, then the machine; there is no machine if the mixture ends with an error."""
    X, y, X_test, y_test = rows(task)
    mixture = GaussianMixture(
        task["points"], covariance_type=task["covariances"], reg_covar=task["ridge"],
        random_state=task["seed"] + task["fold"],
    )  # fmt: skip
    start = time.process_time()
    found = dict.fromkeys(MEASURED, np.nan) | {"failed": 1.0, "converged": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # that is what is counted
        try:
            mixture.fit(X)
        except ValueError:  # scikit-learn: "ill-defined empirical covariance"
            return found | {"mixture_seconds": time.process_time() - start}
    found |= {
        "failed": 0.0,
        "converged": float(mixture.converged_),
        "rounds": float(mixture.n_iter_),
        "mixture_seconds": time.process_time() - start,
    }
    model = machine(task["set"], inducing=mixture.means_, random_state=task["seed"])
    return found | tenfold.scored(lambda: model.fit(X, y), X_test, y_test)[0]


def report(frame: Any, console: Any) -> None:
    """Means over folds, then how many mixtures failed or did not converge."""
    columns = ["failed", "converged", "rounds", "mixture_seconds", "error", "log_loss"]
    by = frame.groupby(KEYS, sort=False)[columns].mean()
    console.print(by.round(3).to_string())
    for (shape, ridge), part in frame.groupby(["covariances", "ridge"], sort=False):
        console.print(
            f"{shape} covariances, ridge {ridge:g}: of {len(part)} mixtures "
            f"{part['failed'].sum():.0f} end with an error and "
            f"{(1 - part['failed'] - part['converged']).sum():.0f} do not converge"
        )
