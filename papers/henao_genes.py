"""Henao, Yuan & Carin (2014), Table 3, lower half, on other data: gene expression, ten folds.

The paper's set (251 tumours by 2995 genes, mutations of p53) could not be had.  Three sets of the
same kind stand in, so that its pattern can be looked for, not its numbers: metabric has the same
question, gravier nearly the same number of columns, subramanian the same mutation in cell lines.
Machines choose among ten factors, as in the paper.  Two further rows have a probit link, and two
do not choose: a linear machine with coefficients of one fixed variance, and a kernel of one length
scale.  Methods that draw take 10 to 112 s a fit.  NDFM and LDFM are run in all folds of the first
two sets, their variants in five, and all in three of subramanian.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from bayesvm.datasets import load_gene_expression

from .factor_models import MEASURED as MEASURED
from .factor_models import METHODS as EIGHT
from .factor_models import SWEEPS, build, judge, sweeps_of
from .running import Task, mean_and_error, table_of

SETS = ("metabric", "gravier", "subramanian")
METHODS = (*EIGHT, "NDFM, probit", "VNDFM, probit", "VLDFM, fixed", "VNDFM, one scale")
FOLDS, QUICK_FOLDS = 10, 2
# folds of methods that draw: all of the joint ones of the paper, but for the smallest set
DRAWN_FOLDS = {"metabric": 10, "gravier": 10, "subramanian": 3}
FEW_FOLDS = {"metabric": 5, "gravier": 5, "subramanian": 3}  # of its variants
VARIANTS = ("LDFM+N", "NDFM, probit")
PRINTED = dict(zip(METHODS, (22.70, 19.52, 22.70, 22.31, 20.31, 19.52, 18.33, 18.33, 19.52)))


def folds_of(method: str, name: str) -> int:
    """In how many folds a method is run."""
    if method not in SWEEPS:
        return FOLDS
    return (FEW_FOLDS if method in VARIANTS else DRAWN_FOLDS)[name]


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set by method by fold; ``quick`` takes the first set and two folds."""
    return [
        {
            "set": name,
            "method": method,
            "fold": fold,
            "seed": seed,
            "sweeps": sweeps_of(method, quick),
        }
        for fold in range(QUICK_FOLDS if quick else FOLDS)
        for name in SETS[: 1 if quick else None]
        for method in METHODS
        if fold < folds_of(method, name)
    ]


def solve(task: Task) -> dict[str, float]:
    """Fit on nine tenths, score on the rest."""
    bunch = load_gene_expression(task["set"])
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=task["seed"])
    train, test = list(folds.split(bunch.data, bunch.target))[task["fold"]]
    keep = bunch.data[train].std(axis=0) > 0
    X, y = bunch.data[:, keep], bunch.target
    model = build(task["method"], 10, task["seed"], True, task["sweeps"])
    return judge(model, X[train], y[train], X[test], y[test])


def report(frame: Any, console: Any) -> None:
    """All folds of methods that are run in them; then all methods in the folds they share."""
    few = frame.fold < frame.set.map(FEW_FOLDS)
    whole = ~frame.method.isin(VARIANTS) & (
        ~frame.method.isin(list(SWEEPS)) | (frame.set != SETS[2])
    )
    parts = {"all folds": frame[whole], "folds that all methods share": frame[few]}
    for title, part in parts.items():
        if len(part):
            print_errors(part, title, console)


def print_errors(frame: Any, title: str, console: Any) -> None:
    """Errors by method and set, then the mean over sets of log loss, and seconds."""
    mean, se = mean_and_error(frame, "error", SETS, METHODS, 100)
    sets = list(mean.index)
    folds = frame.groupby("set").fold.nunique()
    console.print("Folds: " + ", ".join(f"{name} {folds[name]}" for name in sets))
    title = f"Error in %, mean over folds ± standard error: {title}"
    table = table_of(title, ("method", *sets, "paper's set"))
    for method in mean:
        cells = [
            f"{m:.1f} ± {s:.1f}" if np.isfinite(m) else "–"
            for m, s in zip(mean[method], se[method])
        ]
        table.add_row(method, *cells, f"{PRINTED[method]:.1f}" if method in PRINTED else "")
    console.print(table)
    by = frame.groupby(["method", "set"])[["log_loss", "cpu"]].mean().groupby("method").mean()
    for method in mean:
        console.print(
            f"{method:14s} log loss {by.log_loss[method]:.3f}, "
            f"{by.cpu[method]:.1f} s of processor a fit"
        )
