"""The hinge pseudo-likelihood as a Gaussian mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr

from ..core import arrays
from ..core.distributions import inverse_gaussian
from ..core.types import Array, Contribution
from .base import Hinges, PseudoLikelihood, averaged_hinges, log_half_mean

FLOOR = 1e-20  # smallest E[u^2]: keeps the weight of a row on the margin finite
CEILING = 1e12  # largest drawn weight: above it a factorisation would lose all other rows


@dataclass(frozen=True)
class Hinge(PseudoLikelihood):
    r"""Hinge pseudo-likelihood of the support vector machine.

    With :math:`u = 1 - y f` the density and its mixture form are

    .. math::

        L(y \mid f) = e^{-2\max(u, 0)}
          = \int_0^\infty \frac{1}{\sqrt{2\pi a}}
            \exp\Big\{-\frac{(u + a)^2}{2a}\Big\}\, da .

    Under :math:`f \sim N(m, v)` and the optimal factor of :math:`a` a row contributes

    .. math::

        w = \chi^{-1/2}, \qquad g = y(1 + w\bar u), \qquad
        \ell = -(\bar u + \sqrt\chi), \qquad \chi = \bar u^2 + v,

    with :math:`\bar u = 1 - ym`, and the curvature :math:`h = v\chi^{-3/2}`.  At :math:`v = 0` the
    bound is the hinge itself.  A row of weight *c* counts *c* times.

    References
    ----------
    Polson & Scott (2011), Theorem 1; Luts & Ormerod (2014), section 2.3 and Algorithm 1; the
    constants of their bounds cancel to the form above.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.likelihoods import Hinge
    >>> row = Hinge().expected(np.array([1.0]), np.array([0.0]), 0.0)
    >>> float(row.w[0]), float(row.g[0]), float(row.bound[0])
    (1.0, 2.0, -2.0)
    """

    is_kinked: ClassVar[bool] = True

    def augmented(self, y: Array, m: Array, v: Array | float) -> Contribution:
        return augmented_hinge(y, m, v)

    def tight(self, y: Array, m: Array, v: Array | float) -> Contribution:
        return averaged_hinges(y, m, v, 1.0, np.array([2.0]), np.array([FLOOR]))

    def draw(self, y: Array, f: Array, c: Array, rng: np.random.Generator) -> Contribution:
        u = 1.0 - y * f
        # Luts & Ormerod, App. A: 1/a | u ~ InvGauss(c/|u|, c^2)
        w = np.minimum(inverse_gaussian(np.abs(u) / c, c * c, rng), CEILING * np.maximum(c, 1.0))
        return Contribution(w, y * (c + w * u), -2.0 * c * np.maximum(u, 0.0), w)

    def hinges(self, y: Array, c: Array) -> Hinges:
        return Hinges(y[None], np.ones((1, y.size)), c[None])

    def log_prob(self, y: Array, f: Array) -> Array:
        return -2.0 * np.maximum(1.0 - y * f, 0.0)

    def log_mean(self, y: Array | float, m: Array, v: Array) -> Array:
        s, mu = np.sqrt(np.maximum(v, 1e-100)), 1.0 - y * m
        return np.logaddexp(log_ndtr(-mu / s), log_half_mean(2.0, mu, s))


def augmented_hinge(y: Array, m: Array, rest: Any) -> Contribution:
    """The contribution of rows with chi = u^2 + ``rest`` (variance plus squared softness)."""
    xp = arrays.of(m)
    u = 1.0 - y * m
    root = xp.sqrt(xp.clip(u * u + rest, FLOOR, None))  # sqrt(chi)
    w = 1.0 / root
    # avoids cancellation in u + sqrt(chi) for u < 0
    loss = xp.where(u > 0, u + root, rest / (root + xp.abs(u)))
    slope = xp.where(u >= 0, 1.0 + u * w, rest * w * w / (1.0 + xp.abs(u) * w))
    return Contribution(w, y * slope, -loss, rest * w**3)
