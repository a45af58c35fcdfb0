"""What an experiment is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayesvm.compare.tasks import Task


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
