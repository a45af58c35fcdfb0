"""Seconds of whole fits on one to all cores, with the bare products of their passes beside them.

    python benchmarks/cores.py --out benchmarks/results/today
    python benchmarks/cores.py --rows 200000 --only linear_18 kernel_64 --threads 1 2    # a trial

Fits are :class:`BayesianLinearSVC` with its defaults (5,000,000 x 18 in float32, 1,000,000 x 100)
and :class:`BayesianSVC` with a given kernel and 64, 256 and 1024 inducing points.  Beside each are

- the *products*: ``C @ F`` and ``A.T @ A``, ``A = C * w``, of as many passes as the fit made over
  all rows, in the precision and the blocks of the fit, with one BLAS thread for each worker;
- the *reading* of the rows: what makes columns of them once, products and exponentials of a kernel
  in float64 and nothing else; of a linear model the moments of its columns.

All fits are in one process and take turns.  The load of the machine is that before
each fit.  With ``--busy`` the fits on all cores are made
again beside two processes that never rest; the fair share of T threads is then T / (T + 2).
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import machine
from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.data import Threads, block_rows
from bayesvm.inference.problem import Problem
from bayesvm.kernels import RBF
from scale_problem import COLUMNS, simulate

SCALE = float(np.sqrt(COLUMNS))
FEW_PRODUCTS = 3e10  # multiplications of a product, for each thread, that are timed
HELD = 2**28  # bytes of columns that products are taken of, again and again
SPIN = "while True: pass"


class Case(NamedTuple):
    """A problem: rows, columns of the input, and inducing points (none for a linear model)."""

    rows: int
    columns: int
    points: int

    @property
    def width(self) -> int:
        return (self.points or self.columns) + 1

    @property
    def dtype(self) -> type:
        return np.float32 if self.points else np.float64


CASES = {
    "linear_18": Case(5_000_000, COLUMNS, 0),
    "linear_100": Case(1_000_000, 100, 0),
    "kernel_64": Case(5_000_000, COLUMNS, 64),
    "kernel_256": Case(2_000_000, COLUMNS, 256),
    "kernel_1024": Case(500_000, COLUMNS, 1024),
}


@dataclass
class Row:
    """One fit: what was fitted, how long it took, and what it could not do without."""

    fit: str
    rows: int
    threads: int
    beside: int  # busy processes
    repeat: int
    seconds: float
    cpu_seconds: float
    load: float
    passes: float
    products: float  # seconds of the bare products of so many passes
    reading: float  # seconds of one reading of the rows


def data(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels."""
    if case.columns == COLUMNS:
        return simulate(case.rows)
    rng = np.random.default_rng(0)
    X, b = rng.standard_normal((case.rows, case.columns)), rng.standard_normal(case.columns)
    f = X @ b * np.sqrt(2.0 / case.columns)
    return X, (rng.random(case.rows) < 1.0 / (1.0 + np.exp(-f))).astype(np.int8)


@contextmanager
def counted() -> Iterator[list[float]]:
    """Rows that passes of a fit visit, one entry for each pass."""
    seen: list[float] = []
    plain = {name: getattr(Problem, name) for name in ("stats", "slopes", "pull")}

    def counting(name: str) -> Callable[..., Any]:
        def call(problem: Problem, *args: Any, **options: Any) -> Any:
            seen.append(float(problem.n))
            return plain[name](problem, *args, **options)

        return call

    for name in plain:
        setattr(Problem, name, counting(name))
    try:
        yield seen
    finally:
        for name, method in plain.items():
            setattr(Problem, name, method)


def fit(case: Case, X: np.ndarray, y: np.ndarray, threads: int) -> Any:
    engine = Threads(threads)
    if not case.points:
        return BayesianLinearSVC(engine=engine, random_state=0).fit(X, y)
    how: dict[str, Any] = {"kernel": 4.0 * RBF(SCALE), "tune": False, "random_state": 0}
    return BayesianSVC(n_inducing=case.points, engine=engine, **how).fit(X, y)


def shared(visit: Callable[[int], Any], starts: range, threads: int) -> float:
    """Seconds of a function of the first row of each block, by threads."""
    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        begun = time.perf_counter()
        for _ in pool.map(visit, starts):
            pass
        return time.perf_counter() - begun


def products(case: Case, threads: int) -> float:
    """Seconds of the bare products of one pass over all rows."""
    K = case.width
    size = block_rows(K)
    kept = min(case.rows, max(HELD // (K * np.dtype(case.dtype).itemsize), 2 * threads * size))
    C = np.empty((kept, K), case.dtype)
    C[:] = np.random.default_rng(0).random(K)
    F = np.ones((K, K), case.dtype)

    def visit(i: int) -> None:
        first = i % max(kept - size, 1)
        block = C[first : first + min(size, case.rows - i)]
        block @ F
        A = block * block[:, :1]
        A.T @ A

    # a part of them, where they would take long; at least one block for each thread
    part = min(case.rows, max(int(threads * FEW_PRODUCTS / K**2), 2 * threads * size))
    return shared(visit, range(0, part, size), threads) * case.rows / part


def reading(case: Case, X: np.ndarray, threads: int) -> float:
    """Seconds of one reading of the rows, NumPy's calls and nothing else."""
    size = block_rows(case.width)
    mean, Z = X[:1000].mean(axis=0, dtype=float), X[: case.points].astype(float)
    F, out = np.eye(max(case.points, 1)), np.empty((len(X), case.points), np.float32)

    def visit(i: int) -> None:
        A = X[i : i + size] - mean
        if not case.points:
            (A * A).sum(axis=0)
            return
        K = A @ Z.T
        np.exp(np.negative(np.abs(K, out=K), out=K), out=K)
        out[i : i + size] = K @ F

    return shared(visit, range(0, len(X), size), threads)


@contextmanager
def beside(count: int) -> Iterator[None]:
    """Processes that never rest."""
    busy = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def measured(name: str, case: Case, X: Any, y: Any, threads: int, busy: int, repeat: int) -> Row:
    """One fit, and its products and reading right after it."""
    with beside(busy):
        with counted() as seen:
            load, wall, cpu = os.getloadavg()[0], time.perf_counter(), time.process_time()
            fit(case, X, y, threads)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        passes = sum(seen) / case.rows
        bare, read = passes * products(case, threads), reading(case, X, threads)
    return Row(
        *(name, case.rows, threads, busy, repeat),
        *(round(x, 4) for x in (wall, cpu, load, passes, bare, read)),
    )


def write(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, [field.name for field in fields(Row)])
        table.writeheader()
        table.writerows(asdict(row) for row in rows)


def show(row: Row, rows: list[Row]) -> None:
    """One line: seconds, how many times those of one thread, and times the floor."""
    same = [x for x in rows if (x.fit, x.beside) == (row.fit, 0)]
    one = min((x.seconds for x in same if x.threads == 1), default=float("nan"))
    alone = min((x.seconds for x in same if x.threads == row.threads), default=float("nan"))
    share = f", {row.seconds / alone / (1 + row.beside / row.threads):.2f} of its fair share"
    print(
        f"{row.fit:12s} {row.rows:9,d} rows {row.threads:3d} threads {row.seconds:7.2f} s "
        f"(CPU {row.cpu_seconds:7.2f}) {one / row.seconds:5.1f}x one thread, "
        f"{row.seconds / (row.products + row.reading):5.2f} of products {row.products:.2f} "
        f"+ reading {row.reading:.2f}, {row.passes:.2f} passes, load {row.load:.1f}"
        + (share if row.beside else ""),
        flush=True,
    )


def main() -> None:
    cores = machine.cores()
    powers = [2**k for k in range(10) if 2**k < cores]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rows", type=int, help="at most so many rows of each problem")
    parser.add_argument("--threads", nargs="+", type=int, default=[*powers, cores])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--busy", action="store_true", help="again beside two busy processes")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / date.today().isoformat()
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{machine.describe()}", flush=True)
    rows: list[Row] = []
    for name in args.only:
        case = CASES[name]
        case = case._replace(rows=min(case.rows, args.rows or case.rows))
        X, y = data(case)
        for repeat in range(args.repeats):
            turns = [(t, 0) for t in args.threads]
            turns += [(max(args.threads), 2)] if args.busy else []
            for threads, busy in turns:
                rows.append(measured(name, case, X, y, threads, busy, repeat))
                show(rows[-1], rows)
                write(args.out / "cores.csv", rows)


if __name__ == "__main__":
    main()
