"""Run a benchmark: ``python benchmarks/run.py linear``.

Every fit is made in a fresh process, because peak memory is a property of a process, and
competitors take turns, because a machine's speed drifts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rich.console import Console
from sklearn.model_selection import StratifiedKFold

import coverage_tables
import genes
import grouped
import interval_coverage as covering
import kernel as kernels
import machine
import pool
import problems
import selection as selecting
import tabular as public
import tabular_tables as public_tables
import wide as wider
from bayesvm.datasets import load_gene_expression, load_spam
from bayesvm.inference import Gibbs
from tables import CONFIG, PRINTERS, RESULTS, WIDTH, Number, Table, ranked_nuts, read, write

HERE = Path(__file__).resolve().parent
LIBRARIES = (
    "bayesvm",
    "logistic_regression",
    "logistic_regression_one_thread",
    "linear_svc",
    "linear_svc_calibrated",
    "sgd",
    "floor",
)
VECTOR_LIBRARIES = ("pcvc", "rvc", "rvc_at_kernel", "svc_calibrated", "sklearn_rvm")
SLOW = {"sklearn_rvm": 1_000}  # most rows: its time grows with their cube, two minutes here
REPEATS = 3
FINALISTS = 2
SETS = 20  # wide simulated sets of the benchmark of selection
LONG = 60.0  # seconds; a fit that takes longer is made once
console = Console(width=None if sys.stdout.isatty() else WIDTH)


class Book:
    """Numbers of one run, written down after every fit so that a stopped run is not lost."""

    def __init__(self, folder: Path, benchmark: str, name: str = RESULTS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.benchmark, self.name = folder, benchmark, name
        held = read(folder, name) if (folder / name).exists() else []
        self.numbers = [x for x in held if x.benchmark != benchmark]

    def add(self, problem: str, library: str, repeat: int, values: dict[str, Any]) -> None:
        self.numbers += [
            Number(self.benchmark, problem, library, repeat, measure, float(value))
            for measure, value in values.items()
            if np.isscalar(value)
        ]
        write(self.folder, self.numbers, self.name)

    @property
    def table(self) -> Table:
        return Table(self.numbers, self.benchmark)


def work(task: str, folder: Path, **options: Any) -> dict[str, Any]:
    """Do one task in a fresh process."""
    cores, library = options.pop("cores", None), options.pop("library", None)
    seed = options.pop("seed", 0) if task == "draw" else 0
    output = folder / "answer.json"
    command = [sys.executable, str(HERE / "worker.py"), task, "--data", str(folder)]
    command += ["--output", str(output), "--options", json.dumps(options)]
    command += ["--library", library] if library else []
    command += ["--cores", str(cores)] if cores else []
    command += ["--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        raise RuntimeError(f"{library or task} failed:\n{done.stderr}")
    return json.loads(output.read_text()) if task != "make" else {}


def simulated(problem: problems.Problem, use: Callable[[Path], None]) -> None:
    """Make a problem in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        console.print(f"Making {problem.name} ...")
        work("make", Path(name), **asdict(problem))
        use(Path(name))


# ---------------------------------------------------------------------------------------------
# Fits


def compare(
    book: Book,
    problem: problems.Problem,
    libraries: Sequence[str],
    repeats: int,
    cores: int | None = None,
) -> None:
    """Fit every library, taking turns; those that take long only once."""
    suffix = f", {cores} core{'s' if cores > 1 else ''}" if cores else ""

    def use(folder: Path) -> None:
        passes: dict[str, float] = {}
        skip: set[str] = set()
        for repeat in range(repeats):
            for library in libraries:
                if library in skip:
                    continue
                options: dict[str, Any] = {}
                if library == "bayesvm":
                    options["count"] = not passes and "floor" in libraries
                if library == "floor":
                    options["passes"] = passes
                out = work("fit", folder, library=library, cores=cores, **options)
                passes |= {
                    k.removeprefix("passes_"): v for k, v in out.items() if k.startswith("passes_")
                }
                if out["seconds"] > LONG:
                    skip.add(library)
                book.add(problem.name, library + suffix, repeat, out)
                console.print(
                    f"  {library + suffix}: {out['seconds']:.2f} s, {out['peak_mb']:.0f} MB "
                    f"(load {out['load']:.1f})"
                )

    simulated(problem, use)


def linear(book: Book, args: argparse.Namespace) -> None:
    """Time, memory and scores of linear classifiers."""
    chosen = [x for x in LIBRARIES if not args.only or x in args.only]
    if "floor" in chosen and "bayesvm" not in chosen:
        chosen.insert(0, "bayesvm")  # the floor needs its number of passes
    for problem in problems.LINEAR_QUICK if args.quick else problems.LINEAR:
        if not args.problem or any(x in problem.name.replace(",", "") for x in args.problem):
            compare(book, problem, chosen, args.repeats)


def vector(book: Book, args: argparse.Namespace) -> None:
    """Time to fit and to predict, model size and scores of sparse kernel machines."""
    chosen = [x for x in VECTOR_LIBRARIES if not args.only or x in args.only]
    for problem in problems.VECTOR_QUICK if args.quick else problems.VECTOR:
        able = [x for x in chosen if problem.rows <= SLOW.get(x, problem.rows)]
        compare(book, problem, able, args.repeats)


def scale(book: Book, args: argparse.Namespace) -> None:
    """Millions of rows; keeps a table of its own, ``scale.csv``."""
    command = [sys.executable, str(HERE / "scale.py"), "--out", str(book.folder)]
    command += ["--rows", "200000"] if args.quick else []
    command += ["--parts", "table", "growth", "susy", "figures"]
    subprocess.run(command, check=True)


def cores(book: Book, args: argparse.Namespace) -> None:
    """Whole fits on one to all cores beside their bare products; has its own ``cores.csv``."""
    command = [sys.executable, str(HERE / "cores.py"), "--out", str(book.folder), "--busy"]
    command += ["--rows", "200000"] if args.quick else ["--repeats", str(args.repeats)]
    subprocess.run(command, check=True)


def scaling(book: Book, args: argparse.Namespace) -> None:
    """Seconds against rows, columns and cores."""
    chosen = args.only or ["bayesvm", "logistic_regression"]
    ladder = problems.SCALING_QUICK if args.quick else problems.SCALING
    for problem in ladder:
        compare(book, problem, chosen, args.repeats)
    largest = max(ladder, key=lambda x: x.rows * x.columns)
    for cores in [k for k in (1, 2, 4, 8, 16, 32, 64) if k <= machine.cores()]:
        compare(book, largest, chosen, args.repeats, cores)


# ---------------------------------------------------------------------------------------------
# Draws


def gibbs(book: Book, args: argparse.Namespace) -> None:
    """Effective draws per second on one posterior.

    NUTS is tried in every setting first, and the best two go on to the repeats.
    """
    draws = 4_000 if args.quick else 20_000
    problem = problems.POSTERIOR
    # long enough that the seconds of starting and compiling, which are subtracted, do not matter
    ours = {
        "gibbs": {"draws": 4 * draws, "leaps": Gibbs().leaps},
        "gibbs, without leaps": {"draws": draws, "leaps": 0},
    }
    settings = {
        f"nuts, {form}, {mass}, {how}": {
            "centred": form == "centred",
            "dense_mass": mass == "dense",
            "chain_method": how,
        }
        for form in ("centred", "non-centred")
        for mass in ("diagonal", "dense")
        for how in ("parallel", "vectorized")
    }

    def use(folder: Path) -> None:
        last: dict[str, dict[str, Any]] = {}

        def once(name: str, repeat: int) -> None:
            if name in ours:
                options = {"library": "gibbs", "warmup": 500, **ours[name]}
            else:
                options = {"library": "nuts", "draws": draws, "warmup": 1_000, **settings[name]}
            out = last[name] = work("draw", folder, seed=repeat, **options)
            out["share_min"] = out["ess_min"] / (2 * options["draws"])
            book.add(problem.name, name, repeat, out)
            console.print(f"  {name}: {out['rate_min']:.0f} effective draws per second at least")

        for name in (*ours, *settings):
            once(name, 0)
        finalists = ranked_nuts(book.table, problem.name)[:FINALISTS]
        for repeat in range(1, args.repeats):
            for name in (*ours, *finalists):
                once(name, repeat)
        for name in ("gibbs, without leaps", *settings):
            book.add(problem.name, name, args.repeats - 1, agreement(last["gibbs"], last[name]))

    simulated(problem, use)


def agreement(a: dict[str, Any], b: dict[str, Any]) -> dict[str, float]:
    """How far apart two sets of draws are: means in Monte Carlo standard errors, and spreads."""
    mean, sd, size = ([np.asarray(x[key]) for x in (a, b)] for key in ("mean", "sd", "ess"))
    error = np.sqrt(sd[0] ** 2 / size[0] + sd[1] ** 2 / size[1])
    return {
        "max_z": float(np.max(np.abs(mean[0] - mean[1]) / error)),
        "max_sd_gap": float(np.max(np.abs(sd[0] / sd[1] - 1.0))),
    }


# ---------------------------------------------------------------------------------------------
# Selection


def selection(book: Book, args: argparse.Namespace) -> None:
    """True and false discoveries on wide data, and the spam data by each scheme."""
    chosen = [x for x in selecting.SELECTORS if not args.only or x in args.only]
    options = {"rows": 100, "columns": 500} if args.quick else {"rows": 200, "columns": 5_000}
    wanted = args.problem or ["wide", "spam"]
    if chosen and "wide" in wanted:
        name = f"wide {options['rows']:,} x {options['columns']:,}"
        for seed in range(2 if args.quick else SETS):
            for library, values in selecting.discoveries(seed, chosen, **options).items():
                book.add(name, library, seed, values)
                console.print(
                    f"  {seed} {library}: {values['true']:.0f} true, {values['false']:.0f} false, "
                    f"{values['seconds']:.1f} s (cpu {values['cpu_seconds']:.1f})"
                )
    if "spam" in wanted:
        bunch = load_spam()
        for library in [x for x in selecting.SPAM if not args.only or x in args.only]:
            draws = 100 if args.quick else 1_000
            out = selecting.spam(library, bunch.data, bunch.target, draws, 0)
            book.add("spam 4,601 x 57", library, 0, out)
            console.print(f"  {library}: {out['seconds']:.1f} s (cpu {out['cpu_seconds']:.1f})")


# ---------------------------------------------------------------------------------------------
# More columns than rows


def wide(book: Book, args: argparse.Namespace) -> None:
    """Each prior at its defaults, and missing cells, where columns outnumber rows."""
    chosen = [x for x in wider.METHODS if not args.only or x in args.only]
    for n, p in wider.SIZES[: 1 if args.quick else None]:
        for repeat in range(args.repeats):
            for method in chosen:
                command = [sys.executable, str(HERE / "wide.py"), method, str(n), str(p)]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    raise RuntimeError(f"{method} failed:\n{done.stderr}")
                out = json.loads(done.stdout.splitlines()[-1])
                book.add(f"wide {n:,} x {p:,}", method, repeat, out)
                console.print(
                    f"  {n:,} x {p:,} {method}: {out['seconds']:.2f} s (cpu "
                    f"{out['cpu_seconds']:.2f}), {out['peak_mb']:.0f} MB, {out['passes']:.0f} "
                    f"passes, log loss {out['log_loss']:.3f}"
                )


# ---------------------------------------------------------------------------------------------
# Factor models


def factor(book: Book, args: argparse.Namespace) -> None:
    """Gene expression by ten folds; which genes are shown, and how steadily."""
    methods = [m for m in genes.METHODS if not args.only or m in args.only]
    for name in genes.SETS[: 1 if args.quick else None]:
        if args.problem and not any(text in name for text in args.problem):
            continue
        bunch = load_gene_expression(name)
        problem = f"{name} {bunch.data.shape[0]:,} x {bunch.data.shape[1]:,}"
        folds = StratifiedKFold(10, shuffle=True, random_state=0).split(bunch.data, bunch.target)
        shown: dict[str, list[Any]] = {method: [] for method in methods}
        for repeat, (train, test) in enumerate(list(folds)[: 2 if args.quick else None]):
            for method in methods:
                fold = genes.judge(method, bunch.data, bunch.target, train, test)
                book.add(problem, method, repeat, fold.values)
                shown[method].append(fold.genes)
                console.print(
                    f"  {name} {repeat} {method}: {fold.values['error']:.3f}, "
                    f"{fold.values['cpu_seconds']:.1f} s"
                )
        for method in methods:
            book.add(problem, method, 0, {"stability": genes.stability(shown[method])})


# ---------------------------------------------------------------------------------------------
# Groups


def mixed(book: Book, args: argparse.Namespace) -> None:
    """Effects of groups: time, memory, scores and recovery as rows and groups grow."""
    chosen = [x for x in grouped.LIBRARIES if not args.only or x in args.only]
    skip: set[str] = set()
    for problem in grouped.QUICK if args.quick else grouped.LADDER:
        if args.problem and not any(x in problem.name.replace(",", "") for x in args.problem):
            continue
        console.print(problem.name)
        for repeat in range(args.repeats):
            for library in chosen:
                slow = problem.groups > grouped.MOST.get(library, problem.groups)
                if slow or (repeat and library in skip):
                    continue
                command = [sys.executable, str(HERE / "grouped.py"), library]
                command += [str(problem.rows), str(problem.groups)]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    raise RuntimeError(f"{library} failed:\n{done.stderr}")
                out = json.loads(done.stdout.splitlines()[-1])
                if out["seconds"] > LONG:
                    skip.add(library)
                book.add(problem.name, library, repeat, out)
                console.print(
                    f"  {library}: {out['seconds']:.2f} s, {out['peak_mb']:.0f} MB, log loss "
                    f"{out['log_loss']:.4f} (load {out['load']:.1f})"
                )


# ---------------------------------------------------------------------------------------------
# Kernel machines


def kernel(book: Book, args: argparse.Namespace) -> None:
    """Time and held-out scores of kernel machines; their numbers have a file of their own."""
    rows = kernels.ROWS[:1] if args.quick else kernels.ROWS
    kernels.run(book.folder / "kernel.csv", args.only, list(rows), -1, console.print)


# ---------------------------------------------------------------------------------------------
# Public tables


def tabular(book: Book, args: argparse.Namespace) -> None:
    """The public protocol over $BAYESVM_DATA/tabular; lines that are there are not made again."""
    out, chosen = book.folder / "tabular.csv", args.only or list(public.MODELS)
    names = [s for s in public.sets() if not args.problem or any(k in s for k in args.problem)]
    folds = [0] if args.quick else list(range(public.FOLDS))
    public.run(out, chosen, folds, names[:5] if args.quick else names, os.cpu_count() or 1)
    console.print(public_tables.own_table(public_tables.read(out), folds))


# ---------------------------------------------------------------------------------------------
# Intervals


def coverage(book: Book, args: argparse.Namespace) -> None:
    """Coverage of intervals on simulated sets; lines that are there are not made again."""
    out, first = book.folder / "coverage.csv", 0 if args.quick else covering.REPORTED
    jobs = covering.jobs(list(covering.PARTS), first, 10 if args.quick else covering.SETS)
    done = pool.run(
        covering.work, jobs, out, covering.FIELDS, os.cpu_count() or 1, None, covering.cost
    )
    console.print(done)
    for make in coverage_tables.TABLES.values():
        console.print(make(coverage_tables.read(out)))


# ---------------------------------------------------------------------------------------------

BENCHMARKS = {
    "linear": linear,
    "gibbs": gibbs,
    "mixed": mixed,
    "scaling": scaling,
    "cores": cores,
    "selection": selection,
    "vector": vector,
    "wide": wide,
    "factor": factor,
    "kernel": kernel,
    "scale": scale,
    "tabular": tabular,
    "coverage": coverage,
}


FILES = {"mixed": "mixed.csv", "factor": "factor.csv", "wide": "wide.csv"}  # of their own


def configure(folder: Path, args: argparse.Namespace) -> None:
    """Say what was run and on what."""
    path = folder / CONFIG
    held = yaml.safe_load(path.read_text()) if path.exists() else {}
    runs = held.get("runs", {})
    runs[args.name] = {
        "date": date.today().isoformat(),
        "quick": args.quick,
        "repeats": args.repeats,
        "only": args.only or "all",
    }
    text = yaml.safe_dump({"machine": machine.describe(), "runs": runs}, sort_keys=False)
    path.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=BENCHMARKS, help="which benchmark")
    parser.add_argument("--quick", action="store_true", help="small problems, to see that it works")
    parser.add_argument("--only", nargs="+", metavar="LIBRARY", help="only these libraries")
    parser.add_argument(
        "--problem", nargs="+", metavar="NAME", help="only problems whose name holds this text"
    )
    parser.add_argument("--repeats", type=int, default=REPEATS, help="turns (default %(default)s)")
    parser.add_argument("--output", type=Path, help="folder (default results/<date>)")
    args = parser.parse_args()
    known = (
        *(*LIBRARIES, *VECTOR_LIBRARIES, *grouped.LIBRARIES, *kernels.METHODS),
        *(*selecting.SELECTORS, *selecting.SPAM, *genes.METHODS, *wider.METHODS),
        *public.MODELS,
    )
    unknown = set(args.only or ()) - set(known)
    if unknown:
        parser.error(f"unknown library {', '.join(sorted(unknown))}; choose from {known}")
    default = HERE / "results" / ("quick" if args.quick else date.today().isoformat())
    folder = args.output or default
    book = Book(folder, args.name, FILES.get(args.name, RESULTS))
    configure(folder, args)
    BENCHMARKS[args.name](book, args)
    if args.name in PRINTERS:
        PRINTERS[args.name](book.table, console)


if __name__ == "__main__":
    main()
