"""The probit likelihood, augmented by a truncated Gaussian variable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from ..core import arrays
from ..core.distributions import mills, truncated_normal_positive
from ..core.types import Array, Contribution
from .base import NODES, WEIGHTS, Likelihood


@dataclass(frozen=True)
class Probit(Likelihood):
    r"""Probit regression, :math:`p(y \mid f) = \Phi(yf)`.

    With a latent :math:`z \sim N(f, 1)` whose sign is *y*, the precision is constant,
    :math:`w = 1`, and :math:`g = y\,N(m)/\Phi(ym)`.  The bound of a row is
    :math:`\log\Phi(ym) - v/2`.

    References
    ----------
    Albert & Chib (1993).

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.likelihoods import Probit
    >>> Probit().proba(np.array([0.0]), np.array([1.0]))
    array([0.5])
    """

    def augmented(self, y: Array, m: Array, v: Array | float) -> Contribution:
        z = y * m
        ratio, one = mills(z), 1.0 + 0.0 * z
        # minus the second derivative of log Phi, which is 1 to eight digits in the far tail
        xp = arrays.of(z)
        h = xp.where(z < -1e4, one, ratio * (z + ratio))
        return Contribution(one, y * ratio, arrays.special(xp).log_ndtr(z) - 0.5 * v, h)

    def tight(self, y: Array, m: Array, v: Array | float) -> Contribution:
        """By Gauss-Hermite quadrature."""
        s, h, g, bound = arrays.of(m).sqrt(v), 0.0 * m, 0.0 * m, 0.0 * m
        for x, k in zip(NODES.tolist(), WEIGHTS.tolist(), strict=True):
            row = self.augmented(y, m + x * s, 0.0)
            h, g, bound = h + k * row.h, g + k * row.g, bound + k * row.bound
        return Contribution(h, g, bound, h)

    def draw(self, y: Array, f: Array, c: Array, rng: np.random.Generator) -> Contribution:
        copies = np.rint(c)
        if np.any(np.abs(copies - c) > 1e-12):
            raise ValueError(
                "inference='gibbs' with the probit likelihood draws one latent variable per copy "
                "of a row, so weights must be whole numbers. Use inference='vb', "
                "likelihood='hinge', or round the weights."
            )
        z, total = y * f, np.zeros(np.shape(f))
        for k in range(int(np.max(copies, initial=0))):
            more = copies > k
            total[more] += truncated_normal_positive(z[more], rng)
        return Contribution(c.copy(), y * total - c * f, c * self.log_prob(y, f), c)

    def log_prob(self, y: Array, f: Array) -> Array:
        return log_ndtr(y * f)

    def proba(self, m: Array, v: Array) -> Array:
        return ndtr(m / np.sqrt(1.0 + v))
