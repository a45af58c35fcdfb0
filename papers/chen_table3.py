"""Chen, Tiňo & Yao (2009), Table III: how many vectors the sparse machines keep.

The fits are those of Table I and share its file, so that none is made twice.
"""

from __future__ import annotations

from typing import Any

from . import chen, chen_paper, chen_table1
from .running import Task, mean_and_error, table_of

solve, MEASURED = chen.solve, chen.MEASURED


def tasks(quick: bool, seed: int, sets: tuple[str, ...] = chen_paper.SETS) -> list[Task]:
    """Those of Table I for the methods that keep vectors."""
    return chen_table1.tasks(quick, seed, sets, chen.SPARSE)


def counts(frame: Any) -> tuple[Any, Any]:
    """Mean and standard deviation of the number of vectors, by set and method."""
    return mean_and_error(frame, "vectors", chen_paper.SETS, chen.SPARSE, spread="std")


def report(frame: Any, console: Any) -> None:
    """Ours, and in brackets the paper's."""
    mean, sd = counts(frame)
    title = "Vectors: mean ± standard deviation (the paper's mean)"
    table = table_of(title, ("set", "rows", *mean.columns))
    for name in mean.index:
        at = chen_paper.SETS.index(name)
        cells = [
            f"{mean.at[name, m]:.1f} ± {sd.at[name, m]:.1f} ({_printed(m)[at]:.1f})"
            for m in mean.columns
        ]
        table.add_row(name, str(chen_paper.TRAIN[at]), *cells)
    console.print(table)
    if "SVC" in mean:
        shares = {m: (mean[m] / mean["SVC"]).mean() for m in mean.columns if m != "SVC"}
        said = ", ".join(f"{m} {share:.2f}" for m, share in shares.items())
        console.print(f"Share of SVC's vectors, mean over the sets: {said}")


def _printed(method: str) -> list[float]:
    return chen_paper.TABLE3[str(chen.METHODS[method])][0]
