"""Models of a user's own tables: fit, predict, report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.table import Table

from ..reports.display import Inside
from .terminal import check_input, check_output, one_line_each, plain_console, show_file

FOLDS = 5
NOVEL = 0.99  # percentile above which rows are reported as unlike the training rows
KINDS = {
    "linear": "BayesianLinearSVC",
    "kernel": "BayesianSVC",
    "vectors": "PCVC",
    "relevance": "RVC",
    "factors": "FactorSVC",
}

Data = Annotated[
    Path,
    typer.Argument(
        help="A table: .csv, .tsv or .parquet.", show_default=False, callback=check_input
    ),
]
Model = Annotated[
    Path, typer.Argument(help="A model written by fit.", show_default=False, callback=check_input)
]


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
        str, typer.Option("--model", "-m", help=f"One of {', '.join(KINDS)}.")
    ] = "linear",
    prior: Annotated[
        str | None, typer.Option(help="Prior of a linear model, for instance laplace_zero.")
    ] = None,
    inference: Annotated[str | None, typer.Option(help="vb, em, svi or gibbs.")] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Column to leave out; may be repeated.")
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(help="Column of numbers that are codes of categories; may be repeated."),
    ] = None,
    check: Annotated[
        bool, typer.Option(help="Estimate error and log loss on rows left out, by five folds.")
    ] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything drawn.")] = 0,
) -> None:
    """Fit a model to a table and write it to a file.

    Columns of text are categories, and cells may be empty.
    """
    from sklearn.base import clone
    from sklearn.model_selection import cross_val_predict

    from ..files.storage import save, skops_io

    console = plain_console()
    given = {"prior": prior, "inference": inference, "categorical": categorical or None}
    options = {k: v for k, v in given.items() if v is not None}
    path = output or data.with_suffix(".bayesvm")
    check_apart(data, path)
    check_output(path)
    with one_line_each():
        skops_io()  # rather than after the work
        X, y = split(read(data), target, drop or [])
        model = build(kind, X, {**options, "random_state": seed})
        folds = folds_for(y) if check else None
        model.fit(X, y)
        save(model, path)
        classes = ", ".join(map(str, model.classes_))
        shape = f"{len(X)} rows, {X.shape[1]} columns"
        console.print(f"{data}: {shape}, classes {classes}", soft_wrap=True)
        if folds is not None:
            proba = cross_val_predict(clone(model), X, y, cv=folds, method="predict_proba")
            show_scores(console, model.classes_, y.to_numpy(), proba, "on rows left out")
        show_model(console, model)
    show_file(console, "Model", path)


def predict(
    model: Model,
    data: Data,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write; by default the screen.", callback=check_output
        ),
    ] = None,
    level: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Posterior mass of intervals.")
    ] = 0.9,
    coverage: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of sets that hold the right label.")
    ] = 0.9,
) -> None:
    """Predict the rows of a table.

    Label, probabilities and an interval for each, the set of labels that cannot be excluded, and
    how unlike the training rows it is.
    """
    import sys

    from ..files.storage import load

    if output is not None:
        check_apart(data, output)
    with one_line_each():
        machine = load(model)
        X = columns_of(machine, read(data))
        frame = pd.DataFrame({"prediction": machine.predict(X)}, index=X.index)
        proba = machine.predict_proba(X)
        inside, ends = Inside.of(machine), None
        if getattr(inside.model, "inference", None) != "em":
            ends = inside.model.predict_interval(inside.rows(X), level)
        held, novel = sets_and_novelty(inside, X, coverage)
    for j, label in enumerate(machine.classes_):
        frame[f"proba {label}"] = proba[:, j]
        if ends is not None:
            frame[f"lower {label}"], frame[f"upper {label}"] = ends[0][:, j], ends[1][:, j]
    if held is not None:
        names = np.array([str(label) for label in machine.classes_])
        frame["set"] = [";".join(names[inside]) for inside in held]
    if novel is not None:
        frame["novelty"] = novel
    frame.to_csv(output or sys.stdout, index=False)


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
    from ..files.storage import load

    if data is None and (target is not None or output is not None):
        raise typer.BadParameter("--target and --output are for scoring a model: name a table too")
    if data is not None and target is None:
        raise typer.BadParameter("to score a model, name the column with the labels: --target NAME")
    console = plain_console()
    with one_line_each():
        machine = load(model)
        show_model(console, machine)
        if data is None or target is None:
            return
        frame = read(data)
        X, y = split(frame, target, [])
        X = columns_of(machine, X)
        proba = machine.predict_proba(X)
        show_scores(console, machine.classes_, y.to_numpy(), proba, f"on {data}")
        show_sets(console, machine, X, y.to_numpy())
        if output is not None:
            if len(machine.classes_) != 2:
                raise ValueError("a calibration curve needs two classes")
            from ..plot import CalibrationDisplay

            positive = (y == machine.classes_[1]).to_numpy()
            curve: Any = CalibrationDisplay.from_predictions(positive, proba[:, 1])
            curve.figure_.savefig(output, dpi=120)
            show_file(console, "Figure", output)


# ---------------------------------------------------------------------------------------------
# Tables


def read(path: Path) -> pd.DataFrame:
    """A table from a file."""
    try:
        if path.suffix == ".parquet":
            frame = pd.read_parquet(path)
        else:
            frame = pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")
    except pd.errors.EmptyDataError:
        frame = pd.DataFrame()
    if frame.empty:
        raise typer.BadParameter(f"{path} has no rows; give a table with a header and rows.")
    return frame


def check_apart(data: Path, output: Path) -> None:
    """Refuse to write over the table that is read."""
    if output.exists() and output.samefile(data):
        raise typer.BadParameter(f"{output} is the table itself; give another file: --output FILE")


def split(frame: pd.DataFrame, target: str, drop: list[str]) -> tuple[pd.DataFrame, Any]:
    """Predictors and labels."""
    for name in (target, *drop):
        if name not in frame:
            known = ", ".join(map(str, frame.columns))
            raise typer.BadParameter(f"there is no column {name!r}; the columns are {known}")
    y = frame[target]
    if y.isna().any():
        raise typer.BadParameter(f"{int(y.isna().sum())} rows have no label in column {target!r}")
    return frame.drop(columns=[target, *drop]), y


def columns_of(machine: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """The columns that a model was fitted to, in its order."""
    wanted = list(machine.feature_names_in_)
    absent = [name for name in wanted if name not in frame]
    if absent:
        raise ValueError(f"the table lacks columns the model was fitted to: {', '.join(absent)}")
    return frame[wanted]


def sets_and_novelty(inside: Inside, X: Any, coverage: float) -> tuple[Any, Any]:
    """Sets of labels and novelty of rows, each ``None`` if the model does not know it."""
    model, rows = inside.model, inside.rows(X)
    if model.fit_.left_out is None:
        return None, None
    spread = model.machines_[0].posterior.has_spread and model._knows_novelty
    return model.predict_set(rows, coverage), model.novelty(rows) if spread else None


def check_repeated(column: pd.Series) -> None:
    """Refuse text that identifies single rows, such as names: it cannot predict new rows."""
    seen = column.dropna()
    distinct = seen.nunique()
    if distinct > 0.9 * len(seen) and len(seen) > 1:
        raise typer.BadParameter(
            f"column {column.name!r} has {distinct} different texts in {len(seen)} rows, so its "
            f"indicators would identify single rows and not kinds of rows; leave it out: --drop "
            f"{column.name}"
        )


# ---------------------------------------------------------------------------------------------
# Models


def build(kind: str, X: pd.DataFrame, options: dict[str, Any]) -> Any:
    """The estimator, with options that it has."""
    import bayesvm

    from ..estimators.choices import SCHEMES

    if kind not in KINDS:
        raise typer.BadParameter(f"--model {kind} is not known; choose one of {', '.join(KINDS)}")
    cls = getattr(bayesvm, KINDS[kind])
    known = cls().get_params()
    for name in options:
        if name not in known:
            raise typer.BadParameter(f"--{name} has no meaning for --model {kind}")
    inference = options.get("inference", "vb")
    if inference not in SCHEMES:
        raise typer.BadParameter(
            f"--inference {inference} is not known; choose one of {', '.join(SCHEMES)}"
        )
    if not X.shape[1]:
        raise typer.BadParameter("there are no columns besides the labels")
    for name in X:
        if not pd.api.types.is_numeric_dtype(X[name]):
            check_repeated(X[name])
    return cls(**options)


def folds_for(y: Any) -> Any:
    """Folds that have rows of every class."""
    from sklearn.model_selection import StratifiedKFold

    least = int(y.value_counts().min())
    if least < 2:
        raise ValueError("some class has a single row, so nothing can be left out; use --no-check")
    return StratifiedKFold(min(FOLDS, least), shuffle=True, random_state=0)


# ---------------------------------------------------------------------------------------------
# Printing


def show_scores(console: Console, classes: Any, y: Any, proba: Any, where: str) -> None:
    from ..compare.evaluation import brier_score

    strange = set(np.unique(y)) - set(classes)
    if strange:
        known = ", ".join(map(str, classes))
        raise ValueError(f"labels {sorted(map(str, strange))[:3]} are not among {known}")
    at = np.searchsorted(classes, y)
    p = np.clip(proba[np.arange(len(y)), at], 1e-15, None)
    error = float(np.mean(proba.argmax(axis=1) != at))
    console.print(
        f"{where}: error {100 * error:.1f} %, log loss {-np.mean(np.log(p)):.3f}, "
        f"Brier score {brier_score(y, proba, classes):.3f}",
        soft_wrap=True,
    )


def show_sets(console: Console, machine: Any, X: Any, y: Any) -> None:
    """How often sets hold the label, and how many rows are unlike the training rows."""
    held, novel = sets_and_novelty(Inside.of(machine), X, 0.9)
    if held is not None:
        hit = held[np.arange(len(y)), np.searchsorted(machine.classes_, y)]
        console.print(
            f"90 % sets: {100 * hit.mean():.1f} % hold the label, {held.sum(axis=1).mean():.2f} "
            "labels on average",
            soft_wrap=True,
        )
    if novel is not None:
        share = 100 * np.mean(novel > NOVEL)
        console.print(f"novelty: {share:.1f} % of rows above {NOVEL}, 1.0 % expected")


def show_model(console: Console, machine: Any) -> None:
    inner = Inside.of(machine).model
    state = "converged" if inner.converged_ else "did not converge"
    console.print(f"{inner!r}: {inner.n_iter_} iterations, {state}")
    frame = inner.summary()
    table = Table("name", *frame.columns, box=None, pad_edge=False)
    for name, row in frame.iterrows():
        label = " ".join(map(str, name)) if isinstance(name, tuple) else str(name)
        table.add_row(label, *(f"{value:.3g}" for value in row))
    console.print(table)
