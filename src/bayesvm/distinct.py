"""Rows that occur more than once, merged into weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .types import Array

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
    units of a column, or rounding in the last digits, leave the order as it is: what is drawn by
    the numbers of rows, as folds are, stays the same.
    """
    X = np.ascontiguousarray(X, dtype=float) + 0.0  # minus zero is zero
    order, first = _gathered(X)
    points = X[order[first]]
    by_value = np.argsort(_along(points), kind="stable")
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


def _along(points: Array) -> Array:
    """Where points lie along a fixed direction, columns measured in units of their range."""
    low, high = points.min(axis=0), points.max(axis=0)
    width = high / 2.0 - low / 2.0  # halves, lest the range of huge values overflow
    varies = width > ROUNDING * np.maximum(np.abs(low), np.abs(high))
    place = np.zeros_like(points)
    np.divide(points / 2.0 - low / 2.0, width, out=place, where=varies)
    direction = np.random.default_rng(1).uniform(1.0, 2.0, points.shape[1])
    out: Array = (place * direction).sum(axis=1)
    return out
