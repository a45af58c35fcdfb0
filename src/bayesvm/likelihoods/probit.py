"""The probit link as a truncated Gaussian mixture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from ..core import arrays
from ..core.distributions import mills, truncated_normal_cumulants, truncated_normal_positive
from ..core.types import Array, Local
from .base import Likelihood, by_quadrature, summed

FAR = 1e4  # margins on the wrong side, beyond which the curvature is one to eight digits


@dataclass(frozen=True)
class Probit(Likelihood):
    r"""Probit regression, :math:`p(y \mid f) = \Phi(yf)`.

    With a latent :math:`z \sim N(f, 1)` whose sign is *y*, the mixing variable shifts the target
    and leaves the precision alone: :math:`w = 1` and :math:`g = y\,N(m)/\Phi(ym)`.  The row's bound
    is :math:`\log\Phi(ym) - v/2`.

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

    def expected(self, y: Array, m: Array, v: Array | float) -> Local:
        z = y * m
        ratio = mills(z)
        bound, h = arrays.log_ndtr(z) - 0.5 * v, _curvature(z, ratio)
        return Local(1.0 + 0.0 * z, y * ratio, bound, h)

    def tight(self, y: Array, m: Array, v: Array | float) -> Local:
        def derivatives(z: Array) -> tuple[Array, Array, Array]:
            ratio = mills(z)
            return _curvature(z, ratio), ratio, arrays.log_ndtr(z)

        return by_quadrature(derivatives, y, m, v)

    def draw(self, y: Array, f: Array, c: Array, rng: np.random.Generator) -> Local:
        z = y * f
        total = summed(
            c,
            "probit",
            lambda rows: truncated_normal_positive(z[rows], rng),
            lambda rows: truncated_normal_cumulants(z[rows]),
            rng,
        )
        return Local(c.copy(), y * total - c * f, c * self.log_prob(y, f), c)

    def log_prob(self, y: Array, f: Array) -> Array:
        return log_ndtr(y * f)

    def proba(self, m: Array, v: Array) -> Array:
        return ndtr(m / np.sqrt(1.0 + v))


def _curvature(z: Array, ratio: Array) -> Array:
    """Minus the second derivative of log Phi, in (0, 1); far out rounding would leave no digit."""
    out: Array = arrays.of(z).where(z < -FAR, 0.0 * z + 1.0, ratio * (z + ratio))
    return out
