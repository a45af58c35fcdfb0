"""Tasks in parallel processes; each result is a line of a CSV file, so a run can be resumed."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from joblib import Parallel, cpu_count, delayed
from threadpoolctl import threadpool_limits

from ..inspection.tables import pandas_for

Task = dict[str, Any]  # flat: what the task is, and every setting its result depends on


def complete(
    solve: Callable[[Task], dict[str, float]], measured: Sequence[str], tasks: Sequence[Task],
    path: Path, jobs: int | None = None,
) -> Iterator[int]:  # fmt: skip
    """Solve the tasks that ``path`` has no line for, and yield how many tasks are done so far.

    Every result is on disk before it is counted, so a run can be stopped at any time; the next one
    with the same file solves only what is left.  ``measured`` are the keys that ``solve`` returns.
    """
    header = [*tasks[0], *measured]
    done = _keys_in(path, header, len(tasks[0]))
    todo = [task for task in tasks if _key(task) not in done]
    count = len(tasks) - len(todo)
    yield count
    if not todo:
        return
    workers = Parallel(n_jobs=min(jobs or cpu_count(), len(todo)), return_as="generator_unordered")
    with path.open("a", newline="") as handle:
        writer = csv.DictWriter(handle, header)
        if handle.tell() == 0:
            writer.writeheader()
        for row in workers(delayed(_alone)(solve, task) for task in todo):
            writer.writerow(row)
            handle.flush()
            count += 1
            yield count


def results(tasks: Sequence[Task], path: Path) -> Any:
    """The results of these tasks in the file, as a data frame in their order.

    What a task is comes from the task: a file would give 1 for the name "1" and nothing for "NA".
    """
    pd = pandas_for("a table of results")
    keys = list(tasks[0])
    texts = pd.read_csv(path, dtype=str, usecols=keys, keep_default_na=False)[keys]
    lines: dict[tuple[str, ...], int] = {}
    for line, key in enumerate(texts.itertuples(index=False, name=None)):
        lines.setdefault(key, line)
    done = [task for task in tasks if _key(task) in lines]
    measured = pd.read_csv(path).drop(columns=keys).iloc[[lines[_key(task)] for task in done]]
    return pd.DataFrame(done, columns=keys).join(measured.reset_index(drop=True))


def _key(task: Task) -> tuple[str, ...]:
    """A task as the file spells it."""
    return tuple(str(value) for value in task.values())


def _alone(solve: Callable[[Task], dict[str, float]], task: Task) -> dict[str, Any]:
    """One task on one core: tasks, not matrix products, share the machine."""
    with threadpool_limits(1):
        return task | solve(task)


def _keys_in(path: Path, header: list[str], width: int) -> set[tuple[str, ...]]:
    """Keys of the lines that an earlier run has left, without a last line that was cut off."""
    text = path.read_bytes() if path.exists() else b""
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        os.truncate(path, len(whole))
    if not whole:
        return set()
    first, *lines = csv.reader(io.StringIO(whole.decode(), newline=""))
    if first != header:
        raise ValueError(
            f"{path} holds results of another kind: it has the columns {', '.join(first)}, and "
            f"{', '.join(header)} were expected. Move it away, or have results written elsewhere "
            "(`path` of evaluate, --output on the command line)."
        )
    return {tuple(line[:width]) for line in lines}
