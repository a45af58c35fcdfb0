"""Default linear fits beside scikit-learn's logistic regression, in one run.

    python benchmarks/linear.py [--share 0.2] [--only 18 300] [--out FILE]

For each size: seconds of the clock and of the processor of ``BayesianLinearSVC()``, of one
``LogisticRegression()`` and, below a million rows, of ``LogisticRegressionCV()``, which chooses its
penalty too; on one thread, the best of two, and log losses at held-out rows.
``BayesianLinearSVC()`` is timed with all cores as well.  ``--share`` makes all problems smaller.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from bayesvm import BayesianLinearSVC
from problems import Problem
from scale_problem import held_out, simulate


def independent(n: int, p: int) -> tuple[Any, ...]:
    """Independent Gaussian columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + 20_000, p))
    f = 2.0 * X @ rng.standard_normal(p) / np.sqrt(p)
    y = (rng.random(n + 20_000) < 1.0 / (1.0 + np.exp(-f))).astype(int)
    return X[:n], y[:n], X[n:], y[n:]


def narrow_sparse(n: int, p: int, share: float) -> tuple[Any, ...]:
    """Gaussian entries at random places, a share of all, and f of standard deviation 1.5."""
    rng = np.random.default_rng(0)
    held = rng.poisson(p * share, n + 20_000)
    rows, columns = np.repeat(np.arange(held.size), held), rng.integers(p, size=held.sum())
    X = sparse.csr_array((rng.standard_normal(rows.size), (rows, columns)), (held.size, p))
    f = X @ rng.standard_normal(p) * (1.5 / np.sqrt(p * share))
    y = (rng.random(held.size) < 1.0 / (1.0 + np.exp(-f))).astype(int)
    return X[:n], y[:n], X[n:], y[n:]


def counts(n: int, p: int, classes: int) -> tuple[Any, ...]:
    """Word counts of several classes, overdispersed."""
    rng = np.random.default_rng(0)
    rate = np.exp(rng.normal(-3.5, 1.2, p) + 0.8 * rng.standard_normal((classes, p)))
    y = rng.integers(0, classes, 2 * n)
    X = rng.poisson(rate[y] * rng.gamma(2.0, 0.5, 2 * n)[:, None]).astype(float)
    return X[:n], y[:n], X[n:], y[n:]


SIZES: dict[str, Callable[[float], tuple[Any, ...]]] = {
    "1,000,000 x 18": lambda k: (*simulate(int(1_000_000 * k)), *held_out()),
    "5,000,000 x 18": lambda k: (*simulate(int(5_000_000 * k)), *held_out()),
    "200,000 x 30": lambda k: independent(int(200_000 * k), 30),
    "20,000 x 300": lambda k: independent(int(20_000 * k), 300),
    "sparse 200,000 x 20,000": lambda k: Problem(int(200_000 * k), 20_000, 20_000, "sparse").make(),
    "sparse 200,000 x 300": lambda k: narrow_sparse(int(200_000 * k), 300, 0.05),
    "counts 810 x 856": lambda k: counts(int(810 * k), 856, 9),
}


def clocked(fn: Callable[[], Any]) -> tuple[Any, float, float]:
    """A result, and seconds of the clock and of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    out = fn()
    return out, time.perf_counter() - wall, time.process_time() - cpu


def compared(name: str, data: tuple[Any, ...], selects: bool = True) -> dict[str, Any]:
    """One row of the table."""
    X, y, X_test, y_test = data

    def loss(model: Any) -> float:
        return float(log_loss(y_test, model.predict_proba(X_test)))

    def best(make: Callable[[], Any], times: int) -> tuple[Any, float, float]:
        runs = [clocked(lambda: make().fit(X, y)) for _ in range(times)]
        return min(runs, key=lambda run: run[2])

    found: dict[str, Any] = {"problem": name, "rows": X.shape[0]}
    makers: dict[str, Callable[[], Any]] = {"logistic": LogisticRegression}
    if selects:
        makers["logistic_cv"] = LogisticRegressionCV
    for threads in (1, None):
        with threadpool_limits(threads):
            ours = partial(BayesianLinearSVC, n_jobs=1 if threads else None)
            for key, make in ({"bayesvm": ours} | (makers if threads else {})).items():
                model, wall, cpu = best(make, 1 if key == "logistic_cv" else 2)
                label = key if threads else f"{key}_all_cores"
                found |= {f"{label}_cpu": f"{cpu:.4g}", f"{label}_wall": f"{wall:.4g}"}
                found[f"{label}_log_loss"] = f"{loss(model):.5g}"
    for key in makers:
        found[f"ratio_{key}"] = f"{float(found['bayesvm_cpu']) / float(found[f'{key}_cpu']):.3g}"
    return found | {"cores": os.cpu_count(), "load": f"{os.getloadavg()[0]:.1f}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--only", nargs="*", default=[], help="last words of the names of problems")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    BayesianLinearSVC().fit(rng.standard_normal((300, 3)), rng.integers(2, size=300))
    rows = []
    for name, make in SIZES.items():
        if args.only and not any(name.endswith(f" {word}") for word in args.only):
            continue
        data = make(args.share)
        rows.append(compared(name, data, selects=data[0].shape[0] < 1_000_000))
        print(" ".join(f"{k}={v}" for k, v in rows[-1].items()), flush=True)
        if args.out:
            args.out.parent.mkdir(parents=True, exist_ok=True)
            with args.out.open("w", newline="") as handle:
                writer = csv.DictWriter(handle, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)


if __name__ == "__main__":
    main()
