"""The command ``bayesvm report``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from ..data.cleaning_columns import as_text
from ..data.storage import Record
from ..inspection.display import Inside
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
from .training_rows import TrainingRows, labels_of, training_rows


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
    options: dict[str, Any] = {"title": title, "file": model.name, "level": record.level}
    if data is not None:
        target = target or record.target
        if not target:
            raise ValueError("to judge a model, name the column with the labels: --target NAME")
        table = read_table(data)
        check_columns(table, {"--target": [target]})
        unseen = is_new(record, table, target) if new is None else new
        rows, at, _ = labelled_rows(machine, record, table, target, least=1 if unseen else 2)
        how = "judged on them" if unseen else "fitted again to folds of them"
        held = record.left_out
        if not unseen and held is not None and np.isin(held.rows, at).all():
            record = replace(record, left_out=replace(held, rows=np.searchsorted(at, held.rows)))
            if rows.groups is None:
                how = "scored by the cross-validated predictions saved in its file"
        options |= {"X": rows.X, "y": rows.y, "groups": rows.groups, "sample_weight": rows.weights}
        options["held_out"] = unseen
        plain_console(stderr=True).print(
            f"{len(rows.y)} rows of {printable(data)}: the model is {how}; this may take a minute "
            "or more"
        )
    options["record"] = record if record.data else None
    made = make(machine, **options)
    made.save(path)
    for text in (*made.sentences, *(note.text for note in made.notes)):
        console.print(text)
    show_file(console, "Report", path)


def labelled_rows(
    machine: Any, record: Record, table: pd.DataFrame, target: str, least: int
) -> TrainingRows:
    """Rows of labels with ``least`` rows and the columns of the fit, named by their identifier."""
    groups = [name for name in record.groups if name in table]
    weight = record.weight if record.weight in table else None
    rows = training_rows(table, target, weight, groups, [], least)
    X, inside = rows.data.X, Inside.of(machine)
    if inside.before:
        wanted = inside.before[0].feature_names_in_
        X = X.reindex(columns=[name for name in wanted if name in X])
    else:
        X = plain_rows(machine, X)
    index = pd.Index(rows.rows + 1)  # line numbers of the table start at one
    if named := [name for name in record.id if name in table]:
        index = table[named].iloc[rows.rows].astype(str).agg(" ".join, axis=1)
    return rows._replace(data=replace(rows.data, X=X.set_axis(index, axis=0)))


def is_new(record: Record, table: pd.DataFrame, target: str) -> bool:
    """Whether a table differs from the training table, by the labels of its rows."""
    held = record.left_out
    if held is None:
        return len(table) < record.rows
    if held.rows.max() >= len(table):
        return True
    codes, texts = as_text(table[target].iloc[held.rows])
    labels = np.unique(labels_of(codes, texts), return_inverse=True)[1]
    return bool(np.any(codes < 0)) or not np.array_equal(labels, held.codes)
