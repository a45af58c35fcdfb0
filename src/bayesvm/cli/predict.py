"""The command ``bayesvm predict``."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from ..data.cleaning import lacking
from ..data.storage import Record
from ..html_report.scores import predict as predictions_of
from ..inspection.display import Inside
from .printing import show_predictions
from .tables import READERS, as_numbers, check_writable, read_table, without_formulas, write_table
from .terminal import (
    SEVERAL,
    Columns,
    Model,
    Output,
    check_inputs,
    check_share,
    load_classifier,
    plain_console,
)
from .training_rows import group_labels

Data = Annotated[Path, typer.Argument(help=f"A table: {', '.join(READERS)}.", show_default=False)]


def predict(
    model: Model,
    data: Data,
    output: Output = None,
    keep: Annotated[Columns, typer.Option(help="Column to keep" + SEVERAL)] = None,
    level: Annotated[float | None, typer.Option(help="Interval level.")] = None,
    coverage: Annotated[float, typer.Option(help="Target coverage of prediction sets.")] = 0.9,
) -> None:
    """Predict the rows of a table; on the screen, without --output.

    Label, probabilities and an interval for each, the set of labels that cannot be excluded (the
    most probable one at least), and how unlike the training rows it is.
    """
    check_inputs(model, data)
    check_share("--level", level)
    check_share("--coverage", coverage)
    if output is not None:
        check_writable(output, model=model, table=data)
    machine, record = load_classifier(model)
    table = read_table(data)
    check_columns(table, {"--keep": keep})
    kept = [name for name in (*record.id, *record.keep) if name in table]
    frame = predictions(machine, record, table, record.level if level is None else level, coverage)
    for place, name in enumerate(dict.fromkeys([*kept, *(keep or ())])):
        frame.insert(place, name if name not in frame else f"{name} (table)", table[name])
    if output is not None:
        write_table(frame, output)
    else:
        without_formulas(frame).to_csv(sys.stdout, index=False)
    show_predictions(plain_console(stderr=True), frame, machine, table, output)


def predictions(
    machine: Any, record: Record, table: pd.DataFrame, level: float, coverage: float
) -> pd.DataFrame:
    """Labels, probabilities with intervals, sets and novelty of the rows of a table."""
    inside = Inside.of(machine)
    estimator = inside.model
    rows = inside.rows(table) if inside.before else plain_rows(machine, table)
    groups = group_labels(table, record.groups)
    options = {} if groups is None else {"groups": groups}
    frame = pd.DataFrame({"prediction": estimator.predict(rows, **options)}, index=table.index)
    found = predictions_of(estimator, rows, options, level)
    names = [str(label) for label in machine.classes_]
    columns = [f"p_{name}{end}" for name in names for end in ("", "_low", "_high")]
    # labels such as a and a_low would share a column
    form = "p_{name}_{end}" if len(set(columns)) == len(columns) else "{end}_p_{name}"
    for j, name in enumerate(names):
        frame[f"p_{name}"] = found.P[:, j]
        if found.lower is not None and found.upper is not None:
            frame[form.format(name=name, end="low")] = found.lower[:, j]
            frame[form.format(name=name, end="high")] = found.upper[:, j]
    if estimator.fit_.left_out is not None:
        sets = estimator.predict_set(rows, coverage=coverage, allow_empty=False, **options)
        # as in CSV if a label contains the separator
        quoted = np.array(['"' + k.replace('"', '""') + '"' if ";" in k else k for k in names])
        frame["set"] = [";".join(quoted[inside]) for inside in sets]
    if found.novelty is not None:
        frame["novelty"] = found.novelty
    numbers = frame.select_dtypes("floating").columns.drop("prediction", errors="ignore")
    frame[numbers] = frame[numbers].map(lambda value: float(f"{value:.6g}"))
    return frame


def plain_rows(machine: Any, table: pd.DataFrame) -> pd.DataFrame:
    """The columns of the training data, in their order, for a model without a cleaner."""
    if getattr(machine, "_formula", None) is not None:
        return as_numbers(table)  # a formula reads columns by name
    if not hasattr(machine, "feature_names_in_"):
        raise ValueError(
            "the model was fitted to an array, whose columns have no names, and a table cannot be "
            "matched with it. Fit it to a data frame, or use it in Python: bayesvm.load(MODEL)."
        )
    wanted = list(machine.feature_names_in_)
    if absent := [name for name in wanted if name not in table]:
        raise ValueError(lacking(absent, [str(name) for name in table]))
    return as_numbers(table[wanted])


def check_columns(frame: pd.DataFrame, named: dict[str, Columns]) -> None:
    """Refuse column names that the table does not have, all at once, and repeated targets.

    ``named`` are the names given with each option.
    """
    asked = [(name, option) for option, names in named.items() for name in names or ()]
    target = named.get("--target") or ()
    for name, option in asked:
        if option in ("--groups", "--id", "--drop", "--weight") and name in target:
            raise ValueError(f"{name!r} has the labels (--target) and cannot be {option} too")
    if absent := [(name, option) for name, option in asked if name not in frame]:
        lower = {name.lower(): name for name in frame.columns}
        near = [lower[match] for name, _ in absent
                for match in difflib.get_close_matches(name.lower(), lower, 1)]  # fmt: skip
        wrong = ", ".join(f"{name!r} ({option})" for name, option in absent)
        hint = f"did you mean {', '.join(map(repr, near))}? The" if near else "the"
        raise ValueError(f"there is no column {wrong}; {hint} columns are {', '.join(frame)}")
