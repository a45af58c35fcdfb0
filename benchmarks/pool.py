"""Jobs in processes: rows go to a CSV as they come, and rows that are there are not made again.

One thread a process for BLAS and OpenMP.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

Row = dict[str, Any]
Work = Callable[..., Row]
EVERY = 20.0  # seconds between two lines of progress


class Outcome(NamedTuple):
    """How many jobs were there already, were done now, failed, and were left for another time."""

    held: int
    done: int
    failed: list[str]
    left: int


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _call(work: Work, job: tuple[Any, ...]) -> tuple[tuple[Any, ...], Row | None, str]:
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        try:
            return job, work(*job), ""
        except Exception:
            return job, None, traceback.format_exc()


def run(
    work: Work,
    jobs: Sequence[tuple[Any, ...]],
    out: Path,
    fields: Sequence[str],
    processes: int = 1,
    seconds: float | None = None,
    cost: Callable[..., float] | None = None,
    keep: Callable[[Row], None] | None = None,
) -> Outcome:
    """Do the jobs that ``out`` has no row of.

    Parameters
    ----------
    work : function of a job's values that gives a row, a dict with the keys ``fields``
        Runs in another process, so it is defined at the top of a module.
    jobs : tuples
        The values of a job are the first fields of its row, by which it is known again.
    seconds : float or None
        Jobs that run when they are over are ended and left for another time.
    cost : function of a job's values, or None
        The dearest first, so that no process is left alone with one at the end.
    keep : function of a row, or None
        Called with a row before it is written; what it takes out of it is not written.
    """
    begun = time.monotonic()
    names = list(fields)[: len(jobs[0])] if jobs else []
    held = {tuple(r[k] for k in names) for r in read(out)}
    waiting = [j for j in jobs if tuple(map(str, j)) not in held]
    waiting.sort(key=lambda j: -cost(*j) if cost else 0.0)
    failed: list[str] = []
    done = 0
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = not out.exists()
    pool = multiprocessing.get_context("fork").Pool(min(processes, max(1, len(waiting))))
    try:
        with out.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fields, lineterminator="\n")
            if fresh:
                writer.writeheader()
            results, told = pool.imap_unordered(partial(_call, work), waiting), begun
            for _ in waiting:
                rest = None if seconds is None else begun + seconds - time.monotonic()
                try:
                    job, row, trouble = results.next(None if rest is None else max(rest, 0.0))
                except multiprocessing.TimeoutError:
                    break
                if row is None:
                    failed.append(f"{job}: {trouble.strip().splitlines()[-1]}")
                    print(f"failed: {job}\n{trouble}", file=sys.stderr, flush=True)
                    continue
                if keep:
                    keep(row)
                writer.writerow(row)
                file.flush()
                done += 1
                if time.monotonic() - told > EVERY or done == len(waiting):
                    told = time.monotonic()
                    spent = told - begun
                    print(f"{done} of {len(waiting)}, {spent:.0f} s, last {job}", flush=True)
    finally:
        pool.terminate()
        pool.join()
    left = len(waiting) - done - len(failed)
    if left:
        print(f"{left} of {len(waiting)} left for another time", flush=True)
    return Outcome(len(jobs) - len(waiting), done, failed, left)


def arguments(description: str, name: str) -> argparse.ArgumentParser:
    """The options that programs with jobs share."""
    out = Path(__file__).parent / "results" / date.today().isoformat() / name
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--seconds", type=float, help="stop after so many")
    parser.add_argument("--out", type=Path, default=out, help="CSV (default %(default)s)")
    return parser
