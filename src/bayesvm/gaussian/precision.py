"""Prior precisions: an array ``(K,)`` of independent coefficients, or a :class:`Blocked`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.types import Array


@dataclass(frozen=True, eq=False)
class Blocked:
    """A diagonal, and in some slices one matrix repeated along the diagonal.

    For groups whose coefficients are correlated a priori: random slopes with an unstructured
    covariance.  It multiplies a vector as the array of a diagonal does.
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
        """More on the diagonal, outside the slices."""
        return Blocked(self.d + x, self.parts)

    @property
    def size(self) -> int:
        return int(self.d.size)


Precision = Any  # an array (K,) or Blocked


def split(P: Precision) -> tuple[Array, tuple[tuple[slice, Array], ...]]:
    """The diagonal outside the slices, and the slices with their matrices."""
    return (P.d, P.parts) if isinstance(P, Blocked) else (P, ())


def divided(x: Array, P: Precision) -> Array:
    """``P^-1 x`` for a vector or for columns."""
    d, parts = split(P)
    with np.errstate(divide="ignore", invalid="ignore"):
        out: Array = (x.T / d).T
    for where, B in parts:
        inside = x[where].reshape(-1, B.shape[0], x[where].size // (where.stop - where.start))
        out[where] = np.linalg.solve(B, inside).reshape(x[where].shape)
    return out


def loose(P: Precision, share: float) -> tuple[Array, float]:
    """Which coefficients have less than a share of the largest precision, and the largest."""
    d, parts = split(P)
    most = float(max(d.max(), *(np.diag(B).max() for _, B in parts), 0.0))
    free = share * most >= d
    for where, _ in parts:
        free[where] = False
    return free, most


def flat(P: Precision, some: Array) -> bool:
    """Whether some of these coefficients have a precision of zero."""
    d, parts = split(P)
    zero = (d == 0) & some
    for where, _ in parts:
        zero[where] = False
    return bool(zero.any())


def masked(P: Precision, keep: Array) -> Precision:
    """P with zeros on the diagonal where not kept."""
    return Blocked(keep * P.d, P.parts) if isinstance(P, Blocked) else keep * P


def add_precision(Q: Array, P: Precision) -> None:
    """Add P to a matrix in place, or its leading part to a smaller matrix."""
    q, (d, parts) = Q.shape[0], split(P)
    Q[np.diag_indices_from(Q)] += d[:q]
    for where, B in parts:
        if where.stop <= q:
            r = B.shape[0]
            for first in range(where.start, where.stop, r):
                Q[first : first + r, first : first + r] += B


def blocks_of(P: Precision, where: slice, r: int) -> Array:
    """P of consecutive groups of r coefficients: ``(G, r, r)``, or (r, r) if all are the same."""
    d, parts = split(P)
    for part, B in parts:
        if part == where:
            return B
    return d[where].reshape(-1, r, 1) * np.eye(r)
