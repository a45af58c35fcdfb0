r"""Prediction sets, and how unlike the training rows a row is, from training rows left out.

A row's *nonconformity* with a label orders labels by how surprising they would be: the probability
of the labels that are more probable, and for the most probable label itself minus its own,

.. math::

    s(x, k) = \sum_{j:\, p_j(x) > p_k(x)} p_j(x), \qquad s(x, k) = -p_k(x) \text{ if there is none.}

A set holds the labels whose nonconformity is no larger than that of a share ``coverage`` of the
training rows with their own label, each predicted without the row itself.  So sets grow where the
row is ambiguous (adaptive sets), have their most probable label first, and no number is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..core.types import Array
from .leave_one_out import Moments

MOST_ROWS = 10_000  # kept: the coverage that they give varies by a third of a point


def nonconformity(P: Array) -> Array:
    """Of each row with each label, from probabilities, ``(n, classes)``."""
    order = np.argsort(-P, axis=1, kind="stable")
    ranked = np.take_along_axis(P, order, axis=1)
    score = np.cumsum(ranked, axis=1) - ranked
    score[:, 0] = -ranked[:, 0]
    out = np.empty_like(score)
    np.put_along_axis(out, order, score, axis=1)
    return out


class LeftOut(NamedTuple):
    """What is kept of the training rows, each predicted without itself."""

    codes: Array  # (n,), classes of the rows
    score: Array  # nonconformity with their own class
    spread: Array  # variance of f, averaged over machines
    c: Array  # weight of the rows that each represents
    proba: Array = np.empty(0)  # probability of their own class

    @staticmethod
    def of(moments: Moments, proba: Callable[[Array, Array], Array]) -> LeftOut:
        """From moments of f and the link."""
        codes, m, v, c = moments.thinned(MOST_ROWS)
        P, own = proba(m, v), (np.arange(codes.size), codes)
        return LeftOut(codes, nonconformity(P)[own], v.mean(axis=1), c, P[own])

    def sets(self, P: Array, coverage: float, by_class: bool, allow_empty: bool) -> Array:
        """Which labels the sets of rows with such probabilities hold, ``(n, classes)``."""
        K = P.shape[1]
        if by_class:
            limit = np.array([self._limit(self.codes == k, coverage) for k in range(K)])
        else:
            limit = np.full(K, self._limit(np.ones(self.codes.size, dtype=bool), coverage))
        inside: Array = nonconformity(P) <= limit
        if not allow_empty:
            inside[np.arange(P.shape[0]), P.argmax(axis=1)] = True
        return inside

    def _limit(self, rows: Array, coverage: float) -> float:
        """The score that a share ``coverage`` of rows, a new one counted, does not exceed."""
        order = np.argsort(self.score[rows])
        score, mass = self.score[rows][order], np.cumsum(self.c[rows][order])
        total = mass[-1] if mass.size else 0.0
        at = int(np.searchsorted(mass, coverage * (total + 1.0) * (1.0 - 1e-12)))
        return float(score[at]) if at < score.size else np.inf

    def percentile(self, spread: Array) -> Array:
        """The share of training rows at which f varies less; rows that tie count half."""
        order = np.argsort(self.spread)
        known, mass = self.spread[order], np.append(0.0, np.cumsum(self.c[order]))
        low, high = (np.searchsorted(known, spread, side) for side in ("left", "right"))
        out: Array = (mass[low] + mass[high]) / (2.0 * mass[-1])
        return out
