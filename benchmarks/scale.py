"""Millions of rows: time, passes, peak memory and scores, each fit in a fresh process.

``make bench NAME=scale`` runs everything; with the environment at hand::

    python benchmarks/scale.py --out results                        # all that is not there yet
    python benchmarks/scale.py --out results --rows 200000          # smaller
    python benchmarks/scale.py --out results --only bayesvm_64 floor_64
    python benchmarks/scale.py --out results --beside --limit 540   # on a machine of many cores

Every fit is bound to two cores (``--cores``), of different hardware where threads share it.  Fits
that are in the table already are left out, so a run can be cut short and taken up.  ``--beside``
fills the remaining cores with other fits, once those that are compared most closely have run alone;
``--limit`` begins no fit that would not end in time.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import machine
from scale_fits import FITS
from scale_problem import COLUMNS, PIECE, held_out, piece, widened

NAME = "scale.csv"
KEY = ("problem", "fit", "rows", "points", "columns", "threads")
TIMES = ("seconds", "cpu_seconds", "pass_seconds", "pass_cpu_seconds", "passes", "peak_mb")
FIELDS = [*KEY, *TIMES, "auc", "brier", "log_loss", "beside", "load", "note"]
ROWS, MANY, MIDDLE = 5_000_000, 2_000_000, 500_000
LADDERS = {
    "rows": [k * 10**e for e in (4, 5, 6, 7) for k in (1, 2, 5)],
    "points": [16, 32, 64, 128, 256, 512, 1024],
    "columns": [2, 4, 8, 18, 50, 100, 200],
    "threads": [1, 2, 4, 8, 16, 32, 64],
}


@dataclass(frozen=True)
class Case:
    """One fit that is asked for."""

    problem: str
    fit: str
    rows: int
    threads: int
    points: int
    columns: int = COLUMNS
    alone: bool = False  # with nothing beside it
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(str(getattr(self, name)) for name in KEY)

    @property
    def seconds(self) -> float:
        """A guess, for the order of things: linear in rows and quadratic in points."""
        known = FITS[self.fit]
        wide = self.points / max(known.points, 1) if known.points else 1.0
        share = self.rows / ROWS * 2.0 / min(self.threads, 8)
        return 4.0 + known.seconds * share * wide ** (1.5 if wide > 1.0 else 1.0)


# ---------------------------------------------------------------------------------------------
# What is asked for, the most important first


def case(problem: str, fit: str, rows: int, threads: int, **more: Any) -> Case:
    points = more.pop("points", FITS[fit].points)
    return Case(problem, fit, rows, threads, points, **more)


def main_cases(rows: int, cores: int, wide: int) -> list[Case]:
    """The table: fits, their floors, and competitors on the same cores."""
    first = [case("rows", name, rows, cores, alone=True) for name in ("bayesvm_64", "floor_64")]
    names = ("svgp_64", "bayesvm_1024", "nystroem_256_logistic", "bayesvm_256", "nystroem_256_sgd")
    names += ("boosting", "floor_256", "bayesvm_64_made_again", "bayesvm_64_file")
    names += ("bayesvm_64_tuned", "bayesvm_linear", "floor_1024", "bayesvm_256_tuned")
    return first + [case("rows", x, rows, wide if "1024" in x else cores) for x in names]


def growth_cases(rows: int, largest: int, cores: int) -> list[Case]:
    """Curves in threads, rows, points and columns."""
    middle, most, many = min(MIDDLE, rows), machine.cores(), min(MANY, rows)
    out = []
    for k in [k for k in LADDERS["threads"] if k <= most]:
        for name in ("bayesvm_64", "floor_64"):
            out.append(case("growth in threads", name, many, k, alone=True))
    ladder = [n for n in LADDERS["rows"] if n <= largest and n != rows][::-1]  # which has its table
    for n in ladder:
        out.append(case("growth in rows", "bayesvm_64", n, cores))
    for m in LADDERS["points"][::-1]:
        out.append(case("growth in points", "bayesvm_64", middle, cores, points=m))
    for d in LADDERS["columns"][::-1]:
        out.append(case("growth in columns", "bayesvm_64", middle, cores, columns=d))
    for n in [n for n in ladder if n <= rows]:
        for name in ("boosting", "bayesvm_64_tuned"):
            out.append(case("growth in rows", name, n, cores))
    return out


# ---------------------------------------------------------------------------------------------
# One fit in one process


def peak() -> float:
    """Largest resident memory of this process so far, mapped rows included, in MB.

    Not ``ru_maxrss``: a process inherits that of the one it was started by.
    """
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024 / 1e6
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def work(asked: dict[str, Any], folder: Path) -> None:
    rows, columns = asked["rows"], asked["columns"]
    held = min(n for n in sizes(folder) if n >= rows)
    X = np.load(folder / f"X_{held}.npy", mmap_mode="r")
    y = np.load(folder / f"y_{held}.npy")[:rows]
    X = X if held == rows else X[:rows]
    X = X if columns == COLUMNS else widened(X, columns, 0)
    fit, load = FITS[asked["fit"]], os.getloadavg()[0]
    begun, busy = time.perf_counter(), time.process_time()
    ask, told = fit.call(X, y, asked["points"], asked["threads"], **fit.options | asked["options"])
    out = {
        "seconds": time.perf_counter() - begun,
        "cpu_seconds": time.process_time() - busy,  # what others on the machine do not change
        "peak_mb": peak(),
        **told,
    }
    if ask is not None:
        new, labels = held_out()
        new = new if columns == COLUMNS else widened(new, columns, 1)
        p = np.clip(ask(new), 1e-7, 1 - 1e-7)
        out["auc"] = roc_auc_score(labels, p)
        out["brier"] = brier_score_loss(labels, p)
        out["log_loss"] = log_loss(labels, p)
    print("ANSWER " + json.dumps(out | {"load": load}))


# ---------------------------------------------------------------------------------------------
# The table, the cores, and who gets them


class Book:
    """Lines of the table, written after every fit; a repeated fit replaces its own line."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self.lock = folder / NAME, threading.Lock()
        self.lines: dict[tuple[str, ...], dict[str, Any]] = {}
        if self.path.exists():
            with self.path.open() as handle:
                for line in csv.DictReader(handle):
                    self.lines[tuple(line[name] for name in KEY)] = line

    def add(self, line: dict[str, Any]) -> None:
        line = {k: f"{v:.5g}" if isinstance(v, float) else str(v) for k, v in line.items()}
        with self.lock:
            self.lines[tuple(line.get(name, "") for name in KEY)] = line
            with self.path.open("w", newline="") as handle:
                table = csv.DictWriter(handle, FIELDS, extrasaction="ignore")
                table.writeheader()
                table.writerows(self.lines.values())

    def passes(self, case: Case) -> float:
        """Passes that the fit with these points made, for its floor."""
        if case.points > 256:
            return 1.0  # each is a minute: one will do
        found = [
            float(line["passes"])
            for line in self.lines.values()
            if line["fit"] == f"bayesvm_{case.points}" and line["rows"] == str(case.rows)
        ]
        return found[0] if found else 3.4


class Cores:
    """Cores of this machine, each given to one fit at a time."""

    def __init__(self) -> None:
        self.all = sorted(os.sched_getaffinity(0))
        self.free = list(_apart(self.all))
        self.count, self.busy = len(self.free), 0
        self.change = threading.Condition()

    def take(self, count: int, alone: bool) -> list[int]:
        """So many free cores, waited for; all threads of the hardware if there are not enough."""
        need = self.count if alone or count > self.count else count
        with self.change:
            self.change.wait_for(lambda: len(self.free) >= need and not (alone and self.busy))
            if count > self.count:
                taken, self.free = self.all, []
            else:
                taken, self.free = self.free[:count], self.free[count:]
            self.busy += 1
            return taken

    def give(self, taken: list[int]) -> None:
        with self.change:
            self.free = sorted({*self.free, *_apart(taken)})
            self.busy -= 1
            self.change.notify_all()


def _apart(cores: list[int]) -> Iterator[int]:
    """Cores that do not share their hardware with one before."""
    seen: set[str] = set()
    for k in cores:
        place = Path(f"/sys/devices/system/cpu/cpu{k}/topology/thread_siblings_list")
        mates = place.read_text() if place.exists() else str(k)
        if mates not in seen:
            seen.add(mates)
            yield k


def run(book: Book, case: Case, folder: Path, cores: list[int], beside: int, end: float) -> None:
    """One case in a process of its own, on its cores."""
    os.sched_setaffinity(0, cores)  # of this thread: its children inherit it
    asked = {name: getattr(case, name) for name in (*KEY, "options")}
    if case.fit.startswith("floor"):
        asked["options"] = {"passes": book.passes(case)}
    command = [sys.executable, __file__, "--work", json.dumps(asked), "--data", str(folder)]
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    env = os.environ | {name: str(case.threads) for name in names}
    left = max(1.0, end - time.monotonic()) if np.isfinite(end) else None
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=left)
    except subprocess.TimeoutExpired:
        return print(f"{case.key} was cut short by the limit", flush=True)
    if done.returncode:
        return print(f"{case.key} failed:\n{done.stderr[-2000:]}", flush=True)
    answer = json.loads(done.stdout.split("ANSWER ")[1])
    book.add({name: asked[name] for name in KEY} | answer | {"beside": beside})
    shown = {k: round(v, 4) for k, v in answer.items() if isinstance(v, float)}
    print(*case.key, f"expected {case.seconds:.0f} s", shown, flush=True)
    return None


def run_all(book: Book, cases: list[Case], folder: Path, limit: float, beside: bool) -> None:
    """Cases in their order, side by side where asked for."""
    cores, begun, threads = Cores(), time.monotonic(), []
    print(f"{len(cores.all)} cores, {cores.count} that do not share hardware", flush=True)

    def visit(case: Case, taken: list[int], others: int) -> None:
        try:
            run(book, case, folder, taken, others, begun + limit)
        finally:
            cores.give(taken)

    for case in cases:
        taken = cores.take(case.threads, case.alone or not beside)
        if time.monotonic() - begun + case.seconds > limit:
            print(*case.key, f"left out: {case.seconds:.0f} s are too long", flush=True)
            cores.give(taken)
            continue
        threads.append(threading.Thread(target=visit, args=(case, taken, cores.busy - 1)))
        threads[-1].start()
    for thread in threads:
        thread.join()


# ---------------------------------------------------------------------------------------------
# Rows


def sizes(folder: Path) -> list[int]:
    return sorted(int(path.stem.split("_")[1]) for path in folder.glob("X_*.npy"))


def make(folder: Path, rows: int) -> None:
    """Rows and labels, drawn in pieces by all cores, saved to be read as a memory map."""
    if rows in sizes(folder):
        return
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}_{rows}.npy" for name in "Xy"]
    for path, shape, kind in zip(paths, [(rows, COLUMNS), (rows,)], "fb", strict=True):
        np.lib.format.open_memmap(path, "w+", {"f": np.float32, "b": np.int8}[kind], shape)
    with ProcessPoolExecutor(min(16, machine.cores())) as pool:
        list(pool.map(_fill, [(paths, key, rows) for key in range(-(-rows // PIECE))]))


def _fill(task: tuple[list[Path], int, int]) -> None:
    paths, key, rows = task
    some = slice(key * PIECE, min(rows, (key + 1) * PIECE))
    for path, part in zip(paths, piece(key, PIECE), strict=True):
        np.load(path, mmap_mode="r+")[some] = part[: some.stop - some.start]


def susy(book: Book) -> None:
    """The sample of SUSY by five folds, everyone at his defaults; means over folds."""
    from papers import wenzel_susy

    for method in wenzel_susy.METHODS:
        tasks = [{"data": "sample", "method": method, "fold": k, "seed": 0} for k in range(5)]
        folds = [wenzel_susy.solve(task) for task in tasks]
        mean = {k: float(np.mean([f[k] for f in folds])) for k in folds[0]}
        line = {"problem": "SUSY, 5 folds", "fit": method, "rows": 10_000, "columns": COLUMNS}
        book.add(line | mean | {"load": os.getloadavg()[0]})
        print(line | mean, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = ("table", "growth", "susy", "figures")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--parts", nargs="+", choices=parts, default=["table", "growth"])
    parser.add_argument("--only", nargs="+", choices=list(FITS), help="fits of the table")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--largest", type=int, help="of the curve in rows; 4 times --rows")
    parser.add_argument("--cores", type=int, default=min(2, machine.cores()), help="of a fit")
    parser.add_argument("--wide", type=int, help="cores of fits with 1024 points; as --cores")
    parser.add_argument("--beside", action="store_true", help="fits side by side")
    parser.add_argument("--limit", type=float, default=np.inf, help="seconds")
    parser.add_argument("--again", action="store_true", help="repeat what is in the table")
    parser.add_argument("--data", type=Path, help="folder for the rows; else a temporary one")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(json.loads(args.work), args.data)
    begun, book = time.monotonic(), Book(args.out)
    largest = args.largest or 4 * args.rows
    cases = []
    if "table" in args.parts:
        found = main_cases(args.rows, args.cores, args.wide or args.cores)
        cases += [c for c in found if not args.only or c.fit in args.only]
    if "growth" in args.parts and not args.only:
        cases += growth_cases(args.rows, largest, args.cores)
    cases = [c for c in cases if args.again or c.key not in book.lines]
    cases.sort(key=lambda c: not c.alone)  # what must run alone comes first
    with tempfile.TemporaryDirectory() as name:
        folder = args.data or Path(name)
        for n in sorted({args.rows, max([c.rows for c in cases], default=0)} if cases else ()):
            make(folder, n)
        if cases:
            (args.out / "scale_machine.json").write_text(json.dumps(machine.describe(), indent=1))
        run_all(book, cases, folder, args.limit - (time.monotonic() - begun), args.beside)
    if "susy" in args.parts:
        susy(book)
    if "figures" in args.parts:
        from scale_figures import draw, page, read

        print(page(read(args.out)))
        for path in draw(args.out):
            print(f"Wrote {path.name}")
    return None


if __name__ == "__main__":
    main()
