"""Chen, Tiňo & Yao (2009), Figs 1, 2 and 4: boundaries and vectors in the plane.

Figs 1 and 2: Ripley's set and the first division of banana, with kernels of one fixed width: which
vectors have a weight of the other class's sign?  Fig. 4: the four synthetic sets, simulated
from their description (the paper gives neither formulae nor sizes; here 200 rows, ten draws), the
width chosen by each method (SVC: five folds).  ``RVC em`` is the paper's RVM: the logistic
likelihood, all vectors at first; ``RVC early`` is that machine after five rounds, at fixed widths
only; ``PCVC power`` has the paper's prior.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesvm import __version__
from bayesvm.datasets import load_benchmark, load_raetsch, simulate_chen
from bayesvm.datasets.simulators import CHEN

from . import chen
from .running import Task, table_of

METHODS = ("PCVC", "PCVC power", "RVC", "RVC em", "RVC early", "SVC")
DRAWN = ("PCVC", "RVC", "SVC")  # in the figure
DRAWS = 10
MEASURED = (*chen.MEASURED, "wrong_signed")
WIDTHS = {"ripley": (0.5, 0.3), "banana": (0.5, 0.3)}  # theta of eq. 13, columns as they are
ROWS = 200


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set, width and method; ``quick`` leaves out the two real sets."""
    cases = [(name, 0.0, draw) for draw in range(1 if quick else DRAWS) for name in CHEN]
    if not quick:
        cases += [(name, width, 0) for name, widths in WIDTHS.items() for width in widths]
    return [
        {
            "version": __version__,
            "seed": seed,
            "set": name,
            "width": width,
            "draw": draw,
            "method": method,
            "settings": chen.settings(method, 1),
        }
        for name, width, draw in cases
        for method in METHODS
        if width or method != "RVC early"
    ]


def data(task: Any) -> tuple[Any, Any, Any, Any]:
    """Rows to learn from and to test on."""
    if task["set"] in CHEN:
        rng = np.random.default_rng((task["seed"], CHEN.index(task["set"]), int(task["draw"])))
        return simulate_chen(task["set"], ROWS, rng)
    real = load_benchmark("ripley") if task["set"] == "ripley" else load_raetsch("banana", 1)
    return real.data, real.target, real.data_test, real.target_test


def model_of(task: Any, X: Any, y: Any) -> Any:
    """The estimator of a task, its kernel of fixed width if the task has one."""
    method, width = task["method"], float(task["width"])
    if not width:
        return chen.build(method, chen.best(method, X, y), int(task["seed"]))
    model = chen.build(method, {}, int(task["seed"]))
    model.set_params(standardscaler=None)  # the width is in the units of the data
    return model.set_params(**fixed_width(model[-1], width))


def fixed_width(machine: Any, width: float) -> dict[str, Any]:
    """Parameters of a machine for the kernel exp(-|x - x'|^2 / width^2)."""
    name = type(machine).__name__.lower()
    if name == "svc":
        return {"svc__gamma": width**-2.0, "svc__C": 1.0}
    if name == "pcvm":
        return {"pcvm__theta": width, "pcvm__learn_theta": False, "pcvm__start": "svm"}
    fixed = {"kernel": chen.gaussian(width), "tune": False, "standardize": False}
    known = machine.get_params()
    return {f"{name}__{key}": value for key, value in fixed.items() if key in known}


def solve(task: Task) -> dict[str, float]:
    """Fit, score, count vectors and those of the wrong sign."""
    X, y, X_test, y_test = data(task)
    model = model_of(task, X, y)
    found = chen.assess(model, X, y, X_test, y_test)
    return found | {"wrong_signed": float(np.sum(chen.wrong_signed(model, y)))}


def report(frame: Any, console: Any) -> None:
    """Error, vectors, and those of the wrong sign."""
    title = "Error in %, vectors, of which with the sign of the other class; seconds"
    table = table_of(f"{title} (means over the draws)", ("set", "width", *METHODS), left=2)
    for (name, width), cell in frame.groupby(["set", "width"], sort=False):
        by = cell.groupby("method").mean(numeric_only=True)
        texts = [
            f"{100 * by.at[m, 'error']:.1f}, {by.at[m, 'vectors']:.3g}, "
            f"{by.at[m, 'wrong_signed']:.3g}; {by.at[m, 'seconds']:.2f}"
            if m in by.index
            else ""
            for m in METHODS
        ]
        table.add_row(str(name), f"{width:g}" if width else "chosen", *texts)
    console.print(table)
    console.print(
        "The paper: on Ripley's set at width 0.3 the RVM keeps 243 of 250 vectors, about half of "
        "them with the sign of the other class; PCVM and SVM have none such by construction.",
        style="dim",
    )
