"""All fits of Chen's tables, without the command line: ``python benchmarks/chen_tables.py``.

The same tasks, solved by the same functions, as ``python -m papers run`` of chen-table1,
chen-table3 and chen-tests, for a machine that has neither typer, rich nor pandas.  Every result is
a line of a CSV file as soon as it is known; lines already there are not computed again, so a
stopped run can be resumed, and ``python -m papers run ... --output FOLDER`` reads the same files.
What is tuned once per set (the support vector machines, k of the neighbours) is tuned first, a
part of a set per process, instead of once in every process.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bayesvm.compare.tasks import Task, complete
from papers import chen, chen_paper, find, record

EXPERIMENTS = {"table1": find("chen-table1"), "tests": find("chen-tests")}
# the costly first, so that the last processes do not wait for one
COSTLY = ("splice", "image", "german", "diabetis", "flare_solar", "banana", "waveform")
PARTS = 5


def best(method: str, name: str, number: int) -> dict[str, float]:
    with threadpool_limits(1):
        return chen.best(method, *chen.part(name, number))


def tune(sets: tuple[str, ...], methods: tuple[str, ...], path: Path, jobs: int) -> None:
    """Parameters of the tuned methods on every set, into a file."""
    held = json.loads(path.read_text()) if path.exists() else {}
    tuned = [m for m in methods if m in ("SVC", "SVC hard", "kNN")]
    order = [*(s for s in COSTLY if s in sets), *(s for s in sets if s not in COSTLY)]
    todo = [(m, s) for s in order for m in tuned if f"{m} {s}" not in held]
    found = Parallel(jobs, batch_size=1, pre_dispatch="all")(
        delayed(best)(m, s, k + 1) for m, s in todo for k in range(PARTS)
    )
    for i, (m, s) in enumerate(todo):
        own = found[PARTS * i : PARTS * (i + 1)]
        held[f"{m} {s}"] = {key: float(np.median([one[key] for one in own])) for key in own[0]}
    path.write_text(json.dumps(held, indent=1))


class Work:
    """An experiment whose parameters are read from a file."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path
        self.measured = (*EXPERIMENTS[name].measured, "cpu_seconds")

    def solve(self, task: Task) -> dict[str, float]:
        held = json.loads(self.path.read_text())

        def tuned(method: str, name: str, parts: int) -> dict[str, float]:
            return held.get(f"{method} {name}", {}) if parts else {}

        chen.tuned = tuned  # type: ignore[assignment]
        return record.timed(EXPERIMENTS[self.name].solve, task)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=list(EXPERIMENTS))
    parser.add_argument("--sets", nargs="+", default=list(chen_paper.SETS))
    parser.add_argument("--methods", nargs="+", default=list(chen.METHODS))
    parser.add_argument("--splits", default="1:100", help="first and last, counted from 1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no fit after these")
    parser.add_argument("--output", type=Path, default=Path("results"))
    args = parser.parse_args()
    start = time.perf_counter()
    args.output.mkdir(parents=True, exist_ok=True)
    sets, methods = tuple(args.sets), tuple(args.methods)
    first, last = map(int, args.splits.split(":"))
    experiment: Any = EXPERIMENTS[args.experiment]
    tasks = [
        task
        for task in experiment.tasks(False, args.seed, sets, methods)
        if first <= task["split"] <= last
    ]
    rank = {name: i for i, name in enumerate(COSTLY)}
    tasks.sort(key=lambda task: rank.get(task["set"], len(rank)))
    parameters = args.output / "chen-tuned.json"
    tune(sets, methods, parameters, args.jobs)
    print(f"tuned after {time.perf_counter() - start:.0f} s", flush=True)
    path = args.output / f"{experiment.name}.csv"
    work, before = Work(args.experiment, parameters), record.tally(path)
    for count in complete(work.solve, work.measured, tasks, path, args.jobs):
        if count % 500 == 0:
            print(f"{count} of {len(tasks)}, {time.perf_counter() - start:.0f} s", flush=True)
        if time.perf_counter() - start > args.seconds:
            break
    wall = time.perf_counter() - start
    record.note(args.output, experiment.name, False, args.seed, before, record.tally(path), wall)
    print(f"{count} of {len(tasks)} done, {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
