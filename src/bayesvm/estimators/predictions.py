"""Predictions of a fitted estimator at rows, with the groups of an estimator that has them.

Dask collections are predicted lazily, by the same functions on each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score

from ..core import arrays
from ..core.parameters import is_among
from ..core.random import stream
from ..core.types import Array
from ..data import Gpu, block_rows, cut
from ..data.labels import labels_of
from ..data.lazy import computed
from ..data.sources import is_dask
from ..data.tables import blank_rows, is_source, kind_of
from ..inspection.tables import tails
from ..predictive.decisions import Decision, check_share, read_prevalence, reweighted
from ..predictive.leave_one_out import LooPredictions
from .build import choose_engine

LINKED = 2**14  # rows at most that a thread predicts in one go: few enough to share between cores
PIECE = 1000  # rows at which f is drawn jointly, and held for all draws


Pair = tuple[Array, Array]


def in_blocks(model: Any, X: Any, visit: Callable[[Any], Pair], on_host: bool = False) -> Pair:
    """Two arrays with an entry for each row that was read, by a function of blocks of rows.

    ``on_host`` where the function is of NumPy arrays only.
    """
    how = model.engine
    if on_host or not model._on_device():  # draws and exact processes are evaluated on the host
        X = arrays.to_numpy(X)
        how = "auto" if is_among(how, ("gpu",)) or isinstance(how, Gpu) else how
    K = model.machines_[0].model.width
    engine = choose_engine(how, X, K, model.n_jobs)
    size = block_rows(K, 0, engine.block_bytes)
    blocks = cut(X, size if engine.on_device else min(size, LINKED))
    parts = list(engine.collect(lambda b: visit(b.X), blocks))
    return np.concatenate([a for a, _ in parts]), np.concatenate([b for _, b in parts])


def moments(model: Any, X: Any, groups: Any = None, reported: bool = False) -> Pair:
    """Mean and variance of each machine's f at new rows, ``(n, machines)``."""
    rows, fit = model._read_new(X, groups), model.fit_

    def visit(X: Any) -> Pair:
        pairs = fit.moments_at(X, reported)
        xp = arrays.of(pairs[0][0])
        return xp.stack([m for m, _ in pairs], axis=1), xp.stack([v for _, v in pairs], axis=1)

    found: Pair = model._in_blocks(rows, visit)
    return found


def pieces(X: Any, size: int) -> Iterator[Any]:
    """Rows on the host, ``size`` at a time."""
    if is_source(X):
        yield from (b.X for b in cut(X, size))
    else:
        X = arrays.to_numpy(X)
        yield from (X[i : i + size] for i in range(0, X.shape[0], size))


def decision(model: Any, X: Any, groups: Any = None, return_std: bool = False) -> Any:
    """Decision values, or mean and standard deviation of f."""
    if is_dask(X):
        if return_std:
            return _lazy_pair(model, decision, X, groups, return_std=True)
        return model._lazily(decision, X, groups)
    m, v = model._moments(X, groups, reported=return_std)
    if not return_std:
        return arrays.back(model.fit_.scores(m, v), X)
    model._need_spread()
    both = m + model.offset_, np.sqrt(v)
    mean, std = (part[:, 0] if model.fit_.is_binary else part for part in both)
    return arrays.back(mean, X), arrays.back(std, X)


def proba(model: Any, X: Any, groups: Any = None, prevalence: Any = None) -> Any:
    """Class probabilities."""
    if is_dask(X):
        return model._lazily(proba, X, groups, prevalence=prevalence)
    return arrays.back(_proba(model, X, groups, prevalence), X)


def _proba(model: Any, X: Any, groups: Any, prevalence: Any) -> Array:
    """Probabilities on the host."""
    fit = model._fitted()
    shares = None if prevalence is None else read_prevalence(prevalence, fit.classes)
    m, v = model._moments(X, groups)
    parts = model._reader.over(lambda at: fit.proba(m[at], v[at]), m.shape[0], LINKED)
    P: Array = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return P if shares is None else reweighted(P, shares, fit.masses)


def logs(P: Any) -> Any:
    """Natural logarithms of probabilities of any kind of array; those of zero stay finite."""
    if is_dask(P):
        return P.map_blocks(logs, dtype=float)
    xp = arrays.of(P)
    least = np.asarray(float(xp.finfo(P.dtype).smallest_normal))
    return xp.log(xp.maximum(P, arrays.like(least, P)))


def labels(
    model: Any,
    X: Any,
    groups: Any = None,
    costs: Any = None,
    abstain: Any = None,
    prevalence: Any = None,
) -> Any:
    """Labels of least expected cost, by default the most probable classes."""
    decision = Decision.read(costs, abstain, model._fitted().classes)
    if is_dask(X):
        how = {"costs": costs, "abstain": abstain, "prevalence": prevalence}
        return model._lazily(labels, X, groups, **how)
    found = decision.labels(_proba(model, X, groups, prevalence), model.classes_)
    return found if abstain is not None else arrays.back(found, X)


def prediction_set(
    model: Any,
    X: Any,
    groups: Any = None,
    coverage: float = 0.9,
    by_class: bool = False,
    allow_empty: bool = True,
) -> Any:
    """Labels that cannot be excluded, as truth values."""
    how: dict[str, Any] = {
        "coverage": check_share("coverage", coverage),
        "by_class": bool(by_class),
        "allow_empty": bool(allow_empty),
    }
    left_out = _left_out(model, "predict_set")
    if is_dask(X):
        return model._lazily(prediction_set, X, groups, **how)
    P = model.fit_.proba(*model._moments(X, groups))
    return arrays.back(left_out.sets(P, **how), X)


def novelty(model: Any, X: Any, groups: Any = None) -> Any:
    """Share of the training rows at which f is more certain, each left out."""
    model._fitted()
    if not model._knows_novelty:
        raise ValueError(
            f"{type(model).__name__} has no novelty: the variance of its f does not grow away from "
            "the training rows. BayesianSVC and BayesianLinearSVC have."
        )
    left_out = _left_out(model, "novelty")
    model._need_spread()
    if is_dask(X):
        return model._lazily(novelty, X, groups)
    share = left_out.percentile(model._moments(X, groups)[1].mean(axis=1))
    encoding = model.encoding_
    if encoding.fill is not None and not encoding.flagged and kind_of(X) == "memory":
        share[blank_rows(X)] = 1.0  # no training row lacks cells, and the mean row is not known
    return arrays.back(share, X)


def _left_out(model: Any, method: str) -> LooPredictions:
    """What the fit has kept of its training rows."""
    left_out: LooPredictions | None = model._fitted().left_out
    if left_out is None:
        raise ValueError(
            f"{method} needs leave-one-out predictions, which this fit of {type(model).__name__} "
            "does not store. BayesianLinearSVC, BayesianSVC, MixedSVC and AdditiveSVC store them."
        )
    return left_out


def interval(model: Any, X: Any, groups: Any = None, level: float = 0.9) -> tuple[Any, Any]:
    """Lower and upper class probabilities."""
    model._fitted()
    ends = tails(level)
    if is_dask(X):
        return _lazy_pair(model, interval, X, groups, level=level)
    model._need_spread()
    rows, fit = model._read_new(X, groups), model.fit_
    low, high = model._in_blocks(rows, lambda X: fit.interval_at(X, ends), on_host=True)
    return arrays.back(low, X), arrays.back(high, X)


def accuracy(model: Any, X: Any, y: Any, sample_weight: Any, groups: Any = None) -> float:
    """Share of rows predicted right."""
    model._fitted()
    y, found, c = computed(labels_of(X, y), labels(model, X, groups), sample_weight)
    return float(accuracy_score(y, found, sample_weight=c))


def _lazy_pair(
    model: Any, of: Callable[..., Any], X: Any, groups: Any, **options: Any
) -> tuple[Any, Any]:
    """Two lazy arrays: a function that returns a pair, on each partition."""
    both = model._lazily(_pair, X, groups, of=of, options=options)
    k = both.shape[1] // 2
    a, b = both[:, :k], both[:, k:]
    return (a, b) if of is interval or k > 1 else (a[:, 0], b[:, 0])


def _pair(
    model: Any, X: Any, of: Callable[..., Any], options: dict[str, Any], groups: Any = None
) -> Array:
    """Both arrays of a function side by side."""
    return np.column_stack(of(model, X, groups, **options))


# ---------------------------------------------------------------------------------------------
# Draws of f


def draw_f(model: Any, n: int, X: Any, random_state: Any, groups: Any = None) -> Any:
    """Draws of f at rows, ``(n, rows)`` or ``(n, classes, rows)``.

    Of a source or a Dask collection coefficients are drawn once, for all rows.  Variation outside
    of them is drawn jointly for neighbouring rows, with a generator for each thousand.
    """
    fit, rng = model._fitted(), model._generator(random_state, n)
    thetas = fit.thetas(n, rng)
    if is_source(X):
        how: dict[str, Any] = {"thetas": thetas, "seed": int(rng.integers(2**32))}
        if is_dask(X):
            f = model._lazily(_draws_of_rows, X, groups, numbered=True, **how)
        else:
            f = _draws_of_rows(model, X, groups=groups, **how)
        each = [f.T[j :: len(thetas)] for j in range(len(thetas))]
        return each[0] if len(thetas) == 1 else np.stack(each, axis=1)
    X = arrays.to_numpy(model._read_new(X, groups))
    f = np.stack(model._draws_at(X, thetas, rng), axis=1)
    return f[:, 0] if len(thetas) == 1 else f


def _draws_of_rows(
    model: Any, X: Any, thetas: list[Array], seed: int, number: int = 0, groups: Any = None
) -> Array:
    """Draws of f, a row for each row: ``(rows, draws * machines)``."""
    parts = []
    for k, rows in enumerate(pieces(model._read_new(X, groups), PIECE)):
        f = model._draws_at(rows, thetas, stream(seed, "rows of f", number, k))
        parts.append(np.stack(f, axis=1).reshape(-1, rows.shape[0]).T)
    return np.concatenate(parts)
