"""Predictions: processor time in units of the matrix products that they are made of, and of a row.

    python benchmarks/prediction.py
    python benchmarks/prediction.py --rows 20000 --repeats 2

For kernel machines ``bare`` are the kernel values of the new rows with the points and the products
without which there are no means and variances, in blocks, on one thread: one product of square
matrices for the exact process, two for inducing points.  Every number is the least of several
repeats in one run; the load average is printed with it.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from bayesvm import PCVC, RVC, BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.data import Threads
from bayesvm.kernels import RBF

COLUMNS = 10
BLOCK = 2000  # rows of a bare product
EXACT, POINTS, TRAINING = 1_000, 400, 4_000


def rows_of(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of independent columns, and labels of a function that bends."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, COLUMNS))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
    return X, (f + 0.5 * rng.standard_normal(n) > 0).astype(int)


def in_three(X: np.ndarray, seed: int) -> np.ndarray:
    """Three classes of rows, by what is left of two functions and noise."""
    rng = np.random.default_rng(seed)
    f = np.stack([1.5 * np.sin(X[:, 0]), X[:, 1], 0.5 * X[:, 2] * X[:, 3]], axis=1)
    return np.argmax(f + rng.gumbel(size=f.shape), axis=1)


def least(work: Callable[[], Any], repeats: int) -> float:
    """The least processor time of several calls, in seconds."""
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


def bare(model: BayesianSVC, X: np.ndarray, products: int) -> Callable[[], None]:
    """Kernel values of rows with the points, and products with square matrices and a vector."""
    design = model.machines_[0].model.terms[-1].design
    inputs, Z = design.inputs.columns(X), design.Z
    square = np.random.default_rng(0).standard_normal((len(Z), len(Z)))

    def work() -> None:
        for i in range(0, len(inputs), BLOCK):
            K = design.kernel(inputs[i : i + BLOCK], Z)
            K @ square[0]
            for _ in range(products):
                K @ square

    return work


def many_rows(n: int, repeats: int) -> None:
    """Kernel machines beside the bare products, and intervals beside probabilities."""
    X, y = rows_of(TRAINING, 0)
    new = rows_of(n, 1)[0]
    g = np.arange(TRAINING) // 10
    single = Threads(dtype="float32")
    # intervals of an exact process are those of a tuned one
    exact: dict[str, Any] = {"kernel": "rbf", "n_inducing": None}
    tuned: dict[str, Any] = {"kernel": "rbf"}  # through few points, if these are enough
    three, few = in_three(X, 2), f"{TRAINING:,} rows by few points"
    inducing = {"kernel": 4.0 * RBF(3.0), "tune": False, "n_inducing": POINTS}
    print(f"{n:,} rows: CPU s of bare products and predict_proba, ratios")
    for name, options, labels, size, products in (
        (f"{EXACT:,} exact rows", exact, y, EXACT, 1),
        (f"{EXACT:,} exact rows, float32", exact | {"engine": single}, y, EXACT, 1),
        (f"{EXACT:,} exact rows, three classes", exact, three, EXACT, 1),
        (few, tuned, y, TRAINING, 2),
        (f"{few}, three classes", tuned, three, TRAINING, 2),
        (f"{POINTS} inducing points", inducing, y, TRAINING, 2),
        (f"{POINTS} inducing points, float32", inducing | {"engine": single}, y, TRAINING, 2),
    ):
        model = BayesianSVC(random_state=0, **options).fit(X[:size], labels[:size])
        report(name, model, new, {}, repeats, bare(model, new, products))
    report("linear", BayesianLinearSVC().fit(X, y), new, {}, repeats)
    groups = {"groups": np.arange(n) % g.max()}
    report("mixed", MixedSVC().fit(X, y, groups=g), new, groups, repeats)


def report(
    name: str,
    model: Any,
    X: np.ndarray,
    given: dict[str, Any],
    repeats: int,
    products: Callable[[], None] | None = None,
) -> None:
    few = {key: value[:2] for key, value in given.items()}
    model.predict_interval(X[:2], **few)  # what is computed once
    unit = np.nan
    if products is not None:
        with threadpool_limits(1):
            unit = least(products, repeats)
    proba = least(lambda: model.predict_proba(X, **given), repeats)
    interval = least(lambda: model.predict_interval(X, **given), repeats)
    print(
        f"  {name:40s} bare {unit:7.3f}  proba {proba:7.3f}  proba / bare {proba / unit:5.2f}  "
        f"interval / proba {interval / proba:5.2f}  load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def one_row(calls: int, repeats: int) -> None:
    """Milliseconds of one row."""
    X, y = rows_of(EXACT, 0)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(COLUMNS)])
    text = frame.assign(kind=np.where(X[:, 0] > 0, "a", "b"))
    g = np.arange(EXACT) // 10
    kernel = {"kernel": 4.0 * RBF(3.0), "tune": False, "random_state": 0}
    print("one row: CPU ms of predict_proba, predict, predict_interval")
    for name, model, rows in (
        ("linear", BayesianLinearSVC(), X),
        ("linear, frame", BayesianLinearSVC(), frame),
        ("linear, frame with text", BayesianLinearSVC(), text),
        (f"kernel, {EXACT:,} exact rows", BayesianSVC(**kernel), X),
        (f"tuned kernel, {EXACT:,} rows", BayesianSVC(random_state=0), X),
        ("kernel, 100 inducing points", BayesianSVC(n_inducing=100, **kernel), X),
        ("mixed", MixedSVC(), X),
        ("PCVC", PCVC(), X),
        ("RVC", RVC(), X),
    ):
        given = {"groups": g} if isinstance(model, MixedSVC) else {}
        model.fit(rows, y, **given)
        row, given = rows[:1], {key: value[:1] for key, value in given.items()}
        cells = []
        for method in ("predict_proba", "predict", "predict_interval"):
            call = getattr(model, method)
            call(row, **given)

            def several(call: Any = call, row: Any = row, given: Any = given) -> None:
                for _ in range(calls):
                    call(row, **given)

            cells.append(f"{1e3 * least(several, repeats) / calls:7.3f}")
        print(f"  {name:32s}", *cells, f" load {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--calls", type=int, default=20)
    given = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one_row(given.calls, given.repeats)
        many_rows(given.rows, given.repeats)


if __name__ == "__main__":
    main()
