"""The rows of a table for training: with a label, a weight and a group."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..core.types import Array
from ..data.cleaning_columns import Finding, Number, as_text
from ..html_report.scores import Rows


class TrainingRows(NamedTuple):
    """Training rows of a table, and the findings about excluded rows."""

    data: Rows  # features, labels (integers, or text), weights, groups
    rows: Array  # positions in the table
    findings: tuple[Finding, ...]  # reasons for excluding rows


def training_rows(
    frame: pd.DataFrame,
    target: str,
    weight: str | None,
    groups: list[str],
    apart: list[str],
    least: int = 2,
    most_classes: int = 50,
    many_numbers: int = 10,
) -> TrainingRows:
    """Rows with a label; ``apart`` are the columns that are not features.

    Classes need ``least`` rows.  More than ``most_classes`` labels are refused; more than
    ``many_numbers`` numeric labels are reported as a quantity.
    """
    findings: list[Finding] = []
    good = np.ones(len(frame), dtype=bool)

    def leave_out(bad: Array, column: str, problem: str) -> None:
        if count := int((bad & good).sum()):
            rows = f"{count} row{'s' * (count > 1)}"
            findings.append(Finding(column, f"{rows} {problem}", "left out", "rows"))
        good[bad] = False

    codes, texts = as_text(frame[target])
    leave_out(codes < 0, target, "without a label")
    if not good.any():
        raise ValueError(f"column {target!r} is empty: it has no labels to learn from")
    alike: dict[str, str] = {}
    for text in texts:
        if (known := alike.setdefault(text.lower(), text)) != text:
            problem = f"the labels {known!r} and {text!r} differ only in capitals"
            findings.append(Finding(target, problem, "two classes; write them alike", "labels"))
    masses = np.bincount(codes[good], minlength=len(texts))
    if len(texts) > most_classes:
        raise ValueError(
            f"column {target!r} has {len(texts)} different labels, such as {texts[0]!r}; a "
            f"classifier takes at most {most_classes}. If it is a quantity, use BayesianSVR in "
            "Python; if it identifies rows, name another column."
        )
    if len(texts) > many_numbers and least > 1 and np.isfinite(Number().numbers(texts)).all():
        action = (
            "each is a class of its own; for a quantity use a regression (BayesianSVR in Python)"
        )
        text = f"the labels are {len(texts)} different numbers, such as {texts[0]!r}"
        findings.append(Finding(target, text, action, "labels"))
    lone = int(np.sum((masses > 0) & (masses < least)))
    for k in np.flatnonzero(masses < least):
        leave_out(codes == k, target, f"of the label {texts[k]!r}, which no other row has")
    weights = None
    if weight is not None:
        cells, values = as_text(frame[weight])
        weights = np.append(Number().numbers(values), np.nan)[cells]
        if np.any(weights < 0):
            raise ValueError(f"column {weight!r} has negative weights.")
        leave_out(np.isnan(weights), weight, "without a weight")
    for name in groups:
        leave_out(as_text(frame[name])[0] < 0, name, "without a group")
    classes, labels = np.unique(labels_of(codes[good], texts), return_inverse=True)
    if (count := classes.size) < min(2, least):
        few = f" ({lone} with one row each, which are left out)" if lone else ""
        raise ValueError(
            f"column {target!r} has {count} label{'s' * (count != 1)} with at least {least} rows "
            f"to learn from{few}; a classifier needs two labels. Give more rows."
        )
    some = frame[good]
    drop = [name for name in dict.fromkeys((target, *groups, *apart, weight)) if name in frame]
    weights = None if weights is None else weights[good]
    data = Rows(some.drop(columns=drop), labels, classes, group_labels(some, groups), weights)
    return TrainingRows(data, np.flatnonzero(good), tuple(findings))


def labels_of(codes: Array, texts: list[str]) -> Array:
    """Labels as integers if possible, else as text."""
    labels = np.array(texts, dtype=object)[codes].astype(str)
    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        return labels
    return np.array(numbers)[codes] if [str(k) for k in numbers] == texts else labels


def group_labels(frame: pd.DataFrame, groups: Any) -> pd.DataFrame | None:
    """Group columns as text, missing if cells are missing or the table has no such column."""
    if not groups:
        return None
    out = {}
    for name in groups:
        codes, texts = as_text(frame[name]) if name in frame else (np.full(len(frame), -1), [])
        out[name] = np.array([*texts, None], dtype=object)[codes]
    return pd.DataFrame(out, index=frame.index, dtype=object)
