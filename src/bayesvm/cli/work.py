"""The work of ``bayesvm fit``: a model, its check by folds, and how long they take."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, TextColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from ..cleaning.cleaner import TableCleaner
from ..core.types import Array
from ..files.record import LeftOutPredictions
from .labelled import Labelled

FOLDS = 5
SHARE = 1.0 - 1.0 / FOLDS  # rows of a fit to the other folds
PILOT = 8  # a first fit to a share of rows predicts how long the whole takes,
PILOT_ROWS = 1000  # of at least so many
SLOW = 2.0  # seconds from which on an estimate is given


class Clock:
    """How much of the time that may be taken is left; a callback of fits that ends them then."""

    def __init__(self, limit: float | None) -> None:
        self.end = np.inf if limit is None else time.monotonic() + limit

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def __call__(self, progress: Any) -> bool:
        return self.left <= 0


class Estimate(ProgressColumn):
    """A bar of the time gone by in the time that was estimated."""

    def render(self, task: Any) -> Any:
        gone, total = task.elapsed or 0.0, task.fields["seconds"]
        row = Table.grid(padding=(0, 1))
        if not total:
            row.add_row(ProgressBar(pulse=True, width=30), f"{gone:.0f} s")
        else:
            bar = ProgressBar(total=total, completed=min(gone, 0.99 * total), width=30)
            row.add_row(bar, f"about {rounded(max(total - gone, 1.0))} left")
        return row


def rounded(seconds: float) -> str:
    """A time in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Work:
    """Steps with a progress bar on a terminal, and one line of the estimate elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console, self.begin, self.told = console, time.monotonic(), False
        self.bar = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), Estimate(),
            console=console, transient=True, disable=not console.is_terminal, redirect_stdout=False,
        )  # fmt: skip

    @contextmanager
    def shown(self) -> Iterator[Work]:
        with self.bar:
            self.task = self.bar.add_task("reading the table", seconds=0.0, total=None)
            yield self

    def step(self, what: str, left: float | None = None) -> None:
        """A step begins; ``left`` are the seconds that this and all later steps take."""
        seconds: Any = {}
        if left is not None:
            seconds["seconds"] = time.monotonic() - self.begin + left
        self.bar.update(self.task, description=what, **seconds)
        if left is not None and left > SLOW and not self.told:
            self.told = True
            if not self.console.is_terminal:
                self.console.print(f"{what}: about {rounded(left)} in all", soft_wrap=True)


def fit_parameters(data: Labelled, rows: Any = slice(None)) -> dict[str, Any]:
    """Weights and groups of rows as a pipeline takes them."""
    out: dict[str, Any] = {}
    if data.weights is not None:
        out["model__sample_weight"] = data.weights[rows]
    if data.groups is not None:
        out["model__groups"] = data.groups.iloc[rows]
    return out


def pilot_seconds(model: Pipeline, data: Labelled, power: float) -> float | None:
    """Seconds that a fit will take, by one to a share of the rows; none where it is quick."""
    n = len(data.y)
    if n < PILOT_ROWS:
        return None
    some = np.sort(np.argsort(data.y, kind="stable")[::PILOT])
    begin = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clone(model).fit(data.X.iloc[some], data.y[some], **fit_parameters(data, some))
    except ValueError:  # so few rows may lack a class or a level
        return None
    return (time.monotonic() - begin) * PILOT**power


def folds_of(y: Array) -> StratifiedKFold:
    """Folds that have rows of every class."""
    least = int(np.unique(y, return_counts=True)[1].min())
    return StratifiedKFold(min(FOLDS, least), shuffle=True, random_state=0)


def left_out(
    model: Pipeline, data: Labelled, jobs: int, work: Work, clock: Clock, seconds: float
) -> LeftOutPredictions | None:
    """Predictions of every row by fits to the other folds; fewer rows if the time is up."""
    from joblib import Parallel, delayed

    folds = folds_of(data.y)
    pairs = list(folds.split(data.y, data.y))
    each = SHARE * seconds
    work.step(f"checking on rows left out, {len(pairs)} folds", each * len(pairs) / jobs)
    model = clone(model).set_params(model__callbacks=[clock])
    if jobs > 1:
        model.set_params(model__n_jobs=1)
    tasks = (
        delayed(_one_fold)(model, data, *pair)
        for pair in pairs
        if clock.left > each  # asked when the fold begins
    )
    done = list(Parallel(n_jobs=jobs, pre_dispatch=jobs)(tasks))
    if not done:
        return None
    order = np.argsort(np.concatenate([test for test, _ in done]), kind="stable")
    numbers = np.concatenate([np.full(test.size, k) for k, (test, _) in enumerate(done)])
    rows = np.concatenate([test for test, _ in done])[order]
    proba = {name: np.concatenate([found[name] for _, found in done])[order] for name in done[0][1]}
    codes = np.unique(data.y, return_inverse=True)[1][rows]
    weights = np.ones(rows.size) if data.weights is None else data.weights[rows]
    return LeftOutPredictions(data.rows[rows], codes, numbers[order], weights, proba)


def _one_fold(
    model: Pipeline, data: Labelled, train: Array, test: Array
) -> tuple[Array, dict[str, Array]]:
    """Rows left out, and their probabilities by the model and by simple ones."""
    X, y = data.X.iloc[train], data.y[train]
    rows = data.X.iloc[test]
    weights = np.ones(y.size) if data.weights is None else data.weights[train]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit to all rows has warned
        fitted = clone(model).fit(X, y, **fit_parameters(data, train))
        groups = {} if data.groups is None else {"groups": data.groups.iloc[test]}
        plain = logistic(model[0]).fit(X, y, model__sample_weight=weights)
        found = {
            "model": fitted.predict_proba(rows, **groups),
            "logistic regression": plain.predict_proba(rows),
        }
    shares = np.bincount(np.unique(y, return_inverse=True)[1], weights)
    found["base rate"] = np.tile(shares / shares.sum(), (test.size, 1))
    return test, found


def logistic(cleaner: TableCleaner) -> Pipeline:
    """Logistic regression with the same cleaning, as a measure."""
    steps = (
        ("clean", clone(cleaner).set_params(reference=True)),
        ("fill", SimpleImputer(add_indicator=True)),
        ("scale", StandardScaler()),
        ("model", LogisticRegression(max_iter=1000)),
    )
    return Pipeline(list(steps))
