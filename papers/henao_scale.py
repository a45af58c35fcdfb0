r"""Henao, Yuan & Carin (2014), section 3: where the gamma of ECM ends.

:math:`\gamma = (a_0 - 1 + N/2)/(b_0 + 2\sum\max(u_n, 0))` is at most :math:`(a_0 - 1 + N/2)/b_0`,
which it has where no row is inside the margin: then its prior sets it, and not the data.  The
first fold of the sets of Table 1, and the 767 threes and fives of Table 2 with every row a point.
"""

from __future__ import annotations

from typing import Any

from . import henao_table1, henao_table2, tenfold
from .henao_ecm import PRIOR, fit_ecm
from .running import Task

SETS = (*henao_table1.SIZES, "3 v 5")
MEASURED = ("gamma", "largest", "theta", "rows")


def tasks(quick: bool, seed: int) -> list[Task]:
    """By set; ``quick`` has crabs alone."""
    return [{"set": name, "fold": 0, "seed": seed} for name in (["crabs"] if quick else SETS)]


def solve(task: Task) -> dict[str, float]:
    if task["set"] == "3 v 5":
        X, y = henao_table2.load("3 v 5")[:2]
        model = fit_ecm(X, y, standardize=False)
    else:
        X, y = henao_table1.load(task["set"])
        train = tenfold.fold_of(X, y, task)[0]
        model = fit_ecm(X[train], y[train])
    a0, b0 = PRIOR
    n = len(model.X)
    largest = (a0 - 1.0 + 0.5 * n) / b0
    return {"gamma": model.gamma, "largest": largest, "theta": model.theta, "rows": n}


def report(frame: Any, console: Any) -> None:
    console.print("Gamma and theta of ECM; largest: the gamma that the prior allows, which it has")
    console.print("where no row is inside the margin; rows: those learned from")
    console.print(frame.drop(columns="seed").round(3).to_string(index=False))
