"""Chen, Tiňo & Yao (2009), Table I: error, AUC and 1 - RMSE on the 13 sets of Rätsch.

Divisions are those of the data folder (the authors' where known, else of the same sizes): 100 of
each set, 20 of image and splice and for the paper's own prior and the logistic RVC, five for the
machines as printed; ``quick`` takes two.  Tuning is described in ``chen``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import spearmanr

from . import chen, chen_paper
from .running import Task, mean_and_error, table_of

solve, MEASURED = chen.solve, chen.MEASURED
FIVE = 5  # divisions of the machines as printed


def tasks(
    quick: bool,
    seed: int,
    sets: tuple[str, ...] = chen_paper.SETS,
    methods: tuple[str, ...] = tuple(chen.METHODS),
) -> list[Task]:
    """Set by division by method."""
    tasks = chen.tasks_of(sets, 2 if quick else 100, methods, seed, 1 if quick else 5)
    few = (*chen.PRINTED, "PCVM fixed")
    return [t for t in tasks if t["method"] not in few or t["split"] <= FIVE]


def printed(metric: str, method: str, name: str) -> tuple[float, float] | None:
    """Mean and standard error of the paper, if it has the method."""
    theirs = chen.METHODS[method]
    if theirs is None:
        return None
    mean, sd = chen_paper.TABLE1[metric][theirs]
    at = chen_paper.SETS.index(name)
    return mean[at], sd[at] / 10  # over 100 divisions


def summary(frame: Any, metric: str) -> tuple[Any, Any]:
    """Mean and standard error by set and method, in % as printed."""
    column, per_cent = chen.METRICS[metric]
    frame = frame.assign(value=per_cent(frame[column]))
    return mean_and_error(frame, "value", chen_paper.SETS, chen.METHODS)


def report(frame: Any, console: Any) -> None:
    """A table per metric, ours and in brackets the paper's; then on how many sets ours keeps up."""
    for metric in chen.METRICS:
        mean, error = summary(frame, metric)
        splits = frame.groupby("set")["split"].nunique()
        title = f"{metric} in %: mean over {splits.min()} to {splits.max()} divisions (the paper's)"
        table = table_of(title, ("method", *mean.index, "mean"))
        for method in mean.columns:
            cells = [_cell(mean.at[s, method], printed(metric, method, s)) for s in mean.index]
            table.add_row(
                method, *cells, _cell(mean[method].mean(), _mean(metric, method, mean.index))
            )
        console.print(table)
        for method in mean.columns:
            said = _verdict(metric, method, mean, error)
            if said:
                console.print(said, style="dim")
    console.print(
        "Both standard errors are taken into account; few divisions may be harder or easier than "
        "the paper's hundred, for all methods alike.",
        style="dim",
    )
    few = frame[frame["split"] <= FIVE]
    for what, part in (("all divisions", frame), ("the first five divisions", few)):
        for metric in chen.METRICS:
            mean, _ = summary(part, metric)
            scores = 100 - mean if metric == "1-RMSE" else mean
            for five in (chen.OURS, chen.PRINTED) if part is few else (chen.OURS,):
                if five[0] in mean and len(mean) > 1:
                    console.print(
                        f"Ranks by the means over {what}.", *chen.ranks(scores, five, metric)
                    )
    if frame["set"].nunique() == len(chen_paper.SETS):
        console.print(_skewness(summary(frame, "AUC")[0]))
    by_set = frame.groupby(["set", "method"])[["seconds", "log_loss"]].mean().unstack()
    for name, column, digits in (("Seconds to fit", "seconds", 2), ("Log loss", "log_loss", 3)):
        means = by_set[column].mean()
        texts = [f"{m} {means[m]:.{digits}f}" for m in chen.METHODS if m in means]
        console.print(f"{name}, mean over the sets: {', '.join(texts)}")
    loss = by_set["log_loss"]
    if {"PCVC", "SVC"} <= set(loss.columns):
        lower = int((loss["PCVC"] < loss["SVC"]).sum())
        console.print(f"Log loss: PCVC below SVC with Platt's link on {lower} of {len(loss)} sets")


def _skewness(mean: Any) -> str:
    """Section III-D: is the gain in AUC larger where the classes differ more in size?"""
    skew = np.abs(np.array(chen_paper.POSITIVE) - 50)
    printed = {name: np.array(both[0]) for name, both in chen_paper.TABLE1["AUC"].items()}
    pairs = {
        f"{own} and {other}": mean[own] - mean[other]
        for own, other in (("PCVC", "SVC"), ("PCVM", "SVM soft"))
        if own in mean and other in mean
    }
    pairs["printed"] = printed["PCVM"] - printed["SVM soft"]
    told = []
    for name, gain in pairs.items():
        rho, p = spearmanr(skew, gain)
        told.append(f"{name} {rho:.2f} (p {p:.2f})")
    return f"Rank correlation of unequal classes and the gain in AUC: {', '.join(told)}"


def _cell(ours: float, theirs: tuple[float, float] | None) -> str:
    return f"{ours:.2f}" + (f" ({theirs[0]:.2f})" if theirs else "")


def _mean(metric: str, method: str, sets: Any) -> tuple[float, float] | None:
    found = [printed(metric, method, name) for name in sets]
    return (float(np.mean([pair[0] for pair in found if pair])), 0.0) if all(found) else None


def _verdict(metric: str, method: str, mean: Any, error: Any) -> str:
    """On how many sets ours is no worse than the paper's, within one standard error of both."""
    sign = -1.0 if metric == "Error" else 1.0
    count = 0
    for name in mean.index:
        pair = printed(metric, method, name)
        if pair is None:
            return ""
        slack = np.hypot(np.nan_to_num(error.at[name, method]), pair[1])
        count += sign * (mean.at[name, method] - pair[0]) >= -slack
    return (
        f"{metric}: {method} no worse than the paper's {chen.METHODS[method]} within one standard "
        f"error on {count} of {len(mean)} sets"
    )
