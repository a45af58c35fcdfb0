"""BayesianSVC and a grid search with Platt's method on Raetsch's thirteen sets; linear machines.

    python benchmarks/raetsch.py --jobs 16 --realisations 5:25 --out results.csv
    python benchmarks/raetsch.py --methods linear,linear_hinge,linear_logistic,logistic_cv
    python benchmarks/raetsch.py --report results.csv

Reads ``$BAYESVM_DATA/raetsch``.  One row of the CSV for every (set, realisation, method); rows that
are there already are not computed again.  Realisations 0 to 4 chose the defaults: report others.
"""

from __future__ import annotations

import argparse
import csv
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
from bayesvm.kernels import RBF
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


METHODS: dict[str, Any] = {  # options of BayesianSVC, given the number of columns
    "ours": lambda p: {},
    "ours_cv": lambda p: {"tune": "cv"},
    "ours_shared": lambda p: {"kernel": RBF(float(np.sqrt(p)))},  # never one scale a column
    "ours_matern": lambda p: {"kernel": "matern"},
    "ours_hinge": lambda p: {"likelihood": "hinge"},
    "ours_logistic": lambda p: {"likelihood": "logistic"},
    "ours_augmented": lambda p: {"inference": VB(bound="augmented")},
    "papers": lambda p: {
        "tune": "bound",
        "inference": VB(bound="augmented"),
        "probability": "probit",
    },
    "svc": None,
}
LINEAR = ("linear", "linear_hinge", "linear_logistic", "logistic_cv")  # as in the tabular sets


def fit(method: str, X: np.ndarray, y: np.ndarray) -> tuple[Any, str]:
    """A fitted model, and what was chosen in the fit."""
    if method in LINEAR:
        return tabular_models.MODELS[method](pd.DataFrame(X), y)
    if method == "svc":
        model, best = grid_and_platt(X, y)
        return model, str(best)
    model = BayesianSVC(random_state=0, **METHODS[method](X.shape[1])).fit(X, y)
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
    report(args.out, args.baseline)


def report(path: Path, baseline: str = "svc") -> None:
    """Means by set and method, and paired comparisons with the baseline."""
    table: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            held = table.setdefault((row["set"], row["method"]), {})
            held[row["realisation"]] = {
                k: float(row[k]) for k in ("error", "brier", "log_loss", "fit_s")
            }
    methods = sorted({m for _, m in table})
    for method in methods:
        print(f"\n{method} against {baseline}: means, paired difference (standard error)")
        print(
            f"{'set':14s} {'#':>3s}  {'error':>6s} {'base':>6s} {'difference':>16s}"
            f"  {'brier':>6s} {'base':>6s}  {'logloss':>7s} {'base':>7s} {'difference':>16s}"
            f"  {'fit s':>6s} {'base':>6s}"
        )
        tally = {"error": [0, 0, 0], "log_loss": [0, 0, 0]}
        gaps: dict[str, list[float]] = {"error": [], "log_loss": [], "ratio": []}
        for name in SETS:
            ours, base = table.get((name, method), {}), table.get((name, baseline), {})
            common = sorted(set(ours) & set(base))
            if not common:
                continue
            a = {k: np.array([ours[r][k] for r in common]) for k in ours[common[0]]}
            b = {k: np.array([base[r][k] for r in common]) for k in a}
            cells = []
            for k in ("error", "log_loss"):
                gap = a[k] - b[k]
                se = gap.std(ddof=1) / np.sqrt(gap.size) if gap.size > 1 else np.nan
                tally[k][0 if gap.mean() < -se else 2 if gap.mean() > se else 1] += 1
                gaps[k].append(gap.mean())
                cells.append(f"{gap.mean():+8.4f} ({se:.4f})")
            gaps["ratio"].append(np.log(a["log_loss"].mean() / b["log_loss"].mean()))
            print(
                f"{name:14s} {len(common):3d}  {a['error'].mean():6.4f} {b['error'].mean():6.4f} "
                f"{cells[0]:>16s}  {a['brier'].mean():6.4f} {b['brier'].mean():6.4f}  "
                f"{a['log_loss'].mean():7.4f} {b['log_loss'].mean():7.4f} {cells[1]:>16s}  "
                f"{a['fit_s'].mean():6.2f} {b['fit_s'].mean():6.2f}"
            )
        if gaps["error"]:
            print(
                f"mean error {np.mean(gaps['error']):+.4f}, mean log loss "
                f"{np.mean(gaps['log_loss']):+.4f}, relative log loss "
                f"{np.expm1(np.mean(gaps['ratio'])):+.1%}; lower / within one standard error / "
                f"higher: error {tally['error']}, log loss {tally['log_loss']}"
            )


if __name__ == "__main__":
    parser = pool.arguments(__doc__, "raetsch.csv")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument(
        "--realisations", default="25:100", help="first:last, last excluded; of image, splice 5 on"
    )
    parser.add_argument("--methods", default="ours,svc", help=", ".join((*METHODS, *LINEAR)))
    parser.add_argument("--baseline", default="svc")
    parser.add_argument("--report", type=Path, help="only print the table of this file")
    given = parser.parse_args()
    report(given.report, given.baseline) if given.report else run(given)
