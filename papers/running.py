"""What an experiment is, how one is run, recorded and shown, and tables for the console.

A run adds a line to ``record.csv``: what was run, when and from which commit.  The time of every
task is in the file of results, column ``cpu_seconds``; the line has their sum.
"""

from __future__ import annotations

import csv
import io
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from joblib import Parallel, cpu_count, delayed
from threadpoolctl import threadpool_limits

Task = dict[str, Any]  # flat: what the task is, and every setting its result depends on
COLUMNS = ("experiment", "date", "commit", "seed", "quick", "tasks", "cpu_seconds", "seconds")


@dataclass(frozen=True)
class Experiment:
    """One experiment of a paper: its tasks, how each is solved, and its tables.

    Parameters
    ----------
    name, title : str
        As in ``REGISTRY``.
    tasks : callable
        ``tasks(quick, seed)`` lists what is to be done.  All tasks have the same keys.
    solve : callable
        ``solve(task)`` gives the measurements, a flat dictionary of ``measured``.
    measured : tuple of str
        Names of the measurements.  The CPU time of a task, ``cpu_seconds``, is added to them.
    report : callable
        ``report(frame, console)`` prints tables; the frame has one row per task.
    results : str
        Stem of the file of results.
    """

    name: str
    title: str
    tasks: Callable[[bool, int], list[Task]]
    solve: Callable[[Task], dict[str, float]]
    measured: tuple[str, ...]
    report: Callable[[Any, Any], None]
    results: str


def sweeps(settings: str) -> tuple[int, int]:
    """Burn-in and draws of a setting such as "500+1500 sweeps"."""
    burn_in, draws = settings.split(" ")[0].split("+")
    return int(burn_in), int(draws)


# ---------------------------------------------------------------------------------------------
# Running


def run_one(
    experiment: Experiment, quick: bool, seed: int, output: Path, jobs: int | None = None
) -> None:
    """Complete the tasks of an experiment, record the run and print its tables."""
    from rich.console import Console
    from rich.progress import track

    console, path = Console(highlight=False), output / f"{experiment.results}.csv"
    tasks = experiment.tasks(quick, seed)
    console.print(experiment.title, style="bold")
    output.mkdir(parents=True, exist_ok=True)
    before, start = tally(path), time.perf_counter()
    done = complete(experiment.solve, experiment.measured, tasks, path, jobs)
    try:
        for _ in track(done, "fits", total=len(tasks) + 1, console=console, transient=True):
            pass
    finally:  # a run that was stopped is recorded too
        wall = time.perf_counter() - start
        note(output, experiment.name, quick, seed, before, tally(path), wall)
    experiment.report(results(tasks, path), console)
    console.print(f"Results: {path}", soft_wrap=True)


def show_one(experiment: Experiment, quick: bool, seed: int, output: Path) -> None:
    """Print the tables of what has been solved."""
    from rich.console import Console

    console, path = Console(highlight=False), output / f"{experiment.results}.csv"
    tasks = experiment.tasks(quick, seed)
    frame = results(tasks, path)
    console.print(experiment.title, style="bold")
    console.print(f"{len(frame)} of {len(tasks)} tasks, {path}", soft_wrap=True)
    if len(frame):
        experiment.report(frame, console)


def complete(
    solve: Callable[[Task], dict[str, Any]], measured: Sequence[str], tasks: Sequence[Task],
    path: Path, jobs: int | None = None,
) -> Iterator[int]:  # fmt: skip
    """Solve the tasks that a file has no line for, and yield how many tasks are done so far.

    Every result is on disk before it is counted, so that a run can be stopped at any time; a last
    line that was cut off is taken away.  ``cpu_seconds`` are added to what is ``measured``.
    """
    header = [*tasks[0], *measured, "cpu_seconds"]
    text = path.read_bytes() if path.exists() else b""
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        os.truncate(path, len(whole))
    first, *lines = csv.reader(io.StringIO(whole.decode(), newline="")) if whole else [header]
    if first != header:
        raise ValueError(
            f"{path} holds results of another kind: it has the columns {', '.join(first)}, and "
            f"{', '.join(header)} were expected. Move it away, or give another --output."
        )
    done = {tuple(line[: len(tasks[0])]) for line in lines}
    todo = [task for task in tasks if spelled(task) not in done]
    count = len(tasks) - len(todo)
    yield count
    workers = Parallel(min(jobs or cpu_count(), len(todo) or 1), return_as="generator_unordered")
    with path.open("a", newline="") as handle:
        writer = csv.DictWriter(handle, header)
        if handle.tell() == 0:
            writer.writeheader()
        for row in workers(delayed(solved)(solve, task) for task in todo):
            writer.writerow(row)
            handle.flush()
            count += 1
            yield count


def solved(solve: Callable[[Task], dict[str, Any]], task: Task) -> dict[str, Any]:
    """A task with its solution and the CPU seconds that it took on one core."""
    start = time.process_time()
    with threadpool_limits(1):
        found = solve(task)
    return {**task, **found, "cpu_seconds": round(time.process_time() - start, 3)}


def spelled(task: Task) -> tuple[str, ...]:
    """A task as the file spells it."""
    return tuple(str(value) for value in task.values())


def results(tasks: Sequence[Task], path: Path) -> Any:
    """The results of these tasks in a file, as a data frame in their order.

    What a task is comes from the task: a file would give 1 for the name "1" and nothing for "NA".
    """
    import pandas as pd

    keys = list(tasks[0])
    texts = pd.read_csv(path, dtype=str, usecols=keys, keep_default_na=False)[keys]
    lines: dict[tuple[str, ...], int] = {}
    for line, key in enumerate(texts.itertuples(index=False, name=None)):
        lines.setdefault(key, line)
    done = [task for task in tasks if spelled(task) in lines]
    measured = pd.read_csv(path).drop(columns=keys).iloc[[lines[spelled(task)] for task in done]]
    return pd.DataFrame(done, columns=keys).join(measured.reset_index(drop=True))


# ---------------------------------------------------------------------------------------------
# The record


class Tally(NamedTuple):
    """Number of results in a file and the CPU seconds that they took."""

    tasks: int
    cpu_seconds: float


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

    def git(*words: str) -> str:
        how: dict[str, Any] = {"cwd": Path(__file__).parent, "capture_output": True, "text": True}
        return subprocess.run(["git", *words], check=True, **how).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "../src", "*.py")
        return git("rev-parse", "--short", "HEAD") + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


# ---------------------------------------------------------------------------------------------
# Tables


def table_of(title: str, heads: Iterable[Any], left: int = 1) -> Any:
    """A table without rows; the first ``left`` columns are aligned to the left, the rest right."""
    from rich.table import Table

    table = Table(title=title)
    for k, head in enumerate(heads):
        table.add_column(str(head), justify="left" if k < left else "right")
    return table


def statements(where: str, more: str = "", width: int = 40, lines: bool = False) -> Any:
    """A table without rows: statements of a paper, and what was found here."""
    from rich.table import Table

    table = Table(title=f"The paper's statements and these numbers{more}", show_lines=lines)
    table.add_column(where, max_width=width)
    table.add_column("here")
    return table


def mean_and_error(
    frame: Any,
    metric: str,
    sets: Iterable[str],
    methods: Iterable[str],
    times: float = 1.0,
    spread: str = "sem",
) -> tuple[Any, Any]:
    """Means by set (rows) and method (columns), of those in the frame, and standard errors."""
    by = times * frame.groupby(["set", "method"])[metric].agg(["mean", spread])
    mean, error = by["mean"].unstack(), by[spread].unstack()
    rows = [name for name in sets if name in mean.index]
    columns = [name for name in methods if name in mean.columns]
    return mean.loc[rows, columns], error.loc[rows, columns]
