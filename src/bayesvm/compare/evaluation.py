"""Fits of several estimators to the same divisions of several data sets."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.metrics import check_scoring, log_loss
from sklearn.model_selection import RepeatedStratifiedKFold, check_cv
from sklearn.utils import Bunch

from ..experiments.runner import Task, complete, results

CLOCKS = ("fit_seconds", "score_seconds")


def _error(model: Any, X: Any, y: Any) -> float:
    return float(np.mean(model.predict(X) != y))


def _log_loss(model: Any, X: Any, y: Any) -> float:
    return float(log_loss(y, model.predict_proba(X), labels=model.classes_))


def _brier(model: Any, X: Any, y: Any) -> float:
    hit = np.asarray(y)[:, None] == model.classes_
    return float(np.mean(np.sum((model.predict_proba(X) - hit) ** 2, axis=1)) / 2)


# Names that scikit-learn has only with the sign turned, and sizes of sparse machines.
METRICS: dict[str, Callable[[Any, Any, Any], float]] = {
    "error": _error,
    "log_loss": _log_loss,
    "brier": _brier,
    "rmse": lambda model, X, y: _brier(model, X, y) ** 0.5,
    "n_vectors": lambda model, X, y: count_vectors(model),
}
LOWER_IS_BETTER = frozenset(METRICS) | frozenset(CLOCKS)


def count_vectors(model: Any) -> float:
    """Vectors that a kernel machine keeps; those of the machine inside a search or a pipeline."""
    model = getattr(model, "best_estimator_", model)
    model = model[-1] if hasattr(model, "steps") else model
    if hasattr(model, "n_vectors_"):
        return float(model.n_vectors_)
    return float(np.sum(model.n_support_)) if hasattr(model, "n_support_") else float("nan")


@dataclass(frozen=True)
class _Plan:
    """What the runner needs: the work of one task, and the names of what it measures."""

    solve: Callable[[Task], dict[str, float]]
    measured: tuple[str, ...]


def evaluate(
    estimators: Mapping[str, Any],
    datasets: Mapping[str, Any],
    splits: Any = None,
    metrics: str | Sequence[str] | Mapping[str, Callable[[Any, Any, Any], float]] = "error",
    *,
    path: str | Path | None = None,
    n_jobs: int | None = None,
    progress: bool | Callable[[int, int], Any] = False,
) -> Any:
    """Fit every estimator to every division of every data set, and score what was left out.

    Parameters
    ----------
    estimators : dict of name to estimator
        Cloned before each fit.
    datasets : dict of name to data
        ``(X, y)``, a Bunch with ``data`` and ``target``, or a function without arguments that gives
        either (called where needed, so that large data need not travel between processes).
    splits : cross-validation splitter, int, list of (train, test), or dict; default=None
        How to divide the rows: a splitter with a fixed ``random_state``, a number of folds, lists
        of row numbers, or one of these for each data set by name.  ``None`` takes ``splits`` of the
        Bunch (see :func:`~bayesvm.datasets.load_raetsch`).  All estimators meet the same divisions.
    metrics : str, list of str, or dict of name to function; default='error'
        'error', 'log_loss', 'brier', 'rmse' (lower is better; the root of brier), 'n_vectors', the
        name of any scorer of scikit-learn, or ``function(model, X, y)``.
    path : path-like, default=None
        A CSV file that every result is added to as soon as it is known.  A later call with the same
        file does only what is missing; a change of an estimator's parameters, of the data or of the
        divisions makes results missing.  Other metrics need another file.
    n_jobs : int, default=None
        Fits at a time, each on one core; ``None`` is one per core.
    progress : bool or function, default=False
        Show a bar on the terminal, or call ``function(done, total)`` after each fit.

    Returns
    -------
    frame : pandas.DataFrame
        Tidy: columns ``dataset``, ``split``, ``estimator``, ``metric``, ``value``, one row per
        number; seconds to fit and to score are metrics too.

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
    tumours     0.028  0.095
    """
    if not estimators or not datasets:
        raise ValueError("evaluate needs at least one estimator and one data set; got none.")
    scorers = _scorers(metrics)
    tasks: list[Task] = []
    divisions: dict[tuple[str, int], Any] = {}
    for dataset, source in datasets.items():
        X, y, own = _open(source)
        prints = {name: joblib.hash((repr(type(e)), _plain(e))) for name, e in estimators.items()}
        data_print = joblib.hash((X, np.asarray(y)))
        for number, pair in enumerate(_divide(splits, dataset, X, y, own)):
            divisions[dataset, number] = pair
            for name in estimators:
                key = joblib.hash((prints[name], data_print, pair, sorted(scorers)))
                tasks.append(
                    {"dataset": dataset, "split": number, "estimator": name, "key": key[:12]}
                )
    held = {name: s if callable(s) else _open(s)[:2] for name, s in datasets.items()}
    solve = partial(_solve, dict(estimators), held, divisions, scorers)
    plan = _Plan(solve, (*scorers, *CLOCKS))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.csv" if path is None else Path(path)
        _follow(complete(plan, tasks, file, n_jobs), len(tasks), progress)
        frame = results(tasks, file)
    order = {(t["dataset"], t["split"], t["estimator"]): i for i, t in enumerate(tasks)}
    keys = ["dataset", "split", "estimator"]
    frame = frame.iloc[np.argsort([order[k] for k in frame[keys].itertuples(index=False)])]
    long = frame.drop(columns="key").melt(keys, var_name="metric", value_name="value")
    return long.reset_index(drop=True)


def five_by_two(random_state: int = 0) -> RepeatedStratifiedKFold:
    """The divisions of the 5x2cv tests: five times into halves, the classes in proportion.

    Divisions 2i and 2i + 1 are the two halves of replication i, as
    :func:`~bayesvm.compare.f_test_5x2` wants them.
    """
    return RepeatedStratifiedKFold(n_splits=2, n_repeats=5, random_state=random_state)


def score_table(frame: Any, metric: str) -> Any:
    """Means over the divisions: a table of data sets by estimators, from :func:`evaluate`."""
    known = list(frame["metric"].unique())
    if metric not in known:
        raise ValueError(f"metric must be one of {', '.join(map(repr, known))}; got {metric!r}.")
    part = frame[frame["metric"] == metric]
    table = part.pivot_table(index="dataset", columns="estimator", values="value", sort=False)
    return table.loc[part["dataset"].unique(), list(part["estimator"].unique())]


def _solve(
    estimators: Mapping[str, Any],
    datasets: Mapping[str, Any],
    divisions: Mapping[tuple[str, int], Any],
    scorers: Mapping[str, Callable[..., float]],
    task: Task,
) -> dict[str, float]:
    """One fit, scored."""
    X, y, _ = _open(datasets[task["dataset"]])
    train, test = divisions[task["dataset"], task["split"]]
    model = clone(estimators[task["estimator"]])
    start = time.perf_counter()
    model.fit(_rows(X, train), np.asarray(y)[train])
    fitted = time.perf_counter()
    X_test, y_test = _rows(X, test), np.asarray(y)[test]
    found = {name: float(score(model, X_test, y_test)) for name, score in scorers.items()}
    return found | dict(zip(CLOCKS, (fitted - start, time.perf_counter() - fitted)))


def _open(source: Any) -> tuple[Any, Any, Any]:
    """X, y and the divisions that come with the data, if any."""
    source = source() if callable(source) else source
    if isinstance(source, Bunch):
        return source.data, source.target, source.get("splits")
    X, y = source
    return X, y, None


def _divide(splits: Any, dataset: str, X: Any, y: Any, own: Any) -> list[tuple[Any, Any]]:
    """Row numbers to learn from and to test on."""
    if isinstance(splits, Mapping):
        if dataset not in splits:
            raise ValueError(f"splits has nothing for the data set {dataset!r}.")
        splits = splits[dataset]
    splits = own if splits is None else splits
    if splits is None:
        raise ValueError(
            f"the data set {dataset!r} brings no divisions of its own: give splits, for instance "
            "splits=5 or splits=five_by_two()."
        )
    if isinstance(splits, Iterable) and not hasattr(splits, "split"):
        return [(np.asarray(train), np.asarray(test)) for train, test in splits]
    pairs = list(check_cv(splits, y, classifier=True).split(X, y))
    again = check_cv(splits, y, classifier=True).split(X, y)
    if any(not np.array_equal(a[1], b[1]) for a, b in zip(pairs, again)):
        raise ValueError("splits must divide alike every time: give it a random_state.")
    return pairs


def _scorers(metrics: Any) -> dict[str, Callable[..., float]]:
    if isinstance(metrics, Mapping):
        return dict(metrics)
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    if not names:
        raise ValueError("metrics must name at least one metric; got none.")
    return {name: METRICS.get(name) or _sklearn_scorer(name) for name in names}


def _sklearn_scorer(name: str) -> Any:
    try:
        return check_scoring(scoring=name)
    except ValueError as error:
        raise ValueError(
            f"metrics knows {', '.join(map(repr, METRICS))} and the scorers of scikit-learn; got "
            f"{name!r}."
        ) from error


def _plain(estimator: Any) -> dict[str, str]:
    """Parameters in words, those of parts included, for telling whether they have changed."""
    return {name: repr(value) for name, value in sorted(estimator.get_params().items())}


def _rows(X: Any, rows: Any) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _follow(counts: Iterable[int], total: int, progress: bool | Callable[[int, int], Any]) -> None:
    """Go through the counts, telling whoever wants to know."""
    if callable(progress):
        for count in counts:
            progress(count, total)
        return
    from ..progress import terminal_bar

    bar = terminal_bar() if progress else None
    if bar is None:
        for _ in counts:
            pass
        return
    with bar:
        job = bar.add_task("fits", total=total)
        for count in counts:
            bar.update(job, completed=count)
