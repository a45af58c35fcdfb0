"""Cholesky factors of precision matrices that may be badly scaled or nearly singular."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg import cholesky

from ..core.types import Array


def scaled_cholesky(Q: Array, retry: bool = True) -> tuple[Array, bool]:
    """Lower factor of a positive definite matrix, and whether its diagonal had to be increased.

    ``Q`` is a matrix or a stack of small ones, ``(G, r, r)``.  If rounding has made it indefinite,
    1e-10 of the diagonal is added and the amount multiplied by 100, four times at most, with a
    warning.
    """
    d = np.einsum("...ii->...i", Q)
    s = 1.0 / np.sqrt(np.where(d > 0, d, 1.0))
    R = Q * s[..., :, None] * s[..., None, :]
    jitter = 0.0
    for attempt in range(5 if retry else 1):
        try:
            np.einsum("...ii->...i", R)[...] += jitter
            L = (
                cholesky(R, lower=True, check_finite=False)
                if Q.ndim == 2
                else np.linalg.cholesky(R)
            )
            if not np.all(np.isfinite(np.einsum("...ii->...i", L))):  # LAPACK lets NaN through
                break
            if attempt:
                warnings.warn(
                    f"the precision matrix was numerically singular; {jitter:.0e} was added to its "
                    "scaled diagonal. Collinear columns or a flat prior can cause this.",
                    RuntimeWarning,
                    stacklevel=2,
                )
            return L / s[..., :, None], bool(attempt)
        except np.linalg.LinAlgError:
            jitter = 1e-10 * 100.0**attempt
    raise np.linalg.LinAlgError(
        "the precision matrix of the coefficients is not positive definite; standardise the "
        "columns, drop collinear ones or give the prior a larger precision"
    )


def packed(L: Array) -> Array:
    """The lower triangles of a matrix or of a stack, row by row, as a vector."""
    return np.asarray(L)[..., np.tri(np.shape(L)[-1], dtype=bool)].ravel()


def unpacked(x: Array, shape: tuple[int, ...] | None = None) -> Array:
    """Undo :func:`packed`; without a shape, of one matrix."""
    n = int(np.sqrt(2 * x.size)) if shape is None else shape[-1]  # n (n + 1) / 2 entries
    L = np.zeros((n, n) if shape is None else shape)
    L[..., np.tri(n, dtype=bool)] = x.reshape(*L.shape[:-2], -1)
    return L


def log_packed(L: Array) -> Array:
    """Lower factors as unconstrained numbers: packed, with logarithms of their diagonals."""
    L = L.copy()
    d = np.einsum("...ii->...i", L)
    d[...] = np.log(d)
    return packed(L)


def log_unpacked(x: Array, shape: tuple[int, ...]) -> Array:
    """Undo :func:`log_packed`."""
    L = unpacked(x, shape)
    d = np.einsum("...ii->...i", L)
    d[...] = np.exp(d)
    return L
