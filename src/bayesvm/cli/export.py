"""The command ``bayesvm export``: models for other programs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from ..inspection.display import Inside
from .terminal import (
    Level,
    Model,
    Output,
    check_inputs,
    check_output,
    check_share,
    load_classifier,
    plain_console,
)


def export(
    model: Model,
    output: Output = None,
    level: Level = 0.9,
    dtype: Annotated[
        str, typer.Option(help="Type of rows and probabilities: float64 or float32.")
    ] = "float64",
) -> None:
    """Write a model as an ONNX file, for programs in any language that has an ONNX runtime.

    Its inputs are the columns that cleaning makes of the table, numbers together and each column of
    text apart: rows that need cleaning (numbers as text, dates, rare levels) have to be prepared as
    fit has done before they are sent to it.  The inputs are listed.
    """
    from ..export import to_onnx

    path = output or model.with_suffix(".onnx")
    check_inputs(model)
    check_share("--level", level)
    check_output(path, (".onnx",), model=model)
    inside = Inside.of(load_classifier(model)[0])
    written = to_onnx(inside.model, path, level=level, dtype=dtype)
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
            f"give, of columns {names}: bayesvm.load(MODEL)[0].transform(rows) makes them."
        )
