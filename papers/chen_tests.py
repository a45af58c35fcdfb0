"""Chen, Tiňo & Yao (2009), Tables IV to VI: is one machine better than the others?

On each set, five replications of two halves; every half has about as many rows as the set's
training part, drawn from all rows of the set (an assumption; seven sets have no more rows, so that
these are halves of the whole).  Tuning is that of Table I.
``quick`` takes the five sets of at most 400 rows to learn from that have real data or few columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesvm.compare import (
    five_by_two,
    score_table,
    win_loss_tie,
)
from bayesvm.datasets import load_raetsch

from . import chen, chen_paper
from .running import Task, table_of

MEASURED = chen.MEASURED
METHODS = tuple(m for m in chen.METHODS if m != "PCVM fixed")
# ours; ours with the paper's prior; the paper's algorithm, with the other machines as printed
CONTROLS = ("PCVC", "PCVC power", "PCVM")
SINGLE = 0.05  # level on one set, section III-C
QUICK = ("heart", "thyroid", "titanic")


def tasks(
    quick: bool,
    seed: int,
    sets: tuple[str, ...] | None = None,
    methods: tuple[str, ...] = METHODS,
) -> list[Task]:
    """Set by half by method; ``split`` counts the ten halves from 1."""
    sets = sets or (QUICK if quick else chen_paper.SETS)
    return chen.tasks_of(sets, 10, methods, seed, 1 if quick else 5)


def half(name: str, number: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Rows to learn from and to test on: half ``number`` of ten, counted from 1."""
    whole = load_raetsch(name, None)
    rows = np.repeat(np.arange(len(whole.target)), whole.counts)
    rng = np.random.default_rng((seed, chen_paper.SETS.index(name)))
    size = min(len(rows), 2 * chen_paper.TRAIN[chen_paper.SETS.index(name)])
    rows = rng.permutation(rows)[:size]
    X, y = whole.data[rows], whole.target[rows]
    train, test = list(five_by_two(seed).split(X, y))[number - 1]
    return X[train], y[train], X[test], y[test]


def solve(task: Task) -> dict[str, float]:
    """One method on one half."""
    parameters = chen.tuned(task["method"], task["set"], chen.parts_of(task))
    model = chen.build(task["method"], parameters, task["seed"])
    return chen.assess(model, *half(task["set"], task["split"], task["seed"]))


def tidy(frame: Any) -> Any:
    """The table that ``bayesvm.compare`` works on."""
    columns = [column for column, _ in chen.METRICS.values()]
    long = frame.melt(["set", "split", "method"], columns, "metric", "value")
    long = long.rename(columns={"set": "dataset", "method": "estimator"})
    order = {method: i for i, method in enumerate(chen.METHODS)}
    return long.sort_values(
        ["metric", "estimator", "dataset", "split"],
        key=lambda s: s.map(order) if s.name == "estimator" else s,
    )


def report(frame: Any, console: Any) -> None:
    """Win-loss-tie by the F test, mean ranks and their tests, the paper's beside ours."""
    long = tidy(frame)
    if not set(CONTROLS) & set(frame["method"]):
        console.print(f"{CONTROLS[0]} was not run: nothing to compare with.")
    for metric, (column, _) in chen.METRICS.items():
        lower = column != "auc"
        for control in CONTROLS:
            own = _against(long, control)
            if not len(own):
                continue
            sets, scores = own["dataset"].nunique(), score_table(own, column)
            means = win_loss_tie(own, control, column, lower)
            tested = win_loss_tie(own, control, column, lower, SINGLE)
            title = f"{metric}: against {control} on {sets} sets (the paper's, on 13)"
            table = table_of(title, ("method", "win-loss-tie", f"5x2cv F, {SINGLE}"), left=0)
            for method in means.index:
                said = chen_paper.TABLE4[metric].get(chen.METHODS[method] or "", (None, None))
                cells = ("-".join(map(str, t.loc[method])) for t in (means, tested))
                table.add_row(method, *(_beside(*pair) for pair in zip(cells, said)))
            console.print(table)
            rest = chen.PRINTED[1:] if control == "PCVM" else chen.OURS[1:]
            for line in chen.ranks(scores, (control, *rest), metric):
                console.print(line)


def _against(long: Any, control: str) -> Any:
    """What is compared with a control: machines as printed among themselves, on its sets."""
    other = (*chen.OURS, "PCVC power", "RVC logistic", "BayesianSVC")
    left_out = other if control == "PCVM" else chen.PRINTED
    sets = set(long.loc[long["estimator"] == control, "dataset"])
    return long[long["dataset"].isin(sets) & ~long["estimator"].isin(left_out)]


def _beside(ours: str, theirs: Any) -> str:
    return ours if theirs is None else f"{ours} ({theirs})"
