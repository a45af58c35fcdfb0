"""Millions of rows: time, passes, peak memory and scores, each fit in a fresh process.

``make bench NAME=scale`` runs everything; with the environment at hand::

    python benchmarks/scale.py --out results --rows 500000          # smaller
    python benchmarks/scale.py --out results --only bayesvm_64 floor_64
    python benchmarks/scale.py --out results --growth               # curves in rows, points, ...

Rows are drawn once, saved, and read by every process as a memory map.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parent))
import machine
from scale_problem import COLUMNS, held_out, pieces

NAME = "scale.csv"
FIELDS = [
    "problem",
    "library",
    "rows",
    "points",
    "columns",
    "threads",
    "seconds",
    "cpu_seconds",
    "pass_cpu_seconds",
    "passes",
    "peak_mb",
    "auc",
    "brier",
    "log_loss",
    "load",
    "note",
]
SCALE = float(np.sqrt(COLUMNS))  # length scale of fits that are not tuned
BATCH = 1024


# ---------------------------------------------------------------------------------------------
# Fits: rows and labels in, a function of rows that gives probabilities out


def bayesvm(X: Any, y: Any, points: int, threads: int, **options: Any) -> tuple[Callable, dict]:
    from bayesvm import BayesianSVC
    from bayesvm.kernels import RBF
    from bayesvm.model import Problem

    counted, busy, plain = [0.0], [0.0], Problem.stats

    def stats(problem: Problem, coef: Any, curved: bool = False) -> Any:
        counted[0] += problem.n / len(y)
        begun = time.process_time()
        out = plain(problem, coef, curved)
        busy[0] += time.process_time() - begun
        return out

    Problem.stats = stats  # type: ignore[method-assign]
    if options.pop("file", False):
        from bayesvm.blocks import from_memmap

        X = from_memmap(X.filename)
    how = {"tune": False, "random_state": 0, "n_jobs": threads, **options}
    kernel = "rbf" if how["tune"] else 4.0 * RBF(SCALE)
    model = BayesianSVC(kernel, points, **how).fit(X, y)
    told = {"passes": round(counted[0], 2), "pass_cpu_seconds": busy[0]}
    return lambda rows: model.predict_proba(rows)[:, 1], told


def linear(X: Any, y: Any, points: int, threads: int) -> tuple[Callable, dict]:
    from bayesvm import BayesianLinearSVC

    model = BayesianLinearSVC(random_state=0, n_jobs=threads).fit(X, y)
    return lambda rows: model.predict_proba(rows)[:, 1], {"passes": model.n_iter_}


def floor(X: Any, y: Any, points: int, threads: int, passes: float) -> tuple[None, dict]:
    """The bare products of so many passes over columns in float32, and nothing else."""
    K, n = points + 1, len(y)
    size = 2**21 // (8 * K)
    C = np.random.default_rng(0).random((min(n, 4 * threads * size), K), dtype=np.float32)
    R, w = C[:K].copy(), C[:size, :1].copy()
    starts = [i % (len(C) - size) for i in range(0, round(passes * n), size)]

    def visit(i: int) -> None:
        block = C[i : i + size]
        block @ R
        A = block * w
        A.T @ A

    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(visit, starts):
            pass
    return None, {"passes": passes}


def nystroem(X: Any, y: Any, points: int, threads: int, head: str, most: int) -> tuple:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression, SGDClassifier

    y = np.asarray(y)
    features = Nystroem(gamma=0.5 / SCALE**2, n_components=points, random_state=0)
    features.fit(X[:20_000])
    if head == "sgd":
        model = SGDClassifier(loss="log_loss", random_state=0)
        for _ in range(1 if len(y) > 10**6 else 5):
            for i in range(0, len(y), 100_000):
                rows = features.transform(X[i : i + 100_000])
                model.partial_fit(rows, y[i : i + 100_000], classes=[0, 1])
    else:
        model = LogisticRegression(max_iter=200)
        model.fit(features.transform(X[:most]), y[:most])
    note = f"{most} rows" if head != "sgd" and most < len(y) else ""
    return lambda rows: model.predict_proba(features.transform(rows))[:, 1], {"note": note}


def boosting(X: Any, y: Any, points: int, threads: int) -> tuple[Callable, dict]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=0).fit(X, y)
    return lambda rows: model.predict_proba(rows)[:, 1], {"passes": model.n_iter_}


def svgp(X: Any, y: Any, points: int, threads: int) -> tuple[Callable, dict]:
    """One epoch of GPyTorch's stochastic variational process, Adam, Bernoulli likelihood."""
    import gpytorch
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    rows, labels = torch.from_numpy(np.array(X)), torch.from_numpy(np.array(y, np.float32))

    class Process(gpytorch.models.ApproximateGP):
        def __init__(self, Z: Any) -> None:
            q = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
            super().__init__(gpytorch.variational.VariationalStrategy(self, Z, q))
            self.mean_module = gpytorch.means.ConstantMean()
            kernel = gpytorch.kernels.RBFKernel(ard_num_dims=rows.shape[1])
            kernel.lengthscale = SCALE
            self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    process = Process(rows[torch.randperm(len(rows))[:points]].clone())
    likelihood = gpytorch.likelihoods.BernoulliLikelihood()
    bound = gpytorch.mlls.VariationalELBO(likelihood, process, len(rows))
    adam = torch.optim.Adam(process.parameters(), lr=0.01)
    order = torch.randperm(len(rows))
    for i in range(0, len(rows), BATCH):
        some = order[i : i + BATCH]
        adam.zero_grad()
        loss = -bound(process(rows[some]), labels[some])
        loss.backward()
        adam.step()
    process.eval()

    def ask(new: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            parts = torch.from_numpy(new).split(10_000)
            return torch.cat([likelihood(process(p)).mean for p in parts]).numpy()

    return ask, {"passes": 1}


TASKS: dict[str, tuple[Callable, int, dict[str, Any]]] = {
    "bayesvm_64": (bayesvm, 64, {}),
    "bayesvm_64_made_again": (bayesvm, 64, {"memory": 0}),
    "bayesvm_64_file": (bayesvm, 64, {"memory": 0, "file": True}),
    "floor_64": (floor, 64, {}),
    "bayesvm_64_tuned": (bayesvm, 64, {"tune": True}),
    "bayesvm_256": (bayesvm, 256, {}),
    "floor_256": (floor, 256, {}),
    "bayesvm_256_tuned": (bayesvm, 256, {"tune": True}),
    "bayesvm_linear": (linear, 0, {}),
    "svgp_64": (svgp, 64, {}),
    "nystroem_256_sgd": (nystroem, 256, {"head": "sgd", "most": 0}),
    "nystroem_256_logistic": (nystroem, 256, {"head": "logistic", "most": 500_000}),
    "boosting": (boosting, 0, {}),
}


# ---------------------------------------------------------------------------------------------
# One fit in one process


def peak() -> float:
    """Largest resident memory of this process so far, mapped rows included, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def work(name: str, folder: Path, rows: int, threads: int, options: dict[str, Any]) -> None:
    fit, points, fixed = TASKS[name]
    points = options.pop("points", points)
    columns = options.pop("columns", COLUMNS)
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy", mmap_mode="r")
    X, y = X[:rows], np.asarray(y[:rows])
    if columns != COLUMNS:
        X = np.ascontiguousarray(X[:, :columns])
    load = os.getloadavg()[0]
    begun, busy = time.perf_counter(), time.process_time()
    ask, told = fit(X, y, points, threads, **fixed | options)
    out = {
        "seconds": time.perf_counter() - begun,
        "cpu_seconds": time.process_time() - busy,  # what others on the machine do not change
        "peak_mb": peak(),
        **told,
    }
    if ask is not None:
        rows_, labels = held_out()
        p = np.clip(ask(rows_[:, :columns]), 1e-7, 1 - 1e-7)
        out["auc"] = roc_auc_score(labels, p)
        out["brier"] = brier_score_loss(labels, p)
        out["log_loss"] = log_loss(labels, p)
    out |= {"rows": len(y), "points": points, "columns": columns, "threads": threads}
    print("ANSWER " + json.dumps({**out, "load": load}))


class Book:
    """Lines of the table, written after every fit; a repeated fit replaces its own line."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / NAME
        self.lines: list[dict[str, Any]] = []
        if self.path.exists():
            with self.path.open() as handle:
                self.lines = list(csv.DictReader(handle))

    def add(self, line: dict[str, Any]) -> None:
        line = {k: f"{v:.5g}" if isinstance(v, float) else str(v) for k, v in line.items()}
        key = ("problem", "library", "rows", "points", "columns", "threads")
        same = [k for k in self.lines if all(k[f] == line.get(f, "") for f in key)]
        self.lines = [k for k in self.lines if k not in same] + [line]
        with self.path.open("w", newline="") as handle:
            table = csv.DictWriter(handle, FIELDS)
            table.writeheader()
            table.writerows(self.lines)


def run(
    book: Book, problem: str, name: str, folder: Path, rows: int, threads: int, **options: Any
) -> dict[str, Any]:
    command = [sys.executable, __file__, "--work", name, "--data", str(folder)]
    command += ["--rows", str(rows), "--threads", str(threads), "--options", json.dumps(options)]
    alone = {k: "1" for k in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    if name in ("boosting", "svgp_64", "nystroem_256_logistic", "nystroem_256_sgd"):
        alone = {k: str(threads) for k in alone}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | alone)
    if done.returncode:
        print(f"{name} failed:\n{done.stderr[-2000:]}", flush=True)
        return {}
    answer = json.loads(done.stdout.split("ANSWER ")[1])
    book.add({"problem": problem, "library": name, **answer})
    print(problem, name, {k: answer[k] for k in answer if k not in ("columns",)}, flush=True)
    return answer


def make(folder: Path, rows: int) -> None:
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (rows, COLUMNS))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.int8, (rows,))
    start = 0
    for a, b in pieces(rows):
        X[start : start + len(b)], y[start : start + len(b)] = a, b
        start += len(b)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--only", nargs="*", choices=list(TASKS))
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--susy", action="store_true")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work")
    parser.add_argument("--options", default="{}")
    args = parser.parse_args()
    if args.work:
        return work(args.work, args.data, args.rows, args.threads, json.loads(args.options))
    book = Book(args.out)
    if args.susy:
        return susy(book)
    with tempfile.TemporaryDirectory() as name:
        folder = args.data or Path(name)
        if not (folder / "X.npy").exists():
            make(folder, args.rows)
        if args.growth:
            return growth(book, folder, args)
        passes: dict[int, float] = {}
        for task in args.only or TASKS:
            more = {"passes": passes.get(TASKS[task][1], 10)} if task.startswith("floor") else {}
            answer = run(book, "rows", task, folder, args.rows, args.threads, **more)
            if task in ("bayesvm_64", "bayesvm_256") and answer:
                passes[answer["points"]] = answer["passes"]
    return None


def susy(book: Book) -> None:
    """The sample of SUSY by five folds, everyone at his defaults; means over folds."""
    from bayesvm.experiments import wenzel_susy

    for method in wenzel_susy.METHODS:
        tasks = [{"data": "sample", "method": method, "fold": k, "seed": 0} for k in range(5)]
        folds = [wenzel_susy.solve(task) for task in tasks]
        mean = {k: float(np.mean([f[k] for f in folds])) for k in folds[0]}
        line = {"problem": "SUSY, 5 folds", "library": method, "rows": 10_000, "columns": COLUMNS}
        book.add(line | mean | {"load": os.getloadavg()[0]})
        print(line | mean, flush=True)


def growth(book: Book, folder: Path, args: argparse.Namespace) -> None:
    """Seconds in rows, points, columns and threads, each from the same middle."""
    ladder = [n for n in (100_000, 200_000, 500_000, 10**6, 2 * 10**6, 5 * 10**6) if n <= args.rows]
    middle = min(500_000, args.rows)
    for n in ladder:
        run(book, "growth in rows", "bayesvm_64", folder, n, args.threads)
    for m in (16, 32, 64, 128, 256, 512):
        run(book, "growth in points", "bayesvm_64", folder, middle, args.threads, points=m)
    for d in (2, 4, 8, COLUMNS):
        run(book, "growth in columns", "bayesvm_64", folder, middle, args.threads, columns=d)
    for k in sorted({1, 2, args.threads}):
        run(book, "growth in threads", "bayesvm_64", folder, middle, k)


if __name__ == "__main__":
    main()
