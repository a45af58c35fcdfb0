"""From rows to columns in compiled code: moments of columns, whitened values of an RBF kernel."""

from __future__ import annotations

from typing import Any

from .jit import compiled
from .passes import SMALL, exponential, multiplied

Array = Any
READ = 2**16  # entries that are read again from cache
__all__ = ["READ", "SMALL", "column_sums", "column_totals", "whitened"]


@compiled()
def column_totals(X: Array, step: int, total: Array, own: Array) -> None:
    """Add the sums of columns to ``total``, of ``step`` rows at a time by way of ``own``."""
    for first in range(0, X.shape[0], step):
        own[:] = 0.0
        for i in range(first, min(first + step, X.shape[0])):
            for j in range(X.shape[1]):
                own[j] += X[i, j]
        for j in range(X.shape[1]):
            total[j] += own[j]


@compiled()
def column_sums(
    X: Array, c: Array, step: int, most: Array, mean: Array, square: Array, own: Array
) -> float:
    """Largest size of the entries of each column, its mean and sum of squared deviations.

    Rows have weights ``c``, whose sum is returned.  They are read ``step`` at a time, so that those
    which are read again are in cache; ``own`` is room for two numbers a column.
    """
    n = 0.0
    for first in range(0, X.shape[0], step):
        last = min(first + step, X.shape[0])
        part = 0.0
        for i in range(first, last):
            part += c[i]
        own[:] = 0.0
        center, shift = own[0], own[1]
        for i in range(first, last):
            for j in range(X.shape[1]):
                x = abs(X[i, j])
                most[j] = x if x > most[j] else most[j]
                center[j] += c[i] * X[i, j]
        if part == 0.0:
            continue
        center /= part
        for i in range(first, last):
            for j in range(X.shape[1]):
                shift[j] += c[i] * (X[i, j] - center[j])
        shift /= part  # rounding error of the centre
        for i in range(first, last):
            for j in range(X.shape[1]):
                gap = (X[i, j] - center[j]) - shift[j]
                square[j] += c[i] * (gap * gap)
        n += part
        for j in range(X.shape[1]):
            gap = (center[j] + shift[j]) - mean[j]
            mean[j] += gap * (part / n)
            square[j] += gap * gap * (part * (1.0 - part / n))
    return n


@compiled(fastmath={"contract", "reassoc", "nsz"})
def halved_squares(A: Array, half: Array) -> None:
    """Half the sum of the squares of each row."""
    for i in range(A.shape[0]):
        s = 0.0
        for j in range(A.shape[1]):
            s += A[i, j] * A[i, j]
        half[i] = 0.5 * s


@compiled()
def kernel_values(half: Array, own: Array, weight: float, values: Array) -> None:
    """From products of rows and points to values of the kernel, in place."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            values[i, j] = weight * exponential(min(values[i, j] - half[i] - own[j], 0.0))


@compiled(fastmath={"contract", "reassoc", "nsz"})
def written(C: Array, weight: float, out: Array, left: Array) -> None:
    """Write columns to ``out``, and the variance that they leave there."""
    for i in range(C.shape[0]):
        s = 0.0
        for j in range(C.shape[1]):
            out[i, j] = C[i, j]
            s += out[i, j] * out[i, j]
        left[i] = max(weight - s, 0.0)


@compiled()
def whitened(
    X: Array, center: Array, factor: Array, scale: Array, shift: Array, points: Array, own: Array,
    weight: float, F: Array, triangular: bool, out: Array, left: Array, step: int, A: Array,
    values: Array, C: Array, half: Array, sizes: Array, more: Array, units: Array,
) -> float:  # fmt: skip
    """Columns at rows, and the variance they leave; the sum of squares of the scaled rows.

    ``points``, one to a column, are over their length ``scale`` and less ``shift``; ``own`` are
    half their squares.  F is the inverse of the factor of their kernel matrix, transposed.
    """
    size = 0.0
    for first in range(0, X.shape[0], step):
        to = min(first + step, X.shape[0])
        n = to - first
        for i in range(n):
            for j in range(X.shape[1]):
                x = (X[first + i, j] - center[j]) * factor[j]
                size += x * x
                A[i, j] = x / scale[j] - shift[j]
        halved_squares(A[:n], half[:n])
        multiplied(A[:n], points, False, values[:n], sizes, units)
        kernel_values(half[:n], own, weight, values[:n])
        multiplied(values[:n], F, triangular, C[:n], more, units)
        written(C[:n], weight, out[first:to], left[first:to])
    return size
