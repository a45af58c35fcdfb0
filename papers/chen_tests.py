"""Chen, Tiňo & Yao (2009), Tables IV to VI: is one machine better than the others?

On each set, five replications of two halves; every half has about as many rows as the set's
training part, drawn from all rows of the set (an assumption).  Tuning is that of Table I.
``quick`` takes the five sets of at most 400 rows to learn from that have real data or few columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesvm.compare import (
    CriticalDifferenceDisplay,
    bonferroni_dunn,
    five_by_two,
    friedman,
    score_table,
    win_loss_tie,
)
from bayesvm.compare.tasks import Task
from bayesvm.datasets import load_raetsch

from . import chen, chen_paper
from .experiment import Experiment

CONTROL = "PCVC"
SINGLE, SEVERAL = 0.05, 0.10  # levels on one set (section III-C) and over sets (Table VI)
# the five of Table VI, under our names
FIVE = ("PCVC", "SVC", "SVC hard", "SVC same kernel", "RVC")
QUICK = ("banana", "breast_cancer", "heart", "thyroid", "titanic")


def tasks(
    quick: bool,
    seed: int,
    sets: tuple[str, ...] | None = None,
    methods: tuple[str, ...] = tuple(chen.METHODS),
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
    """Win-loss-tie, mean ranks, Friedman and Bonferroni-Dunn, the paper's beside ours."""
    from rich.table import Table

    long = tidy(frame)
    sets = frame["set"].nunique()
    for metric, (column, _) in chen.METRICS.items():
        lower = column != "auc"
        scores = score_table(long, column)
        if CONTROL not in scores:
            console.print(f"{CONTROL} was not run: nothing to compare with.")
            return
        means = win_loss_tie(long, CONTROL, column, lower)
        tested = win_loss_tie(long, CONTROL, column, lower, SINGLE)
        ranks = friedman(scores, lower_is_better=lower)
        dunn = bonferroni_dunn(scores, CONTROL, SEVERAL, lower_is_better=lower)
        table = Table(title=f"{metric}: against {CONTROL} on {sets} sets (the paper's, on 13)")
        table.add_column("method")
        for name in ("win-loss-tie", f"5x2cv F, {SINGLE}", "mean rank", "rank - PCVC's", "p"):
            table.add_column(name, justify="right")
        for i, method in enumerate(ranks.names):
            theirs = chen.METHODS[method] or ""
            rank = _beside(f"{ranks.ranks[i]:.1f}", chen_paper.TABLE5[metric].get(theirs))
            if method == CONTROL:
                table.add_row(method, "", "", rank, "", "")
                continue
            at = dunn.names.index(method)
            said = chen_paper.TABLE4[metric].get(theirs, (None, None))
            table.add_row(
                method,
                _beside("-".join(map(str, means.loc[method])), said[0]),
                _beside("-".join(map(str, tested.loc[method])), said[1]),
                rank,
                f"{dunn.differences[at]:+.2f}" + (" *" if dunn.significant[at] else ""),
                f"{dunn.pvalues[at]:.3f}",
            )
        console.print(table)
        console.print(_friedman(ranks, dunn), style="dim")
        for control in (CONTROL, "PCVC power"):  # the second has the paper's own prior
            five = [m for m in (control, *FIVE[1:]) if m in scores]
            if control in five and len(five) > 2:
                console.print(_table6(scores[five], control, metric, lower))


def _friedman(ranks: Any, dunn: Any) -> str:
    return (
        f"Friedman, Iman-Davenport: F = {ranks.statistic:.2f}, p = {ranks.pvalue:.2g}. "
        f"* beyond the critical difference {dunn.critical_difference:.3f} of Bonferroni and "
        f"Dunn at {SEVERAL}."
    )


def _table6(scores: Any, control: str, metric: str, lower: bool) -> str:
    """Table VI: the paper's own five methods among themselves."""
    ranks = friedman(scores, lower_is_better=lower)
    dunn = bonferroni_dunn(scores, control, SEVERAL, lower_is_better=lower)
    printed = chen_paper.TABLE6[metric]
    cells = [
        f"{name} {_beside(f'{gap:.2f}', printed[str(chen.METHODS[name])])}{' *' if star else ''}"
        for name, gap, star in zip(dunn.names, dunn.differences, dunn.significant)
    ]
    told = f"Table VI, {metric}, rank less that of {control}: {', '.join(cells)}."
    return f"{told} {_friedman(ranks, dunn)}"


def _beside(ours: str, theirs: Any) -> str:
    return ours if theirs is None else f"{ours} ({theirs})"


def draw(frame: Any) -> Any:
    """A critical-difference diagram per metric."""
    import matplotlib.pyplot as plt

    long = tidy(frame)
    figure, axes = plt.subplots(3, 1, figsize=(8, 9), layout="constrained")
    for ax, (metric, (column, _)) in zip(axes, chen.METRICS.items()):
        scores = score_table(long, column)
        CriticalDifferenceDisplay.from_scores(
            scores, alpha=SEVERAL, lower_is_better=column != "auc", ax=ax
        )
        ax.set_title(f"{metric}: mean ranks on {len(scores)} sets, Nemenyi at {SEVERAL}")
    return figure


EXPERIMENT = Experiment(
    name="chen-tests",
    title="Chen, Tiňo & Yao (2009), Tables IV to VI: tests",
    tasks=tasks,
    solve=solve,
    measured=chen.MEASURED,
    report=report,
    draw=draw,
)
