"""Chen, Tiňo & Yao (2009), Table IV on halves of whole sets.

The halves of ``chen-tests`` have at most as many rows as the training parts.  Seven sets have no
more rows; here are halves of all rows of four others, the machines as printed on three of these.
Ringnorm and twonorm (7,400 simulated rows each) keep their halves of 400.  The tables are of all 13
sets, waveform left out for the machines as printed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesvm.compare.tasks import Task, results

from . import chen, chen_paper, chen_tests
from .chen_tuning import RECORDED
from .experiment import Experiment

SETS = ("titanic", "splice", "banana", "waveform")
BOTH = ("titanic", "splice", "banana")  # with the machines as printed
OTHERS = tuple(name for name in chen_paper.SETS if name not in SETS)
METHODS = (*chen.OURS, *chen.BASELINES)


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set by half by method; ``quick``: titanic."""
    parts = 1 if quick else 5
    return [
        task
        for name in (SETS[:1] if quick else SETS)
        for task in chen.tasks_of(
            (name,), 10, METHODS + (chen.PRINTED if name in BOTH else ()), seed, parts
        )
    ]


def solve(task: Task) -> dict[str, float]:
    """One method on one half."""
    parameters = chen.tuned(task["method"], task["set"], chen.parts_of(task))
    model = chen.build(task["method"], parameters, task["seed"])
    return chen.assess(model, *chen_tests.half(task["set"], task["split"], task["seed"], np.inf))


def report(frame: Any, console: Any) -> None:
    """The tables of ``chen-tests`` with these sets in place of theirs."""
    import pandas as pd

    whole = chen_tests.tasks(False, 0, OTHERS)
    path = RECORDED.with_name("chen-tests.csv")
    everything = pd.concat([results(whole, path), frame]) if path.exists() else frame
    for five in (chen.OURS, chen.PRINTED):
        own = everything[everything["method"].isin((*five, *chen.BASELINES))]
        sets = set(own.loc[own["method"] == five[0], "set"])  # those that the control has
        if sets:
            chen_tests.report(own[own["set"].isin(sets)], console)


def draw(frame: Any) -> Any:
    """Error on half of a whole set, a point per set and method."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    mean = frame.groupby(["set", "method"], sort=False)["error"].mean().unstack()
    for method in mean.columns:
        ax.plot(range(len(mean)), 100 * mean[method], "o", ms=4, label=method)
    ax.set_xticks(range(len(mean)), mean.index)
    ax.set_ylabel("error in %")
    ax.legend(fontsize="x-small", ncols=2)
    return figure


EXPERIMENT = Experiment(
    name="chen-halves",
    title="Chen, Tiňo & Yao (2009), Table IV: halves of whole sets",
    tasks=tasks,
    solve=solve,
    measured=chen.MEASURED,
    report=report,
    draw=draw,
)
