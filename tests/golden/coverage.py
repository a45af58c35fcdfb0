"""Coverage of 90 % intervals in eight cells of simulated data sets, and its record.

    python -m tests.golden.coverage linear --jobs 2    # write the cells of the linear estimator
    python -m tests.golden.coverage kernel --jobs 2

The features are standard normal and P(y = 1 | x) is the logistic function of a score: x'b for the
linear estimator, with a random direction b of length 2, and 2 sin(1.5 x_1) + x_2 for the kernel
estimator, where all other features are noise. Probabilities are judged at 200 new observations,
coefficients against b. A cell has 200 data sets, or 50 where the kernel estimator is fitted to
1,000 observations (a fit takes about a second); `se` is the standard error over data sets.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.optimize import brentq
from scipy.special import expit

from bayesvm import BayesianLinearSVC, BayesianSVC

RECORD = Path(__file__).parent / "coverage.csv"
CELLS = list(itertools.product((200, 1000), (5, 20), (0.5, 0.1)))  # rows, features, positives
ESTIMATORS = {"linear": BayesianLinearSVC, "kernel": BayesianSVC}


def scores(estimator: str, X: np.ndarray, b: np.ndarray) -> np.ndarray:
    """True scores without their offset, (n,)."""
    return X @ b if estimator == "linear" else 2 * np.sin(1.5 * X[:, 0]) + X[:, 1]


@cache
def offset(estimator: str, positives: float) -> float:
    """Offset of the score at which a share of the labels is positive."""
    X = np.random.default_rng(0).standard_normal((100_000, 2))
    f = scores(estimator, X, np.array([2.0, 0.0]))
    return brentq(lambda level: expit(level + f).mean() - positives, -10, 10)


def covered(estimator: str, n: int, p: int, positives: float, seed: int) -> tuple[float, float]:
    """Shares of probabilities and of coefficients (linear) in their 90 % intervals, in one set."""
    rng = np.random.default_rng([seed, n, p])
    X, b = rng.standard_normal((n + 200, p)), rng.standard_normal(p)
    b *= 2 / np.linalg.norm(b)
    P = expit(offset(estimator, positives) + scores(estimator, X, b))
    y = (rng.random(n + 200) < P).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ESTIMATORS[estimator](random_state=0).fit(X[:n], y[:n])
        low, high = (end[:, 1] for end in model.predict_interval(X[n:], 0.9))
    probabilities = np.mean((low <= P[n:]) & (P[n:] <= high))
    if estimator == "kernel":
        return probabilities, np.nan
    low, high = (end[0] for end in model.coef_interval(0.9))
    return probabilities, np.mean((low <= b) & (b <= high))


def cell(estimator: str, n: int, p: int, positives: float, jobs: int = 1) -> dict[str, object]:
    """Coverage in one cell: means over its data sets with their standard errors."""
    sets = 50 if estimator == "kernel" and n == 1000 else 200
    tasks = [(estimator, n, p, positives, seed) for seed in range(sets)]
    found = np.array(Parallel(n_jobs=jobs)(delayed(covered)(*task) for task in tasks))
    mean, se = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
    keys = {"estimator": estimator, "n": n, "p": p, "positives": positives, "sets": sets}
    values = (mean[0], se[0], mean[1], se[1])
    return keys | dict(zip(("proba", "proba_se", "coef", "coef_se"), values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("estimator", choices=ESTIMATORS)
    parser.add_argument("--jobs", type=int, default=1)
    a = parser.parse_args()
    old = pd.read_csv(RECORD) if RECORD.exists() else pd.DataFrame({"estimator": []})
    rows = []
    for n, p, positives in CELLS:
        start = time.process_time()
        rows.append(cell(a.estimator, n, p, positives, a.jobs))
        print(rows[-1], f"{time.process_time() - start:.0f} s", flush=True)
        table = pd.concat([old[old.estimator != a.estimator], pd.DataFrame(rows)])
        table.round(4).to_csv(RECORD, index=False)


if __name__ == "__main__":
    main()
