"""Two versions of the package side by side: seconds and scores of the same fits.

``python benchmarks/versions.py before=SRC after=SRC`` runs every fit in fresh processes, the
versions in turn, and prints the fastest of the repetitions; with ``--output`` also to a CSV file.
SRC is the folder that holds ``bayesvm``.  ``--threads`` sets the threads of BLAS.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve()


def simulated(n: int, p: int, dtype: Any = float) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)).astype(dtype)
    f = X[:, 0] - X[:, 1] + X[:, 2] * X[:, 3] if p > 3 else np.sin(3 * X[:, 0]) + X[:, 1]
    return X, f + rng.logistic(size=n) * 0.5 > 0


def cases() -> dict[str, tuple[Any, Any, int]]:
    """Name of a row: a function that makes the estimator, its data, repetitions."""
    from sklearn.datasets import load_breast_cancer, load_iris, make_moons

    import bayesvm as b
    from bayesvm.inference import Gibbs

    cancer, iris = load_breast_cancer(return_X_y=True), load_iris(return_X_y=True)
    rng, seed = np.random.default_rng(1), {"random_state": 0}
    X, y = simulated(20_000, 8)
    grouped = (X, y, None, rng.integers(0, 500, len(y)))
    gibbs = Gibbs(draws=500, burn_in=250, chains=2)
    factors = rng.standard_normal((120, 3)) @ rng.standard_normal((3, 200))
    factors = (factors + rng.standard_normal((120, 200)), factors[:, 0] > 0)
    given = {"kernel": b.kernels.Scaled(4.0, b.kernels.RBF(3.0)), "tune": False}
    return {
        "linear: breast cancer": (lambda: b.BayesianLinearSVC(**seed), cancer, 5),
        "linear: iris, three classes": (lambda: b.BayesianLinearSVC(**seed), iris, 5),
        "linear: 300,000 x 30": (lambda: b.BayesianLinearSVC(**seed), simulated(300_000, 30), 3),
        "linear: 52 x 5,000, lasso": (
            lambda: b.BayesianLinearSVC("lasso", **seed),
            simulated(52, 5_000),
            2,
        ),
        "linear: em, breast cancer": (lambda: b.BayesianLinearSVC("fixed", "em"), cancer, 5),
        "linear: spike_slab, vb": (lambda: b.BayesianLinearSVC("spike_slab", **seed), cancer, 3),
        "linear: svi, 10,000 x 20": (
            lambda: b.BayesianLinearSVC(inference="svi", **seed),
            simulated(10_000, 20),
            3,
        ),
        "gibbs: linear, breast cancer": (
            lambda: b.BayesianLinearSVC(inference=gibbs, **seed),
            cancer,
            2,
        ),
        "mixed: 20,000 rows, 500 groups": (lambda: b.MixedSVC(**seed), grouped, 3),
        "kernel: 900 x 10, exact": (lambda: b.BayesianSVC(**seed), simulated(900, 10), 2),
        "kernel: 5,000 x 10": (lambda: b.BayesianSVC(**seed), simulated(5_000, 10), 3),
        "scale: 100,000 x 18, 64 points": (
            lambda: b.BayesianSVC(n_inducing=64, **given, **seed),
            simulated(100_000, 18),
            3,
        ),
        "scale: 2,000,000 x 18, 64 points": (
            lambda: b.BayesianSVC(n_inducing=64, **given, **seed),
            simulated(2_000_000, 18, np.float32),
            2,
        ),
        "vector: PCVC, moons": (
            lambda: b.PCVC(**seed),
            make_moons(400, noise=0.25, random_state=0),
            3,
        ),
        "vector: RVC, moons": (
            lambda: b.RVC(**seed),
            make_moons(400, noise=0.25, random_state=0),
            3,
        ),
        "factor: 120 x 200, linear": (lambda: b.FactorSVC(3, "linear", **seed), factors, 2),
        "factor: 120 x 200, kernel": (lambda: b.FactorSVC(3, **seed), factors, 1),
    }


def measure(name: str) -> dict[str, float]:
    """Seconds of one fit and of its predictions, and log loss on the training rows."""
    from sklearn.metrics import log_loss

    warnings.simplefilter("ignore")
    make, data, _ = cases()[name]
    X, y, *rest = data
    groups = {"groups": rest[1]} if rest else {}
    few = {k: v[:50] for k, v in groups.items()}
    make().fit(X[:50], np.arange(50) % 2, **few)  # imports and caches
    start, cpu = time.perf_counter(), time.process_time()
    model = make().fit(X, y, **groups)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    few = {k: v[:2000] for k, v in groups.items()}
    start = time.perf_counter()
    p = model.predict_proba(X[:2000], **few)
    return {
        "seconds": seconds,
        "cpu": cpu,
        "predict": time.perf_counter() - start,
        "log_loss": float(log_loss(y[:2000], p, labels=model.classes_)),
    }


def run(name: str, source: str, threads: int) -> dict[str, float]:
    count = str(threads)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    env |= {"OPENBLAS_NUM_THREADS": count, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count}
    code = f"import sys, json; sys.path.insert(0, {str(HERE.parent)!r}); import versions\n"
    code += f"print(json.dumps(versions.measure({name!r})))"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-500:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs=2, metavar="NAME=SRC")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    given = parser.parse_args()
    sources = {k: str(Path(v).resolve()) for k, v in (t.split("=", 1) for t in given.sources)}
    sys.path.insert(0, next(iter(sources.values())))
    before, after = sources
    rows = []
    for name, (_, _, repeats) in cases().items():
        if given.only not in name:
            continue
        found: dict[str, list[dict[str, float]]] = {version: [] for version in sources}
        for _ in range(repeats):
            for version, source in sources.items():
                found[version].append(run(name, source, given.threads))
        row: dict[str, Any] = {"fit": name, "repeats": repeats, "threads": given.threads}
        for number in ("seconds", "cpu", "predict", "log_loss"):
            for version, values in found.items():
                row[f"{number}_{version}"] = round(min(v[number] for v in values), 5)
        row["ratio"] = round(row[f"cpu_{after}"] / row[f"cpu_{before}"], 3)
        rows.append(row)
        print(
            f"{name:36} {row[f'seconds_{before}']:9.3f} {row[f'seconds_{after}']:9.3f} s   "
            f"cpu ratio {row['ratio']:.2f}   log loss {row[f'log_loss_{before}']:.5f} "
            f"{row[f'log_loss_{after}']:.5f}",
            flush=True,
        )
    if given.output:
        with given.output.open("w", newline="") as handle:
            writer = csv.DictWriter(handle, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
