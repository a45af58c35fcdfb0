"""The command ``bayesvm fit``: the model that is named, or the better of two, and its check."""

from __future__ import annotations

import shlex
import time
import warnings
from datetime import UTC, datetime
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from sklearn.model_selection import train_test_split

from ..data.cleaning import TableCleaner
from ..data.storage import LeftOutPredictions, Record, save, skops_io
from ..estimators.pipeline import Pipeline
from ..html_report.scores import MODEL, Rows, cross_validated
from .labelled import Labelled, training_rows
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
) -> None:
    """Fit a model to a table and write it to a file.

    The table may be as it comes: what is wrong in it is listed, with what was done about it.
    """
    begin, clock, console = time.monotonic(), Clock(time_limit), plain_console()
    path = output or data.with_suffix(".bayesvm")
    check_inputs(data)
    check_share("--level", level)
    check_output(path, table=data)
    if path.exists() and not force:
        raise ValueError(
            f"{path} exists; replace it with --force, or give another file: --output FILE"
        )
    if kind == "auto":
        kind = "mixed" if groups else "linear" if prior else "auto"
    kinds = ("linear", "kernel") if kind == "auto" else (kind,)
    given = {"likelihood": likelihood, "prior": prior, "inference": inference}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    options |= {"random_state": seed, "n_jobs": jobs}
    skops_io()  # rather than after the work
    estimators = {name: build(name, options, bool(groups)) for name in kinds}
    # what is printed goes above the bar if both are on one screen
    screen = console if console.is_terminal else plain_console(stderr=True)
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=screen,
        transient=True, disable=not screen.is_terminal, redirect_stdout=False,
    ) as progress:  # fmt: skip
        task = progress.add_task("reading the table", total=None)

        def step(what: str) -> None:
            progress.update(task, description=what)

        frame = read_table(data)
        roles = {"--groups": groups or [], "--id": identifier or [], "--drop": drop or []}
        others = {"--keep": keep or [], "--use": use or [], "--categorical": categorical or []}
        others["--weight"] = [] if weight is None else [weight]
        check_columns(frame, {"--target": [target], **roles, **others})
        apart = [*roles["--id"], *roles["--drop"]]
        rows = training_rows(frame, target, weight, roles["--groups"], apart)
        if not rows.X.shape[1]:
            raise ValueError("there are no columns besides the labels")
        step("looking at the columns")
        models = {}
        for name, estimator in estimators.items():
            cleaner = TableCleaner(categorical, use, reference=name in WITH_COEFFICIENTS)
            models[name] = Pipeline([("clean", cleaner.fit(rows.X, rows.y)), ("model", estimator)])
        cleaner = models[kinds[0]][0]
        findings = (*rows.findings, *cleaner.findings_)
        show_findings(console, data, len(frame), rows, cleaner, findings)
        if not cleaner.transform(rows.X[:1]).shape[1]:
            raise ValueError("no column is left to learn from; keep one with --use COLUMN")
        fitter = Fitter(rows, clock, step)
        used = kind if len(models) == 1 else fitter.choose(models, console)
        model, seconds = fitter.fit(used, models[used])
        fitter.warn_useless(used, kinds, screen)
        if model[1].fit_.stopped:
            console.print("the fit was ended by --time-limit before it had converged")
        about: dict[str, Any] = {
            "data": data.name, "target": target, "rows": len(rows.y), "findings": findings,
            "groups": tuple(roles["--groups"]), "id": tuple(roles["--id"]), "level": level,
            "keep": tuple(keep or ()), "weight": weight or "", "seconds": seconds,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        }  # fmt: skip
        save(model, path, Record(**about))
        if check:
            step("checking on rows left out, five folds")
            try:
                held = left_out(model, rows, jobs, clock, seconds)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"the model is in {path}, without its check") from None
            save(model, path, Record(**about, left_out=held))
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


class Clock:
    """How much of the time that may be taken is left; a callback of fits that ends them then."""

    def __init__(self, limit: float | None) -> None:
        self.end = np.inf if limit is None else time.monotonic() + limit

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def __call__(self, progress: Any) -> bool:
        return self.left <= 0


def build(kind: str, options: dict[str, Any], grouped: bool) -> Any:
    """The estimator, with options that it has."""
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


class Fitter:
    """Fits pipelines, whose cleaners are fitted, to rows of a table, until the time is up.

    On more than ``max_rows`` rows a linear and a kernel machine are compared by a subset of this
    size.  The kernel machine is chosen if its log loss is lower by the share ``margin`` at least.
    """

    def __init__(
        self, rows: Labelled, clock: Clock, step: Any, max_rows: int = 2500, margin: float = 0.03
    ) -> None:
        self.rows, self.clock, self.step = rows, clock, step
        self.max_rows, self.margin = max_rows, margin
        self.fitted: dict[str, tuple[Pipeline, float]] = {}  # to all rows, and their seconds
        self.useless: set[str] = set()  # kinds that predict no better than the class shares

    def fit(self, kind: str, model: Pipeline, some: Any = None) -> tuple[Pipeline, float]:
        """Fit the estimator of a pipeline to rows, by default all; the seconds it took."""
        if some is None and kind in self.fitted:
            return self.fitted[kind]
        rows = self.rows if some is None else self.rows.take(some)
        self.step(f"fitting {KINDS[kind]} to {len(rows.y)} rows")
        begin = time.monotonic()
        model[1].set_params(callbacks=[self.clock])
        self.useless.discard(kind)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model[1].fit(model[0].transform(rows.X), rows.y, **rows.options)
        for one in caught:
            if "no better than the shares of the classes" in str(one.message):
                self.useless.add(kind)  # told by `warn_useless` in the words of the command
            else:
                warnings.warn(one.message, one.category, stacklevel=2)
        model[1].set_params(callbacks=None)  # a file holds no code
        found = model, time.monotonic() - begin
        if some is None:
            self.fitted[kind] = found
        return found

    def choose(self, models: dict[str, Pipeline], console: Console) -> str:
        """``kernel`` if its leave-one-out log loss is clearly lower, else ``linear``.

        Both are compared on the same rows: all, or a random subset of ``max_rows`` of them.  The
        decision depends on the table and the seed alone, unless ``--time-limit`` ends a fit.
        """
        n, some, where = len(self.rows.y), None, "rows left out"
        if n > self.max_rows:
            some = np.sort(train_test_split(
                np.arange(n), train_size=self.max_rows, stratify=self.rows.y, random_state=0
            )[0])  # fmt: skip
            where = f"{some.size} of {n} rows, each left out,"
        losses = {kind: loss(self.fit(kind, model, some)[0]) for kind, model in models.items()}
        best, other, why = "linear", "kernel", ""
        if losses["kernel"] < (1.0 - self.margin) * losses["linear"]:
            best, other = other, best
        elif losses["kernel"] < losses["linear"]:
            why = f", which is less than {100 * self.margin:.0f} % better"
        console.print(
            f"The {best} machine is used: its log loss on {where} is {losses[best]:.3f}, against "
            f"{losses[other]:.3f} of the {other} machine{why} (lower is better)."
        )
        return best

    def warn_useless(self, kind: str, tried: tuple[str, ...], console: Console) -> None:
        """Say once that a model of a kind predicts no better than the shares of the classes."""
        if kind not in self.useless:
            return
        others = [name for name in ("linear", "kernel") if name not in (*tried, kind)]
        hint = f" Try --model {others[0]}." if others and len(tried) == 1 else ""
        who = "neither the linear nor the kernel machine predicts rows left out better"
        if len(self.useless) < 2:
            who = f"the {kind} machine predicts rows left out no better"
        console.print(
            f"Warning: {who} than the shares of the classes: the columns have little or no "
            "information about the labels. Check that labels belong to their rows and that "
            f"informative columns are included.{hint}"
        )


def loss(model: Pipeline) -> float:
    """Leave-one-out log loss of training rows; infinite if it is not known."""
    held = model[1].fit_.left_out
    if held is None or model[1].fit_.stopped:
        return np.inf
    return float(np.average(-np.log(np.maximum(held.proba, 1e-300)), weights=held.c))


def left_out(
    model: Pipeline, rows: Labelled, jobs: int, clock: Clock, seconds: float, n_folds: int = 5
) -> LeftOutPredictions | None:
    """Predictions of every row by fits to the other folds; fewer rows if the time is up.

    ``seconds`` is the duration of a fit to all rows: no fold is begun that would not end in time.
    """
    classes, codes = np.unique(rows.y, return_inverse=True)
    held = cross_validated(
        model, Rows(rows.X, codes, classes, rows.groups, rows.weights), False, n_folds, jobs,
        [clock], lambda: clock.left > seconds * (1.0 - 1.0 / n_folds),
    )  # fmt: skip
    if held is None:
        return None
    proba = {"model" if name == MODEL else name: P for name, P in held.proba.items()}
    return LeftOutPredictions(rows.rows[held.rows], held.codes, held.folds, held.weights, proba)
