"""BayesianSVC against a grid search with Platt's method on Raetsch's thirteen sets.

    python benchmarks/raetsch.py --jobs 16 --realisations 5:25 --out results.csv
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
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bayesvm import BayesianSVC
from bayesvm.inference import VB
from bayesvm.kernels import RBF
from papers.tenfold import grid_and_platt

SETS = [  # the slowest first, so that no process is left alone with one at the end
    *("image", "splice", "german", "flare_solar", "diabetis", "banana", "ringnorm"),
    *("twonorm", "waveform", "breast_cancer", "heart", "thyroid", "titanic"),
]
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
    "ours_logistic": lambda p: {"likelihood": "logistic"},
    "ours_augmented": lambda p: {"inference": VB(bound="augmented")},
    "papers": lambda p: {
        "tune": "bound",
        "inference": VB(bound="augmented"),
        "probability": "probit",
    },
    "svc": None,
}


def fit(method: str, X: np.ndarray, y: np.ndarray) -> tuple[object, str]:
    if method != "svc":
        model = BayesianSVC(random_state=0, **METHODS[method](X.shape[1])).fit(X, y)
        theta = " ".join(f"{v:.4g}" for v in np.exp(model.kernel_.theta))
        return model, f"{theta} | {model.machines_[0].link} | {model.n_iter_}"
    model, best = grid_and_platt(X, y)
    return model, str(best)


def task(name: str, k: int, method: str) -> dict[str, object]:
    X, y, X_test, y_test = load(name, k)
    with warnings.catch_warnings(), threadpool_limits(1):  # processes run side by side
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model, detail = fit(method, X, y)
        fitted = time.perf_counter()
        proba = model.predict_proba(X_test)[:, 1]
        done = time.perf_counter()
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


def run(args: argparse.Namespace) -> None:
    first, last = (int(v) for v in args.realisations.split(":"))
    out = Path(args.out)
    done: set[tuple[str, str, str]] = set()
    if out.exists():
        with out.open() as file:
            done = {(r["set"], r["realisation"], r["method"]) for r in csv.DictReader(file)}
    tasks = []
    for name in args.sets.split(","):
        with np.load(Path(os.environ["BAYESVM_DATA"]) / "raetsch" / f"{name}.npz") as d:
            count = len(d["train_original"]) + len(d["train_generated"])
        for k in range(first, min(last, count)):
            wanted = [(name, k, m) for m in args.methods.split(",")]
            tasks += [t for t in wanted if (t[0], str(t[1]), t[2]) not in done]
    fresh = not out.exists()
    with out.open("a", newline="") as file, ProcessPoolExecutor(args.jobs) as pool:
        writer = csv.DictWriter(file, FIELDS)
        if fresh:
            writer.writeheader()
        waiting = [pool.submit(task, *t) for t in tasks]
        for k, future in enumerate(as_completed(waiting), 1):
            writer.writerow(future.result())
            file.flush()
            if k % 50 == 0:
                print(f"{k} of {len(tasks)}", flush=True)
    report(out, args.baseline)


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
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--realisations", default="5:25", help="first:last, last excluded")
    parser.add_argument("--methods", default="ours,svc", help=", ".join(METHODS))
    parser.add_argument("--baseline", default="svc")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", default="raetsch.csv")
    parser.add_argument("--report", type=Path, help="only print the table of this file")
    given = parser.parse_args()
    report(given.report, given.baseline) if given.report else run(given)
