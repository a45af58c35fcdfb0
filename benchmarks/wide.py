"""More columns than rows at the defaults: time, memory and scores of each prior, and missing cells.

``python benchmarks/wide.py METHOD ROWS COLUMNS`` makes one fit and prints what was measured.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np

import machine
from bayesvm import BayesianLinearSVC
from bayesvm.inference import VB
from scores import score

SIZES = ((200, 1_000), (52, 12_625))  # the second is that of an early microarray
INFORMATIVE, SHIFT = 5, 1.0  # columns that differ between the classes, and by how much either way
GONE = 0.05  # share of cells that are missing
NEW = 1_000  # rows to score

METHODS: dict[str, dict[str, Any]] = {
    "ridge": {},
    "ridge, tight": {"inference": VB(bound="tight")},
    "lasso": {"prior": "lasso"},
    "bridge": {"prior": "bridge"},
    "spike_slab": {"prior": "spike_slab"},
    "laplace_zero": {"prior": "laplace_zero"},
    "missing, none": {"missing": "model"},
    "missing, 5 %": {"missing": "model"},
}


def make(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels in turn; columns of noise, the first few shifted by the label."""
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % 2
    X = rng.standard_normal((rows, columns))
    X[:, :INFORMATIVE] += SHIFT * (2 * y - 1)[:, None]
    return X, y


def measure(method: str, rows: int, columns: int) -> dict[str, float]:
    """Time and memory of a fit, its passes, and scores on new rows."""
    X, y = make(rows, columns, 0)
    if method == "missing, 5 %":
        X[np.random.default_rng(1).random(X.shape) < GONE] = np.nan
    model = BayesianLinearSVC(random_state=0, **METHODS[method])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        BayesianLinearSVC(random_state=0, **METHODS[method]).fit(*make(20, 10, 2))
        _, out = machine.measure(lambda: model.fit(X, y))
        out |= score(model, *make(NEW, columns, 3))
    out |= {"passes": float(model.n_iter_), "converged": float(model.converged_)}
    if "prior" in METHODS[method] and hasattr(model, "inclusion_proba_"):
        inside = model.inclusion_proba_ > 0.5
        out["true"] = float(inside[:INFORMATIVE].sum())
        out["false"] = float(inside[INFORMATIVE:].sum())
    return out


if __name__ == "__main__":
    name, n, p = sys.argv[1:4]
    print(json.dumps(measure(name, int(n), int(p))))
