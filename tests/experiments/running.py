"""How experiments are run in their tests; an experiment is a module of ``papers``."""

import io

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.datasets import make_moons

from papers import spam
from papers.running import complete, results

SPAM = ["hpl", "font", "email", "table", "george", "cs", "free", "remove", "make", "all"]


def solved(experiment, tasks):
    """A row for each task."""
    return pd.DataFrame([task | experiment.solve(task) for task in tasks])


def two_of_each_kind(experiment):
    """A row for two tasks of each kind of a quick run: kinds differ in more than their fold."""
    kinds = {}
    for task in experiment.tasks(True, 0):
        kind = tuple(v for k, v in task.items() if k not in ("fold", "repetition"))
        kinds.setdefault(kind, []).append(task)
    return solved(experiment, [task for tasks in kinds.values() for task in tasks[:2]])


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


def moons(name="", n=80, scale=1):
    """A small set of two classes, another for names of other lengths."""
    X, y = make_moons(n, noise=0.3, random_state=len(name))
    return scale * X, 2 * y - 1


def spam_like(monkeypatch):
    """Ten columns in place of the spam data: free and remove tell spam, george its absence."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, len(SPAM))) * np.arange(1, 11)
    f = 2.0 * X[:, 6] / 7 + 2.0 * X[:, 7] / 8 - 3.0 * X[:, 4] / 5
    y = np.where(f + rng.logistic(size=150) > 0, 1, -1)
    monkeypatch.setattr(spam, "data", lambda: (X, y))
    monkeypatch.setattr(spam, "NAMES", SPAM)
    return X, y
