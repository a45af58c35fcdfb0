"""Evaluate several estimators on the same splits of several data sets."""

from __future__ import annotations

import csv
import io
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import numpy as np
from joblib import Parallel, cpu_count, delayed
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import check_scoring, log_loss
from sklearn.model_selection import RepeatedStratifiedKFold, check_cv
from sklearn.utils import _safe_indexing, indexable
from threadpoolctl import threadpool_limits

from ..data.checkpoint import fingerprint
from ..inspection.display import Inside
from ..inspection.tables import pandas_for

KEYS = ("dataset", "split", "estimator")
TASK = (*KEYS, "key")  # of a fit: the key is a digest of all inputs of its result
CLOCKS = ("fit_seconds", "score_seconds")
RESERVED = (*TASK, *CLOCKS, "metric", "value")
Row = dict[str, Any]  # a task and its scores


def brier(model: Any, X: Any, y: Any) -> float:
    """Mean squared distance between probabilities and outcomes, halved for two classes."""
    hit = np.asarray(y)[:, None] == np.asarray(model.classes_)
    total = float(np.mean(np.sum((model.predict_proba(X) - hit) ** 2, axis=1)))
    return total / 2 if len(model.classes_) == 2 else total


def count_vectors(model: Any, *_: Any) -> float:
    """Number of vectors of a kernel machine, also inside a search or a pipeline."""
    model = Inside.of(model).model
    if hasattr(model, "n_vectors_"):
        return float(model.n_vectors_)
    return float(np.sum(model.n_support_)) if hasattr(model, "n_support_") else float("nan")


# Scores that scikit-learn defines only with the opposite sign, and sizes of sparse machines.
METRICS: dict[str, Callable[[Any, Any, Any], float]] = {
    "error": lambda model, X, y: float(np.mean(model.predict(X) != y)),
    "log_loss": lambda model, X, y: log_loss(y, model.predict_proba(X), labels=model.classes_),
    "brier": brier,
    "rmse": lambda model, X, y: brier(model, X, y) ** 0.5,
    "n_vectors": count_vectors,
}
LOWER_IS_BETTER = frozenset(METRICS) | frozenset(CLOCKS)


def evaluate(
    estimators: Mapping[Any, Any],
    datasets: Mapping[Any, Any],
    splits: Any = None,
    metrics: str | Sequence[str] | Mapping[str, Callable[[Any, Any, Any], float]] = "error",
    *,
    path: str | Path | None = None,
    n_jobs: int | None = None,
    progress: bool | Callable[[int, int], Any] = False,
    error_score: float | Literal["raise"] = "raise",
) -> Any:
    """Fit every estimator to every split of every data set, and score it on the test rows.

    Parameters
    ----------
    estimators : dict of name to estimator
        Cloned before each fit.
    datasets : dict of name to data
        ``(X, y)``, a Bunch or dict with ``data`` and ``target``, or a function without arguments
        that returns either (called in the worker process, so that large data are not copied).  X is
        an array, a sparse matrix, a data frame or a list of rows.
    splits : cross-validation splitter, int, list of (train, test), or dict; default=None
        How to split the rows: a splitter with a fixed ``random_state``, a number of folds, lists of
        row indices, or a dict of these by data set.  ``None`` uses ``splits`` of the Bunch (see
        :func:`~bayesvm.datasets.load_raetsch`).  All estimators use the same splits.
    metrics : str, list of str, or dict of name to function; default='error'
        'error', 'log_loss', 'brier' (squared errors of probabilities, summed over the classes; for
        two classes, of one of them), 'rmse' (the root of brier), 'n_vectors', the name of any
        scorer of scikit-learn, or ``function(model, X, y)``.
    path : path-like, default=None
        A CSV file to which every result is added immediately.  A later call with the same file
        computes only missing results; a change of an estimator's parameters, the data, the splits
        or a metric's function makes results missing.  Metrics with other names need another file.
    n_jobs : int, default=None
        Number of parallel fits, each on one core; ``None`` is one per core.
    progress : bool or function, default=False
        Print the number of completed fits to standard error if it is a terminal, or call
        ``function(done, total)`` after each fit.
    error_score : 'raise' or float, default='raise'
        Score of a failed fit.  'raise' stops with an error that names the fit; earlier results are
        in the file of ``path``.  With a number such as ``np.nan`` the evaluation continues with
        that score, and a FitFailedWarning has the reasons; a later call with the same file tries
        these fits again.

    Returns
    -------
    frame : pandas.DataFrame
        Tidy: columns ``dataset``, ``split``, ``estimator``, ``metric``, ``value``, one row per
        score; the seconds to fit and to score are metrics too.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from bayesvm import BayesianLinearSVC
    >>> from bayesvm.compare import evaluate, score_table
    >>> models = {"linear": BayesianLinearSVC(), "1NN": KNeighborsClassifier(1)}
    >>> frame = evaluate(models, {"tumours": load_breast_cancer()}, splits=3, n_jobs=1)
    >>> frame.shape  # 2 models, 3 folds, 1 metric and 2 clocks
    (18, 5)
    >>> score_table(frame, "error").round(3)
    estimator  linear    1NN
    dataset
    tumours     0.023  0.095
    """
    pd = pandas_for("evaluate")
    _check(estimators, datasets, error_score)
    scorers = _scorers(metrics)
    prints = {name: fingerprint(estimator) for name, estimator in estimators.items()}
    splits = list(splits) if isinstance(splits, Iterator) else splits
    tasks: list[Row] = []
    divisions: dict[tuple[Any, int], Any] = {}
    sources = {}
    for dataset, source in datasets.items():
        X, y, own = _open(source, dataset)
        sources[dataset] = source if callable(source) else (X, y)
        known = fingerprint(X, y, metrics)
        for number, pair in enumerate(_divide(splits, dataset, X, y, own)):
            divisions[dataset, number] = pair
            for name in estimators:
                keys = (dataset, number, name, fingerprint(known, pair, prints[name]))
                tasks.append(dict(zip(TASK, keys, strict=True)))
    header = [*TASK, *scorers, *CLOCKS]
    results = {} if path is None else _stored(Path(path), header)
    todo = [task for task in tasks if _key(task) not in results]
    report = _print_count if progress is True else progress or (lambda done, total: None)
    report(len(tasks) - len(todo), len(tasks))
    workers = Parallel(
        n_jobs=min(n_jobs or cpu_count(), len(todo) or 1), return_as="generator_unordered"
    )
    solve = partial(_solve, dict(estimators), sources, divisions, scorers, error_score)
    solved, failed = workers(delayed(solve)(task) for task in todo), []
    for count, (row, failure) in enumerate(solved, start=len(tasks) - len(todo) + 1):
        results[_key(row)] = row
        if failure:
            failed.append(f"{_name(row)}: {failure}")
        elif path is not None:  # before it is counted: a run can be interrupted at any time
            _append(Path(path), header, row)
        report(count, len(tasks))
    if failed:
        text = f"{len(failed)} of {len(tasks)} fits failed; their scores are {error_score}:"
        text += "".join(f"\n  {line}" for line in failed[:5])
        text += f"\n  and {len(failed) - 5} more" if len(failed) > 5 else ""
        warnings.warn(text, FitFailedWarning, stacklevel=2)
    frame = pd.DataFrame([results[_key(task)] | task for task in tasks]).drop(columns="key")
    return frame.melt(list(KEYS), var_name="metric", value_name="value")


def _print_count(done: int, total: int) -> None:
    """Overwrite one line of a terminal; a file or a pipe gets no progress."""
    if sys.stderr.isatty():
        print(f"\r{done} of {total} fits", end="\n" * (done == total), file=sys.stderr, flush=True)


def _check(estimators: Any, datasets: Any, error_score: Any) -> None:
    """Refuse arguments other than estimators and data sets by name."""
    for what, given in (("estimators", estimators), ("datasets", datasets)):
        if not isinstance(given, Mapping):
            raise ValueError(
                f"{what} must be a dict by name, as in {what}={{'name': ...}}; got "
                f"{type(given).__name__}."
            )
        if not given:
            raise ValueError("evaluate needs at least one estimator and one data set; got none.")
        if broken := [name for name in given if set(str(name)) & set("\r\n")]:
            raise ValueError(f"names must be without line breaks; {what} has {broken[0]!r}.")
    for name, estimator in estimators.items():
        if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
            raise ValueError(
                f"estimators must be estimators of scikit-learn's kind; {name!r} is {estimator!r}."
            )
    if error_score != "raise" and not isinstance(error_score, Real):
        raise ValueError(f"error_score must be 'raise' or a number; got {error_score!r}.")


def five_by_two(random_state: int = 0) -> RepeatedStratifiedKFold:
    """The splits of the 5x2cv tests: five times into stratified halves.

    Divisions 2i and 2i + 1 are the two halves of replication i, as
    :func:`~bayesvm.compare.f_test_5x2` expects them.
    """
    return RepeatedStratifiedKFold(n_splits=2, n_repeats=5, random_state=random_state)


def score_table(frame: Any, metric: str) -> Any:
    """Means over the splits, data sets by estimators, from :func:`evaluate`; NaN if incomplete."""
    known = list(frame["metric"].unique())
    if metric not in known:
        raise ValueError(f"metric must be one of {', '.join(map(repr, known))}; got {metric!r}.")
    part = frame[frame["metric"] == metric]
    cells = part.groupby(["dataset", "estimator"], sort=False)["value"]
    # a mean over the available splits only would compare different splits
    table = cells.agg(lambda values: values.mean(skipna=False)).unstack(sort=False)
    return table.loc[part["dataset"].unique(), list(part["estimator"].unique())]


def _key(row: Row) -> tuple[str, ...]:
    """The task of a result, in the format of the file."""
    return tuple(str(row[name]) for name in TASK)


def _append(path: Path, header: Sequence[str], row: Row) -> None:
    """Add a result to a file."""
    with path.open("a", newline="") as handle:
        writer = csv.DictWriter(handle, header)
        if handle.tell() == 0:
            writer.writeheader()
        writer.writerow(row)


def _stored(path: Path, header: list[str]) -> dict[tuple[str, ...], Row]:
    """Results in a file by task; an incomplete last line is removed."""
    text = path.read_bytes() if path.exists() else b""
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        os.truncate(path, len(whole))
    lines = csv.DictReader(io.StringIO(whole.decode(), newline=""))
    if whole and lines.fieldnames != header:
        raise ValueError(
            f"{path} holds results of another kind: it has the columns "
            f"{', '.join(lines.fieldnames or ())}, and {', '.join(header)} were expected. Move it "
            "away, or give another path."
        )
    names = header[len(TASK) :]
    return {_key(line): {name: float(line[name]) for name in names} for line in lines}


def _solve(
    estimators: Mapping[Any, Any],
    datasets: Mapping[Any, Any],
    divisions: Mapping[tuple[Any, int], Any],
    scorers: Mapping[str, Callable[..., float]],
    error_score: float | Literal["raise"],
    task: Row,
) -> tuple[Row, str]:
    """A task with its scores, and what failed.

    On one core: parallelism is over fits, not matrix products.
    """
    X, y, _ = _open(datasets[task["dataset"]], task["dataset"])
    train, test = divisions[task["dataset"], task["split"]]
    model = clone(estimators[task["estimator"]])
    learn, judge = ((_safe_indexing(X, rows), y[rows]) for rows in (train, test))
    found, reasons = dict.fromkeys((*scorers, *CLOCKS), error_score), []
    start = time.perf_counter()
    for name in ("fit", *scorers):
        try:
            with threadpool_limits(1):
                if name == "fit":
                    model.fit(*learn)
                    found["fit_seconds"] = time.perf_counter() - start
                    start = time.perf_counter()
                else:
                    found[name] = float(scorers[name](model, *judge))
        except Exception as error:  # any error of a third-party estimator or scorer
            reasons.append(" ".join(f"{name}: {type(error).__name__}: {error}".split()))
            if error_score == "raise":
                raise RuntimeError(
                    f"{_name(task)}: {reasons[-1]} (error_score=np.nan continues without it, "
                    "and path= keeps what is done.)"
                ) from error
            if name == "fit":
                break
    else:
        found["score_seconds"] = time.perf_counter() - start
    return task | found, "; ".join(reasons)


def _name(task: Any) -> str:
    return f"estimator {task['estimator']!r}, data set {task['dataset']!r}, split {task['split']}"


def _open(source: Any, name: Any) -> tuple[Any, Any, Any]:
    """X, y and the splits of the data, if any."""
    source = source() if callable(source) else source
    own = None
    if isinstance(source, Mapping) and {"data", "target"} <= set(source):
        X, y, own = source["data"], source["target"], source.get("splits")
    elif isinstance(source, tuple | list) and len(source) == 2:
        X, y = source
    else:
        raise ValueError(
            f"the data set {name!r} must be (X, y), a Bunch or dict with data and target, or a "
            f"function that gives one of these; got {type(source).__name__}."
        )
    try:
        X, y = indexable(np.asarray(X) if isinstance(X, list | tuple) else X, np.asarray(y))
    except ValueError as error:
        raise ValueError(f"the data set {name!r}: {error}") from error
    return X, y, own


def _divide(splits: Any, dataset: Any, X: Any, y: Any, own: Any) -> list[tuple[Any, Any]]:
    """Indices of training and test rows."""
    if isinstance(splits, Mapping):
        if dataset not in splits:
            raise ValueError(f"splits has nothing for the data set {dataset!r}.")
        splits = splits[dataset]
    splits = own if splits is None else splits
    if splits is None:
        raise ValueError(
            f"the data set {dataset!r} has no divisions: give splits, for instance "
            "splits=5 or splits=five_by_two()."
        )
    splitter = check_cv(splits, y, classifier=True)
    pairs = [(np.asarray(train), np.asarray(test)) for train, test in splitter.split(X, y)]
    last = max((int(rows.max()) for pair in pairs for rows in pair if rows.size), default=-1)
    if not 0 <= last < len(y):
        raise ValueError(
            f"splits must name rows of the data set {dataset!r}, which has {len(y)}; got "
            + (f"row {last}." if pairs else "none.")
        )
    return pairs


def _scorers(metrics: Any) -> dict[str, Callable[..., float]]:
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    if not names:
        raise ValueError("metrics must name at least one metric; got none.")
    for name in names:
        if name in RESERVED or not isinstance(name, str):
            raise ValueError(
                f"metrics must have names, and others than {', '.join(RESERVED)}, which the table "
                f"needs itself; got {name!r}."
            )
    if isinstance(metrics, Mapping):
        return dict(metrics)
    try:
        return {name: METRICS.get(name) or check_scoring(scoring=name) for name in names}
    except ValueError as error:
        raise ValueError(
            f"metrics are {', '.join(map(repr, METRICS))} and the scorers of scikit-learn; got "
            f"{', '.join(map(repr, names))}."
        ) from error
