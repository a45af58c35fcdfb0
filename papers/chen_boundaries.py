"""Chen, Tiňo & Yao (2009), Figs 1, 2 and 4: robustness to the width, and smooth boundaries.

Fig. 4 as printed, on the sets of ``chen-synthetic``: theta of the RVM and theta and C of the SVM by
tenfold cross-validation on the grids of footnote 5, the PCVM by Algorithm 1 from five widths, the
one of least test error (``mean_error`` is that of all five).  Figs 1 and 2: Ripley's set and banana
at nine fixed widths, the PCVM from three of the paper's first weights.  ``length`` is that of the
boundary in the box of the test rows, in sides of the box, by Crofton's formula on a grid: the
smoother of two machines of one error is the one of shorter boundary.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from bayesvm import __version__
from bayesvm.datasets.simulators import CHEN

from . import chen, chen_grid, chen_synthetic
from .chen_tuning import middle
from .running import Task, table_of

CHOSEN = ("PCVM", "RVM", "SVM soft", "PCVC", "RVC")  # width chosen
# width given; Algorithm 1 from three of the paper's starts
FIRST = {"PCVM": "svm", "PCVM rvm": "rvm", "PCVM random": "random"}
FIXED = (*FIRST, "PCVC", "RVC em", "RVC", "SVC")
WIDTHS = (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1)
STARTS = (0.25, 0.5, 1.0, 2.0, 4.0)  # five first widths, for columns of unit sd
DRAWS, GRID = 1, 200
MEASURED = ("error", "mean_error", "vectors", "wrong_signed", "length", "theta", "seconds")


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set, draw or width, and method; ``quick``: one draw of overlap."""
    cases = [(name, w, 0, m) for name in ("ripley", "banana") for w in WIDTHS for m in FIXED]
    cases += [(name, 0.0, draw, m) for draw in range(DRAWS) for name in CHEN for m in CHOSEN]
    if quick:
        cases = [case for case in cases if case[0] == "overlap" and case[2] == 0]
    common = {"version": __version__, "seed": seed}
    return [common | dict(zip(("set", "width", "draw", "method"), case)) for case in cases]


def solve(task: Task) -> dict[str, float]:
    """Fit, score, and measure the boundary."""
    X, y, X_test, y_test = chen_synthetic.data(task)
    method, mean_error, theta = task["method"], np.nan, float(task["width"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if theta and method in FIRST:
            model = chen_synthetic.model_of(task | {"method": "PCVM"}, X, y)
            model.set_params(pcvm__start=FIRST[method])
        elif theta or method in ("PCVC", "RVC"):
            model = chen_synthetic.model_of(task, X, y)
        elif method == "PCVM":
            model, mean_error, theta = best_of_five(X, y, X_test, y_test, task["seed"])
        else:
            model, theta = tenfold(method, X, y, task["seed"])
        found = chen.assess(model, X, y, X_test, y_test)
    return {
        "error": found["error"],
        "mean_error": mean_error,
        "vectors": found["vectors"],
        "wrong_signed": float(np.sum(chen.wrong_signed(model, y))),
        "length": boundary(model, X_test),
        "theta": theta,
        "seconds": found["seconds"],
    }


def best_of_five(X: Any, y: Any, X_test: Any, y_test: Any, seed: int) -> tuple[Any, float, float]:
    """Algorithm 1 from the width of least test error, the mean error of all, and that width."""
    models = [chen.build("PCVM", {"pcvm__theta": width}, seed) for width in STARTS]
    errors = [float(np.mean(m.fit(X, y).predict(X_test) != y_test)) for m in models]
    k = int(np.argmin(errors))
    return models[k], float(np.mean(errors)), float(models[k][-1].theta_)


def tenfold(method: str, X: Any, y: Any, seed: int) -> tuple[Any, float]:
    """The machine with the width, and C, of least error in ten folds; the width."""
    Z, signs = StandardScaler().fit_transform(X), np.where(y == np.unique(y)[1], 1.0, -1.0)
    if method == "RVM":
        theta = float(chen_grid.WIDTHS[middle(chen_grid.rvm_errors(Z, signs))])
        return chen.build(method, {"rvc__kernel": chen.gaussian(theta)}, seed), theta
    errors = chen_grid.svm_errors(Z, signs)
    k, j = divmod(middle(errors.ravel()), errors.shape[1])
    theta = float(chen_grid.WIDTHS[k])
    given = {"svc__gamma": theta**-2.0, "svc__C": float(chen_grid.COSTS[j])}
    return chen.build(method, given, seed), theta


def boundary(model: Any, X: Any) -> float:
    """Length of the boundary in the box of the rows, in sides of the box."""
    sides = [np.linspace(low, high, GRID) for low, high in zip(X.min(0), X.max(0))]
    points = np.stack(np.meshgrid(*sides), -1)
    side = model.decision_function(points.reshape(-1, 2)).reshape(GRID, GRID) > 0
    crossings = sum(np.count_nonzero(np.diff(side, axis=axis)) for axis in (0, 1))
    return float(np.pi / 4 * crossings / (GRID - 1))


def report(frame: Any, console: Any) -> None:
    """Fig. 4 by set and method; then error, vectors and wrong signs at every width."""
    chosen, fixed = frame[frame["width"] == 0], frame[frame["width"] > 0]
    title = "Error in %, vectors, length of the boundary, median width; the draws' means"
    table = table_of(title, ("set", *CHOSEN))
    for name, cell in chosen.groupby("set", sort=False):
        by = cell.groupby("method").mean(numeric_only=True)
        width = cell.groupby("method")["theta"].median()
        texts = [
            f"{100 * by.at[m, 'error']:.1f}"
            + (f" (all starts {100 * by.at[m, 'mean_error']:.1f})" if m == "PCVM" else "")
            + f", {by.at[m, 'vectors']:.1f}, {by.at[m, 'length']:.2f}, {width[m]:.2f}"
            for m in CHOSEN
            if m in by.index
        ]
        table.add_row(str(name), *texts)
    console.print(table)
    for name, cell in fixed.groupby("set", sort=False):
        title = f"{name}: error in %, vectors, of which of the wrong sign"
        table = table_of(title, ("width", *FIXED))
        for width, part in cell.groupby("width", sort=False):
            row = part.set_index("method")
            texts = [
                f"{100 * row.at[m, 'error']:.1f}, {row.at[m, 'vectors']:.0f}, "
                f"{row.at[m, 'wrong_signed']:.0f}"
                for m in FIXED
                if m in row.index
            ]
            table.add_row(f"{width:g}", *texts)
        console.print(table)
        by = 100 * cell.groupby("method")["error"].agg(["min", "max", "std"])
        told = [
            f"{m} {by.at[m, 'min']:.1f} to {by.at[m, 'max']:.1f}" for m in FIXED if m in by.index
        ]
        console.print(f"Errors over the widths: {', '.join(told)}")
