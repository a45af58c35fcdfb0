"""Rows that occur more than once, merged into weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.types import Array

ROUNDS = 3  # in which points are told apart by those around them
TIED = 1e-9  # difference of two marks of spread one that may be rounding
FLAT = 1e-6  # spread of numbers, in units of the largest, below which they count as equal
ROUNDING = 1e-12  # of the largest value of a column: a narrower one counts as constant


class Distinct(NamedTuple):
    """Distinct points, and distinct pairs of point and class with their total weights."""

    X: Array  # (points, p)
    at: Array  # (rows,) point of each merged row
    codes: Array  # (rows,) its class
    c: Array  # (rows,) its weight
    back: Array  # (n,) merged row of each row given


def merge(X: Array, codes: Array, c: Array) -> Distinct:
    """Merge equal rows of equal class; the order depends on nothing but their values.

    A row of weight two and the row twice are the same data, and become the same arrays.  Other
    units, signs or another order of columns, other names of classes, or rounding in the last
    digits, leave the order as it is: what is drawn by the numbers of rows, as folds are, stays the
    same.  Only points that these could exchange with each other, as mirror images, keep the order
    in which they were given.
    """
    X = np.ascontiguousarray(X, dtype=float) + 0.0  # minus zero is zero
    order, first = _gathered(X)
    points, point = X[order[first]], np.empty(order.size, dtype=np.intp)
    point[order] = np.cumsum(first) - 1
    by_value = _ranked(points, point, codes, c, order[first])
    return _paired(points[by_value], _points(order, first, by_value), codes, c)


def merge_values(K: Array, codes: Array, c: Array) -> Distinct:
    """The same for rows known by their kernel values with each other, a symmetric matrix.

    Points are again kernel values, of the distinct rows with each other.
    """
    K = np.ascontiguousarray(K, dtype=float) + 0.0
    order, first = _gathered(K)
    one = order[first]  # a row for every point
    points = K[np.ix_(one, one)]
    by_value = np.argsort(points.sum(axis=1), kind="stable")
    points = points[np.ix_(by_value, by_value)]
    return _paired(points, _points(order, first, by_value), codes, c)


def _points(order: Array, first: Array, by_value: Array) -> Array:
    """The point of each row: equal ones are neighbours, and points have their own order."""
    place = np.empty_like(by_value)
    place[by_value] = np.arange(by_value.size)
    point = np.empty(order.size, dtype=np.intp)
    point[order] = place[np.cumsum(first) - 1]
    return point


def _paired(points: Array, point: Array, codes: Array, c: Array) -> Distinct:
    classes = int(codes.max()) + 1
    pairs, back = np.unique(point * classes + codes, return_inverse=True)
    weight = np.bincount(back, c, pairs.size)
    return Distinct(points, pairs // classes, pairs % classes, weight, back)


def _gathered(X: Array) -> tuple[Array, Array]:
    """An order in which equal rows are neighbours, and where each new row begins."""
    odd = np.random.default_rng(0).integers(2**63, size=X.shape[1], dtype=np.uint64) * 2 + 1
    mark = (X.view(np.uint64) * odd).sum(axis=1)  # a hash, by exact arithmetic modulo 2^64
    order = np.argsort(mark, kind="stable")
    step = mark[order[1:]] != mark[order[:-1]]
    same = np.flatnonzero(~step)
    if np.any(X[order[same]] != X[order[same + 1]]):  # unequal rows of equal hash
        order = np.lexsort(X.T)
        step = np.any(X[order[1:]] != X[order[:-1]], axis=1)
    return order, np.concatenate([[True], step])


def _ranked(points: Array, point: Array, codes: Array, c: Array, given: Array) -> Array:
    """An order of points that other signs, units or another order of columns do not change.

    By a number made of inner products of points, columns being measured from their mean in units of
    their spread, and of which points share a class; those that are equal in it by where they were
    given first.
    """
    k = int(codes.max()) + 1
    pairs, back = np.unique(point * k + codes, return_inverse=True)
    at, own = pairs // k, pairs % k  # a point with two classes is in two pairs
    share = np.bincount(back, c) / c.sum()
    w = np.bincount(at, share)
    Z = _standardised(points, w)
    mark = _unit(np.square(Z).sum(axis=1) + 0.3 * (np.abs(Z) ** 3).sum(axis=1), w)
    for _ in range(ROUNDS):
        weighted = Z[at] * (mark[at] * share)[:, None]
        ends = np.stack([weighted[own == j].sum(axis=0) for j in range(k)])
        same = np.einsum("ij,ij->i", Z[at], ends[own])
        within = np.bincount(at, share * same) / w
        mark = _unit(mark + 0.7 * (Z @ ends.sum(axis=0)) + 0.9 * within, w)
    order = np.argsort(mark, kind="stable")
    group = np.empty(len(Z), dtype=np.intp)
    group[order] = np.cumsum(np.diff(mark[order], prepend=-np.inf) > TIED)
    return np.lexsort((given, group))


def _standardised(points: Array, w: Array) -> Array:
    """Columns about their mean, in units of their spread; those that do not vary are zero."""
    low, high = points.min(axis=0), points.max(axis=0)
    width = high / 2.0 - low / 2.0  # halves, lest the range of huge values overflow
    varies = width > ROUNDING * np.maximum(np.abs(low), np.abs(high))
    place = np.zeros_like(points)
    np.divide(points / 2.0 - low / 2.0, width, out=place, where=varies)
    place -= w @ place
    return np.asarray(place / np.where(varies, np.sqrt(w @ np.square(place)), 1.0))


def _unit(x: Array, w: Array) -> Array:
    """Numbers of mean zero and spread one; zeros where they are equal but for rounding."""
    gap = x - w @ x
    spread = float(np.sqrt(w @ np.square(gap)))
    return gap / spread if spread > FLAT * float(np.abs(x).max(initial=0.0)) else 0.0 * gap
