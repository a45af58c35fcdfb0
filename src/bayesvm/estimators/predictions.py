"""Predictions of a fitted estimator at new rows, with groups if the estimator has them.

Each is a function of the estimator, rows in memory (or read in blocks) and groups.  :func:`at_rows`
calls it; for Dask collections lazily on each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score

from ..core import arrays
from ..core.arrays import computed, is_dask, kind_of
from ..core.parameters import is_among
from ..core.types import Array
from ..data import Gpu, block_rows, cut
from ..data.labels import labels_of
from ..data.sources import lazily
from ..data.tables import blank_rows
from ..inference.progress import stream
from ..inspection.tables import tails
from ..predictive.decisions import Decision, check_share, read_prevalence, reweighted
from ..predictive.fitted import BinaryModel
from ..predictive.leave_one_out import LooPredictions
from .fit import choose_engine

Work = Callable[..., Any]


def at_rows(
    model: Any,
    work: Work,
    X: Any,
    groups: Any = None,
    *,
    is_pair: bool = False,
    numbered: bool = False,
    **options: Any,
) -> Any:
    """The result of ``work(model, X, groups, **options)``, in the array library of X.

    Lazily for a Dask collection: ``work`` is called for each partition, with its ``number`` if
    ``numbered``.  It returns an array, or a pair of them if ``is_pair``.
    """
    model._fitted()
    if not is_dask(X):
        found = work(model, X, groups, **options)
        if is_pair:
            return tuple(arrays.back(part, X) for part in found)
        return found if isinstance(found, np.ma.MaskedArray) else arrays.back(found, X)
    if model._formula is not None:
        raise ValueError(
            "a model with a formula reads pandas frames; predict partition by partition, such "
            "as data.map_partitions(model.predict)."
        )

    def beside(X: Any, groups: Any = None, **options: Any) -> Any:
        found = work(model, X, groups, **options)
        return np.column_stack(found) if is_pair else found

    out = lazily(beside, X, groups, model.encoding_, numbered, **options)
    if not is_pair:
        return out
    k = out.shape[1] // 2
    low, high = out[:, :k], out[:, k:]
    return (low, high) if k > 1 else (low[:, 0], high[:, 0])


def by_blocks(
    model: Any, X: Any, visit: Callable[[Any], tuple[Array, ...]], on_host: bool = False
) -> list[Array]:
    """Arrays with one entry per row, computed by a function of blocks of rows.

    ``on_host`` for functions of NumPy arrays only.
    """
    first, how = model.machines_[0], model.engine
    if not isinstance(first, BinaryModel):  # rows of factor models are in memory
        return list(visit(X))
    if on_host or not model._on_device():  # draws and exact processes are evaluated on the host
        X = arrays.to_numpy(X)
        how = "auto" if is_among(how, ("gpu",)) or isinstance(how, Gpu) else how
    engine = choose_engine(how, X, first.model.width, model.n_jobs)
    size = block_rows(first.model.width, 0, engine.block_bytes)
    # blocks small enough that all cores share the rows
    blocks = cut(X, size if engine.on_device else min(size, 2**14))
    parts = engine.collect(lambda b: visit(b.X), blocks)
    return [np.concatenate(each) for each in zip(*parts, strict=True)]


def moments(model: Any, X: Any, groups: Any = None, reported: bool = False) -> list[Array]:
    """Mean and variance of each binary model's f at new rows, ``(n, machines)`` each."""

    def visit(X: Any) -> tuple[Array, ...]:
        return _moments_at(model.fit_, X, reported)

    return by_blocks(model, model._read_new(X, groups), visit)


def _moments_at(fit: Any, X: Any, reported: bool = False) -> tuple[Array, ...]:
    """Mean and variance of each binary model's f at a block of rows, on the host."""
    pairs = zip(*fit.moments_at(X, reported), strict=True)
    return tuple(np.stack([arrays.to_numpy(x) for x in part], axis=1) for part in pairs)


def pieces(X: Any, size: int) -> Iterator[Any]:
    """Rows on the host, ``size`` at a time."""
    return (arrays.to_numpy(b.X) for b in cut(X, size))


def decision(model: Any, X: Any, groups: Any = None) -> Array:
    """Decision values."""
    scores: Array = model.fit_.scores(*moments(model, X, groups))
    return scores


def moments_of_f(model: Any, X: Any, groups: Any = None) -> tuple[Array, Array]:
    """Mean (shifted by the offset of the link) and standard deviation of f."""
    m, v = moments(model, X, groups, reported=True)
    model._need_spread()
    mean, std = m + model.offset_, np.sqrt(v)
    return (mean[:, 0], std[:, 0]) if model.fit_.is_binary else (mean, std)


def proba(model: Any, X: Any, groups: Any = None, prevalence: Any = None) -> Array:
    """Class probabilities."""
    fit = model._fitted()
    shares = None if prevalence is None else read_prevalence(prevalence, fit.classes)

    def visit(X: Any) -> tuple[Array, ...]:
        return (fit.proba(*_moments_at(fit, X)),)

    P = by_blocks(model, model._read_new(X, groups), visit)[0]
    return P if shares is None else reweighted(P, shares, fit.masses)


def logs(P: Any) -> Any:
    """Natural logarithms of probabilities in any array type; the logarithm of 0 stays finite."""
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
) -> Array:
    """Labels with the lowest expected cost, by default the most probable classes."""
    decision = Decision.read(costs, abstain, model.classes_)
    found: Array = decision.labels(proba(model, X, groups, prevalence), model.classes_)
    return found


def prediction_set(
    model: Any,
    X: Any,
    groups: Any = None,
    coverage: float = 0.9,
    by_class: bool = False,
    allow_empty: bool = True,
) -> Array:
    """Membership of each label in the prediction sets, as booleans."""
    coverage = check_share("coverage", coverage)
    left_out = _left_out(model, "predict_set")
    return left_out.sets(proba(model, X, groups), coverage, bool(by_class), bool(allow_empty))


def novelty(model: Any, X: Any, groups: Any = None) -> Array:
    """Share of training rows with a smaller leave-one-out variance of f."""
    left_out = _left_out(model, "novelty")
    model._need_spread()
    share = left_out.percentile(moments(model, X, groups)[1].mean(axis=1))
    encoding = model.encoding_
    if encoding.fill is not None and not encoding.flagged and kind_of(X) == "memory":
        share[blank_rows(X)] = 1.0  # training rows have observed cells
    return share


def _left_out(model: Any, method: str) -> LooPredictions:
    """The stored leave-one-out predictions of the training rows."""
    left_out: LooPredictions | None = model._fitted().left_out
    if left_out is None:
        raise ValueError(
            f"{method} needs leave-one-out predictions, which this fit of {type(model).__name__} "
            "does not store. FactorSVC(classifier='linear') does; a fit by partial_fit does not."
        )
    return left_out


def interval(model: Any, X: Any, groups: Any = None, level: float = 0.9) -> list[Array]:
    """Lower and upper class probabilities."""
    ends, fit = tails(level), model.fit_
    model._need_spread()
    rows = model._read_new(X, groups)
    return by_blocks(model, rows, lambda X: fit.interval_at(X, ends), on_host=True)


def accuracy(model: Any, X: Any, y: Any, sample_weight: Any, groups: Any = None) -> float:
    """Share of correct predictions."""
    found = arrays.to_numpy(computed(at_rows(model, labels, X, groups)))
    return float(accuracy_score(labels_of(X, y), found, sample_weight=computed(sample_weight)))


# ---------------------------------------------------------------------------------------------
# Draws of f


def draw_f(model: Any, n: int, X: Any, random_state: Any, groups: Any = None) -> Any:
    """Draws of f at rows, ``(n, rows)`` or ``(n, classes, rows)``.

    For a source or a Dask collection, coefficients are drawn once for all rows.  Other variation
    is drawn jointly for neighbouring rows, with one generator per thousand rows.
    """
    fit, rng = model._fitted(), model._generator(random_state, n)
    thetas = fit.thetas(n, rng)
    if kind_of(X) == "source":
        seed = int(rng.integers(2**32))
        f = at_rows(model, _draws_of_rows, X, groups, numbered=True, thetas=thetas, seed=seed)
        each = [f.T[j :: len(thetas)] for j in range(len(thetas))]
        return each[0] if len(thetas) == 1 else np.stack(each, axis=1)
    X = arrays.to_numpy(model._read_new(X, groups))
    f = np.stack(model._draws_at(X, thetas, rng), axis=1)
    return f[:, 0] if len(thetas) == 1 else f


def _draws_of_rows(
    model: Any, X: Any, groups: Any, thetas: list[Array], seed: int, number: int = 0
) -> Array:
    """Draws of f with one line per row: ``(rows, draws * machines)``."""
    parts = []
    for k, rows in enumerate(pieces(model._read_new(X, groups), 1000)):
        f = model._draws_at(rows, thetas, stream(seed, "rows of f", number, k))
        parts.append(np.stack(f, axis=1).reshape(-1, rows.shape[0]).T)
    return np.concatenate(parts)
