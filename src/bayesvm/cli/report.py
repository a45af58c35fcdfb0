"""The command ``bayesvm report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..cleaning.cells import as_text
from .labelled import group_labels, labels_of
from .models import Model, check_columns, plain_rows
from .printing import scores, show_model
from .tables import read_table
from .terminal import check_input, check_output, one_line_each, plain_console, show_file

NOVEL = 0.99  # percentile above which rows are reported as unlike the training rows


def report(
    model: Model,
    data: Annotated[
        Path | None,
        typer.Argument(help="A table with labels to judge the model on.", callback=check_input),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Column with the labels.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File of a calibration curve.", callback=check_output),
    ] = None,
) -> None:
    """Print the parameters of a model and, given labelled rows, its scores."""
    from ..files.storage import load_with_record
    from ..reports.display import Inside

    if data is None and (target is not None or output is not None):
        raise typer.BadParameter("--target and --output are for scoring a model: name a table too")
    console = plain_console()
    with one_line_each():
        machine, record = load_with_record(model)
        if data is not None and target is None:
            if record is None:
                raise ValueError("to score a model, name the column with the labels: --target NAME")
            target = record.target
        show_model(console, machine)
        if data is None or target is None:
            return
        table = read_table(data)
        check_columns(table, {"--target": [target]}, None)
        codes, texts = as_text(table[target])
        table, y = table[codes >= 0], labels_of(codes[codes >= 0], texts)
        if strange := set(np.unique(y)) - set(machine.classes_):
            known = ", ".join(map(str, machine.classes_))
            raise ValueError(f"labels {sorted(map(str, strange))[:3]} are not among {known}")
        inside, at = Inside.of(machine), np.searchsorted(machine.classes_, y)
        rows = inside.rows(table) if inside.before else plain_rows(machine, table)
        groups = None if record is None else group_labels(table, record.groups)
        told: dict[str, Any] = {} if groups is None else {"groups": groups}
        proba = inside.model.predict_proba(rows, **told)
        error, loss, brier = scores(proba, at, None)
        console.print(
            f"on {data}: error {100 * error:.1f} %, log loss {loss:.3f}, Brier score {brier:.3f}",
            soft_wrap=True,
        )
        if inside.model.fit_.left_out is not None:
            held = inside.model.predict_set(rows, **told)
            console.print(
                f"90 % sets: {100 * held[np.arange(len(y)), at].mean():.1f} % hold the label, "
                f"{held.sum(axis=1).mean():.2f} labels on average",
                soft_wrap=True,
            )
            if inside.model.machines_[0].posterior.has_spread and inside.model._knows_novelty:
                share = 100 * np.mean(inside.model.novelty(rows, **told) > NOVEL)
                console.print(f"novelty: {share:.1f} % of rows above {NOVEL}, 1.0 % expected")
        if output is not None:
            if len(machine.classes_) != 2:
                raise ValueError("a calibration curve needs two classes")
            from ..plot import CalibrationDisplay

            curve: Any = CalibrationDisplay.from_predictions(at == 1, proba[:, 1])
            curve.figure_.savefig(output, dpi=120)
            show_file(console, "Figure", output)
