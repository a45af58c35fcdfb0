"""Prior precisions, and Cholesky factors of badly scaled or singular precision matrices.

A prior precision is an array ``(K,)`` (independent coefficients) or a :class:`Blocked`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky

from .types import Array


@dataclass(frozen=True, eq=False)
class Blocked:
    """A block-diagonal matrix: a diagonal, and slices with one matrix repeated along it.

    For groups whose coefficients are correlated a priori: random slopes with an unstructured
    covariance.  ``P * x`` is the product with a vector, as for the array of a diagonal.
    """

    d: Array  # (K,), zero inside the slices
    parts: tuple[tuple[slice, Array], ...]  # slice of G r coefficients, (r, r)

    def __mul__(self, x: Any) -> Any:
        """``P x`` for a vector; a number scales P."""
        if np.ndim(x) == 0:
            return Blocked(x * self.d, tuple((where, x * B) for where, B in self.parts))
        out: Array = self.d * x
        for where, B in self.parts:
            out[where] = (x[where].reshape(-1, B.shape[0]) @ B).ravel()
        return out

    __rmul__ = __mul__

    def __add__(self, x: Array) -> Blocked:
        """P with x added to the diagonal outside the slices."""
        return Blocked(self.d + x, self.parts)

    @property
    def size(self) -> int:
        return int(self.d.size)


Precision = Any  # an array (K,) or Blocked


def split(P: Precision) -> tuple[Array, tuple[tuple[slice, Array], ...]]:
    """The diagonal outside the slices, and the slices with their matrices."""
    return (P.d, P.parts) if isinstance(P, Blocked) else (P, ())


def joined(parts: Sequence[Precision]) -> Precision:
    """The block-diagonal precision of several models, one after another."""
    d, blocks = np.concatenate([split(P)[0] for P in parts]), []
    for k, P in enumerate(parts):
        first = k * split(P)[0].size
        for where, B in split(P)[1]:
            blocks.append((slice(first + where.start, first + where.stop), B))
    return Blocked(d, tuple(blocks)) if blocks else d


def parted(P: Precision, K: int) -> list[Precision]:
    """Undo :func:`joined` for K parts of equal size."""
    d, blocks = split(P)
    out, p = [], d.size // K
    for k in range(K):
        own = [(slice(w.start - k * p, w.stop - k * p), B) for w, B in blocks if w.start // p == k]
        part = d[k * p : (k + 1) * p]
        out.append(Blocked(part, tuple(own)) if own else part)
    return out


def divided(x: Array, P: Precision) -> Array:
    """``P^-1 x`` for a vector or for columns."""
    d, parts = split(P)
    with np.errstate(divide="ignore", invalid="ignore"):
        out: Array = (x.T / d).T
    for where, B in parts:
        inside = x[where].reshape(-1, B.shape[0], x[where].size // (where.stop - where.start))
        out[where] = np.linalg.solve(B, inside).reshape(x[where].shape)
    return out


def flat(P: Precision, some: Array) -> bool:
    """Whether any of the coefficients ``some`` has a precision of zero."""
    d, parts = split(P)
    zero = (d == 0) & some
    for where, _ in parts:
        zero[where] = False
    return bool(zero.any())


def masked(P: Precision, keep: Array) -> Precision:
    """P with zeros on the diagonal where ``keep`` is false."""
    return Blocked(keep * P.d, P.parts) if isinstance(P, Blocked) else keep * P


def add_precision(Q: Array, P: Precision) -> None:
    """Add P, or the leading part of it, to a matrix in place."""
    q, (d, parts) = Q.shape[0], split(P)
    Q[np.diag_indices_from(Q)] += d[:q]
    for where, B in parts:
        if where.stop <= q:
            r = B.shape[0]
            for first in range(where.start, where.stop, r):
                Q[first : first + r, first : first + r] += B


def blocks_of(P: Precision, where: slice, r: int) -> Array:
    """Blocks of P for consecutive groups of r coefficients: ``(G, r, r)``, or (r, r) if equal."""
    d, parts = split(P)
    for part, B in parts:
        if part == where:
            return B
    return d[where].reshape(-1, r, 1) * np.eye(r)


# ---------------------------------------------------------------------------------------------
# Factors


def scaled_cholesky(Q: Array, retry: bool = True) -> tuple[Array, bool]:
    """Lower factor of a positive definite matrix, and whether its diagonal had to be increased.

    ``Q`` is a matrix or a stack of small ones, ``(G, r, r)``.  If rounding has made it indefinite,
    1e-10 of the diagonal is added, up to four times 100 times as much, with a warning.  (Rounding
    errors of the factor scale with rows and columns, which therefore need no scaling.)
    """
    d = np.einsum("...ii->...i", Q)
    jitter = 0.0
    for attempt in range(5 if retry else 1):
        R = Q.copy()
        np.einsum("...ii->...i", R)[...] += jitter * np.where(d > 0, d, 1.0)
        try:
            L = (  # overwrites R, whose transpose has the memory order of LAPACK
                cholesky(R.T, lower=True, overwrite_a=True, check_finite=False)
                if Q.ndim == 2
                else np.linalg.cholesky(R)
            )
            if not np.all(np.isfinite(np.einsum("...ii->...i", L))):  # LAPACK does not report NaN
                break
            if attempt:
                warnings.warn(
                    f"the precision matrix was numerically singular; {jitter:.0e} was added to its "
                    "scaled diagonal. Collinear columns or a flat prior can cause this.",
                    RuntimeWarning,
                    stacklevel=2,
                )
            return L, bool(attempt)
        except np.linalg.LinAlgError:
            jitter = 1e-10 * 100.0**attempt
    raise np.linalg.LinAlgError(
        "the precision matrix of the coefficients is not positive definite; standardise the "
        "columns, drop collinear ones or give the prior a larger precision"
    )
