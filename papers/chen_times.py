"""Chen, Tiňo & Yao (2009), Tables VII and VIII: how long a fit and its predictions take.

CPU seconds on the first three divisions of each set (the first for the slow power prior).  The
soft-margin machine has C = 1 and scikit-learn's width (its grid search is not counted, as in the
paper); kNN is timed with its tenfold cross-validation over 1 to 20, the vector machines with all
that they tune.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

from scipy.stats import rankdata
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from bayesvm import __version__
from bayesvm.datasets import load_raetsch

from . import chen, chen_paper
from .running import Task, mean_and_error, table_of

MEASURED = ("fit", "predict")
METHODS = ("PCVC", "PCVC power", "SVC", "RVC", "LDA", "QDA", "1NN", "kNN")
RANKED = tuple(m for m in METHODS if m != "PCVC power")  # one machine for each of the paper's


def tasks(quick: bool, seed: int, sets: tuple[str, ...] = chen_paper.SETS) -> list[Task]:
    """Set by division by method; three divisions, ``quick`` the first of three small sets."""
    sets = tuple(s for s in sets if s in ("heart", "thyroid", "titanic")) if quick else sets
    common = {"version": __version__, "seed": seed}
    return [
        common | {"set": name, "split": split, "method": method}
        for name in sets
        for split in range(1, 2 if quick else 4)
        for method in METHODS
        if split == 1 or method != "PCVC power"
    ]


def solve(task: Task) -> dict[str, float]:
    """CPU seconds to fit, and to predict the test rows."""
    bunch = load_raetsch(task["set"], task["split"])
    model = chen.build(task["method"], {}, task["seed"])
    if task["method"] == "kNN":
        grid = {"kneighborsclassifier__n_neighbors": chen.NEIGHBOURS}
        folds = StratifiedKFold(10, shuffle=True, random_state=0)
        model = GridSearchCV(model, grid, cv=folds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model.fit(bunch.data, bunch.target)
        fitted = time.process_time()
        model.predict(bunch.data_test)
    return {"fit": fitted - start, "predict": time.process_time() - fitted}


def seconds(frame: Any) -> Any:
    """Mean seconds of fit and prediction together: sets by methods."""
    total = frame.assign(total=frame["fit"] + frame["predict"])
    return mean_and_error(total, "total", chen_paper.SETS, METHODS)[0]


def mean_ranks(table: Any) -> dict[str, float]:
    """Table VIII: mean ranks of the paper's seven, 1 the fastest."""
    names = [m for m in RANKED if m in table.columns]
    return dict(zip(names, rankdata(table[names], axis=1).mean(axis=0)))


def report(frame: Any, console: Any) -> None:
    """Table VII, ours and in brackets the paper's; then Table VIII."""
    times = seconds(frame)
    title = "CPU seconds of a fit and its predictions (the paper's, Core 2 Duo, 1.66 GHz)"
    table = table_of(title, ("set", *times.columns))
    for name in times.index:
        at = chen_paper.SETS.index(name)
        table.add_row(name, *(f"{times.at[name, m]:.3f} ({_printed(m)[at]:g})" for m in times))
    console.print(table)
    cells = [
        f"{m} {rank:.1f} ({chen_paper.TABLE8[str(chen.METHODS[m])]:g})"
        for m, rank in mean_ranks(times).items()
    ]
    console.print(f"Table VIII, mean ranks: {', '.join(cells)}")


def _printed(method: str) -> list[float]:
    return chen_paper.TABLE7[str(chen.METHODS[method])]
