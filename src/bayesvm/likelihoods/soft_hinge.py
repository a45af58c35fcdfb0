"""The soft hinge: a hinge loss with a rounded corner, as a Gaussian mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.distributions import LOG_2PI, inverse_gaussian
from ..core.parameters import is_number
from ..core.types import Array, Contribution
from .base import PseudoLikelihood, averaged_hinges
from .hinge import augmented_hinge

# sqrt(x^2 + 1) = E|x + e| for a Student variable e of two degrees of freedom, divided by sqrt(2).
# It is approximated by a mixture of ten Gaussians, with weights and standard deviations by least
# squares: relative error 3e-6 of the value, error 2e-5 of slope and curvature, for all x.
SHARES = np.array(
    [
        *(2.731586142857e-02, 1.785658511595e-01, 3.041814243346e-01, 2.572559236243e-01),
        *(1.449070134794e-01, 6.167265591917e-02, 2.021458684645e-02, 5.023738559518e-03),
        *(8.179307472260e-04, 4.501390132421e-05),
    ]
)
SHARES /= SHARES.sum()
SPREADS = np.array(
    [
        *(0.317509273867, 0.466480633386, 0.694974198567, 1.072667288893, 1.744987852984),
        *(3.062748480872, 5.972583278958, 13.502823404337, 40.079874563663, 242.02095786438),
    ]
)


@dataclass(frozen=True)
class SoftHinge(PseudoLikelihood):
    r"""Pseudo-likelihood of a support vector machine with a loss that is smooth at the margin.

    With :math:`u = 1 - y f` and softness *s*

    .. math::

        L_s(y \mid f) = e^{-(u + \sqrt{u^2 + s^2})}
          = \int_0^\infty \frac{1}{\sqrt{2\pi a}}
            \exp\Big\{-\frac{(u + a)^2 + s^2}{2a}\Big\}\, da .

    At :math:`s = 0` it is the hinge, :math:`e^{-2\max(u, 0)}`.  Far from the margin it is close to
    the hinge; within *s* of it the certainty of a label varies with f, as under the logistic
    likelihood.  The log odds of the two labels,
    :math:`2f + \sqrt{(1 + f)^2 + s^2} - \sqrt{(1 - f)^2 + s^2}`, tend to :math:`2f` as *s* grows.
    Under :math:`f \sim N(m, v)` a row contributes as under :class:`Hinge`, with
    :math:`\chi = \bar u^2 + v + s^2`.

    Parameters
    ----------
    softness : float, default=1.0
        The softness *s*, at least 0; with 0 the loss is the :class:`Hinge`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.likelihoods import SoftHinge
    >>> row = SoftHinge(1.0).expected(np.array([1.0]), np.array([1.0]), 0.0)
    >>> float(row.w[0]), float(row.g[0]), float(row.bound[0])
    (1.0, 1.0, -1.0)
    """

    softness: float = 1.0

    def __post_init__(self) -> None:
        if not is_number(self.softness, 0):
            raise ValueError(
                f"SoftHinge(softness) needs a number of at least 0; got {self.softness!r}."
            )

    @property
    def _s(self) -> float:
        return max(float(self.softness), 1e-6)  # smaller values make no difference

    def augmented(self, y: Array, m: Array, v: Array | float) -> Contribution:
        return augmented_hinge(y, m, v + self._s**2)

    def tight(self, y: Array, m: Array, v: Array | float) -> Contribution:
        """By a mixture of ten Gaussians in place of the Student variable."""
        return averaged_hinges(y, m, v, 1.0, 2.0 * SHARES, (self._s * SPREADS) ** 2)

    def draw(self, y: Array, f: Array, c: Array, rng: np.random.Generator) -> Contribution:
        u = 1.0 - y * f
        root = np.hypot(u, self._s)
        w = inverse_gaussian(root / c, c * c, rng)  # 1/a | u ~ InvGauss(c / root, c^2)
        return Contribution(w, y * (c + w * u), c * self.log_prob(y, f), w)

    def log_prob(self, y: Array, f: Array) -> Array:
        return -self._loss(1.0 - y * f)

    def _loss(self, u: Array) -> Array:
        root = np.hypot(u, self._s)
        return np.where(u > 0, u + root, self._s**2 / (root + np.abs(u)))

    def log_mean(
        self,
        y: Array | float,
        m: Array,
        v: Array,
        points: int = 161,
        reach: float = 9.0,
        narrow: float = 1e-7,
    ) -> Array:
        """By the trapezoidal rule about the mode of the integrand, which is log-concave.

        The grid is even in asinh(u / s), which resolves the margin.  It covers ``reach`` standard
        deviations of f on either side; a standard deviation is at least ``narrow`` times u.
        """
        mu, var = np.broadcast_arrays(1.0 - np.asarray(y * m, float), np.asarray(v, float))
        sd = np.maximum(np.sqrt(var), narrow * (1.0 + np.abs(mu)))
        # the slope of the loss is in (0, 2): the mode is between the mean and two variances below
        low, high = mu - 2.0 * sd * sd, mu
        for _ in range(60):
            mode = 0.5 * (low + high)
            rises = (mu - mode) / (sd * sd) > 1.0 + mode / np.hypot(mode, self._s)
            low, high = np.where(rises, mode, low), np.where(rises, high, mode)
        first, last = (np.arcsinh((mode + k * sd) / self._s) for k in (-reach, reach))
        step = (last - first) / (points - 1)

        def log_density(u: Array) -> Any:
            return -0.5 * np.square((u - mu) / sd) - self._loss(u)

        top, total = log_density(mode), np.zeros(mu.shape)
        for k in range(points):
            u = self._s * np.sinh(first + k * step)
            total += np.exp(log_density(u) - top) * np.hypot(u, self._s)
        out: Array = top + np.log(total * step / sd) - 0.5 * LOG_2PI
        return out
