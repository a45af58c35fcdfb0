r"""The columns that a factor model is of: all, or those most related to the labels.

A factor that explains *s* columns of *d* with loadings *a* has a signal of :math:`\lVert a
\rVert^2\psi`.  The leading factors of *n* rows contain it only where that is well above
:math:`\sqrt{d/n}` and above the signals of other factors (Baik, Ben Arous & Péché, 2005); the one
term of a row's label against *d* terms of its columns cannot change this.  A factor model of fewer
columns, those that differ most between the classes, has a lower threshold (supervised principal
components: Bair, Hastie, Paul & Tibshirani, 2006).  How many is decided by rows left out, columns
chosen anew without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

from ..core.arrays import one_against_rest
from ..core.types import Array
from ..factor_models.observed_data import Sheet
from ..inputs.labels import Training
from ..predictive.leave_one_out import LooMoments, effective
from ..predictive.links import CalibratedLink

SIZES = (10, 30, 100, 300, 1000)  # numbers of columns that are tried, beside all
FOLDS = 5
FEWEST = 10  # rows of each class: with fewer no number of columns can be chosen

Fitter = Callable[[Training, int | None], Callable[[Array], tuple[Array, Array]]]


def relation(sheet: Sheet, codes: Array, c: Array, classes: int) -> Array:
    """Share of each column's variance that is between the classes, ``(d,)``."""
    own = np.equal.outer(np.arange(classes), codes) * c
    level = (c @ sheet.X) ** 2 / c.sum()
    between = ((own @ sheet.X) ** 2 / own.sum(axis=1, keepdims=True)).sum(axis=0) - level
    return np.asarray(between / np.maximum(c @ sheet.X**2 - level, 1e-300))


def related(sheet: Sheet, codes: Array, c: Array, classes: int, m: int) -> Array:
    """Numbers of the m columns most related to the classes."""
    return np.sort(np.argsort(-relation(sheet, codes, c, classes), kind="stable")[:m])


class Choice(NamedTuple):
    """How many columns, or ``None`` for all; and how rows left out were predicted."""

    m: int | None
    losses: Mapping[int, float]  # mean log loss by number of columns; 0: the shares of the classes
    moments: LooMoments  # of f at rows left out, with the number chosen


def sizes_of(columns: Any, data: Training) -> tuple[int, ...]:
    """Numbers of columns to be tried; empty where all are taken without a trial."""
    d, fewest = data.X.shape[1], int(np.bincount(data.codes).min())
    if np.unique(data.rows).size < data.rows.size:  # soft labels: a row is not left out with its
        fewest = 0  # copies
    if isinstance(columns, str):
        wide = columns == "auto" and d > len(data.codes) and fewest >= FEWEST
        return (*(m for m in SIZES if m <= d // 2), d) if wide else ()
    return (int(columns),) if columns < d and fewest > 1 else ()


def choose(
    data: Training, sizes: tuple[int, ...], fitter: Fitter, stopped: Callable[[int, int], bool]
) -> Choice | None:
    """The number of columns by cross-validation; ``None`` if it was stopped.

    Fewer columns than all are taken where the log loss of rows left out is lower by more than a
    standard error of the difference.
    ``fitter(data, m)`` fits with the m columns most related to the labels of these rows, and gives
    a function from rows to moments of f; ``stopped(done, total)`` is called after each fit.
    """
    d, c = data.X.shape[1], data.c
    count = min(FOLDS, int(np.bincount(data.codes).min()))
    folds = list(StratifiedKFold(count, shuffle=True, random_state=0).split(data.X, data.codes))
    Y = np.stack(list(one_against_rest(data.codes, data.n_classes)), axis=1)
    found: dict[int, tuple[LooMoments, Array]] = {}
    total = len(sizes) * len(folds)
    for k, m in enumerate(sizes):
        parts = []
        for train, test in folds:
            parts.append(_left_out(data, train, test, fitter, m if m < d else None))
            if stopped(k * len(folds) + len(parts), total):
                return None
        moments = _joined(data, folds, parts)
        found[m] = moments, _losses(Y, moments)
    share = np.average(Y > 0, axis=0, weights=c)
    base = -float(np.sum(share * np.log(share) + (1.0 - share) * np.log1p(-share)))
    mean = {m: float(np.average(loss, weights=c)) for m, (_, loss) in found.items()}
    best = min(mean, key=mean.__getitem__)
    if d in mean:
        gap, gain = found[d][1] - found[best][1], mean[d] - mean[best]
        error = float(np.sqrt(np.average((gap - gain) ** 2, weights=c) / gap.size))
        best = best if gain > error else d
    return Choice(best if best < d else None, {0: base} | mean, found[best][0])


def _left_out(
    data: Training, train: Array, test: Array, fitter: Fitter, m: int | None
) -> tuple[Array, Array]:
    """Moments of f at the rows of a fold, by a fit to the others."""
    some = data.take(train)
    known = ~np.isnan(some.X).all(axis=0)  # columns that were seen in these rows
    return fitter(some._replace(X=some.X[:, known]), m)(data.X[test][:, known])


def _joined(data: Training, folds: Any, parts: list[tuple[Array, Array]]) -> LooMoments:
    """Moments of all rows in their order."""
    at = np.argsort(np.concatenate([test for _, test in folds]))
    mean, v = (np.concatenate(x)[at] for x in zip(*parts, strict=True))
    return LooMoments(data.codes, mean, v, effective(data.c, data.unit))


def _losses(Y: Array, moments: LooMoments) -> Array:
    """Log loss of each row, by links fitted to all of them, summed over the machines."""
    loss = np.zeros(len(Y))
    for y, m, v in zip(Y.T, moments.m.T, moments.v.T, strict=True):
        p = CalibratedLink.fit(y, m, v, moments.c).proba(m, v)
        loss -= np.log(np.maximum(np.where(y > 0, p, 1.0 - p), 1e-300))
    return loss
