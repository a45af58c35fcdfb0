"""Sums and quadratic forms of sparse rows in compiled code: pairs of entries, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from .jit import compiled

Array = Any


@compiled()
def forms(ends: Array, columns: Array, values: Array, M: Array, out: Array) -> None:
    """Quadratic forms of a symmetric matrix at the rows."""
    for i in range(out.size):
        first, total = ends[i], 0.0
        for a in range(first, ends[i + 1]):
            j = np.uint32(columns[a])  # a sign would be looked at before every entry
            own = 0.5 * values[a] * M[j, j]
            for b in range(first, a):
                own += values[b] * M[j, np.uint32(columns[b])]
            total += values[a] * own
        out[i] = 2.0 * total


@compiled()
def gram(ends: Array, columns: Array, values: Array, w: Array, half: Array) -> None:
    """Add to ``half`` so that it and its transpose together are the sum over rows of w c c'."""
    for i in range(w.size):
        first = ends[i]
        for a in range(first, ends[i + 1]):
            j, u = np.uint32(columns[a]), w[i] * values[a]
            for b in range(first, a):
                half[j, np.uint32(columns[b])] += u * values[b]
            half[j, j] += 0.5 * u * values[a]
