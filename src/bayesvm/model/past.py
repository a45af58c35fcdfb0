r"""Rows that are no longer at hand: their part of the bound, to second order.

Of rows seen at :math:`N(\mu_0, \Sigma_0)` three sums remain: *S*, the slope *g*, and the curvature
*H* of their part of the bound in the mean.  At :math:`N(\mu, \Sigma)` they then count as

.. math::

    b_0 + g^\top(\mu - \mu_0) - \tfrac12 (\mu - \mu_0)^\top H (\mu - \mu_0)
    - \tfrac12 \operatorname{tr} S\,(\Sigma - \Sigma_0) .

Value, slope and curvature are those of the rows where they were seen.  Gaussian sites of precision
*S* would be a lower bound, but *S* is five to ten times *H*: they would hold the mean where it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.types import Array, Coef, Stats
from ..gaussian.forms import Dense


@dataclass(frozen=True, eq=False)
class Past:
    """Sums over rows that have gone; ``a + b`` joins two sets of them."""

    S: Array  # (K, K)
    H: Array  # (K, K)
    r: Array  # (K,), their slope at a mean of zero
    value: float  # their part of the bound at a mean of zero and no spread
    weight: float

    @staticmethod
    def of(stats: Stats, coef: Coef, weight: float) -> Past:
        """What remains of rows with these sums at ``coef``."""
        S, H, mean = stats.S.M, stats.H.M, coef.mean
        r = stats.g + H @ mean
        value = stats.bound - float(mean @ (stats.g + 0.5 * (H @ mean)))
        return Past(S, H, r, value + 0.5 * _trace(S, coef), weight)

    def stats(self, coef: Coef, curved: bool) -> Stats:
        """The sums as they are at another distribution of theta."""
        pull = self.H @ coef.mean
        bound = self.value + float(coef.mean @ (self.r - 0.5 * pull)) - 0.5 * _trace(self.S, coef)
        return Stats(Dense(self.S), self.r - pull, bound, Dense(self.H) if curved else None)

    def __add__(self, other: Past) -> Past:
        return Past(
            self.S + other.S,
            self.H + other.H,
            self.r + other.r,
            self.value + other.value,
            self.weight + other.weight,
        )


def _trace(S: Array, coef: Coef) -> float:
    return 0.0 if coef.cov.is_point else float(np.vdot(S, coef.cov.dense()))
