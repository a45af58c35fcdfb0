"""Rows that occur more than once, merged into weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .types import Array


class Distinct(NamedTuple):
    """Distinct points, and distinct pairs of point and class with their total weights."""

    X: Array  # (points, p)
    at: Array  # (rows,) point of each merged row
    codes: Array  # (rows,) its class
    c: Array  # (rows,) its weight
    back: Array  # (n,) merged row of each row given


def merge(X: Array, codes: Array, c: Array) -> Distinct:
    """Merge equal rows of equal class; the order depends on nothing but their values.

    A row of weight two and the row twice are the same data, and become the same arrays.
    """
    X = np.ascontiguousarray(X, dtype=float) + 0.0  # minus zero is zero
    order, first = _sorted(X)
    point = np.empty(X.shape[0], dtype=np.intp)
    point[order] = np.cumsum(first) - 1
    classes = int(codes.max()) + 1
    pairs, back = np.unique(point * classes + codes, return_inverse=True)
    weight = np.bincount(back, c, pairs.size)
    return Distinct(X[order[first]], pairs // classes, pairs % classes, weight, back)


def _sorted(X: Array) -> tuple[Array, Array]:
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
