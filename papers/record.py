"""What was run, when and from which commit: one line a run in ``record.csv``.

The time of every task is in the file of results, column ``cpu_seconds``; here is their sum.
"""

from __future__ import annotations

import csv
import os
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bayesvm.compare.tasks import Task

COLUMNS = ("experiment", "date", "commit", "seed", "quick", "tasks", "cpu_seconds", "seconds")


class Tally(NamedTuple):
    """Number of results in a file and the CPU seconds that they took."""

    tasks: int
    cpu_seconds: float


def timed(solve: Callable[[Task], dict[str, float]], task: Task) -> dict[str, float]:
    """A solution and the CPU seconds it took."""
    start = time.process_time()
    found = solve(task)
    return {**found, "cpu_seconds": round(time.process_time() - start, 3)}


def tally(path: Path) -> Tally:
    """What a file of results holds; a last line that was cut off does not count."""
    if not path.exists():
        return Tally(0, 0.0)
    with path.open(newline="") as handle:
        rows = [row for row in csv.DictReader(handle) if row.get("cpu_seconds")]
    return Tally(len(rows), sum(float(row["cpu_seconds"]) for row in rows))


def note(
    output: Path, name: str, quick: bool, seed: int, before: Tally, after: Tally, wall: float
) -> None:
    """Add a line about a run that has solved something."""
    tasks = after.tasks - before.tasks
    if not tasks:
        return
    path = output / "record.csv"
    with path.open("a", newline="") as handle:
        writer = csv.writer(handle)
        if handle.tell() == 0:
            writer.writerow(COLUMNS)
        cpu = after.cpu_seconds - before.cpu_seconds
        date = datetime.now(UTC).date().isoformat()
        row = (name, date, commit(), seed, quick, tasks, f"{cpu:.1f}", f"{wall:.1f}")
        writer.writerow(row)


def commit() -> str:
    """The commit of the sources, with a ``+`` if they were changed since.

    Where the sources were copied without their history, the variable ``PAPERS_COMMIT`` gives it.
    """
    if given := os.environ.get("PAPERS_COMMIT"):
        return given
    try:
        head = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--", "../src", "*.py")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + "+" * bool(changed)


def _git(*words: str) -> str:
    here = Path(__file__).parent
    done = subprocess.run(["git", *words], cwd=here, check=True, capture_output=True, text=True)
    return done.stdout.strip()
