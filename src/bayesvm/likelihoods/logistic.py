"""The logit link as a Polya-Gamma mixture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import expit, log_expit, ndtr

from ..core import arrays
from ..core.distributions import polya_gamma, polya_gamma_cumulants
from ..core.types import Array, Local
from .base import NODES, WEIGHTS, Likelihood, by_quadrature, summed

_at, _share = leggauss(64)  # on (-1, 1); quantiles of the logistic law
LOGITS, SHARES = np.log1p(_at) - np.log1p(-_at), _share / 2.0


@dataclass(frozen=True)
class Logistic(Likelihood):
    r"""Logistic regression, :math:`p(y \mid f) = 1 / (1 + e^{-yf})`.

    .. math::

        p(y \mid f) = \tfrac12 e^{yf/2}
            \int e^{-\omega f^2/2}\, \mathrm{PG}(\omega; 1, 0)\, d\omega,
        \qquad w = \frac{\tanh(\xi/2)}{2\xi}, \quad b = \frac y2, \quad \xi^2 = m^2 + v,

    and the row's bound is :math:`(ym - \xi)/2 - \log(1 + e^{-\xi})`.

    References
    ----------
    Polson, Scott & Windle (2013); Jaakkola & Jordan (2000).

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.likelihoods import Logistic
    >>> float(Logistic().expected(np.array([1.0]), np.array([0.0]), 0.0).w[0])
    0.25
    """

    def expected(self, y: Array, m: Array, v: Array | float) -> Local:
        xp = arrays.of(m)
        xi = xp.sqrt(m * m + v)
        # tanh(xi/2) / (2 xi) -> 1/4; below 1e-4 the series 1/4 - xi^2/48 is exact to 1e-17
        safe = xp.clip(xi, 1e-4, None)
        w = xp.where(xi < 1e-4, 0.25 - xi * xi / 48.0, xp.tanh(safe / 2.0) / (2.0 * safe))
        slope = xp.where(  # (dw/dxi) / xi
            xi < 1e-2,
            -1.0 / 24.0 + xi * xi / 120.0,
            (0.25 / xp.cosh(xp.clip(safe, None, 700.0) / 2.0) ** 2 - w)
            / xp.clip(xi, 1e-2, None) ** 2,
        )
        h = w + m * m * slope
        return Local(w, 0.5 * y - w * m, 0.5 * (y * m - xi) + arrays.log_expit(xi), h)

    def tight(self, y: Array, m: Array, v: Array | float) -> Local:
        xp = arrays.of(m)

        def derivatives(z: Array) -> tuple[Array, Array, Array]:
            size = xp.abs(z)
            e = xp.exp(-size)  # one exponential for sigma(-z), its slope and log sigma(z)
            q = 1.0 / (1.0 + e)
            return e * q * q, xp.where(z > 0, e * q, q), 0.5 * (z - size) - xp.log1p(e)

        return by_quadrature(derivatives, y, m, v)

    def draw(self, y: Array, f: Array, c: Array, rng: np.random.Generator) -> Local:
        # PG(c, f) is a sum of c independent PG(1, f)
        w = summed(
            c,
            "logistic",
            lambda rows: polya_gamma(f[rows], rng),
            lambda rows: polya_gamma_cumulants(f[rows]),
            rng,
        )
        return Local(w, 0.5 * c * y - w * f, c * self.log_prob(y, f), w)

    def log_prob(self, y: Array, f: Array) -> Array:
        return log_expit(y * f)

    def proba(self, m: Array, v: Array) -> Array:
        m, v = np.broadcast_arrays(np.asarray(m, dtype=float), np.asarray(v, dtype=float))
        low = -np.abs(m)  # the lower tail is the accurate one; the upper mirrors it
        tail = low < -v  # there sigma(f) is nearly exp(f): tilt the Gaussian by it
        body = self._average(np.where(tail, -(low + v), low), v)
        p = np.where(tail, np.exp(np.minimum(low + 0.5 * v, 0.0)) * body, body)
        return np.where(m > 0, 1.0 - p, p)

    def _average(self, m: Array, v: Array) -> Array:
        s = np.sqrt(v)
        narrow = sum(k * expit(m + x * s) for x, k in zip(NODES, WEIGHTS, strict=True))
        # wide: average the normal distribution function over a logistic variable instead
        wide = sum(
            k * ndtr((m - x) / np.maximum(s, 1.0)) for x, k in zip(LOGITS, SHARES, strict=True)
        )
        return np.clip(np.where(s < 2.0, narrow, wide), 0.0, 1.0)
