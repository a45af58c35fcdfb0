"""The pass over a block of rows in compiled code: products by BLAS, all else in one loop.

Rows are visited in pieces that stay in cache.  For a likelihood whose log is an average of hinges,
:math:`-\\sum_j k_j E(t + s_j\\epsilon)^+` with :math:`t = o - yf`
(:meth:`bayesvm.likelihoods.Likelihood.hinge_average`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .jit import blas, compiled

Array = Any
PIECE_BYTES = 2**19  # of the columns of a piece,
FEWEST, MOST = 1024, 4096  # and its rows
FEW = 16  # columns of the root of a covariance up to which products are dot products
SMALL = 48  # columns up to which the full product is quicker than the triangular one

strmm, dtrmm = blas("strmm", 11), blas("dtrmm", 11)
sgemm, dgemm = blas("sgemm", 13), blas("dgemm", 13)
ssyrk, dsyrk = blas("ssyrk", 10), blas("dsyrk", 10)
CHARS = np.frombuffer(b"LNU", np.uint8)

HALF_ROOT, BELL = math.sqrt(0.5), 1.0 / math.sqrt(2.0 * math.pi)
# exp(x) = 2^n e^r: ln 2 in two parts, and the series of e^r for |r| < ln(2) / 2
PER_LOG2, LOG2_HIGH, LOG2_LOW = (
    1.0 / math.log(2.0),
    6.93147180369123816490e-01,
    1.908214929270587e-10,
)
E0, E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11, E12, E13 = (
    1.0 / math.factorial(k) for k in range(14)
)
# artanh(t) / t in powers of t^2, to 1e-17 for t up to a third
L1, L2, L3, L4, L5, L6, L7, L8, L9, L10, L11, L12, L13, L14, L15, L16 = (
    1.0 / (2 * k + 1) for k in range(1, 17)
)
# (1 + 2x) exp(x^2) erfc(x) in powers of (x - 3.75) / (x + 3.75), to 4e-15 for all x >= 0: the
# interpolation at Chebyshev's points (the variable is that of Shepherd & Laframboise 1981)
TAIL = (
    1.2375126308378264, -0.1402405985855061, 0.0035854154857817198, 0.08227673848712364,
    -0.10880393015455236, 0.09230432122630416, -0.05869339838776852, 0.028362276757789115,
    -0.009746581194310818, 0.0017556295098382245, 0.0002937214295864876, -0.0002901662985563378,
    5.1626016178286965e-05, 2.2410019239411033e-05, -1.1399726012050023e-05,
    -1.0083452258566993e-06, 1.6959957552839167e-06,
    -2.7749607345659403e-08, -2.1430689835617538e-07, 8.526359172761593e-09, 1.7552171541106265e-08,
)  # fmt: skip


@compiled(inline="always")
def power_of_two(n: Any) -> Any:
    """2^n by the bits of a number, for whole n above -1023."""
    return np.int64((np.int64(n) + 1023) << 52).view(np.float64)


@compiled(inline="always")
def exponential(x: Any) -> Any:
    """e^x for x of at most zero; what is below 1e-307 is that.  Written so that it becomes SIMD."""
    x = max(x, -708.0)
    n = math.floor(x * PER_LOG2 + 0.5)
    r = (x - n * LOG2_HIGH) - n * LOG2_LOW
    p = (((((E13 * r + E12) * r + E11) * r + E10) * r + E9) * r + E8) * r + E7
    p = ((((((p * r + E6) * r + E5) * r + E4) * r + E3) * r + E2) * r + E1) * r + E0
    return p * power_of_two(n)


@compiled(inline="always")
def log_of_sum(e: Any) -> Any:
    """log(1 + e) for e from zero to one: the series of 2 artanh(t), t = e / (2 + e)."""
    t = e / (2.0 + e)
    r = t * t  # at most 1 / 9
    p = ((((L16 * r + L15) * r + L14) * r + L13) * r + L12) * r + L11
    p = (((((p * r + L10) * r + L9) * r + L8) * r + L7) * r + L6) * r + L5
    p = (((((p * r + L4) * r + L3) * r + L2) * r + L1) * r) + 1.0
    return 2.0 * t * p


@compiled(inline="always")
def scaled_tail(x: Any) -> Any:
    """exp(x^2) erfc(x) for x of at least zero."""
    t = (x - 3.75) / (x + 3.75)
    p = ((((TAIL[20] * t + TAIL[19]) * t + TAIL[18]) * t + TAIL[17]) * t + TAIL[16]) * t + TAIL[15]
    p = ((((p * t + TAIL[14]) * t + TAIL[13]) * t + TAIL[12]) * t + TAIL[11]) * t + TAIL[10]
    p = ((((p * t + TAIL[9]) * t + TAIL[8]) * t + TAIL[7]) * t + TAIL[6]) * t + TAIL[5]
    p = ((((p * t + TAIL[4]) * t + TAIL[3]) * t + TAIL[2]) * t + TAIL[1]) * t + TAIL[0]
    return p / (1.0 + 2.0 * x)


@compiled()
def hinge_average(
    offset: float, k: Array, q: Array, y: Array, m: Array, v: Array, w: Array, g: Array, b: Array
) -> None:
    """Precision, gradient and bound of rows, for one copy of each; ``k``, ``q`` of the hinges."""
    for i in range(y.shape[0]):
        w[i] = g[i] = b[i] = 0.0
    for j in range(k.shape[0]):
        share, square = k[j], q[j]
        for i in range(y.shape[0]):
            sd = math.sqrt(v[i] + square)
            z = (offset - y[i] * m[i]) / sd
            e = exponential(-0.5 * z * z)
            beyond = 0.5 * e * scaled_tail(HALF_ROOT * abs(z))
            bell = share * BELL * e
            w[i] += bell / sd
            g[i] += share * (1.0 - beyond if z > 0.0 else beyond)
            b[i] -= sd * bell
    for i in range(y.shape[0]):
        b[i] -= (offset - y[i] * m[i]) * g[i]
        g[i] *= y[i]


@compiled()
def logistic_average(y: Array, m: Array, v: Array, w: Array, g: Array, b: Array) -> None:
    """The same for the logistic likelihood by a series, right for small variances of f.

    It is that of :mod:`bayesvm.likelihoods.logistic`.
    """
    for i in range(y.shape[0]):
        z = y[i] * m[i]
        e = exponential(-abs(z))
        s = 1.0 / (1.0 + e)
        wrong = e * s if z > 0.0 else s
        q, p = e * s * s, 0.5 * v[i]
        b2, b3 = 0.5 * p * p, p * p * p / 6.0
        third, fifth = 1.0 - 6.0 * q, 1.0 + q * (120.0 * q - 30.0)
        w[i] = q * (
            1.0 + p * third + b2 * fifth + b3 * (1.0 + q * (q * (1680.0 - 5040.0 * q) - 126.0))
        )
        slope = p + b2 * (1.0 - 12.0 * q) + b3 * (1.0 + q * (360.0 * q - 60.0))
        g[i] = y[i] * (wrong - q * (2.0 * wrong - 1.0) * slope)
        b[i] = min(z, 0.0) - log_of_sum(e) - q * (p + b2 * third + b3 * fifth)


@compiled(fastmath={"contract", "reassoc", "nsz"})
def means(C: Array, mean: Array, m: Array) -> None:
    """Mean of f at rows, summed in float64."""
    for i in range(C.shape[0]):
        s = 0.0
        for j in range(C.shape[1]):
            s += C[i, j] * mean[j]
        m[i] = s


@compiled(fastmath={"contract", "reassoc", "nsz"})
def squares(T: Array, least: float, extra: Array, v: Array) -> None:
    """Variance of f at rows: squares of T, a number for all, and one for each."""
    for i in range(T.shape[0]):
        s = least
        for j in range(T.shape[1]):
            s += T[i, j] * T[i, j]
        v[i] = s
    for i in range(extra.shape[0]):
        v[i] += extra[i]


@compiled(fastmath={"contract", "reassoc", "nsz"})
def few_squares(C: Array, F: Array, least: float, extra: Array, v: Array) -> None:
    """The same from the rows of F, which are few and a multiple of four."""
    for i in range(C.shape[0]):
        total = least
        for k in range(0, F.shape[0], 4):
            r = s = t = u = 0.0
            for j in range(C.shape[1]):
                x = C[i, j]
                r += x * F[k, j]
                s += x * F[k + 1, j]
                t += x * F[k + 2, j]
                u += x * F[k + 3, j]
            total += (r * r + s * s) + (t * t + u * u)
        v[i] = total
    for i in range(extra.shape[0]):
        v[i] += extra[i]


@compiled()
def multiplied(C: Array, F: Array, triangular: bool, T: Array, sizes: Array, units: Array) -> None:
    """T = C F.  ``sizes`` are columns of C, rows and columns of F, ``units`` one and zero."""
    sizes[1] = C.shape[0]
    L = CHARS.ctypes.data
    N, K, n, k = L + 1, sizes.ctypes.data, sizes.ctypes.data + 4, sizes.ctypes.data + 8
    one, none = units.ctypes.data, units.ctypes.data + units.itemsize
    f, t = F.ctypes.data, T.ctypes.data
    if triangular:
        T[:, :] = C
        if T.itemsize == 4:
            strmm(L, L, N, N, K, n, one, f, K, t, K)
        else:
            dtrmm(L, L, N, N, K, n, one, f, K, t, K)
    elif T.itemsize == 4:
        sgemm(N, N, k, n, K, one, f, k, C.ctypes.data, K, none, t, k)
    else:
        dgemm(N, N, k, n, K, one, f, k, C.ctypes.data, K, none, t, k)


@compiled()
def sandwich(
    C: Array, weights: Array, A: Array, part: Array, S: Array, sizes: Array, units: Array
) -> None:
    """Add ``C' diag(weights) C`` to the lower triangle of S, by way of A."""
    for i in range(C.shape[0]):
        root = A.dtype.type(math.sqrt(weights[i]))
        for j in range(C.shape[1]):
            A[i, j] = C[i, j] * root
    sizes[1] = C.shape[0]
    L = CHARS.ctypes.data
    N, U, K, n = L + 1, L + 2, sizes.ctypes.data, sizes.ctypes.data + 4
    one, none = units.ctypes.data, units.ctypes.data + units.itemsize
    if A.itemsize == 4:
        ssyrk(U, N, K, n, one, A.ctypes.data, K, none, part.ctypes.data, K)
    else:
        dsyrk(U, N, K, n, one, A.ctypes.data, K, none, part.ctypes.data, K)
    for j in range(S.shape[0]):
        for i in range(j + 1):
            S[j, i] += part[j, i]


@compiled()
def moments(
    C: Array, extra: Array, mean: Array, F: Array, few: Array, triangular: bool, least: float,
    P: Array, T: Array, sizes: Array, units: Array, m: Array, v: Array,
) -> None:  # fmt: skip
    """Mean and variance of f at a piece of rows; the covariance of theta is F F' or few' few."""
    n = C.shape[0]
    means(C, mean, m)
    if F.shape[1]:
        if P.shape[0]:  # columns rounded to the precision of products
            P[:n] = C
            multiplied(P[:n], F, triangular, T[:n], sizes, units)
        else:
            multiplied(C, F, triangular, T[:n], sizes, units)
        squares(T[:n], least, extra, v)
    else:
        few_squares(C, few, least, extra, v)


@compiled()
def averages(
    mixture: Any, y: Array, m: Array, v: Array, w: Array, g: Array, b: Array
) -> float:  # fmt: skip
    """Precision, gradient and bound of rows, for one copy of each; the largest variance."""
    most = 0.0
    for i in range(v.shape[0]):
        most = max(most, v[i])
    offset, k, q, narrow = mixture
    if most <= narrow:
        logistic_average(y, m, v, w, g, b)
    else:
        hinge_average(offset, k, q, y, m, v, w, g, b)
    return most


@compiled()
def visit(
    C: Array, y: Array, c: Array, unit: Array, extra: Array, mean: Array, F: Array, few: Array,
    triangular: bool, least: float, mixture: Any, rest: float, rows: Array, P: Array, T: Array,
    A: Array, part: Array, S: Array, J: Array, g: Array, ends: Array, sizes: Array, units: Array,
) -> None:  # fmt: skip
    """Add the sums of a piece of rows to S, J and g.

    S is of precisions, J of squared slopes with the row left out, at least ``rest`` of whose
    variance others leave; either is left out if it has no entries.  Class weights are ``unit``, for
    J only.  The covariance of theta is F F'
    or, of small rank, ``few' few``.  ``ends`` are sums of bounds and of precisions times variances,
    and the largest variance.
    """
    n = C.shape[0]
    m, v, w, slope, b = rows[0, :n], rows[1, :n], rows[2, :n], rows[3, :n], rows[4, :n]
    moments(C, extra, mean, F, few, triangular, least, P, T, sizes, units, m, v)
    most = averages(mixture, y, m, v, w, slope, b)
    bound = used = 0.0
    for i in range(n):
        bound += c[i] * b[i]
    # b becomes the weight in J, w that in S
    for i in range(unit.shape[0]):
        b[i] = slope[i] / max(1.0 - min(c[i], unit[i]) * w[i] * v[i], rest)
        b[i] *= c[i] * unit[i] * b[i]
    for i in range(n):
        w[i] *= c[i]
        used += w[i] * v[i]
        slope[i] *= c[i]
    ends[0], ends[1], ends[2] = ends[0] + bound, ends[1] + used, max(ends[2], most)
    for i in range(n):
        for j in range(C.shape[1]):
            g[j] += C[i, j] * slope[i]
    if S.shape[0]:
        sandwich(C, w, A[:n], part, S, sizes, units)
    if J.shape[0]:
        sandwich(C, b, A[:n], part, J, sizes, units)


@compiled(fastmath={"contract", "reassoc", "nsz"})
def standardised(X: Array, center: Array, factor: Array, first: int, C: Array) -> float:
    """Write ones and scaled columns of X to C; the sum of the squares of the latter."""
    size = 0.0
    for i in range(X.shape[0]):
        for j in range(first):
            C[i, j] = 1.0
        for j in range(X.shape[1]):
            x = (X[i, j] - center[j]) * factor[j]
            C[i, first + j] = x
            size += x * x
    return size


@compiled()
def mirrored(S: Array) -> None:
    """Fill in the upper triangle."""
    for j in range(S.shape[0]):
        for i in range(j):
            S[i, j] = S[j, i]


@compiled()
def pass_held(
    X: Array, y: Array, c: Array, unit: Array, extra: Array, step: int, *how: Any
) -> None:
    """Sums over rows whose columns are X; see :func:`visit`."""
    for i in range(0, X.shape[0], step):
        to = min(i + step, X.shape[0])
        visit(X[i:to], y[i:to], c[i:to], unit[i:to], extra[i:to], *how)


@compiled()
def pass_scaled(
    X: Array, center: Array, factor: Array, first: int, C: Array,
    y: Array, c: Array, unit: Array, extra: Array, step: int, *how: Any,
) -> float:  # fmt: skip
    """Sums over rows whose columns are those of X on a common scale; the size of these."""
    size = 0.0
    for i in range(0, X.shape[0], step):
        to = min(i + step, X.shape[0])
        part = C[: to - i]
        size += standardised(X[i:to], center, factor, first, part)
        visit(part, y[i:to], c[i:to], unit[i:to], extra[i:to], *how)
    return size


@compiled()
def moments_held(
    X: Array, extra: Array, step: int, m: Array, v: Array, mean: Array, F: Array, few: Array,
    triangular: bool, least: float, P: Array, T: Array, sizes: Array, units: Array,
) -> None:  # fmt: skip
    """Mean and variance of f at rows whose columns are X."""
    for i in range(0, X.shape[0], step):
        to = min(i + step, X.shape[0])
        own = extra[i:to]
        moments(X[i:to], own, mean, F, few, triangular, least, P, T, sizes, units, m[i:to], v[i:to])


@compiled()
def moments_scaled(
    X: Array, center: Array, factor: Array, first: int, C: Array,
    extra: Array, step: int, m: Array, v: Array, mean: Array, F: Array, few: Array,
    triangular: bool, least: float, P: Array, T: Array, sizes: Array, units: Array,
) -> float:  # fmt: skip
    """The same at rows whose columns are those of X on a common scale; the size of these."""
    size = 0.0
    for i in range(0, X.shape[0], step):
        to = min(i + step, X.shape[0])
        part, own = C[: to - i], extra[i:to]
        size += standardised(X[i:to], center, factor, first, part)
        moments(part, own, mean, F, few, triangular, least, P, T, sizes, units, m[i:to], v[i:to])
    return size
