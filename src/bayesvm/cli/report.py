"""The command ``bayesvm report``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from ..core.types import Array
from ..data.cleaning_columns import as_text
from ..inspection.display import Inside
from .labelled import Labelled, labels_of, training_rows
from .predict import check_columns, plain_rows
from .tables import read_table
from .terminal import (
    Model,
    Output,
    check_inputs,
    check_output,
    load_classifier,
    plain_console,
    printable,
    show_file,
)


def report(
    model: Model,
    data: Annotated[
        Path | None, typer.Argument(help="A table with labels: the training table, or new rows.")
    ] = None,
    output: Output = None,
    target: Annotated[
        str | None,
        typer.Option("--target", "-t", help="Column with the labels; by default that of the fit."),
    ] = None,
    new: Annotated[
        bool | None,
        typer.Option(
            "--new/--training",
            help="Whether the model has not seen the rows; by default by comparing the labels.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
) -> None:
    """Write a report on a model: one file of HTML that needs no network.

    With the table of the fit the model is judged by folds of it, whose predictions the file of the
    model holds unless it was fitted with --no-check; with another table on its rows.
    """
    from ..html_report.report import report as make

    path = output or model.with_suffix(".html")
    check_inputs(model, data)
    check_output(path, (".html", ".htm"), model=model, table=data)
    console = plain_console()
    machine, record = load_classifier(model)
    told: dict[str, Any] = {"title": title, "file": model.name, "record": record}
    if record is not None:
        told["level"] = record.level
    if data is not None:
        target = target or getattr(record, "target", None)
        if target is None:
            raise ValueError("to judge a model, name the column with the labels: --target NAME")
        table = read_table(data)
        check_columns(table, {"--target": [target]})
        rows = labelled(machine, record, table, target)
        unseen = is_new(record, table, target) if new is None else new
        kept = None if unseen else at_rows(record, rows.rows)
        told |= {"X": rows.X, "y": rows.y, "groups": rows.groups, "sample_weight": rows.weights}
        told |= {"held_out": unseen, "record": kept or record}
        how = "judged on them" if unseen else "fitted again to folds of them"
        if kept is not None and rows.groups is None:
            how = "scored by the cross-validated predictions saved in its file"
        plain_console(stderr=True).print(
            f"{len(rows.y)} rows of {printable(data)}: the model is {how}; this may take a minute "
            "or more"
        )
    made = make(machine, **told)
    made.save(path)
    for text in (*made.sentences, *(note.text for note in made.notes)):
        console.print(text)
    show_file(console, "Report", path)


def labelled(machine: Any, record: Any, table: pd.DataFrame, target: str) -> Labelled:
    """Labelled rows with the columns that the model was fitted to, named by their identifier."""
    weight = getattr(record, "weight", "") or None
    groups = [name for name in getattr(record, "groups", ()) if name in table]
    some = training_rows(table, target, weight if weight in table else None, groups, [], 1)
    inside = Inside.of(machine)
    X = some.X
    if inside.before:
        wanted = inside.before[0].feature_names_in_
        X = X.reindex(columns=[name for name in wanted if name in X])
    else:
        X = plain_rows(machine, X)
    named = [name for name in getattr(record, "id", ()) if name in table]
    if named:
        index = table[named].iloc[some.rows].astype(str).agg(" ".join, axis=1)
    else:
        index = pd.Index(some.rows + 1)  # as lines of the table are counted
    return Labelled(X.set_axis(index, axis=0), some.y, some.rows, some.weights, some.groups)


def at_rows(record: Any, rows: Array) -> Any:
    """The record with positions of rows left out among ``rows``; ``None`` if it has none."""
    held = getattr(record, "left_out", None)
    if held is None or not np.isin(held.rows, rows).all():
        return None
    return replace(record, left_out=replace(held, rows=np.searchsorted(rows, held.rows)))


def is_new(record: Any, table: pd.DataFrame, target: str) -> bool:
    """Whether a table is another than that of the fit, by the labels of its rows."""
    held = getattr(record, "left_out", None)
    if held is None:
        return record is not None and len(table) < record.rows
    if held.rows.max() >= len(table):
        return True
    codes, texts = as_text(table[target].iloc[held.rows])
    if np.any(codes < 0):
        return True
    return not np.array_equal(
        np.unique(labels_of(codes, texts), return_inverse=True)[1], held.codes
    )
