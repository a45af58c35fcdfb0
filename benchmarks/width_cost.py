"""Processor time of default fits with the data's width, as a ratio to fits with the model's.

    python benchmarks/width_cost.py

Fits of both kinds take turns on one thread; medians.  Rows are Gaussian, log odds linear.
"""

from __future__ import annotations

import os
import time
import warnings
from statistics import median

import numpy as np
from scipy.special import expit
from threadpoolctl import threadpool_limits

from bayesvm import BayesianLinearSVC, BayesianSVC

CELLS = [  # estimator, rows, columns, rounds
    (BayesianLinearSVC, 200, 5, 15),
    (BayesianLinearSVC, 1_000, 20, 15),
    (BayesianLinearSVC, 30_000, 30, 5),
    (BayesianLinearSVC, 300_000, 30, 3),
    (BayesianSVC, 200, 5, 7),
    (BayesianSVC, 1_000, 10, 3),
]


def simulated(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels."""
    rng = np.random.default_rng([n, p])
    X = rng.standard_normal((n, p))
    f = X @ rng.standard_normal(p) * 2 / np.sqrt(p)
    return X, (rng.random(n) < expit(f)).astype(int)


def seconds(estimator: type, width: str, X: np.ndarray, y: np.ndarray) -> float:
    """Processor time of one fit."""
    start = time.process_time()
    estimator(width=width, random_state=0).fit(X, y)
    return time.process_time() - start


def main() -> None:
    print("| estimator | rows | columns | data's width, CPU s | model's | ratio |")
    print("|---|---|---|---|---|---|")
    for estimator, n, p, rounds in CELLS:
        X, y = simulated(n, p)
        both = [[seconds(estimator, w, X, y) for w in ("data", "model")] for _ in range(rounds)]
        data, model = (median(column) for column in zip(*both, strict=True))
        first = f"| `{estimator.__name__}()` | {n:,} | {p} "
        print(f"{first}| {data:.3f} | {model:.3f} | {data / model:.2f} |", flush=True)
    print(f"Load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
