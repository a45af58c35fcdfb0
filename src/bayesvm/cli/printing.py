"""What the commands print of tables, models and scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ..data.cleaning_columns import Finding, Levels, as_text, examples
from ..data.storage import HeldOut
from ..html_report.scores import BOOSTING, Rows, scores
from ..html_report.words import against, collapsed
from ..inspection.display import Inside
from ..inspection.kernels import scale_names
from .terminal import printable


def show_findings(
    console: Console,
    data: Path,
    total: int,
    rows: Rows,
    cleaner: Any,
    findings: Sequence[Finding],
) -> None:
    """The log: numbers of rows and columns, and all findings with the actions taken."""
    classes = ", ".join(map(printable, rows.classes))
    columns = f"{counted(rows.X.shape[1], 'column')}, {len(cleaner.columns_)} of them used"
    used = f"{counted(total, 'row')}, {len(rows.y)} of them used"
    console.print(f"{printable(data)}: {used}; {columns}; classes {classes}")
    if not findings:
        return
    table = Table("column", "found", "done", box=None, pad_edge=False)
    for row in collapsed(findings):
        table.add_row(*map(printable, row))
    console.print(table)


def show_held_out(console: Console, held: HeldOut | None) -> None:
    """Scores of the model and of baselines on held-out rows."""
    if held is None:
        console.print("there was no time left to check the model on rows left out")
        return
    frame = scores(held)
    table = Table(f"on {held.codes.size} rows left out", box=None, pad_edge=False)
    for name in ("error", "log loss", "Brier score"):
        table.add_column(name, justify="right")
    for name in held.proba:
        value = frame.loc[name]["value"]
        shown = "gradient boosting, default settings" if name == BOOSTING else name
        cells = f"{100 * value['error']:.1f} %", f"{value['log_loss']:.3f}", f"{value['brier']:.3f}"
        table.add_row(shown, *cells)
    console.print(table)
    if against(frame, BOOSTING) == "worse than":
        console.print("gradient boosting predicts these rows better: its log loss is lower")


def show_predictions(
    console: Console, frame: Any, machine: Any, table: Any, path: Path | None
) -> None:
    """Number of predicted rows, their labels, the output file, and unusual findings."""
    names, counts = np.unique(frame["prediction"], return_counts=True)
    each = ", ".join(f"{count} {printable(name)}" for name, count in zip(names, counts))
    where = "" if path is None else f"; written to {printable(path)}"
    console.print(f"{counted(len(frame), 'row')}: {each}{where}")
    cleaner = machine[0] if hasattr(machine, "steps") else None
    said: dict[str, list[str]] = {
        "cells with a level that was rare or absent in training": [],
        "cells that could not be read as numbers or dates, taken for missing": [],
    }
    for name, made in getattr(cleaner, "columns_", {}).items():
        codes, texts = as_text(table[name])
        if isinstance(made, Levels):
            found = [[k for k, text in enumerate(texts) if text not in made.levels], []]
        else:
            values = made.values(table[name])[0]
            found = [[], np.unique(codes[np.isnan(values) & (codes >= 0)]).tolist()]
        for few, some in zip(said.values(), found):
            if count := int(np.isin(codes, some).sum()):
                such = examples([texts[k] for k in some], 1)
                few.append(f"{printable(name)} {count} (such as {printable(such)})")
    for what, few in said.items():
        if few:
            console.print(f"{what}: {', '.join(few)}")
    if "novelty" in frame and (count := int((frame["novelty"] > 0.99).sum())):
        console.print(
            f"{counted(count, 'row')} with a novelty above 0.99, unlike nearly all training rows"
        )


def counted(number: int, what: str) -> str:
    """A count with its noun: ``1 row``, ``2 rows``."""
    return f"{number} {what}{'s' * (number != 1)}"


def show_model(console: Console, machine: Any, level: float = 0.9, most: int = 20) -> None:
    """Parameters with their uncertainty; of many coefficients, the most certain signs first."""
    inside = Inside.of(machine)
    inner = inside.model
    state = "converged" if inner.converged_ else "did not converge"
    console.print(f"{type(inner).__name__}: {inner.n_iter_} iterations, {state}")
    frame = inner.summary(level)
    total, note = len(frame), frame.attrs.get("note")
    scales = scale_names(inside) if "mean" in frame else {}
    signed = not any("length_scale" in str(name) for name in frame.index)
    if scales:  # other parameters, then columns by relevance
        rank = np.where([name in scales for name in frame.index], frame["mean"], -1.0)
        frame = frame.iloc[np.argsort(rank, kind="stable")]
    if total > most:
        if signed and {"mean", "sd"} <= set(frame.columns):
            surest = (frame["mean"].abs() / frame["sd"]).sort_values(ascending=False).index[:most]
            frame = frame[frame.index.isin(surest)]
        frame = frame.iloc[:most]
    table = Table("name", *frame.columns, box=None, pad_edge=False)
    for name, row in frame.iterrows():
        label = " ".join(map(str, name)) if isinstance(name, tuple) else str(name)
        if not signed:
            label = {"weight": "variance of the kernel", **scales}.get(label, label)
        table.add_row(printable(label), *(f"{value:.3g}" for value in row))
    console.print(table)
    if total > most:
        which = "coefficients, most certain signs" if signed else "columns, most relevant"
        console.print(f"({len(frame)} of {total} {which})")
    if scales:
        console.print(
            "columns with short length scales are the most relevant, in standard deviations"
        )
    if note:
        console.print(note)
    cleaner = machine[0] if hasattr(machine, "steps") else None
    levels = getattr(cleaner, "columns_", {})
    found = [f"{name} {made.reference}" for name, made in levels.items()
             if isinstance(made, Levels) and made.reference]  # fmt: skip
    if found:
        console.print(printable(f"levels are relative to {', '.join(found)}"))
