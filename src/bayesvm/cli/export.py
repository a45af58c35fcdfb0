"""Models for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ..inspection.display import Inside
from .models import Model
from .terminal import (
    check_apart,
    check_kind,
    check_model,
    check_output,
    check_share,
    one_line_each,
    plain_console,
)


def export(
    model: Model,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write; by default beside model.", callback=check_output
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Interval level.", callback=check_share)] = 0.9,
    dtype: Annotated[
        str, typer.Option(help="Type of rows and probabilities: float64 or float32.")
    ] = "float64",
) -> None:
    """Write a model as an ONNX file, for programs in any language that has an ONNX runtime.

    Its inputs are the columns that cleaning makes of the table, numbers together and each column of
    text apart: rows that need cleaning (numbers as text, dates, rare levels) have to be prepared as
    fit has done before they are sent to it.  The inputs are listed.
    """
    from ..data.atomic import replace_file
    from ..data.storage import load
    from ..export import to_onnx

    path = output or model.with_suffix(".onnx")
    check_apart(path, model=model)
    check_kind(path, (".onnx",))
    check_output(path)
    check_model(model)
    with one_line_each():
        inside = Inside.of(load(model))
        written = to_onnx(inside.model, level=level, dtype=dtype)
        replace_file(path, lambda handle: handle.write(written.SerializeToString()))
    table = Table("", "name", "shape", title=str(path))
    for what, ends in (("input", written.graph.input), ("output", written.graph.output)):
        for end in ends:
            shape = [d.dim_param or str(d.dim_value) for d in end.type.tensor_type.shape.dim]
            table.add_row(what, end.name, " x ".join(shape))
    console = plain_console()
    console.print(table)
    if inside.before:
        names = ", ".join(map(str, inside.names(made=False)))
        console.print(
            "The graph does not clean tables. Its rows are those that the steps before the model "
            f"give, of columns {names}: bayesvm.load(MODEL)[0].transform(rows) makes them.",
            soft_wrap=True,
        )
