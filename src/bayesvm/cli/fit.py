"""The command ``bayesvm fit``: fit a given model, or the better of two, and evaluate it."""

from __future__ import annotations

import re
import shlex
import time
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ..data.cleaning import TableCleaner
from ..data.storage import Record, save, skops_io
from ..estimators.pipeline import Pipeline
from ..html_report.scores import Rows, cross_validated, thinned
from .predict import Data, check_columns
from .printing import show_findings, show_held_out, show_model
from .tables import read_table
from .terminal import (
    SEVERAL,
    Columns,
    Level,
    Output,
    check_inputs,
    check_output,
    check_share,
    plain_console,
    printable,
    show_file,
)
from .training_rows import training_rows

KINDS = {
    "linear": "BayesianLinearSVC",
    "kernel": "BayesianSVC",
    "mixed": "MixedSVC",
    "additive": "AdditiveSVC",
    "vectors": "PCVC",
    "relevance": "RVC",
    "factors": "FactorSVC",
}
WITH_COEFFICIENTS = ("linear", "mixed", "additive")


def fit(
    data: Data,
    target: Annotated[str, typer.Option("--target", "-t", help="Column with the labels.")],
    output: Output = None,
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
    level: Level = 0.9,
    check: Annotated[
        bool, typer.Option(help="Estimate error and log loss on rows left out, by five folds.")
    ] = True,
    jobs: Annotated[int, typer.Option(min=1, help="Folds that are fitted at a time.")] = 1,
    time_limit: Annotated[
        float | None, typer.Option(min=0.0, help="Seconds after which the work ends.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything drawn.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    max_rows: Annotated[int, typer.Option(min=1, hidden=True)] = 2500,
) -> None:
    """Fit a model to a table and write it to a file.

    The table may be as it comes: what is wrong in it is listed, with what was done about it.
    """
    begin, console = time.monotonic(), plain_console()
    end = np.inf if time_limit is None else begin + time_limit
    stop = partial(is_over, end)
    path = output or data.with_suffix(".bayesvm")
    check_inputs(data)
    check_share("--level", level)
    check_output(path, replace=force, table=data)
    if kind == "auto":
        kind = "mixed" if groups else "linear" if prior else "auto"
    kinds = ("linear", "kernel") if kind == "auto" else (kind,)
    given = {"likelihood": likelihood, "prior": prior, "inference": inference}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    options |= {"random_state": seed, "n_jobs": jobs}
    skops_io()  # fail before the work rather than after it
    estimators = {name: build(name, options, bool(groups)) for name in kinds}
    # messages go above the progress bar if both are on one screen
    screen = console if console.is_terminal else plain_console(stderr=True)
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=screen,
        transient=True, disable=not screen.is_terminal, redirect_stdout=False,
    ) as progress:  # fmt: skip
        task = progress.add_task("reading the table", total=None)

        def step(what: str) -> None:
            progress.update(task, description=what)

        frame = read_table(data)
        check_columns(frame, {
            "--target": [target], "--groups": groups, "--id": identifier, "--drop": drop,
            "--keep": keep, "--use": use, "--categorical": categorical,
            "--weight": None if weight is None else [weight],
        })  # fmt: skip
        apart = [*(identifier or ()), *(drop or ())]
        rows, positions, findings = training_rows(frame, target, weight, groups or [], apart)
        if not rows.X.shape[1]:
            raise ValueError("there are no columns besides the labels")
        step("looking at the columns")
        models = {}
        for name, estimator in estimators.items():
            cleaner = TableCleaner(categorical, use, reference=name in WITH_COEFFICIENTS)
            models[name] = Pipeline([("clean", cleaner.fit(rows.X, rows.y)), ("model", estimator)])
        cleaner = models[kinds[0]][0]
        findings = (*findings, *cleaner.findings_)
        show_findings(console, data, len(frame), rows, cleaner, findings)
        some, where = rows, "rows left out"
        if len(models) > 1 and len(rows.y) > max_rows:
            some = rows.take(thinned(rows.codes, max_rows))
            where = f"{max_rows} of {len(rows.y)} rows, each left out,"
        fits = {name: fit_rows(name, each, some, stop, step) for name, each in models.items()}
        used = kind
        if len(fits) > 1:
            losses = {name: each.loss for name, each in fits.items()}
            used, why = choose(losses, where)
            console.print(why)
        if some is not rows:
            fits[used] = fit_rows(used, models[used], rows, stop, step)
        model, seconds = fits[used].model, fits[used].seconds
        hint = f", or try --model {'kernel' if used == 'linear' else 'linear'}"
        for text in fits[used].warnings:  # of the class in Python, or empty if both were tried
            text = re.sub(r", or try \w+\(\)", hint if len(kinds) == 1 else "", text)
            warnings.warn(text, stacklevel=2)
        if model[1].fit_.stopped:
            console.print("the fit was ended by --time-limit before it had converged")
        record = Record(
            data=data.name, target=target, rows=len(rows.y), findings=findings,
            groups=tuple(groups or ()), id=tuple(identifier or ()), keep=tuple(keep or ()),
            weight=weight or "", level=level, seconds=seconds,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
        )  # fmt: skip
        save(model, path, record)
        if check:
            step("checking on rows left out, five folds")
            try:
                # no fold is started that would exceed the time limit
                held = cross_validated(
                    model, rows, False, jobs=jobs, callbacks=[stop],
                    ready=lambda: end - time.monotonic() > 0.8 * seconds,
                )  # fmt: skip
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"the model is in {path}, without its check") from None
            if held is not None:
                in_table = replace(held, rows=positions[held.rows])
                save(model, path, replace(record, left_out=in_table))
    if check:
        show_held_out(console, held)
    show_model(console, model, level)
    if used in ("kernel", "vectors", "relevance"):
        console.print(
            "The file holds training rows or points like them (their columns after cleaning): "
            "share it as you would share the table."
        )
    show_file(console, "Model", path)
    name, table = (printable(shlex.quote(str(one))) for one in (path, data))
    spent = time.monotonic() - begin
    took = f"{spent:.0f} s" if spent < 90 else f"{spent / 60:.0f} min"
    console.print(
        f"It took {took}. Next:\n"
        f"  bayesvm predict {name} NEW_TABLE -o predictions.csv\n"
        f"  bayesvm report {name} {table}"
    )


def is_over(end: float, _: Any) -> bool:
    """Whether a time has come; a callback of fits."""
    return time.monotonic() >= end


def build(kind: str, options: dict[str, Any], grouped: bool) -> Any:
    """The estimator with the options that it supports."""
    import bayesvm

    from ..estimators.options import LIKELIHOODS, PRIORS, SCHEMES

    if kind not in KINDS:
        raise ValueError(f"--model {kind} is not known; choose one of auto, {', '.join(KINDS)}")
    if kind == "mixed" and not grouped:
        raise ValueError("--model mixed needs --groups COLUMN")
    if grouped and kind != "mixed":
        raise ValueError(f"--groups is for --model mixed; it has no meaning for --model {kind}")
    cls = getattr(bayesvm, KINDS[kind])
    known = cls().get_params()
    if idle := [f"--{name}" for name in options if name not in known]:
        raise ValueError(f"{', '.join(idle)} has no meaning for --model {kind}")
    tables = {"prior": PRIORS, "likelihood": LIKELIHOODS, "inference": SCHEMES}
    for name, choices in tables.items():
        if (value := options.get(name)) is not None and value not in choices:
            raise ValueError(f"--{name} {value} is not known; choose one of {', '.join(choices)}")
    return cls(**options)


class Fitted(NamedTuple):
    """A fit to rows of a table."""

    model: Pipeline
    seconds: float
    loss: float  # leave-one-out log loss of the training rows; infinite if unknown
    warnings: list[str]


def fit_rows(kind: str, model: Pipeline, rows: Rows, stop: Any, step: Any) -> Fitted:
    """Fit the estimator of a pipeline with a fitted cleaner, within the time limit."""
    step(f"fitting {KINDS[kind]} to {len(rows.y)} rows")
    begin, loss, X = time.monotonic(), np.inf, model[0].transform(rows.X)
    largest = X.select_dtypes("number").abs().max()
    if np.any(largest > np.finfo(np.float32).max):
        name, size = largest.idxmax(), largest.max()
        raise ValueError(
            f"column {name!r} has a cell of {size:.3g}, beyond the range of single precision; mend "
            f"the cell, or leave the column out: --drop {name}"
        )
    estimator = model[1].set_params(callbacks=[stop])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X, rows.y, **rows.fit_options)
    estimator.set_params(callbacks=None)  # files contain no code
    held = estimator.fit_.left_out
    if held is not None and not estimator.fit_.stopped:
        loss = float(np.average(-np.log(np.maximum(held.proba, 1e-300)), weights=held.c))
    texts = [str(one.message) for one in caught]
    return Fitted(model, time.monotonic() - begin, loss, texts)


def choose(losses: dict[str, float], where: str, margin: float = 0.03) -> tuple[str, str]:
    """``kernel`` if its log loss is lower by the share ``margin``, else ``linear``; and why.

    The losses are deterministic given the table and the seed, unless ``--time-limit`` stops a fit.
    """
    best, other, why = "linear", "kernel", ""
    if losses["kernel"] < (1.0 - margin) * losses["linear"]:
        best, other = other, best
    elif losses["kernel"] < losses["linear"]:
        why = f", which is less than {100 * margin:.0f} % better"
    return best, (
        f"The {best} classifier is used: its log loss on {where} is {losses[best]:.3f}, against "
        f"{losses[other]:.3f} of the {other} classifier{why} (lower is better)."
    )
