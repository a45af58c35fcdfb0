"""Prior precisions that are not all on the diagonal.

A prior precision is an array ``(K,)`` wherever the coefficients are independent a priori.  Where
those of a group are not (random slopes with an unstructured covariance), it is a
:class:`Blocked`, which multiplies a vector like the array does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.types import Array


@dataclass(frozen=True, eq=False)
class Blocked:
    """Diagonal entries, and for some slices one matrix repeated along the diagonal."""

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


def divided(x: Array, P: Precision) -> Array:
    """``P^-1 x`` for a vector or for columns."""
    d = P.d if isinstance(P, Blocked) else P
    with np.errstate(divide="ignore", invalid="ignore"):
        out: Array = (x.T / d).T
    for where, B in P.parts if isinstance(P, Blocked) else ():
        inside = x[where].reshape(-1, B.shape[0], x[where].size // (where.stop - where.start))
        out[where] = np.linalg.solve(B, inside).reshape(x[where].shape)
    return out


def loose(P: Precision, share: float) -> tuple[Array, float]:
    """Which coefficients have less than a share of the largest precision, and what that is."""
    d = P.d if isinstance(P, Blocked) else P
    most = float(max(d.max(), *(np.diag(B).max() for _, B in getattr(P, "parts", ())), 0.0))
    free = share * most >= d
    for where, _ in getattr(P, "parts", ()):
        free[where] = False
    return free, most


def flat(P: Precision, some: Array) -> bool:
    """Whether some of these coefficients have no precision at all."""
    if not isinstance(P, Blocked):
        return bool(np.any(P[some] == 0))
    inside = np.zeros(P.size, dtype=bool)
    for where, _ in P.parts:
        inside[where] = True
    return bool(np.any(P.d[some & ~inside] == 0))


def masked(P: Precision, keep: Array) -> Precision:
    """P with zeros on the diagonal where not kept."""
    return Blocked(keep * P.d, P.parts) if isinstance(P, Blocked) else keep * P


def add_precision(Q: Array, P: Precision) -> None:
    """Add P to a matrix in place; a matrix smaller than P takes its first coefficients."""
    q = Q.shape[0]
    Q[np.diag_indices_from(Q)] += P.d[:q] if isinstance(P, Blocked) else P[:q]
    for where, B in P.parts if isinstance(P, Blocked) else ():
        if where.stop <= q:
            r = B.shape[0]
            for first in range(where.start, where.stop, r):
                Q[first : first + r, first : first + r] += B


def blocks_of(P: Precision, where: slice, r: int) -> Array:
    """P of consecutive groups of r coefficients: ``(G, r, r)`` or, if all are alike, (r, r)."""
    for part, B in P.parts if isinstance(P, Blocked) else ():
        if part == where:
            return B
    d = (P.d if isinstance(P, Blocked) else P)[where].reshape(-1, r)
    return d[:, :, None] * np.eye(r)
