"""Millions of rows: time, passes, peak memory and scores, each fit in a fresh process.

    python benchmarks/scale.py --out results                        # all that is not there yet
    python benchmarks/scale.py --out results --rows 200000          # smaller
    python benchmarks/scale.py --out results --only bayesvm_64_tuned --cores 4

``scale.csv`` has a line a fit; fits that are there already are not made again.  The rows are a
memory map in float32.  ``peak_mb`` is the high-water mark of the process, mapped rows included;
``cpu_seconds`` is the time of all threads together.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

import machine
import pool
from scale_fits import FITS
from scale_problem import COLUMNS, held_out, simulate

FIELDS = [
    *("problem", "fit", "rows", "points", "columns", "threads", "seconds", "cpu_seconds"),
    *("pass_seconds", "pass_cpu_seconds", "passes", "peak_mb", "auc", "brier", "log_loss", "load"),
]


def peak() -> float:
    """Largest resident memory so far in MB; not ``ru_maxrss``, which a child process inherits."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+)", status)[1]) * 1024 / 1e6


def work(name: str, threads: int, folder: Path) -> None:
    """One fit; prints its line as JSON."""
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    fit, load = FITS[name], os.getloadavg()[0]
    wall, busy = time.perf_counter(), time.process_time()
    ask, told = fit.call(X, y, fit.points, threads, **fit.options)
    out = {
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - busy,
        # not ru_maxrss: a process inherits that of the one that started it
        "peak_mb": int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1])
        / 976.6,
        **told,
    }
    new, labels = held_out()
    p = np.clip(ask(new), 1e-7, 1 - 1e-7)
    scores = {"auc": roc_auc_score, "brier": brier_score_loss, "log_loss": log_loss}
    out |= {score: float(function(labels, p)) for score, function in scores.items()}
    out |= {"problem": "rows", "fit": name, "rows": len(y), "points": fit.points}
    print("ANSWER " + json.dumps(out | {"columns": COLUMNS, "threads": threads, "load": load}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--only", nargs="+", choices=FITS, default=list(FITS))
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--cores", type=int, default=min(4, machine.cores()), help="of a fit")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)  # a fit and the folder of rows
    args = parser.parse_args()
    if args.work:
        return work(args.work[0], args.cores, Path(args.work[1]))
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "scale_machine.json").write_text(json.dumps(machine.describe(), indent=1))
    lines = pool.read(args.out / "scale.csv")
    made = {(line["fit"], line["rows"], line["threads"]) for line in lines}
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    env = os.environ | dict.fromkeys(names, str(args.cores))
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])  # children inherit it
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in zip("Xy", simulate(args.rows), strict=True):
            np.save(f"{folder}/{name}.npy", rows)
        for fit in args.only:
            if (fit, str(args.rows), str(args.cores)) in made:
                continue
            command = [sys.executable, __file__, "--work", fit, folder, "--cores", str(args.cores)]
            done = subprocess.run(command, capture_output=True, text=True, env=env)
            if done.returncode:
                print(f"{fit} failed:\n{done.stderr[-2000:]}", flush=True)
                continue
            answer = json.loads(done.stdout.split("ANSWER ")[1])
            lines.append({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in answer.items()})
            print(lines[-1], flush=True)
            with (args.out / "scale.csv").open("w", newline="") as file:
                table = csv.DictWriter(file, FIELDS, extrasaction="ignore", lineterminator="\n")
                table.writeheader()
                table.writerows(lines)
    return None


if __name__ == "__main__":
    main()
