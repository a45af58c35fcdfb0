"""BayesianSVC and a grid search with Platt's method on Raetsch's thirteen sets; linear machines.

    python benchmarks/raetsch.py --jobs 16 --realisations 5:25 --out results.csv
    python benchmarks/raetsch.py --methods linear,logistic_cv
    python benchmarks/raetsch_pages.py benchmarks/results/*/raetsch.csv    # tables in the pages

Reads ``$BAYESVM_DATA/raetsch``.  One row of the CSV for every (set, realisation, method); rows that
are there already are not computed again.  Realisations 0 to 4 chose the defaults: report others.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pool
import tabular_models
from bayesvm import BayesianSVC
from bayesvm.inference import VB
from papers.tenfold import grid_and_platt

SETS = [  # the slowest first, so that no process is left alone with one at the end
    *("image", "splice", "german", "flare_solar", "diabetis", "banana", "ringnorm"),
    *("twonorm", "waveform", "breast_cancer", "heart", "thyroid", "titanic"),
]
FEW = ("image", "splice")  # twenty realisations: those from 5 on report
FIELDS = [
    *("set", "realisation", "method", "n", "p"),
    *("error", "brier", "log_loss", "fit_s", "predict_s", "detail"),
]


def load(name: str, k: int) -> tuple[np.ndarray, ...]:
    """Realisation ``k``: Raetsch's own first, then seeded ones of the same sizes."""
    with np.load(Path(os.environ["BAYESVM_DATA"]) / "raetsch" / f"{name}.npz") as d:
        x, t = d["x"].astype(float), d["t"].astype(int)
        train = [*d["train_original"], *d["train_generated"]]
        test = [*d["test_original"], *d["test_generated"]]
    return x[train[k]], t[train[k]], x[test[k]], t[test[k]]


METHODS: dict[str, Any] = {  # options of BayesianSVC
    "ours": {},
    "papers": {"tune": "bound", "inference": VB(bound="augmented"), "probability": "probit"},
    "svc": None,
}
LINEAR = ("linear", "logistic_cv")  # as in the tabular sets


def fit(method: str, X: np.ndarray, y: np.ndarray) -> tuple[Any, str]:
    """A fitted model, and what was chosen in the fit."""
    if method in LINEAR:
        return tabular_models.MODELS[method](pd.DataFrame(X), y)
    if method == "svc":
        model, best = grid_and_platt(X, y)
        return model, str(best)
    model = BayesianSVC(random_state=0, **METHODS[method]).fit(X, y)
    theta = " ".join(f"{v:.4g}" for v in np.exp(model.kernel_.theta))
    return model, f"{theta} | {model.machines_[0].link} | {model.n_iter_}"


def work(name: str, k: int, method: str) -> pool.Row:
    """Fit and score one realisation; seconds of processor time."""
    X, y, X_test, y_test = load(name, k)
    start = time.process_time()
    model, detail = fit(method, X, y)
    fitted = time.process_time()
    proba = model.predict_proba(pd.DataFrame(X_test) if method in LINEAR else X_test)[:, 1]
    done = time.process_time()
    positive = y_test == 1
    p = np.clip(proba, 1e-15, 1 - 1e-15)
    values = [
        np.mean((p > 0.5) != positive),
        np.mean((p - positive) ** 2),
        -np.mean(np.where(positive, np.log(p), np.log1p(-p))),
        fitted - start,
        done - fitted,
    ]
    row = [name, k, method, *X.shape, *(f"{v:.6g}" for v in values), detail]
    return dict(zip(FIELDS, row))


def realisations(name: str) -> int:
    """How many there are of a set."""
    with np.load(Path(os.environ["BAYESVM_DATA"]) / "raetsch" / f"{name}.npz") as d:
        return len(d["train_original"]) + len(d["train_generated"])


def cost(name: str, k: int, method: str) -> float:
    """The larger sets first, and fits that take long before those that do not."""
    return (len(SETS) - SETS.index(name)) * (0.01 if method in LINEAR else 1.0)


def run(args: argparse.Namespace) -> None:
    first, last = (int(v) for v in args.realisations.split(":"))
    jobs = []
    for name in args.sets.split(","):
        here = range(5 if name in FEW and first > 5 else first, min(last, realisations(name)))
        jobs += [(name, k, m) for k in here for m in args.methods.split(",")]
    pool.run(work, jobs, args.out, FIELDS, args.jobs, args.seconds, cost)


if __name__ == "__main__":
    parser = pool.arguments(__doc__, "raetsch.csv")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument(
        "--realisations", default="25:100", help="first:last, last excluded; of image, splice 5 on"
    )
    parser.add_argument("--methods", default="ours,svc", help=", ".join((*METHODS, *LINEAR)))
    run(parser.parse_args())
