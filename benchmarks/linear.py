"""Default linear fits beside scikit-learn's logistic regression, in one run.

    python benchmarks/linear.py [--share 0.2] [--only 18 100] [--out FILE]

For each size: seconds of the clock and of the processor of ``BayesianLinearSVC()`` and of
``LogisticRegression()`` with one BLAS thread and with all, log losses at held-out rows, and one
product ``C.T @ C`` of the size.  Dense problems of ``problems.py`` have columns on unlike scales,
for which logistic regression gets a scaler, inside the clock; others are given to it as they are.
``--share`` makes all problems smaller.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
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


SIZES: dict[str, Callable[[float], tuple[Any, ...]]] = {
    "5,000,000 x 18": lambda k: (*simulate(int(5_000_000 * k)), *held_out()),
    "30,000 x 800": lambda k: independent(max(20_000, int(30_000 * k)), 800),
    "sparse 200,000 x 20,000": lambda k: Problem(int(200_000 * k), 20_000, 20_000, "sparse").make(),
    "sparse 200,000 x 300": lambda k: narrow_sparse(int(200_000 * k), 300, 0.05),
    "sparser 200,000 x 300": lambda k: narrow_sparse(int(200_000 * k), 300, 0.01),
    "1,000,000 x 100": lambda k: Problem(int(1_000_000 * k), 100, 20_000).make(),
    "100,000 x 1,000": lambda k: Problem(int(100_000 * k), 1000, 20_000).make(),
}


def clocked(fn: Callable[[], Any]) -> tuple[Any, float, float]:
    """A result, and seconds of the clock and of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    out = fn()
    return out, time.perf_counter() - wall, time.process_time() - cpu


def compared(name: str, data: tuple[Any, ...]) -> dict[str, Any]:
    """One row of the table."""
    X, y, X_test, y_test = data
    dense = not sparse.issparse(X)
    scaled = dense and X.shape[1] in (100, 1000)

    def logistic() -> Any:
        model = LogisticRegression()
        return (make_pipeline(StandardScaler(), model) if scaled else model).fit(X, y)

    def loss(model: Any) -> float:
        return float(log_loss(y_test, model.predict_proba(X_test)[:, 1]))

    with threadpool_limits(1):
        product = clocked(lambda: X.T @ X)[2] if dense else float("nan")
        one, wall_1, cpu_1 = clocked(logistic)
    _, wall_all, cpu_all = clocked(logistic)
    ours, wall, cpu = clocked(lambda: BayesianLinearSVC().fit(X, y))
    numbers = {
        "wall": wall, "cpu": cpu, "logistic_wall_1": wall_1, "logistic_cpu_1": cpu_1,
        "logistic_wall_all": wall_all, "logistic_cpu_all": cpu_all,
        "wall_ratio": wall / min(wall_1, wall_all), "cpu_ratio": cpu / min(cpu_1, cpu_all),
        "log_loss": loss(ours), "logistic_log_loss": loss(one), "product_cpu": product,
        "products": cpu / product,
    }  # fmt: skip
    found: dict[str, Any] = {"problem": name, "rows": X.shape[0]}
    found |= {k: f"{v:.5g}" for k, v in numbers.items()}
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
        rows.append(compared(name, make(args.share)))
        print(" ".join(f"{k}={v}" for k, v in rows[-1].items()), flush=True)
        if args.out:
            args.out.parent.mkdir(parents=True, exist_ok=True)
            with args.out.open("w", newline="") as handle:
                writer = csv.DictWriter(handle, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)


if __name__ == "__main__":
    main()
