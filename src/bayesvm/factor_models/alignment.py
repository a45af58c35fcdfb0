"""Factors of different draws in one order and with the same signs."""

from __future__ import annotations

import re

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..core.types import Array

Pair = tuple[Array, Array]


def aligned(loadings: list[Array]) -> list[Pair]:
    """Permutation and signs that bring each draw's factors closest to the average of all."""
    reference, last = loadings[-1], -np.inf
    while True:  # each pass adds to the sum of products with the average, as in k-means
        order = [match(A, reference) for A in loadings]
        reference = np.mean([A[:, at] * sign for A, (at, sign) in zip(loadings, order)], axis=0)
        size = float(np.square(reference).sum())
        if size <= last * (1.0 + 1e-12):
            return order
        last = size


def match(A: Array, reference: Array) -> Pair:
    """Which of A's factors stands where in the reference, and with which sign."""
    cross = reference.T @ A
    _, at = linear_sum_assignment(-np.abs(cross))
    return at, np.where(cross[np.arange(at.size), at] < 0, -1.0, 1.0)


def places(names: tuple[str, ...], at: Array) -> list[int]:
    """Parameters once factors have changed places: those named ``[k]`` go along."""
    where = {name: j for j, name in enumerate(names)}
    moved = [re.sub(r"\[(\d+)\]$", lambda k: f"[{at[int(k[1])]}]", name) for name in names]
    return [where[name] for name in moved]
