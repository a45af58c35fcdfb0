"""Losses of links, their gradients and Hessians, in compiled code.

Each loop is short and has few arrays, so that it becomes SIMD.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .jit import compiled
from .passes import LOG2_HIGH, LOG2_LOW, exponential, log_of_sum, mirrored

Array = Any
FAR = 350.0  # exponents beyond would overflow when they are squared
HUGE = 1e150  # and so would larger numbers
EXPONENT, FRACTION = 52, (1 << 52) - 1  # bits of a number
LOG2 = math.log(2.0)


@compiled(inline="always")
def logarithm(x: Any) -> Any:
    """log(x) for x of at least one.  Written so that it becomes SIMD."""
    bits = np.float64(x).view(np.int64)
    n = (bits >> EXPONENT) - 1023
    part = np.int64((bits & FRACTION) | (1023 << EXPONENT)).view(np.float64)
    return n * LOG2_HIGH + (log_of_sum(part - 1.0) + n * LOG2_LOW)


@compiled()
def bent(x: Array, m: Array, v: Array, r: Array, rise: Array, turn: Array) -> None:
    """Log odds without tails, and their derivatives in s and in the skewness."""
    a, b, even, odd = math.exp(x[0]), x[1], math.cosh(x[3]), math.sinh(x[3])
    kappa = math.exp(x[2]) * a * a
    for i in range(m.shape[0]):
        s, inverse = a * m[i] + b, 1.0 / math.sqrt(1.0 + kappa * v[i])
        size = abs(s)
        e = exponential(-size)
        curve = 2.0 * (0.5 * size + log_of_sum(e) - LOG2)  # 2 log cosh(s / 2)
        slope = (1.0 - e) / (1.0 + e) * odd
        r[i] = (s * even + curve * odd) * inverse
        rise[i] = ((slope if s > 0.0 else -slope) + even) * inverse
        turn[i] = (s * odd + curve * even) * inverse


@compiled()
def stretched(tail: float, r: Array, z: Array, steep: Array, last: Array) -> None:
    """Log odds with tails, and their derivatives in r and in the tail."""
    power = math.exp(tail)
    for i in range(r.shape[0]):
        size = abs(r[i])
        size = HUGE if size > HUGE else size  # what is no number stays so
        square = math.sqrt(1.0 + size * size)
        far = logarithm(size + square)
        down = exponential(-min(power * far, FAR))
        up = 1.0 / down
        height, most = 0.5 * (up - down), 0.5 * power * (up + down)
        z[i] = height if r[i] > 0.0 else -height
        steep[i] = most / square
        last[i] = most * (far if r[i] > 0.0 else -far)


@compiled()
def chained(
    x: Array, m: Array, v: Array, r: Array, steep: Array, rise: Array, turn: Array, first: Array
) -> None:
    """Derivatives of log odds in log a (``first``), b, log kappa and the skewness.

    The others are written over r, ``rise`` and ``turn``.
    """
    a = math.exp(x[0])
    kappa = math.exp(x[2]) * a * a
    for i in range(m.shape[0]):
        part = r[i] * (1.0 - 1.0 / (1.0 + kappa * v[i]))
        first[i] = steep[i] * (rise[i] * (a * m[i]) - part)
        r[i] = -0.5 * (steep[i] * part)
        rise[i] *= steep[i]
        turn[i] *= steep[i]


@compiled()
def scored(z: Array, t: Array, c: Array, e: Array, w: Array) -> None:
    """c (p - t) and c p (1 - p) from log odds z, which become log scores for targets t."""
    for i in range(z.shape[0]):
        small = exponential(-abs(z[i]))
        s = 1.0 / (1.0 + small)
        rest = small * s
        e[i] = c[i] * ((s if z[i] > 0.0 else rest) - t[i])
        w[i] = c[i] * (rest * s)
        z[i] = t[i] * z[i] - max(z[i], 0.0) - log_of_sum(small)


@compiled(fastmath={"contract", "reassoc", "nsz"})
def dot(a: Array, b: Array) -> float:
    """Sum of products."""
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i] * b[i]
    return s


@compiled(fastmath={"contract", "reassoc", "nsz"})
def weighted(w: Array, a: Array, b: Array) -> float:
    """Sum of products of three."""
    s = 0.0
    for i in range(a.shape[0]):
        s += w[i] * a[i] * b[i]
    return s


@compiled()
def averaged(
    x: Array, m: Array, v: Array, q: Array, z: Array, first: Array, second: Array, third: Array
) -> None:
    """Log odds without a curve, their derivatives in (log a, b, log kappa), q = 1 / (1 + cv)."""
    a, b = math.exp(x[0]), x[1]
    kappa = math.exp(x[2]) * a * a
    for i in range(m.shape[0]):
        q[i] = 1.0 / (1.0 + kappa * v[i])
        second[i] = math.sqrt(q[i])
        z[i] = (a * m[i] + b) * second[i]
        turn = z[i] * (1.0 - q[i])
        first[i] = a * m[i] * second[i] - turn
        third[i] = -0.5 * turn


@compiled()
def add_sums(
    room: Array, count: int, n: int, e: Array, w: Array, slope: Array, fisher: Array
) -> None:
    """Add gradient and expected Hessian, from ``count`` derivatives at n rows.

    Of the Hessian, which is left out if it has no entries, this is the lower triangle.
    """
    for k in range(count):
        slope[k] += dot(room[k][:n], e)
        for j in range(k + 1 if fisher.shape[0] else 0):
            fisher[k, j] += weighted(w, room[k][:n], room[j][:n])


@compiled()
def skewed_sums(
    x: Array, t: Array, m: Array, v: Array, c: Array, room: Array, slope: Array, fisher: Array
) -> float:
    """The loss of the skewed link; its gradient and expected Hessian are added.

    The parameters are (log a, b, log kappa, delta, tau), ``room`` is for nine numbers of some rows.
    """
    loss = 0.0
    for i in range(0, t.shape[0], room.shape[1]):
        to = min(i + room.shape[1], t.shape[0])
        n = to - i
        first, rise, r, turn, last = room[0][:n], room[1][:n], room[2][:n], room[3][:n], room[4][:n]
        z, steep, e, w = room[5][:n], room[6][:n], room[7][:n], room[8][:n]
        bent(x, m[i:to], v[i:to], r, rise, turn)
        stretched(x[4], r, z, steep, last)
        chained(x, m[i:to], v[i:to], r, steep, rise, turn, first)
        scored(z, t[i:to], c[i:to], e, w)
        loss -= dot(c[i:to], z)
        add_sums(room, 5, n, e, w, slope, fisher)
    mirrored(fisher)
    return loss


@compiled()
def plain_sums(
    x: Array, t: Array, m: Array, v: Array, c: Array, room: Array, slope: Array, fisher: Array,
    by: Array,
) -> float:  # fmt: skip
    """The loss of the link without a curve; its gradient and expected Hessian are added.

    Also added to ``by`` are sums of c (p - t) that its Hessian has more: times r and the
    derivatives in (log a, b, log kappa), times q r z, and times q a m over a root, r = 1 - q.
    """
    loss = 0.0
    for i in range(0, t.shape[0], room.shape[1]):
        to = min(i + room.shape[1], t.shape[0])
        n = to - i
        first, second, third = room[0][:n], room[1][:n], room[2][:n]
        z, q, e, w = room[3][:n], room[4][:n], room[5][:n], room[6][:n]
        averaged(x, m[i:to], v[i:to], q, z, first, second, third)
        scored(z, t[i:to], c[i:to], e, w)
        loss -= dot(c[i:to], z)
        add_sums(room, 3, n, e, w, slope, fisher)
        by[3] -= 2.0 * weighted(q, e, third)
        by[4] += weighted(q, e, first) - 2.0 * weighted(q, e, third)
        for k in range(3):
            by[k] += dot(room[k][:n], e) - weighted(q, e, room[k][:n])
    mirrored(fisher)
    return loss
