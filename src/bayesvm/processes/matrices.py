"""Factors of kernel matrices, and gradients through them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import blas, cholesky, lapack, solve_triangular

from ..core import arrays
from ..core.types import Array
from .whitened import JITTER

PROBES = 8  # columns of signs: a tenth of a trace of twenty equal eigenvalues
HALVED = (96, 1500)  # sizes of factors between which an inverse by halves takes less time
ROUNDING = 5e3  # of a factorisation, as a share of the diagonal, in units of that of a number


def covariance_of(values: Array, level: float) -> Array:
    """Covariance of f at points from their kernel values: jitter and the level added."""
    K = values + level
    arrays.add_to_diagonal(K, JITTER * arrays.of(K).mean(arrays.diagonal(values)))
    return K


def pull_places(kernel: Any, cross: Array, among: Array, X: Array, Z: Array) -> Array:
    """Gradient in the points Z from those in the values with X, ``(n, m)``, and with themselves."""
    left, right = kernel.pull_points(among, Z)
    out: Array = kernel.pull_points(cross, X, Z)[1] + left + right
    return out


def over(A: Array, L: Array) -> Array:
    """``A L^-1``."""
    if not arrays.is_numpy(A):
        return A @ arrays.lower_inverse(L)
    return solve_triangular(L, A.T, lower=True, trans=1, check_finite=False).T


def through_factor(L: Array, product: Array) -> Array:
    r"""Gradient in the kernel values of the inducing points with each other.

    ``product`` is :math:`\bar\Phi^\top\Phi`, symmetric at an optimum over the whitened
    coefficients, whose prior no rotation changes; then
    :math:`\bar K_{mm} = -\tfrac12 L^{-\top}\bar\Phi^\top\Phi L^{-1}`.
    """
    inner = over(over(product + product.T, L).T, L)
    K_bar: Array = -0.125 * (inner + inner.T)
    jittered(K_bar)
    return K_bar


def jittered(G: Array) -> None:
    """Add to a gradient in a kernel matrix what comes through the jitter, a mean diagonal."""
    arrays.add_to_diagonal(G, JITTER * arrays.total(arrays.diagonal(G)) / G.shape[0])


def factor(K: Array, w: Array, on: Array) -> Array:
    """The factor of B for the points that have precision.

    Very large ones can leave less of its identity than rounding takes; that much is added then.
    """
    s = np.sqrt(w).astype(K.dtype)

    def matrix() -> Array:
        B = K[square(on, K)] * s
        B *= s[:, None]
        B[np.diag_indices_from(B)] += 1.0
        return B

    try:
        return factor_in_place(matrix())
    except np.linalg.LinAlgError:
        B = matrix()
        B[np.diag_indices_from(B)] *= 1.0 + ROUNDING * np.finfo(B.dtype).eps
        return factor_in_place(B)


def factor_in_place(B: Array) -> Array:
    """The factor of a symmetric matrix: its transpose is in LAPACK's order, so none is copied."""
    if not arrays.is_numpy(B):
        return arrays.lower_factor(B)
    return cholesky(B.T, lower=True, overwrite_a=True, check_finite=False)


def invert(L: Array) -> Array:
    """The inverse of a factor, which may take its place.

    Of a middle size it is made by halves, [[A, 0], [B, C]] to [[A', 0], [-C' B A', C']]: products
    of matrices, in 0.4 to 0.7 of the time of LAPACK's, which is made for larger ones.
    """
    if not arrays.is_numpy(L):
        return arrays.lower_inverse(L)
    if not L.size:  # no point has precision; LAPACK would print a complaint
        return L
    double, n = L.dtype == np.float64, L.shape[0]
    if not HALVED[0] < n < HALVED[1]:
        R: Array = (lapack.dtrtri if double else lapack.strtri)(L, lower=1, overwrite_c=1)[0]
        return R
    times, h, R = blas.dtrmm if double else blas.strmm, n // 2, np.empty_like(L, order="F")
    R[:h, h:] = 0.0
    A, C = R[:h, :h], R[h:, h:] = invert(L[:h, :h]), invert(L[h:, h:])
    B = times(-1.0, C, L[h:, :h], lower=1)
    R[h:, :h] = times(1.0, A, B, side=1, lower=1, overwrite_b=1)
    return R


def inverse_of(R: Array) -> Array:
    """The inverse R' R of which R, a lower triangle with zeros above its diagonal, is the root."""
    if not R.size:  # LAPACK would print a complaint
        return R
    times = lapack.dlauum if R.dtype == np.float64 else lapack.slauum
    half: Array = times(R, lower=1)[0]
    half[np.diag_indices_from(half)] *= 0.5
    return half + half.T


def posterior_covariance(V: Array, s: Array, v: Array) -> Array:
    r"""The covariance of f given sites of precisions s^2, :math:`W^{-1/2}(I - B^{-1})W^{-1/2}`.

    It takes the place of the inverse of B.  Its diagonal v is given: there the difference is one of
    near equals where a site is weak.
    """
    by = (1.0 / s).astype(V.dtype)
    V *= -by
    V *= by[:, None]
    V[np.diag_indices_from(V)] = v
    return V


@lru_cache(maxsize=8)
def signs_of(n: int, many: int = PROBES) -> Array:
    """Columns of random signs, the same at every call."""
    out = 2.0 * np.random.default_rng(0).integers(0, 2, (n, many)) - 1.0
    out.flags.writeable = False
    return out


def squared_forms(times: Callable[[Array], Array], *each: Array) -> list[float]:
    r"""Estimates of :math:`x^\top (V \circ V)\,x`, from products ``times(B)`` of V with columns.

    That is the trace of V diag(x) V diag(x): a mean over columns of signs (Hutchinson's estimate).
    """
    Z = arrays.like(signs_of(len(each[0])), each[0])
    join = np.concatenate if arrays.is_numpy(Z) else arrays.of(Z).concat
    found = times(join([Z, *(x[:, None] * Z for x in each)], axis=1))
    first, *rest = (found[:, k : k + PROBES] for k in range(0, found.shape[1], PROBES))
    pairs = zip(each, rest, strict=True)
    return [max(float(arrays.total(first * (x[:, None] * B))), 0.0) / PROBES for x, B in pairs]


def lower_times(R: Array, A: Array) -> Array:
    """The product of a lower triangle and a matrix."""
    if not arrays.is_numpy(R):
        return R @ A
    times = blas.dtrmm if R.dtype == np.float64 else blas.strmm
    out: Array = times(1.0, R, A, lower=1)
    return out


def by_rows(w: Array, x: Array) -> Array:
    """The product of a diagonal matrix and a vector, or columns."""
    return w * x if x.ndim == 1 else w[:, None] * x


def column_squares(T: Array) -> Array:
    """Sum of the squares of each column."""
    if arrays.is_numpy(T):
        return np.einsum("ij,ij->j", T, T, dtype=float)
    return arrays.squares(T.T)


def square(on: Array, K: Array) -> Any:
    """Index of a square of K; a slice, which copies nothing, where it is all of it."""
    return (slice(None), slice(None)) if on.size == K.shape[0] else np.ix_(on, on)
