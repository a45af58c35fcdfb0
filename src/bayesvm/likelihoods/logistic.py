"""The logit link as a Polya-Gamma mixture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import expit, log_expit, ndtr

from ..core import arrays
from ..core.distributions import LOG_2PI, polya_gamma, polya_gamma_cumulants, polya_gamma_part
from ..core.types import Array, Local
from .base import (
    NODES,
    WEIGHTS,
    Derivatives,
    HingeAverage,
    Likelihood,
    averaged_hinges,
    summed,
)

_at, _share = leggauss(64)  # on (-1, 1); quantiles of the logistic law
LOGITS, SHARES = np.log1p(_at) - np.log1p(-_at), _share / 2.0
NARROW = 0.015  # largest variance of f for which expectations are expanded in it
NARROWEST = 1e-4  # and up to which the first term is enough: others are below 1e-9
FEW = 256  # rows up to which values at all points are held at once
SENT: dict[Any, Any] = {}  # what of these is on devices
AT_ONCE = 2**17  # rows on a device up to which all parts of a value are computed at once
# The logistic law is a Gaussian whose standard deviation is twice a Kolmogorov variable (Andrews &
# Mallows 1974).  Gauss quadrature over its logarithm: with these twelve, E log p and its
# derivatives are right to 2e-9 at any mean and variance of f, and derivatives of each other.
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
# Five of them, by Gauss quadrature of these twelve, are right to 2e-5, and the value to 4e-6
FEWER = HingeAverage(
    0.0,
    np.array([0.023339914840, 0.263128561070, 0.479922350896, 0.216408605526, 0.017200567667]),
    np.array([0.835081790154, 1.180662531565, 1.695488926462, 2.460971236398, 3.547973907448]) ** 2,
)


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
        e = xp.exp(-xi)
        # tanh(xi/2) / (2 xi) -> 1/4; below 1e-4 the series 1/4 - xi^2/48 is exact to 1e-17
        safe = xp.clip(xi, 1e-4, None)
        w = xp.where(xi < 1e-4, 0.25 - xi * xi / 48.0, xp.tanh(safe / 2.0) / (2.0 * safe))
        slope = xp.where(  # (dw/dxi) / xi
            xi < 1e-2,
            -1.0 / 24.0 + xi * xi / 120.0,
            (e / (1.0 + e) ** 2 - w) / xp.clip(xi, 1e-2, None) ** 2,
        )
        h = xp.clip(w + m * m * slope, 0.0, None)  # a difference, which rounds
        return Local(w, 0.5 * y - w * m, 0.5 * (y * m - xi) - xp.log1p(e), h)

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        z = y * f
        e = np.abs(z)  # and then exp(-|z|), in place as all that follows
        np.exp(np.negative(e, out=e), out=e)
        s = e + 1.0
        np.divide(1.0, s, out=s)
        value = np.log(s)
        value += np.minimum(z, 0.0)
        e *= s
        h = e * s
        s -= 0.5
        g = np.copysign(s, z, out=z)
        np.subtract(0.5, g, out=g)
        g *= y
        return Derivatives(value, g, h)

    def tight(self, y: Array, m: Array, v: Array | float) -> Local:
        if m.ndim == 1 and m.shape[0] <= AT_ONCE and arrays.is_foreign(m):
            return self._tight_at_once(y, y * m, v)
        if arrays.is_numpy(m) and np.max(v, initial=0.0) <= NARROW:
            return _expanded(y, y * m, v)
        return super().tight(y, m, v)

    def roughly(self, y: Array, m: Array, v: Array | float) -> Local:
        foreign = arrays.is_foreign(m)  # where few large operations are as fast
        return self.tight(y, m, v) if foreign else averaged_hinges(y, m, v, FEWER)

    def hinge_average(self) -> HingeAverage:
        r""":math:`\log p = -E(e - yf)^+` with a logistic variable *e*."""
        return HingeAverage(0.0, PARTS, SPREADS**2, NARROW)

    def _tight_at_once(self, y: Array, z: Array, v: Array | float) -> Local:
        """The same on a device, where few large operations take less time than many small ones."""
        xp = arrays.of(z)
        part = arrays.sent(SENT, "parts", PARTS[:, None], z)
        sd = xp.sqrt(v + arrays.sent(SENT, "squares", SPREADS[:, None] ** 2, z))
        u = z / sd
        wrong, bell = arrays.ndtr(-u) * part, xp.exp(-0.5 * u * u - 0.5 * LOG_2PI) * part
        w, slope = xp.sum(bell / sd, axis=0), xp.sum(wrong, axis=0)
        return Local(w, y * slope, z * slope - xp.sum(sd * bell, axis=0), w)

    def draw(self, y: Array, f: Array, c: Array, rng: np.random.Generator) -> Local:
        # PG(c, f) is a sum of independent PG(1, f), and of one for what c has beyond a whole number
        whole = np.floor(c + 1e-12)
        w = summed(
            whole,
            "logistic",
            lambda rows: polya_gamma(f[rows], rng),
            lambda rows: polya_gamma_cumulants(f[rows]),
            rng,
        )
        rest = np.flatnonzero(c - whole > 1e-12)
        if rest.size:
            w[rest] += polya_gamma_part((c - whole)[rest], f[rest], rng)
        return Local(w, 0.5 * c * y - w * f, c * self.log_prob(y, f), w)

    def log_prob(self, y: Array, f: Array) -> Array:
        return log_expit(y * f)

    def proba(self, m: Array, v: Array) -> Array:
        m, v = np.broadcast_arrays(arrays.double(m), arrays.double(v))
        low = -np.abs(m)  # the lower tail is the accurate one; the upper mirrors it
        tail = low < -v  # there sigma(f) is nearly exp(f): tilt the Gaussian by it
        body = self._average(np.where(tail, -(low + v), low), v)
        p = np.where(tail, np.exp(np.minimum(low + 0.5 * v, 0.0)) * body, body)
        return np.where(m > 0, 1.0 - p, p)

    def log_odds(self, m: Array, v: Array) -> Array:
        if np.any(v):
            return super().log_odds(m, v)
        return np.clip(m, np.log(np.finfo(float).tiny), -np.log(np.finfo(float).tiny))

    def _average(self, m: Array, v: Array) -> Array:
        s = np.sqrt(v)
        if np.all(near := s < 2.0):
            out = _narrow(m, s)
        else:
            out = np.empty_like(m)
            out[near], out[~near] = _narrow(m[near], s[near]), _wide(m[~near], s[~near])
        return np.clip(out, 0.0, 1.0)


def _expanded(y: Array, z: Array, v: Array | float) -> Local:
    r"""Expectations of log p and its derivatives for small variances of f, where z = ym.

    With :math:`\phi` one of them, :math:`E\phi = \phi + \frac v2\phi^{(2)} +
    \frac{v^2}8\phi^{(4)} + \frac{v^3}{48}\phi^{(6)}`; the next term is below 1e-9.  Derivatives of
    the logistic function are polynomials in :math:`q = \sigma(1 - \sigma)`, even ones times
    :math:`1 - 2\sigma`.
    """
    e = np.exp(-np.abs(z))
    s = 1.0 / (1.0 + e)
    wrong, q = np.where(z > 0.0, e * s, s), e * s * s
    a, odd, third = 0.5 * v, q * (2.0 * wrong - 1.0), 1.0 - 6.0 * q
    w, slope, value = 1.0 + a * third, a, a
    if np.max(v, initial=0.0) > NARROWEST:
        b, c = 0.5 * a * a, a**3 / 6.0
        fifth = 1.0 + q * (120.0 * q - 30.0)
        w = w + b * fifth + c * (1.0 + q * (q * (1680.0 - 5040.0 * q) - 126.0))
        slope = slope + b * (1.0 - 12.0 * q) + c * (1.0 + q * (360.0 * q - 60.0))
        value = value + b * third + c * fifth
    w = q * w
    return Local(w, y * (wrong - odd * slope), np.minimum(z, 0.0) - np.log1p(e) - q * value, w)


def _narrow(m: Array, s: Array) -> Array:
    return _sum_at(m, lambda x: expit(m + x * s), NODES, WEIGHTS)


def _wide(m: Array, s: Array) -> Array:
    """The average over a logistic variable of the normal distribution function."""
    return _sum_at(m, lambda x: ndtr((m - x) / np.maximum(s, 1.0)), LOGITS, SHARES)


def _sum_at(rows: Array, of: Callable[[Any], Array], points: Array, weights: Array) -> Array:
    """Sum of weighted values at points: one after another where rows are many."""
    if rows.size > FEW:
        return sum(k * of(x) for x, k in zip(points, weights, strict=True))
    ahead = (-1, *[1] * rows.ndim)
    return np.sum(weights.reshape(ahead) * of(points.reshape(ahead)), axis=0)
