"""Tables whose cells may be missing, and the sums over cells that factor models are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..types import Array


class Scores(NamedTuple):
    """What is known of the scores: means ``(n, K)``; covariances, one a row ``(n, K, K)``, one for
    all ``(K, K)``, or ``None`` at a point."""

    mean: Array
    cov: Array | None = None

    def square(self) -> Array:
        """E[w w'] of each row, ``(n, K, K)``."""
        out = self.mean[:, :, None] * self.mean[:, None, :]
        return out if self.cov is None else out + self.cov


@dataclass(frozen=True, eq=False)
class Cells:
    """A centred table with holes: zero where nothing was seen.

    Parameters
    ----------
    X : array of shape (n, d)
        Values, zero in cells that are missing.
    seen : array of shape (n, d) or None
        One where a cell was seen, else zero; ``None`` if all were.
    c : array of shape (n,)
        How often each row counts.
    """

    X: Array
    seen: Array | None
    c: Array

    @staticmethod
    def of(X: Array, c: Array | None = None) -> Cells:
        """From a table with NaN in missing cells."""
        c = np.ones(X.shape[0]) if c is None else c
        holes = np.isnan(X)
        if not holes.any():
            return Cells(X, None, c)
        return Cells(np.where(holes, 0.0, X), 1.0 - holes, c)

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    @cached_property
    def count(self) -> float:
        """Number of cells seen, rows counted by weight."""
        return float(self.c.sum() * self.d if self.seen is None else self.c @ self.seen.sum(axis=1))

    @cached_property
    def square(self) -> float:
        return float(self.c @ np.einsum("ij,ij->i", self.X, self.X))

    def gram(self, scores: Scores) -> Array:
        """Sums of E[w w'] over the rows seen in each column: ``(K, K)``, or ``(d, K, K)``."""
        W, K = scores.mean, scores.mean.shape[1]
        if self.seen is not None:
            weight = self.seen * self.c[:, None]
            return (weight.T @ scores.square().reshape(self.n, -1)).reshape(-1, K, K)
        out: Array = (W * self.c[:, None]).T @ W
        if scores.cov is None:
            return out
        if scores.cov.ndim == 2:
            return out + self.c.sum() * scores.cov
        return out + np.tensordot(self.c, scores.cov, 1)

    def across(self, square: Array) -> Array:
        """Sums of E[a a'], ``(d, K, K)``, over the columns seen in each row."""
        if self.seen is None:
            return np.asarray(square.sum(axis=0))
        return np.asarray((self.seen @ square.reshape(self.d, -1)).reshape(self.n, *square.shape[1:]))

    def cross(self, W: Array) -> Array:
        """X'W with rows counted by weight, ``(d, K)``."""
        return np.asarray(self.X.T @ (W * self.c[:, None]))
