"""The rows of a table that can be learned from: with a label, a weight and a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..core.types import Array
from ..data.cleaning_cells import Finding, NumberStyle, as_text

MOST_CLASSES = 50
MANY_NUMBERS = 10  # different numbers, above which labels may be a quantity
LEAST = 2  # rows of a class


@dataclass(frozen=True)
class Labelled:
    """Training rows of a table, and what was found in those left out.

    Parameters
    ----------
    X : pandas.DataFrame
        Columns to predict from.
    y : array of shape (n,)
        Labels: whole numbers, or text.
    rows : array of shape (n,)
        Positions of the rows in the table.
    weights : array of shape (n,), optional
        Weights of the rows.
    groups : pandas.DataFrame, optional
        Columns of groups.
    findings : tuple of Finding
        Why rows were left out.
    """

    X: pd.DataFrame
    y: Array
    rows: Array
    weights: Array | None = None
    groups: pd.DataFrame | None = None
    findings: tuple[Finding, ...] = ()


def training_rows(
    frame: pd.DataFrame,
    target: str,
    weight: str | None,
    groups: list[str],
    apart: list[str],
    least: int = LEAST,
) -> Labelled:
    """Rows with a label; ``apart`` are the columns that are not predicted from.

    Classes need at least so many rows.
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
    masses = np.bincount(codes[good], minlength=len(texts))
    if len(texts) > MOST_CLASSES:
        raise ValueError(
            f"column {target!r} has {len(texts)} different labels, such as {texts[0]!r}; a "
            f"classifier takes at most {MOST_CLASSES}. Is it a quantity or an identifier?"
        )
    if len(texts) > MANY_NUMBERS and least > 1 and np.isfinite(NumberStyle().numbers(texts)).all():
        how = "each is a class of its own; is it a quantity? Then a regression is what is needed"
        text = f"the labels are {len(texts)} different numbers, such as {texts[0]!r}"
        findings.append(Finding(target, text, how, "labels"))
    lone = int(np.sum((masses > 0) & (masses < least)))
    for k in np.flatnonzero(masses < least):
        leave_out(codes == k, target, f"of the label {texts[k]!r}, which no other row has")
    weights = None
    if weight is not None:
        weights = _numbers(frame[weight])
        if np.any(weights < 0):
            raise ValueError(f"column {weight!r} has negative weights.")
        leave_out(np.isnan(weights), weight, "without a weight")
    for name in groups:
        leave_out(as_text(frame[name])[0] < 0, name, "without a group")
    y = labels_of(codes[good], texts)
    if (count := np.unique(y).size) < min(2, least):
        few = f" ({lone} with one row each, which are left out)" if lone else ""
        raise ValueError(
            f"column {target!r} has {count} label{'s' * (count != 1)} with at least {least} rows "
            f"to learn from{few}; a classifier needs two labels. Give more rows."
        )
    some = frame[good]
    drop = [name for name in dict.fromkeys((target, *groups, *apart)) if name in frame]
    if weight is not None:
        drop.append(weight)
    return Labelled(
        some.drop(columns=drop),
        y,
        np.flatnonzero(good),
        None if weights is None else weights[good],
        group_labels(some, groups),
        tuple(findings),
    )


def labels_of(codes: Array, texts: list[str]) -> Array:
    """Labels as whole numbers where they all are, else as text."""
    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        return np.array(texts, dtype=object)[codes].astype(str)
    if [str(k) for k in numbers] != texts:
        return np.array(texts, dtype=object)[codes].astype(str)
    return np.array(numbers)[codes]


def group_labels(frame: pd.DataFrame, groups: Any) -> pd.DataFrame | None:
    """Columns of groups as text, missing where they are or the table has no such column."""
    if not groups:
        return None
    out = {}
    for name in groups:
        if name in frame:
            codes, texts = as_text(frame[name])
            out[name] = np.array([*texts, None], dtype=object)[codes]
        else:
            out[name] = np.full(len(frame), None, dtype=object)
    return pd.DataFrame(out, index=frame.index, dtype=object)


def _numbers(cells: pd.Series) -> Array:
    codes, texts = as_text(cells)
    return np.append(NumberStyle().numbers(texts), np.nan)[codes]
