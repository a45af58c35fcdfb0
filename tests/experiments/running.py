"""How experiments are run in their tests; an experiment is a module of ``papers``."""

import io

import pandas as pd
from rich.console import Console

from bayesvm.compare.tasks import complete, results


def solved(experiment, tasks):
    """A row for each task."""
    return pd.DataFrame([task | experiment.solve(task) for task in tasks])


def run(experiment, tasks, folder):
    """The same through a file."""
    path = folder / "results.csv"
    *_, count = complete(experiment.solve, experiment.MEASURED, tasks, path, 1)
    assert count == len(tasks)
    return results(tasks, path)


def said(experiment, frame, width=300):
    """What is printed."""
    out = io.StringIO()
    experiment.report(frame, Console(file=out, width=width))
    return out.getvalue()
