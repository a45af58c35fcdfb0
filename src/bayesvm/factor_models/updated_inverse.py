"""The inverse of a covariance matrix of which one row changes at a time."""

from __future__ import annotations

import numpy as np

from ..core.types import Array

DELAY = 32  # rows moved before the inverse is multiplied out


class UpdatedInverse:
    """The inverse P of a covariance C of targets t: moving a row of C, and what a move would do.

    The change is of rank two.  A few are kept aside before they are multiplied out together, so
    that visiting a row costs products of the matrix with the proposals and no pass to rewrite it.
    """

    def __init__(self, P: Array, t: Array) -> None:
        n = P.shape[0]
        self.P, self.t = P, t
        self.U, self.sign, self.held = np.zeros((n, 2 * DELAY)), np.zeros(2 * DELAY), 0

    def column(self, i: int) -> Array:
        U = self.U[:, : self.held]
        return np.asarray(self.P[:, i] + U @ (self.sign[: self.held] * U[i]))

    def times(self, k: Array) -> Array:
        """k times the inverse, ``(proposals, n)``."""
        U = self.U[:, : self.held]
        return np.asarray(k @ self.P + ((k @ U) * self.sign[: self.held]) @ U.T)

    def now(self, column: Array, i: int) -> float:
        """Log density of row i's target given the others', at its present score."""
        own, a = column[i], float(column @ self.t)
        return float(0.5 * np.log(own) - 0.5 * a * a / own)

    def proposed(
        self, column: Array, i: int, k: Array, diag: Array, noise: float
    ) -> tuple[Array, Array, Array]:
        """The same at proposed scores with kernel values ``k``, ``(proposals, n)``; and what is
        needed to go there."""
        q = self.times(k)
        q -= np.outer((k @ column) / column[i], column)  # the inverse without row i, times k
        q[:, i] = 0.0
        spread = diag + noise - np.einsum("ij,ij->i", q, k)
        off = self.t[i] - q @ self.t
        return -0.5 * np.log(spread) - 0.5 * off * off / spread, q, spread

    def move(self, column: Array, i: int, q: Array, spread: float) -> None:
        """Bordered inverse: row i out, row i back in at its new place."""
        h = self.held
        self.U[:, h] = column / np.sqrt(column[i])
        self.U[:, h + 1] = q / np.sqrt(spread)
        self.U[i, h + 1] = -1.0 / np.sqrt(spread)
        self.sign[h : h + 2] = -1.0, 1.0
        self.held += 2
        if self.held == self.U.shape[1]:
            self.P += (self.U * self.sign) @ self.U.T
            self.held = 0
