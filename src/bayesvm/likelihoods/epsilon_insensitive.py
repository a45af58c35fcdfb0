"""The epsilon-insensitive likelihood of support vector regression: a sum of two hinges."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr

from ..core.distributions import slice_sample
from ..core.parameters import is_number
from ..core.types import Array, Contribution
from .base import Hinges, Likelihood, log_half_mean
from .hinge import Hinge

HINGE = Hinge()
# Largest gamma that is learned.  It would diverge for rows that can be fitted exactly; this value
# is a mean absolute noise of 5e-5 standard deviations of a standardised y.
STEEPEST = 1e4


@dataclass(frozen=True)
class EpsilonInsensitive(Likelihood):
    r"""Likelihood of a regression target whose log is minus the support vector regression loss.

    With :math:`r = y - f`,

    .. math::

        p(y \mid f) = \frac1Z\, e^{-2\gamma\max(|r| - \varepsilon, 0)},
        \qquad Z = 2\varepsilon + \frac1\gamma .

    It is flat within :math:`\varepsilon` of f and falls exponentially outside.  The loss is the sum
    of two hinges, :math:`2\max(|r| - \varepsilon, 0) = 2u_1^+ + 2u_2^+` with
    :math:`u_1 = r - \varepsilon` and :math:`u_2 = -r - \varepsilon`, so there are two mixtures,

    .. math::

        e^{-2\gamma\max(|r| - \varepsilon, 0)} = \prod_{k=1}^2 \int_0^\infty
            \sqrt{\frac{\gamma}{2\pi a_k}}
            \exp\Big\{-\frac{\gamma(u_k + a_k)^2}{2a_k}\Big\}\, da_k .

    Under :math:`f \sim N(m, v)` a row contributes :math:`\gamma` times the sum of two rows of
    :class:`Hinge`: with :math:`\chi_\mp = (y - m \mp \varepsilon)^2 + v`

    .. math::

        w = \gamma\big(\chi_-^{-1/2} + \chi_+^{-1/2}\big), \quad
        g = \gamma\Big(\frac{y - m - \varepsilon}{\sqrt{\chi_-}}
            + \frac{y - m + \varepsilon}{\sqrt{\chi_+}}\Big), \quad
        \ell = \gamma\big(2\varepsilon - \sqrt{\chi_-} - \sqrt{\chi_+}\big) - \log Z .

    Because it is a density of *y*, the scale can be learned.  With *T* the sum over rows of
    :math:`\sqrt{\chi_-} + \sqrt{\chi_+} - 2\varepsilon`, the bound is highest where
    :math:`2\varepsilon T\gamma^2 + T\gamma = n`.

    Parameters
    ----------
    gamma : float, optional
        Scale :math:`\gamma` of the loss; ``C`` of a support vector machine is :math:`2\gamma`
        times the prior variance, and :math:`1/2\gamma` is the mean distance from the tube of rows
        outside of it.  ``None`` learns it, by maximising the bound (VB, SVI and EM) or drawing
        with a flat prior (Gibbs); at most 10,000.
    epsilon : float, default=0.0
        Half the width of the tube.  Zero gives the Laplace density with median f.

    References
    ----------
    Polson & Scott (2011), Theorem 1, once for each hinge.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.likelihoods import EpsilonInsensitive
    >>> row = EpsilonInsensitive(1.0, epsilon=0.5).expected(np.array([2.0]), np.array([0.0]), 0.0)
    >>> float(row.g[0]), float(np.round(row.bound[0], 3))  # a loss of 2 * 1.5, and log Z
    (2.0, -3.693)
    """

    is_kinked: ClassVar[bool] = True

    gamma: float | None = None
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        if self.gamma is not None and not (is_number(self.gamma) and self.gamma > 0):
            raise ValueError(
                f"EpsilonInsensitive(gamma) must be a positive number or None; got {self.gamma!r}."
            )
        if not is_number(self.epsilon, 0):
            raise ValueError(
                f"EpsilonInsensitive(epsilon) must be a number of at least 0; got {self.epsilon!r}."
            )
        scale = 1.0 if self.gamma is None else float(self.gamma)
        self.__dict__.update(is_learned=self.gamma is None, scale=scale)

    def with_numbers(self, numbers: Sequence[float]) -> EpsilonInsensitive:
        return replace(self, gamma=min(float(numbers[0]), STEEPEST))

    @property
    def _log_mass(self) -> float:
        return math.log(2.0 * self.epsilon + 1.0 / self.scale)

    def _two(
        self, row: Callable[..., Contribution], y: Array, m: Array, c: Any, *more: Any
    ) -> Contribution:
        """The contributions of both hinges for rows of weights c."""
        # 1 - y f of the hinges is y - f - epsilon for label 1 and f - y - epsilon for label -1
        one = 1.0 + 0.0 * m
        above = row(one, m - y + self.epsilon + 1.0, *more)
        below = row(-one, m - y - self.epsilon - 1.0, *more)
        bound = above.bound + below.bound - c * self._log_mass
        return Contribution(above.w + below.w, above.g + below.g, bound, above.h + below.h)

    def augmented(self, y: Array, m: Array, v: Array | float) -> Contribution:
        return self._two(HINGE.augmented, y, m, 1.0 / self.scale, v).times(self.scale)

    def tight(self, y: Array, m: Array, v: Array | float) -> Contribution:
        return self._two(HINGE.tight, y, m, 1.0 / self.scale, v).times(self.scale)

    def draw(self, y: Array, f: Array, c: Array, rng: np.random.Generator) -> Contribution:
        return self._two(HINGE.draw, y, f, c, self.scale * c, rng)

    def hinges(self, y: Array, c: Array) -> Hinges:
        one, k = np.ones_like(y), self.scale * c
        margins = np.stack([y - self.epsilon, -y - self.epsilon])
        return Hinges(np.stack([one, -one]), margins, np.stack([k, k]))

    def log_prob(self, y: Array, f: Array) -> Array:
        out: Array = -2.0 * self.scale * np.maximum(np.abs(y - f) - self.epsilon, 0.0)
        return out - self._log_mass

    def log_mean(self, y: Array | float, m: Array, v: Array) -> Array:
        """Log predictive density of y under f ~ N(m, v)."""
        s, r, rate = np.sqrt(np.maximum(v, 1e-100)), np.abs(y - m), 2.0 * self.scale
        beyond, before = (log_half_mean(rate, x - self.epsilon, s) for x in (r, -r))
        high, low = (log_ndtr((x - r) / s) for x in (self.epsilon, -self.epsilon))
        with np.errstate(divide="ignore"):  # for epsilon = 0
            inside = high + np.log(-np.expm1(np.minimum(low - high, 0.0)))
        out: Array = np.logaddexp(np.logaddexp(beyond, before), inside) - self._log_mass
        return out

    @property
    def variance(self) -> float:
        """Variance of y about f."""
        e, k = self.epsilon, 1.0 / self.scale
        return (2.0 * e**3 / 3.0 + e * e * k + e * k * k + 0.5 * k**3) / (2.0 * e + k)

    # ----- learning the scale

    def _loss(self, fit: float, n: float) -> float:
        """The sum T over rows, the loss at a scale of one."""
        return max(-(fit + n * self._log_mass) / self.scale, 1e-300)

    def update(self, fit: float, residual: float, n: float) -> EpsilonInsensitive:
        T = self._loss(fit, n)
        return self.with_numbers([2.0 * n / (T + math.sqrt(T * T + 8.0 * self.epsilon * n * T))])

    def redraw(
        self, fit: float, residual: float, n: float, rng: np.random.Generator
    ) -> EpsilonInsensitive:
        """Draw the scale given f, with the mixing variables integrated out."""
        T, e = self._loss(fit, n), self.epsilon

        def log_density(t: float) -> float:
            if t > math.log(STEEPEST):
                return -np.inf
            return t - T * math.exp(t) - n * math.log(2.0 * e + math.exp(-t))

        return self.with_numbers([math.exp(slice_sample(log_density, math.log(self.scale), rng))])
