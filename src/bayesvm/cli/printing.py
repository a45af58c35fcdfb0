"""What the commands print of tables, models and scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ..cleaning.cells import as_text
from ..cleaning.columns import Levels
from ..cleaning.findings import Finding
from ..reports.display import Inside
from ..reports.kernels import relevances
from .labelled import Labelled
from .terminal import printable

ROWS = 20  # of the summary of a model


def show_findings(
    console: Console,
    data: Path,
    total: int,
    rows: Labelled,
    cleaner: Any,
    findings: Sequence[Finding],
) -> None:
    """The log: rows and columns, and everything found with what was done about it."""
    classes = ", ".join(printable(label) for label in np.unique(rows.y))
    columns = f"{rows.X.shape[1]} columns, {len(cleaner.columns_)} of them used"
    text = (
        f"{printable(data)}: {total} rows, {len(rows.y)} of them used; {columns}; classes {classes}"
    )
    console.print(text, soft_wrap=True)
    if not findings:
        return
    table = Table("column", "found", "done", box=None, pad_edge=False)
    for found in findings:
        table.add_row(*map(printable, found[:3]))
    console.print(table)


def show_left_out(console: Console, held: Any, classes: Any) -> None:
    """Scores of the model and of simple ones on rows left out."""
    if held is None:
        console.print("there was no time left to check the model on rows left out")
        return
    table = Table(f"on {len(held.rows)} rows left out", box=None, pad_edge=False)
    for name in ("error", "log loss", "Brier score"):
        table.add_column(name, justify="right")
    for name, proba in held.proba.items():
        error, loss, brier = scores(proba, held.codes, held.weights)
        table.add_row(name, f"{100 * error:.1f} %", f"{loss:.3f}", f"{brier:.3f}")
    console.print(table)


def scores(proba: Any, codes: Any, weights: Any) -> tuple[float, float, float]:
    """Error, log loss and Brier score summed over classes (over one of two)."""
    at = np.arange(len(codes))
    p = np.clip(proba[at, codes], 1e-15, None)
    hit = np.zeros_like(proba)
    hit[at, codes] = 1.0
    brier = ((proba - hit) ** 2).sum(axis=1) / (2.0 if proba.shape[1] == 2 else 1.0)
    values = (proba.argmax(axis=1) != codes, -np.log(p), brier)
    error, loss, square = (float(np.average(value, weights=weights)) for value in values)
    return error, loss, square


def show_predictions(console: Console, labels: Any, machine: Any, table: Any, path: Path) -> None:
    """How many rows were predicted, their labels, where they are, and levels unknown to it."""
    names, counts = np.unique(labels, return_counts=True)
    each = ", ".join(f"{count} {printable(name)}" for name, count in zip(names, counts))
    console.print(f"{len(labels)} rows: {each}; written to {printable(path)}", soft_wrap=True)
    cleaner = machine[0] if hasattr(machine, "steps") else None
    unknown = []
    for name, made in getattr(cleaner, "columns_", {}).items():
        if isinstance(made, Levels):
            codes, texts = as_text(table[name])
            strange = [k for k, text in enumerate(texts) if text not in made.levels]
            if count := int(np.isin(codes, strange).sum()):
                unknown.append(f"{printable(name)} {count}")
    if unknown:
        text = f"rows with a level that is new, or was rare in training: {', '.join(unknown)}"
        console.print(text, soft_wrap=True)


def length_scales(inside: Inside) -> dict[str, str]:
    """Names of the length scales of a kernel by the columns that they belong to."""
    if not hasattr(inside.model, "kernel_"):
        return {}
    try:
        names, parts = relevances(inside)
    except ValueError:  # one for all columns, or none
        return {}
    if len(parts) != 1:
        return {}
    return {f"length_scale[{j}]": f"length scale of {name}" for j, name in enumerate(names)}


def show_model(console: Console, machine: Any, level: float = 0.9) -> None:
    """Parameters with their uncertainty; of many coefficients, those surest of their sign."""
    inside = Inside.of(machine)
    inner = inside.model
    state = "converged" if inner.converged_ else "did not converge"
    console.print(f"{type(inner).__name__}: {inner.n_iter_} iterations, {state}")
    frame, total = inner.summary(level), len(inner.summary(level))
    signed = not any("length_scale" in str(name) for name in frame.index)
    if total > ROWS:
        if signed and {"mean", "sd"} <= set(frame.columns):
            surest = (frame["mean"].abs() / frame["sd"]).sort_values(ascending=False).index[:ROWS]
            frame = frame[frame.index.isin(surest)]
        frame = frame.iloc[:ROWS]
    table = Table("name", *frame.columns, box=None, pad_edge=False)
    scales = length_scales(inside)
    for name, row in frame.iterrows():
        label = " ".join(map(str, name)) if isinstance(name, tuple) else str(name)
        label = scales.get(label, label)
        table.add_row(printable(label), *(f"{value:.3g}" for value in row))
    console.print(table)
    if total > ROWS:
        which = "those surest of their sign" if signed else "the first"
        console.print(f"({len(frame)} of {total} rows, {which})")
    if note := frame.attrs.get("note"):
        console.print(note, soft_wrap=True)
    cleaner = machine[0] if hasattr(machine, "steps") else None
    levels = getattr(cleaner, "columns_", {})
    found = [f"{name} {made.reference}" for name, made in levels.items()
             if isinstance(made, Levels) and made.reference]  # fmt: skip
    if found:
        console.print(printable(f"levels are relative to {', '.join(found)}"), soft_wrap=True)
