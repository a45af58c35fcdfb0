"""Prior precisions that are not all on the diagonal.

A prior precision is an array ``(K,)`` wherever the coefficients are independent a priori.  Where
those of a group are not (random slopes with an unstructured covariance), it is a
:class:`Blocked`, which multiplies a vector like the array does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .types import Array


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

    @property
    def size(self) -> int:
        return int(self.d.size)


Precision = Any  # an array (K,) or Blocked


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
