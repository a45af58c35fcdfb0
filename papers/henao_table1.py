"""Henao, Yuan & Carin (2014), Table 1: error on six benchmark sets, ten folds.

Wisconsin without its 16 incomplete rows.  The paper's method is BSVM; beside it stand the support
vector machine by grid search and GPC (by expectation propagation there, Laplace's method here).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bayesvm.compare.tasks import Task
from bayesvm.core.types import Array
from bayesvm.datasets import load_benchmark, load_usps

from . import tenfold
from .experiment import Experiment

# set: rows, then error in % of BSVM, SVM, GPC
_PRINTED = {
    "ionosphere": (351, 5.98, 5.71, 7.41),
    "sonar": (208, 11.06, 11.54, 12.50),
    "wisconsin": (683, 2.93, 3.07, 2.64),
    "crabs": (200, 1.5, 2.0, 2.5),
    "pima": (768, 21.88, 24.22, 22.01),
    "usps": (1540, 1.49, 1.56, 1.69),
}
SIZES = {name: int(row[0]) for name, row in _PRINTED.items()}
PRINTED = {
    "error": {
        name: dict(zip(tenfold.METHODS, (e / 100 for e in row[1:])))
        for name, row in _PRINTED.items()
    }
}


def load(name: str) -> tuple[Array, Array]:
    """Complete rows and labels."""
    if name == "usps":
        bunch = load_usps(resampled=True)
        parts = (bunch.data, bunch.data_test), (bunch.target, bunch.target_test)
        return np.concatenate(parts[0]), np.concatenate(parts[1])
    bunch = load_benchmark(name)
    whole = np.isfinite(bunch.data).all(axis=1)
    return bunch.data[whole], bunch.target[whole]


def tasks(quick: bool, seed: int) -> list[Task]:
    return tenfold.tasks_of(SIZES, quick, seed)


def report(frame: Any, console: Any) -> None:
    tenfold.report(frame, console, PRINTED, "BSVM")


EXPERIMENT = Experiment(
    name="henao-table1",
    title="Henao, Yuan & Carin (2014), Table 1: six benchmark sets, ten folds",
    tasks=tasks,
    solve=partial(tenfold.solve, load=load),
    measured=tenfold.MEASURED,
    report=report,
    draw=partial(tenfold.draw, sets=tuple(SIZES)),
)
