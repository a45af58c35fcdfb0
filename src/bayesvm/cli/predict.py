"""Models of a user's own tables: fit and predict."""

from __future__ import annotations

import difflib
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from ..data.cleaning import lacking
from ..inspection.display import Inside
from .fitting import KINDS, Clock, Fitter, Work, build, in_words, left_out, prepared
from .labelled import group_labels, training_rows
from .printing import show_findings, show_left_out, show_model, show_predictions
from .tables import (
    READERS,
    as_numbers,
    check_writable,
    read_table,
    without_formulas,
    write_table,
)
from .terminal import (
    check_apart,
    check_input,
    check_model,
    check_output,
    check_share,
    one_line_each,
    plain_console,
    printable,
    show_file,
)

Data = Annotated[
    Path,
    typer.Argument(
        help=f"A table: {', '.join(READERS)}.", show_default=False, callback=check_input
    ),
]
Model = Annotated[
    Path, typer.Argument(help="A model written by fit.", show_default=False, callback=check_input)
]
Columns = list[str] | None
SEVERAL = "; may be repeated."


def fit(
    data: Data,
    target: Annotated[str, typer.Option("--target", "-t", help="Column with the labels.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File of the model; by default beside data.",
            callback=check_output,
        ),
    ] = None,
    kind: Annotated[
        str,
        typer.Option("--model", "-m", help=f"One of auto (linear or kernel), {', '.join(KINDS)}."),
    ] = "auto",
    likelihood: Annotated[
        str | None, typer.Option(help="logistic, hinge, soft_hinge or probit.")
    ] = None,
    prior: Annotated[
        str | None, typer.Option(help="Prior of a linear model, for instance laplace_zero.")
    ] = None,
    inference: Annotated[str | None, typer.Option(help="vb, em, svi or gibbs.")] = None,
    groups: Annotated[
        Columns, typer.Option(help="Column of groups, such as patients: a mixed model" + SEVERAL)
    ] = None,
    identifier: Annotated[
        Columns, typer.Option("--id", help="Column that identifies rows" + SEVERAL)
    ] = None,
    keep: Annotated[
        Columns, typer.Option(help="Column that predictions are to keep" + SEVERAL)
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of weights of rows.")] = None,
    drop: Annotated[Columns, typer.Option(help="Column to leave out" + SEVERAL)] = None,
    use: Annotated[
        Columns, typer.Option(help="Column to keep that would be left out" + SEVERAL)
    ] = None,
    categorical: Annotated[
        Columns, typer.Option(help="Column of numbers that are codes of categories" + SEVERAL)
    ] = None,
    level: Annotated[float, typer.Option(help="Interval level.", callback=check_share)] = 0.9,
    check: Annotated[
        bool, typer.Option(help="Estimate error and log loss on rows left out, by five folds.")
    ] = True,
    jobs: Annotated[int, typer.Option(min=1, help="Folds that are fitted at a time.")] = 1,
    time_limit: Annotated[
        float | None, typer.Option(min=0.0, help="Seconds after which the work ends.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything drawn.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Fit a model to a table and write it to a file.

    The table may be as it comes: what is wrong in it is listed, with what was done about it.
    """
    from ..data.storage import Record, save, skops_io

    console, clock = plain_console(), Clock(time_limit)
    path = output or data.with_suffix(".bayesvm")
    check_apart(path, table=data)
    check_output(path)
    if path.exists() and not force:
        raise typer.BadParameter(
            f"{path} exists; replace it with --force, or give another file: --output FILE"
        )
    if kind == "auto":
        kind = "mixed" if groups else "linear" if prior else "auto"
    given = {"likelihood": likelihood, "prior": prior, "inference": inference}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    options |= {"random_state": seed, "n_jobs": jobs}
    kinds = ("linear", "kernel") if kind == "auto" else (kind,)
    # what is printed goes above the bar if both are on one screen
    screen = console if console.is_terminal else plain_console(stderr=True)
    with one_line_each(), Work(screen).shown() as work:
        skops_io()  # rather than after the work
        estimators = [build(name, options, bool(groups)) for name in kinds]
        frame = read_table(data)
        roles = {"--groups": groups or [], "--id": identifier or [], "--drop": drop or []}
        others = {"--keep": keep or [], "--use": use or [], "--categorical": categorical or []}
        check_columns(frame, {"--target": [target], **roles, **others}, weight)
        labelled = training_rows(
            frame, target, weight, roles["--groups"], [*roles["--id"], *roles["--drop"]]
        )
        work.step("looking at the columns")
        each = [
            prepared(name, estimator, labelled, use, categorical)
            for name, estimator in zip(kinds, estimators, strict=True)
        ]
        findings = (*labelled.findings, *each[0][0].findings_)
        show_findings(console, data, len(frame), labelled, each[0][0], findings)
        fitter = Fitter(labelled, work, clock)
        model = (
            fitter.fit(kind, each[0])
            if len(each) == 1
            else fitter.better(each[0], each[1], console)
        )
        used = next(k for k, name in KINDS.items() if name == type(model[1]).__name__)
        seconds = fitter.seconds[used]
        fitter.warn_useless(used, kinds, screen)
        if model[1].fit_.stopped:
            console.print("the fit was ended by --time-limit before it had converged")
        about: dict[str, Any] = {
            "data": data.name, "target": target, "rows": len(labelled.y), "findings": findings,
            "groups": tuple(roles["--groups"]), "id": tuple(roles["--id"]), "level": level,
            "keep": tuple(keep or ()), "weight": weight or "", "seconds": seconds,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        }  # fmt: skip
        save(model, path, Record(**about))
        if check:
            work.step("checking on rows left out, five folds")
            held = left_out(model, labelled, jobs, clock, seconds)
            save(model, path, Record(**about, left_out=held))
    if check:
        show_left_out(console, held, model.classes_)
    show_model(console, model, level)
    show_file(console, "Model", path)
    name, table = (printable(shlex.quote(str(one))) for one in (path, data))
    console.print(
        f"It took {in_words(time.monotonic() - work.begin)}. Next:\n"
        f"  bayesvm predict {name} NEW_TABLE -o predictions.csv\n"
        f"  bayesvm report {name} {table}",
        soft_wrap=True,
    )


def predict(
    model: Model,
    data: Data,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write; by default the screen.", callback=check_output
        ),
    ] = None,
    keep: Annotated[Columns, typer.Option(help="Column to keep" + SEVERAL)] = None,
    level: Annotated[
        float | None, typer.Option(help="Interval level.", callback=check_share)
    ] = None,
    coverage: Annotated[
        float,
        typer.Option(help="Target coverage of prediction sets.", callback=check_share),
    ] = 0.9,
) -> None:
    """Predict the rows of a table.

    Label, probabilities and an interval for each, the set of labels that cannot be excluded (the
    most probable one at least), and how unlike the training rows it is.
    """
    from ..data.storage import load_with_record

    if output is not None:
        check_apart(output, model=model, table=data)
        check_writable(output)
    check_model(model)
    with one_line_each():
        machine, record = load_with_record(model)
        table = read_table(data)
        named = list(keep or ())
        check_columns(table, {"--keep": named}, None)
        if record is not None:
            level = record.level if level is None else level
            named = [k for k in (*record.id, *record.keep) if k in table] + named
        frame = predictions(machine, record, table, 0.9 if level is None else level, coverage)
        for place, name in enumerate(dict.fromkeys(named)):
            shown = name if name not in frame else f"{name} (table)"
            frame.insert(place, shown, table[name])
        if output is not None:
            write_table(frame, output)
    if output is None:
        without_formulas(frame).to_csv(sys.stdout, index=False)
    show_predictions(plain_console(stderr=True), frame, machine, table, output)


def predictions(
    machine: Any, record: Any, table: pd.DataFrame, level: float, coverage: float
) -> pd.DataFrame:
    """Labels, probabilities with intervals, sets and novelty of the rows of a table."""
    inside = Inside.of(machine)
    estimator = inside.model
    rows = inside.rows(table) if inside.before else plain_rows(machine, table)
    groups = None if record is None else group_labels(table, record.groups)
    told = {} if groups is None else {"groups": groups}
    frame = pd.DataFrame({"prediction": estimator.predict(rows, **told)}, index=table.index)
    proba, ends = estimator.predict_proba(rows, **told), None
    if getattr(estimator, "inference", None) != "em":
        ends = estimator.predict_interval(rows, level=level, **told)
    names = [str(label) for label in machine.classes_]
    columns = [f"p_{name}{end}" for name in names for end in ("", "_low", "_high")]
    # labels such as a and a_low would share a column
    form = "p_{name}_{end}" if len(set(columns)) == len(columns) else "{end}_p_{name}"
    for j, name in enumerate(names):
        frame[f"p_{name}"] = _digits(proba[:, j])
        for end, values in zip(("low", "high"), ends or ()):
            frame[form.format(name=name, end=end)] = _digits(values[:, j])
    if estimator.fit_.left_out is not None:
        held = estimator.predict_set(rows, coverage=coverage, allow_empty=False, **told)
        # as in CSV, where a label holds the separator
        quoted = np.array(['"' + k.replace('"', '""') + '"' if ";" in k else k for k in names])
        frame["set"] = [";".join(quoted[inside]) for inside in held]
        if estimator.machines_[0].posterior.has_spread and estimator._knows_novelty:
            frame["novelty"] = _digits(estimator.novelty(rows, **told))
    return frame


def _digits(values: Any) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def plain_rows(machine: Any, table: pd.DataFrame) -> pd.DataFrame:
    """The columns that a model without a cleaner was fitted to, in its order."""
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


# ---------------------------------------------------------------------------------------------
# What is fitted


def check_columns(frame: pd.DataFrame, named: dict[str, list[str]], weight: str | None) -> None:
    """Refuse names of columns that the table does not have, all at once."""
    named = {**named, "--weight": [] if weight is None else [weight]}
    for option in ("--groups", "--id", "--drop", "--weight"):
        if both := set(named.get(option, ())) & set(named.get("--target", ())):
            raise ValueError(f"{both.pop()!r} has the labels (--target) and cannot be {option} too")
    wrong = [f"{name!r} ({option})" for option, names in named.items() for name in names
             if name not in frame]  # fmt: skip
    if wrong:
        known = ", ".join(map(str, frame.columns))
        lower = {str(name).lower(): str(name) for name in frame.columns}
        absent = [str(k).lower() for names in named.values() for k in names if k not in frame]
        near = [lower[m] for name in absent for m in difflib.get_close_matches(name, lower, 1)]
        hint = f"did you mean {', '.join(map(repr, near))}? " if near else ""
        text = f"there is no column {', '.join(wrong)}; {hint}"
        raise ValueError(f"{text}{'The' if near else 'the'} columns are {known}")
