r"""Rows that are no longer stored: their contribution to the bound, to second order.

Three sums at :math:`N(\mu_0, \Sigma_0)` are kept: *S*, the gradient *g* and the curvature *H* of
their contribution in the mean.  At :math:`N(\mu, \Sigma)` it is then taken as

.. math::

    b_0 + g^\top(\mu - \mu_0) - \tfrac12 (\mu - \mu_0)^\top H (\mu - \mu_0)
    - \tfrac12 \operatorname{tr} S\,(\Sigma - \Sigma_0) .

Value, gradient and curvature are exact at :math:`N(\mu_0, \Sigma_0)`.  Gaussian sites of precision
*S* would be a lower bound, but *S* is five to ten times *H*: the mean would hardly move.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import add

from ..core.types import Array, Coef, Stats
from ..linalg.forms import Dense


@dataclass(frozen=True, eq=False)
class Past:
    """Sums over rows that are no longer stored; ``a + b`` joins two sets of them."""

    S: Array  # (K, K)
    H: Array  # (K, K)
    r: Array  # (K,), gradient at a mean of zero
    value: float  # contribution to the bound at a mean of zero and no spread
    weight: float

    @staticmethod
    def of(stats: Stats, coef: Coef, weight: float) -> Past:
        """From the sums over rows at ``coef``."""
        S, H, mean = stats.S.M, stats.H.M, coef.mean
        r = stats.g + H @ mean
        value = stats.bound - float(mean @ (stats.g + 0.5 * (H @ mean)))
        return Past(S, H, r, value + 0.5 * _trace(S, coef), weight)

    def stats(self, coef: Coef, curved: bool) -> Stats:
        """The sums at another distribution of theta."""
        pull = self.H @ coef.mean
        bound = self.value + float(coef.mean @ (self.r - 0.5 * pull)) - 0.5 * _trace(self.S, coef)
        return Stats(Dense(self.S), self.r - pull, bound, Dense(self.H) if curved else None)

    def __add__(self, other: Past) -> Past:
        return Past(*map(add, vars(self).values(), vars(other).values()))


def _trace(S: Array, coef: Coef) -> float:
    return 0.0 if coef.cov.is_point else coef.cov.trace(S)
