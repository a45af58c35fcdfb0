"""Kernel width and rate of the prior by what is said of rows left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_expit

from ..calibration import fit_link
from ..types import Array
from . import laplace
from .newton import largest_rate, maximise

RATIO = 0.25  # of one rate of a path to the next
FINER = (2.0, 1.0, 0.5)  # rates around the best one, tried at the width chosen
MANY = 0.3  # vectors, as a share of the candidates, beyond which patience ends
PATIENCE = 2  # rates without a better score before a path ends
LENGTH = 9  # rates of a path
LOOSE = (1e-4, 2e-2)  # nats and slack: scores need no more


Held = tuple[Array, Array, Array, Array]  # labels, mean and variance of f, weights


class Fold(NamedTuple):
    """Signed columns of the rows fitted and of those held out."""

    A: Array
    y: Array
    c: Array
    B: Array  # rows held out
    out: Array  # their numbers
    weight: Array  # and how much of each is held out


class Trial(NamedTuple):
    """One machine at one width: scores along the path and the best rate's moments."""

    rates: Array
    scores: Array
    spread: float  # standard error of the best score
    rate: float
    score: float
    held: Held

    def joined(self, other: Trial) -> Trial:
        """The better of two, with the rates and scores of both."""
        best = self if self.score < other.score else other
        rates = np.concatenate([self.rates, other.rates])
        return best._replace(rates=rates, scores=np.concatenate([self.scores, other.scores]))


@dataclass(frozen=True)
class Candidates:
    """Kernel values of rows with candidates; candidate j is row ``of[j]``."""

    K: Array
    of: Array

    def signed(self, y: Array, rows: Any = slice(None), keep: Any = slice(None)) -> Array:
        """Columns times the label of their candidate, and the constant."""
        of = self.of[keep]
        A = self.K[rows][:, keep] * y[of]
        return np.column_stack([A, np.ones(A.shape[0])])

    def fold(self, y: Array, c: Array, H: Array) -> Fold:
        left = c - H
        rows, out = np.flatnonzero(left > 0), np.flatnonzero(H > 0)
        keep = np.flatnonzero(left[self.of] > 0)
        A, B = self.signed(y, rows, keep), self.signed(y, out, keep)
        return Fold(A, y[rows], left[rows], B, out, H[out])


def whole_path(top: float) -> list[float]:
    """Rates from the largest power of two that leaves a vector."""
    first = 2.0 ** np.floor(np.log2(top)) if top > 0 else 1.0
    return [float(first * RATIO**k) for k in range(LENGTH)]


def link_loss(y: Array, m: Array, v: Array, c: Array) -> Array:
    """Log loss of each row under the link fitted to all of them."""
    link = fit_link(y, m, v, c)
    out: Array = -c * log_expit(y * link.logit(m, v))
    return out


def trial(
    columns: Candidates,
    y: Array,
    c: Array,
    H: Array,
    ridge: float,
    rates: Sequence[float] | None,
    bar: float = np.inf,
) -> Trial:
    """Follow the path of rates in all folds at once, from strong to weak.

    A path ends early where it gets worse (at once, if vectors are many), and where gains as large
    as the last at every rate to come would not bring its score below ``bar``.
    """
    folds = [columns.fold(y, c, h) for h in H.T]
    labels = np.concatenate([y[f.out] for f in folds])
    weights = np.concatenate([f.weight for f in folds])
    number = np.repeat(np.arange(len(folds)), [f.out.size for f in folds])
    path = list(rates or whole_path(largest_rate(columns.signed(y), y, c)))
    xs = [np.zeros(f.A.shape[1]) for f in folds]
    scores: list[float] = []
    best, kept, spread, behind = np.inf, (path[0], xs), 0.0, 0
    for rate in path:
        xs = [
            maximise(f.A, f.y, f.c, laplace.penalty(x.size, rate, ridge), x, *LOOSE)[0]
            for f, x in zip(folds, xs, strict=True)
        ]
        m = np.concatenate([f.B @ x for f, x in zip(folds, xs, strict=True)])
        loss = link_loss(labels, m, np.zeros_like(m), weights)
        scores.append(float(loss.sum()))
        crowded = any((x > 0).mean() > MANY for x in xs)
        behind += 1
        if scores[-1] < best:
            best, kept, behind = scores[-1], (rate, xs), 0
            each = np.bincount(number, loss) / np.bincount(number, weights)
            spread = float(each.std(ddof=1) / np.sqrt(len(folds)) * weights.sum())
        hopeless = False
        if len(scores) > PATIENCE:
            gain = max(0.0, *(-np.diff(scores[-PATIENCE:])))
            hopeless = scores[-1] - gain * (len(path) - len(scores)) > bar
        if hopeless or behind >= (1 if crowded else PATIENCE):
            break
    rate, xs = kept
    moments = [_moments(f, x, rate, ridge) for f, x in zip(folds, xs, strict=True)]
    m, v = (np.concatenate(part) for part in zip(*moments, strict=True))
    done = np.array(path[: len(scores)])
    return Trial(done, np.array(scores), spread, rate, best, (labels, m, v, weights))


def _moments(f: Fold, x: Array, rate: float, ridge: float) -> tuple[Array, Array]:
    alpha = rate / x[:-1][x[:-1] > 0] + ridge * rate**2
    sparse = laplace.survivors(f.A, f.y, f.c, x, alpha, 0.0, [], 0)
    return sparse.moments(f.B[:, :-1])
