"""The logistic likelihood as a Polya-Gamma mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import expit, log_expit, ndtr

from ..core import arrays
from ..core.distributions import polya_gamma, polya_gamma_sum
from ..core.types import Array, Contribution
from .base import NODES, WEIGHTS, Likelihood, averaged_hinges

_at, _share = leggauss(64)  # on (-1, 1), mapped to quantiles of the logistic distribution
LOGITS, SHARES = np.log1p(_at) - np.log1p(-_at), _share / 2.0
# The logistic distribution is a scale mixture of Gaussians: the standard deviation is twice a
# Kolmogorov variable (Andrews & Mallows 1974).  With these twelve nodes of Gauss quadrature over
# its logarithm, errors of E log p and its derivatives are below 2e-9 at any mean and variance.
PARTS = np.array(
    [
        *(6.5156863996764e-06, 6.3468969194391e-04, 1.1054560381194e-02, 6.6803591397149e-02),
        *(1.8634620490849e-01, 2.8258267830094e-01, 2.5666119286146e-01, 1.4306434548266e-01),
        *(4.5497709898707e-02, 6.9637656335712e-03, 3.8094132478774e-04, 3.8044326909900e-06),
    ]
)
SPREADS = np.array(
    [
        *(0.55484780676085, 0.67774968989693, 0.82283642216018, 1.00414732659017),
        *(1.23624651343031, 1.53543901098620, 1.91747322938196, 2.39290567947582),
        *(2.96691472527363, 3.64812735802435, 4.46165085911598, 5.48853149536584),
    ]
)


@dataclass(frozen=True)
class Logistic(Likelihood):
    r"""Logistic regression, :math:`p(y \mid f) = 1 / (1 + e^{-yf})`.

    .. math::

        p(y \mid f) = \tfrac12 e^{yf/2}
            \int e^{-\omega f^2/2}\, \mathrm{PG}(\omega; 1, 0)\, d\omega,
        \qquad w = \frac{\tanh(\xi/2)}{2\xi}, \quad b = \frac y2, \quad \xi^2 = m^2 + v,

    and the bound of a row is :math:`(ym - \xi)/2 - \log(1 + e^{-\xi})`.

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

    is_logit: ClassVar[bool] = True

    def augmented(self, y: Array, m: Array, v: Array | float) -> Contribution:
        xp = arrays.of(m)
        xi = xp.sqrt(m * m + v)
        e = xp.exp(-xi)
        # tanh(xi/2) / (2 xi) -> 1/4; below 1e-4 the series 1/4 - xi^2/48 is exact to 1e-17
        safe = xp.clip(xi, 1e-4, None)
        w = xp.where(xi < 1e-4, 0.25 - xi * xi / 48.0, xp.tanh(safe / 2.0) / (2.0 * safe))
        slope = xp.where(  # (dw/dxi) / xi
            xi < 1e-2,
            -1.0 / 24.0 + xi * xi / 120.0,
            (e / (1.0 + e) ** 2 - w) / xp.clip(xi, 1e-2, None) ** 2,
        )
        h = xp.clip(w + m * m * slope, 0.0, None)  # a difference, subject to rounding
        return Contribution(w, 0.5 * y - w * m, 0.5 * (y * m - xi) - xp.log1p(e), h)

    def tight(self, y: Array, m: Array, v: Array | float) -> Contribution:
        r"""By :math:`\log p = -E(e - yf)^+` with a logistic variable *e*.

        For variances up to .005, two terms of the series
        :math:`E\phi = \phi + \frac v2\phi'' + \frac{v^2}8\phi^{(4)} + \dots` are as accurate; they
        halve the time of a fit to 200,000 rows of 30 columns.
        """
        if arrays.of(m) is not np:
            return averaged_hinges(y, m, v, 0.0, PARTS, SPREADS**2)
        y, m, v = np.broadcast_arrays(y, m, v)
        z, a = y * m, 0.5 * v
        e = np.exp(-np.abs(z))
        s = 1.0 / (1.0 + e)
        wrong, q = np.where(z > 0.0, e * s, s), e * s * s  # derivatives are polynomials in these
        third, fifth = 1.0 - 6.0 * q, 1.0 + q * (120.0 * q - 30.0)
        slope = wrong - q * (2.0 * wrong - 1.0) * a * (1.0 + 0.5 * a * (1.0 - 12.0 * q))
        w = q * (1.0 + a * (third + 0.5 * a * fifth))
        bound = np.minimum(z, 0.0) - np.log1p(e) - q * a * (1.0 + 0.5 * a * third)
        large = v > 0.005
        exact = averaged_hinges(y[large], m[large], v[large], 0.0, PARTS, SPREADS**2)
        w[large], bound[large] = exact.w, exact.bound
        g = y * slope
        g[large] = exact.g
        return Contribution(w, g, bound, w)

    def draw(self, y: Array, f: Array, c: Array, rng: np.random.Generator) -> Contribution:
        w, one = np.empty(np.shape(f)), c == 1.0
        w[one] = polya_gamma(f[one], rng)
        w[~one] = polya_gamma_sum(c[~one], f[~one], rng)
        return Contribution(w, 0.5 * c * y - w * f, c * self.log_prob(y, f), w)

    def log_prob(self, y: Array, f: Array) -> Array:
        return log_expit(y * f)

    def proba(self, m: Array, v: Array) -> Array:
        m, v = np.broadcast_arrays(arrays.double(m), arrays.double(v))
        low = -np.abs(m)  # the lower tail is accurate; the upper is its mirror image
        tail = low < -v  # there sigma(f) is nearly exp(f): tilt the Gaussian by it
        at, s = np.where(tail, -(low + v), low), np.sqrt(v)
        narrow, p = s < 2.0, np.zeros(m.shape)
        for x, k in zip(NODES, WEIGHTS, strict=True):
            p[narrow] += k * expit(at[narrow] + x * s[narrow])
        for x, k in zip(LOGITS, SHARES, strict=True):  # quadrature over logistic quantiles
            p[~narrow] += k * ndtr((at[~narrow] - x) / s[~narrow])
        p = np.where(tail, np.exp(np.minimum(low + 0.5 * v, 0.0)), 1.0) * np.clip(p, 0.0, 1.0)
        return np.where(m > 0, 1.0 - p, p)
