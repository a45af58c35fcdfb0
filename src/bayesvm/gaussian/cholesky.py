"""Cholesky factors of precision matrices that may be badly scaled or nearly singular."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.linalg import cholesky

from ..core.types import Array


def scaled_cholesky(Q: Array, retry: bool = True) -> tuple[Array, bool]:
    """Lower factor of a positive definite matrix, and whether it had to be propped up.

    The first attempt is on Q itself; if rounding has made it indefinite, 1e-10 of the diagonal is
    added and the amount multiplied by 100, four times at most, with a warning.
    """
    return _factor(Q, retry, lambda R: cholesky(R, lower=True, check_finite=False))


def stacked_cholesky(Q: Array, retry: bool = True) -> tuple[Array, bool]:
    """The same for a stack of small matrices, ``(G, r, r)``."""
    return _factor(Q, retry, np.linalg.cholesky)


def _factor(Q: Array, retry: bool, factor: Callable[[Array], Array]) -> tuple[Array, bool]:
    d = np.einsum("...ii->...i", Q)
    s = 1.0 / np.sqrt(np.where(d > 0, d, 1.0))
    R = Q * s[..., :, None] * s[..., None, :]
    jitter = 0.0
    for attempt in range(5 if retry else 1):
        try:
            if jitter:
                np.einsum("...ii->...i", R)[...] += jitter
            L = factor(R)
            if not np.all(np.isfinite(np.einsum("...ii->...i", L))):  # LAPACK lets NaN through
                break
            if attempt:
                warnings.warn(
                    f"the precision matrix was numerically singular; {jitter:.0e} was added to its "
                    "scaled diagonal. Collinear columns or a flat prior can cause this.",
                    RuntimeWarning,
                    stacklevel=3,
                )
            return L / s[..., :, None], bool(attempt)
        except np.linalg.LinAlgError:
            jitter = 1e-10 * 100.0**attempt
    raise np.linalg.LinAlgError(
        "the precision matrix of the coefficients is not positive definite; standardise the "
        "columns, drop collinear ones or give the prior a larger precision"
    )


def packed(L: Array) -> Array:
    """The lower triangle of a matrix, row by row: what a file needs of a factor."""
    return np.asarray(L)[np.tri(len(L), dtype=bool)]


def unpacked(x: Array) -> Array:
    """The lower triangular matrix of which :func:`packed` has made a vector."""
    n = int(np.sqrt(2 * x.size))  # n (n + 1) / 2 entries
    L = np.zeros((n, n))
    L[np.tri(n, dtype=bool)] = x
    return L
