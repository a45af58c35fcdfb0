"""The fits of ``bayesvm fit``: the model that is named, or the better of two, and its check."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from ..core.types import Array
from ..data.cleaning import TableCleaner
from ..data.storage import LeftOutPredictions
from ..estimators.pipeline import Pipeline
from .labelled import Labelled

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


class Clock:
    """How much of the time that may be taken is left; a callback of fits that ends them then."""

    def __init__(self, limit: float | None) -> None:
        self.end = np.inf if limit is None else time.monotonic() + limit

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def __call__(self, progress: Any) -> bool:
        return self.left <= 0


class Work:
    """The step in progress, with a spinner on a terminal and nothing elsewhere."""

    def __init__(self, console: Console) -> None:
        self.begin = time.monotonic()
        self.bar = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(),
            console=console, transient=True, disable=not console.is_terminal, redirect_stdout=False,
        )  # fmt: skip

    @contextmanager
    def shown(self) -> Iterator[Work]:
        with self.bar:
            self.task = self.bar.add_task("reading the table", total=None)
            yield self

    def step(self, what: str) -> None:
        self.bar.update(self.task, description=what)


def in_words(seconds: float) -> str:
    """A time in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def build(kind: str, options: dict[str, Any], grouped: bool) -> Any:
    """The estimator, with options that it has."""
    import bayesvm

    from ..estimators.options import LIKELIHOODS, PRIORS, SCHEMES

    if kind not in KINDS:
        raise ValueError(f"--model {kind} is not known; choose one of auto, {', '.join(KINDS)}")
    if grouped != (kind == "mixed"):
        raise ValueError(
            "--model mixed needs --groups COLUMN"
            if kind == "mixed"
            else f"--groups is for --model mixed; it has no meaning for --model {kind}"
        )
    cls = getattr(bayesvm, KINDS[kind])
    known = cls().get_params()
    if idle := [f"--{name}" for name in options if name not in known]:
        raise ValueError(f"{', '.join(idle)} has no meaning for --model {kind}")
    for name, choices in (
        ("prior", PRIORS), ("likelihood", LIKELIHOODS), ("inference", SCHEMES)
    ):  # fmt: skip
        if (value := options.get(name)) is not None and value not in choices:
            raise ValueError(f"--{name} {value} is not known; choose one of {', '.join(choices)}")
    return cls(**options)


def prepared(
    kind: str,
    estimator: Any,
    data: Labelled,
    use: Sequence[str] | None,
    categorical: Sequence[str] | None,
) -> Pipeline:
    """Cleaner and estimator, the cleaner fitted."""
    if not data.X.shape[1]:
        raise ValueError("there are no columns besides the labels")
    cleaner = TableCleaner(categorical, use, reference=kind in WITH_COEFFICIENTS)
    return Pipeline([("clean", cleaner.fit(data.X, data.y)), ("model", estimator)])


def fit_parameters(data: Labelled, rows: Any) -> dict[str, Any]:
    """Weights and groups of rows."""
    out: dict[str, Any] = {}
    if data.weights is not None:
        out["sample_weight"] = data.weights[rows]
    if data.groups is not None:
        out["groups"] = data.groups.iloc[rows]
    return out


class Fitter:
    """Fits pipelines, whose cleaners are fitted, to rows of a table.

    Parameters
    ----------
    data : Labelled
        Training rows.
    work : Work
        Shows the progress.
    clock : Clock
        Ends fits when the time is up.
    max_rows : int, default=2500
        Size of the subset of rows by which a linear and a kernel machine are compared.
    margin : float, default=0.03
        Share of the log loss of the linear machine by which that of the kernel machine has to be
        lower.
    """

    def __init__(
        self, data: Labelled, work: Work, clock: Clock, max_rows: int = 2500, margin: float = 0.03
    ) -> None:
        self.data, self.work, self.clock = data, work, clock
        self.max_rows, self.margin = max_rows, margin
        self.seconds: dict[str, float] = {}  # of the last fit of each kind
        self.useless: set[str] = set()  # kinds that predict no better than the class shares

    def fit(self, kind: str, model: Pipeline, rows: Any = slice(None)) -> Pipeline:
        """Fit the estimator of a pipeline to rows, by default all."""
        X, y = self.data.X.iloc[rows], self.data.y[rows]
        self.work.step(f"fitting {KINDS[kind]} to {len(y)} rows")
        begin = time.monotonic()
        model[1].set_params(callbacks=[self.clock])
        self.useless.discard(kind)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model[1].fit(model[0].transform(X), y, **fit_parameters(self.data, rows))
        for one in caught:
            if "no better than the shares of the classes" in str(one.message):
                self.useless.add(kind)  # told by `warn_useless` in the words of the command
            else:
                warnings.warn(one.message, one.category, stacklevel=2)
        model[1].set_params(callbacks=None)  # a file holds no code
        self.seconds[kind] = time.monotonic() - begin
        return model

    def better(self, linear: Pipeline, kernel: Pipeline, console: Console) -> Pipeline:
        """The kernel machine if its leave-one-out log loss is clearly lower, else the linear one.

        Both are compared on the same rows: all, or a random subset of ``max_rows`` of them.  The
        decision depends on the table and the seed alone, unless ``--time-limit`` ends a fit.
        """
        n, rows = len(self.data.y), np.arange(len(self.data.y))
        if n > self.max_rows:
            rows, _ = train_test_split(
                rows, train_size=self.max_rows, stratify=self.data.y, random_state=0
            )
        losses = {
            kind: loss(self.fit(kind, model, np.sort(rows)))
            for kind, model in (("linear", linear), ("kernel", kernel))
        }
        best, other = "linear", "kernel"
        if losses["kernel"] < (1.0 - self.margin) * losses["linear"]:
            best, other = other, best
        why = ""
        if best == "linear" and losses["kernel"] < losses["linear"]:
            why = f", which is less than {100 * self.margin:.0f} % better"
        where = (
            "rows left out" if n <= self.max_rows else f"{rows.size} of {n} rows, each left out,"
        )
        console.print(
            f"The {best} machine is used: its log loss on {where} is {losses[best]:.3f}, against "
            f"{losses[other]:.3f} of the {other} machine{why} (lower is better).",
            soft_wrap=True,
        )
        model = kernel if best == "kernel" else linear
        return model if n <= self.max_rows else self.fit(best, model)

    def warn_useless(self, kind: str, tried: Sequence[str], console: Console) -> None:
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
            f"informative columns are included.{hint}",
            soft_wrap=True,
        )


def loss(model: Pipeline) -> float:
    """Leave-one-out log loss of training rows; infinite if it is not known."""
    held = model[1].fit_.left_out
    if held is None or model[1].fit_.stopped:
        return np.inf
    return float(np.average(-np.log(np.maximum(held.proba, 1e-300)), weights=held.c))


def left_out(
    model: Pipeline, data: Labelled, jobs: int, clock: Clock, seconds: float, n_folds: int = 5
) -> LeftOutPredictions | None:
    """Predictions of every row by fits to the other folds; fewer rows if the time is up.

    ``seconds`` is the duration of a fit to all rows: no fold is begun that would not end in time.
    """
    from joblib import Parallel, delayed

    smallest = int(np.unique(data.y, return_counts=True)[1].min())
    folds = StratifiedKFold(min(n_folds, smallest), shuffle=True, random_state=0)
    model = clone(model).set_params(model__callbacks=[clock])
    if jobs > 1:
        model.set_params(model__n_jobs=1)
    tasks = (
        delayed(_one_fold)(model, data, *pair)
        for pair in folds.split(data.y, data.y)
        if clock.left > seconds * (1.0 - 1.0 / n_folds)  # asked when the fold begins
    )
    done = list(Parallel(n_jobs=jobs, pre_dispatch=jobs)(tasks))
    if not done:
        return None
    rows = np.concatenate([test for test, _ in done])
    order = np.argsort(rows, kind="stable")
    numbers = np.repeat(np.arange(len(done)), [test.size for test, _ in done])[order]
    proba = {name: np.concatenate([found[name] for _, found in done])[order] for name in done[0][1]}
    rows = rows[order]
    codes = np.unique(data.y, return_inverse=True)[1][rows]
    weights = np.ones(rows.size) if data.weights is None else data.weights[rows]
    return LeftOutPredictions(data.rows[rows], codes, numbers, weights, proba)


def _one_fold(
    model: Pipeline, data: Labelled, train: Array, test: Array
) -> tuple[Array, dict[str, Array]]:
    """Rows left out, and their probabilities by the model and by simple ones."""
    X, y = data.X.iloc[train], data.y[train]
    rows = data.X.iloc[test]
    weights = np.ones(y.size) if data.weights is None else data.weights[train]
    plain = Pipeline([
        ("clean", clone(model[0]).set_params(reference=True)),
        ("fill", SimpleImputer(add_indicator=True)),
        ("scale", StandardScaler()),
        ("model", LogisticRegression(max_iter=1000)),
    ])  # fmt: skip
    told = {f"model__{name}": given for name, given in fit_parameters(data, train).items()}
    groups = {} if data.groups is None else {"groups": data.groups.iloc[test]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit to all rows has warned
        found = {
            "model": clone(model).fit(X, y, **told).predict_proba(rows, **groups),
            "logistic regression": plain.fit(
                X, y, model__sample_weight=weights
            ).predict_proba(rows),
        }  # fmt: skip
    shares = np.bincount(np.unique(y, return_inverse=True)[1], weights)
    found["base rate"] = np.tile(shares / shares.sum(), (test.size, 1))
    return test, found
