"""Polson & Scott (2011), Fig. 2: a lasso machine from several starts, and by other software.

What is as printed: the data, the EM algorithm of section 3.1 with exponent 1 from standard normal
starts, 500 steps at most, a column dropped once its coefficient is numerically zero.

What differs:

- The paper compares with the R package penalizedSVM, which is not available here.  Its place is
  taken by a linear programme (HiGHS through SciPy), whose solution is the exact minimiser of the
  same objective.  So the coefficients of any run can be compared with the truth, which the paper
  could not do.
- Columns are standardised, and nu is the one that ECME finds for these.
- Weights of rows are at most 1e10: the printed ones are infinite on the margin.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import linprog

from bayesvm import BayesianLinearSVC
from bayesvm.compare.tasks import Task
from bayesvm.inference import EM
from bayesvm.priors import Lasso

from . import spam
from .experiment import Experiment

NU = 0.519  # ECME's, see polson-spam
STEPS, LARGEST, ZERO, CONVERGED = 500, 1e10, 1e-6, 1e-6
MEASURED = ("seconds", "steps", "objective", "nonzero", "coef")


def tasks(quick: bool, seed: int) -> list[Task]:
    """The linear programme, the library, and the printed algorithm from several starts."""
    from bayesvm import __version__

    starts = [("EM, printed", k) for k in range(2 if quick else 10)]
    return [
        {"version": __version__, "seed": seed, "method": method, "start": start}
        for method, start in [("LP", 0), ("library", 0), *starts]
    ]


@cache
def design() -> tuple[Any, Any]:
    """Ones and standardised columns, times the label; labels."""
    X, y = spam.data()
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    sign = np.where(y == np.max(y), 1.0, -1.0)
    return sign[:, None] * np.column_stack([np.ones(len(y)), Z]), sign


def objective(beta: Any) -> float:
    """Twice the hinge, and the penalty; the intercept is free."""
    X, _ = design()
    return float(2.0 * np.maximum(1.0 - X @ beta, 0.0).sum() + np.abs(beta[1:]).sum() / NU)


def by_programme() -> Any:
    """The minimiser: split coefficients, and a slack for each row."""
    X, _ = design()
    n, k = X.shape
    cost = np.concatenate([[0.0, 0.0], np.full(2 * (k - 1), 1.0 / NU), np.full(n, 2.0)])
    A = np.hstack([X[:, :1], -X[:, :1], X[:, 1:], -X[:, 1:], np.eye(n)])
    x = linprog(cost, A_ub=-A, b_ub=-np.ones(n), method="highs-ipm").x
    return np.concatenate([[x[0] - x[1]], x[2 : k + 1] - x[k + 1 : 2 * k]])


def by_printed_em(rng: np.random.Generator) -> tuple[Any, int]:
    """Section 3.1 from a normal start; coefficients, and steps made."""
    X, _ = design()
    beta = rng.standard_normal(X.shape[1])
    for step in range(1, STEPS + 1):
        keep = np.abs(beta) > ZERO
        keep[0] = True
        w = np.minimum(1.0 / np.maximum(np.abs(1.0 - X @ beta), 1.0 / LARGEST), LARGEST)
        penalty = 1.0 / (NU * np.maximum(np.abs(beta[keep]), ZERO))
        penalty[0] = 0.0
        part = X[:, keep]
        new = np.zeros_like(beta)
        new[keep] = np.linalg.solve(
            part.T @ (w[:, None] * part) + np.diag(penalty), part.T @ (1 + w)
        )
        moved, beta = np.abs(new - beta).max(), new
        if moved < CONVERGED:
            return beta, step
    return beta, STEPS + 1


def solve(task: Task) -> dict[str, Any]:
    """One way to the machine."""
    X, y = spam.data()
    start, steps = time.process_time(), 0
    if task["method"] == "LP":
        beta = by_programme()
    elif task["method"] == "library":
        model = BayesianLinearSVC(
            Lasso(nu=NU), EM(), "hinge", intercept_scale=1e6, probability="probit"
        ).fit(X, y)
        slope = model.coef_[0] * X.std(axis=0)
        beta = np.concatenate([model.intercept_ + model.coef_[0] @ X.mean(axis=0), slope])
    else:
        beta, steps = by_printed_em(np.random.default_rng((task["seed"], task["start"])))
    return {
        "seconds": round(time.process_time() - start, 3),
        "steps": steps,
        "objective": round(objective(beta), 6),
        "nonzero": int((np.abs(beta[1:]) > ZERO).sum()),
        "coef": spam.written(beta),
    }


def report(frame: Any, console: Any) -> None:
    """Each run against the exact minimiser."""
    from rich.table import Table

    exact = frame[frame["method"] == "LP"].iloc[0]
    truth = spam.read(exact["coef"])
    table = Table(title=f"Lasso machines of the spam data, ν = {NU}")
    for name in ("method", "objective − LP", "largest difference", "nonzero", "steps", "seconds"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for row in frame.itertuples():
        gap = np.abs(spam.read(row.coef) - truth).max()
        steps = "" if not row.steps else str(row.steps) if row.steps <= STEPS else "not converged"
        table.add_row(
            row.method + (f", start {row.start}" if row.steps else ""),
            f"{row.objective - exact['objective']:+.2e}",
            f"{gap:.2e}",
            str(row.nonzero),
            steps,
            f"{row.seconds:.1f}",
        )
    console.print(table)


def draw(frame: Any) -> Any:
    """Fig. 2: coefficients of other runs against those of the exact minimiser."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
    truth = spam.read(frame[frame["method"] == "LP"].iloc[0]["coef"])[1:]
    for row in frame[frame["method"] != "LP"].itertuples():
        label = row.method + (f", start {row.start}" if row.steps else "")
        ax.plot(truth, spam.read(row.coef)[1:], ".", label=label, alpha=0.7)
    ax.axline((0, 0), slope=1, color="0.7", linewidth=0.8, zorder=0)
    ax.set(xlabel="linear programme", ylabel="coefficient of a run")
    ax.legend(fontsize="small")
    figure.suptitle("Polson & Scott (2011), Fig. 2: several runs")
    return figure


EXPERIMENT = Experiment(
    name="polson-starts",
    title="Polson & Scott (2011), Fig. 2: runs from several starts",
    tasks=tasks,
    solve=solve,
    measured=MEASURED,
    report=report,
    draw=draw,
)
