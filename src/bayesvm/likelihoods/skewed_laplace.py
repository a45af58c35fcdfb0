"""The skewed Laplace likelihood: a hinge loss plus a linear term, with a learned scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize_scalar

from ..core.distributions import slice_sample
from ..core.parameters import is_number
from ..core.types import Array, Contribution
from .base import Hinges, PseudoLikelihood, log_half_mean
from .hinge import Hinge

HINGE = Hinge()
FARTHEST = 14.0  # largest |log gamma| that is tried


@dataclass(frozen=True)
class SkewedLaplace(PseudoLikelihood):
    r"""Skewed Laplace density of :math:`u = 1 - yf`, whose scale can be learned.

    With :math:`\gamma_0 > 0`, :math:`k = \sqrt{1 + 2\gamma_0/\gamma}` and
    :math:`a \sim \mathrm{Exp}(\gamma_0)`,

    .. math::

        L(y \mid f) = \frac{\gamma_0}{k}\, e^{-\gamma(k|u| + u)}
          = \int_0^\infty \gamma_0 \sqrt{\frac{\gamma}{2\pi a}}
            \exp\Big\{-\frac{\gamma(u + a)^2}{2a} - \gamma_0 a\Big\}\, da .

    It is :math:`\gamma k` times the hinge, plus a linear term,

    .. math:: \log L = \log\frac{\gamma_0}{k} + \gamma k \log L_{hinge} + \gamma(k - 1)\,u ,

    so a row contributes :math:`\gamma k` times what it contributes to :class:`Hinge`, plus a
    constant gradient: the gradient of a row far on the correct side of the margin has size
    :math:`\gamma(k - 1)` and not zero.

    Parameters
    ----------
    gamma : float, optional
        Scale :math:`\gamma` of the loss; ``C`` of a support vector machine is
        :math:`2\gamma`.  ``None`` learns it, by maximising the bound (VB, SVI and EM) or drawing
        (Gibbs), with the prior :math:`\mathrm{Ga}(a_0, b_0)`.  (Without a prior it would diverge
        for separable classes.)
    gamma0 : float or None, default=0.1
        Rate :math:`\gamma_0` of the latent scales.  Zero gives the hinge to the power
        :math:`\gamma`, which is not normalisable, so that :math:`\gamma` cannot be learned and
        would be estimated as zero.  ``None`` draws it with :math:`\gamma` under Gibbs, with the
        same prior.
    a0, b0 : float, default=1.0
        Shape and rate of the prior.

    References
    ----------
    Henao, Yuan & Carin (2014), eqs 4, 5 and 7.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.likelihoods import SkewedLaplace
    >>> row = SkewedLaplace(1.0, gamma0=1.5).expected(np.array([1.0]), np.array([0.0]), 0.0)
    >>> float(row.w[0]), float(row.g[0])  # k = 2
    (2.0, 3.0)
    """

    is_kinked: ClassVar[bool] = True

    gamma: float | None = None
    gamma0: float | None = 0.1
    a0: float = 1.0
    b0: float = 1.0
    rate: float = field(default=0.1, repr=False, kw_only=True)  # the current gamma0, if it is drawn

    def __post_init__(self) -> None:
        if self.gamma is not None and not (is_number(self.gamma) and self.gamma > 0):
            raise ValueError(
                f"SkewedLaplace(gamma) must be a positive number or None; got {self.gamma!r}."
            )
        if self.gamma0 is not None and not is_number(self.gamma0, 0):
            raise ValueError(
                f"SkewedLaplace(gamma0) must be a number of at least 0 or None; got "
                f"{self.gamma0!r}."
            )
        for name, value in (("a0", self.a0), ("b0", self.b0)):
            if not (is_number(value) and value > 0):
                raise ValueError(f"SkewedLaplace({name}) must be a positive number; got {value!r}.")
        if self.gamma is None and self.gamma0 == 0:
            raise ValueError(
                "gamma cannot be learned with gamma0=0: that is the hinge, which is no density, so "
                "that data can only lower gamma, down to zero. Give gamma0 > 0, or give gamma (1.0 "
                "is the hinge itself) and let the scale of f be learned."
            )
        scale = 1.0 if self.gamma is None else float(self.gamma)
        rate = self.rate if self.gamma0 is None else float(self.gamma0)
        self.__dict__.update(is_learned=self.gamma is None, scale=scale, rate=rate)

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.scale,) if self.gamma0 is not None else (self.scale, self.rate)

    def with_numbers(self, numbers: Sequence[float]) -> SkewedLaplace:
        gamma, rate = (*numbers, self.rate)[:2]
        return replace(self, gamma=float(gamma), rate=float(rate))

    def _parts(
        self, gamma: float | None = None, rate: float | None = None
    ) -> tuple[float, float, float]:
        """Weight of the hinge, slope of the linear term, and the constant."""
        gamma, rate = gamma or self.scale, self.rate if rate is None else rate
        k = math.sqrt(1.0 + 2.0 * rate / gamma)
        # k - 1 without cancellation
        line = 2.0 * rate / (k + 1.0)
        return gamma * k, line, math.log(rate / k) if rate > 0 else 0.0

    def _bent(self, row: Contribution, y: Array, m: Array) -> Contribution:
        """The scaled contribution of the hinge plus the linear term."""
        times, line, constant = self._parts()
        bound = times * row.bound + line * (1.0 - y * m) + constant
        return Contribution(times * row.w, times * row.g - line * y, bound, times * row.h)

    def augmented(self, y: Array, m: Array, v: Array | float) -> Contribution:
        return self._bent(HINGE.augmented(y, m, v), y, m)

    def tight(self, y: Array, m: Array, v: Array | float) -> Contribution:
        return self._bent(HINGE.tight(y, m, v), y, m)

    def hinges(self, y: Array, c: Array) -> Hinges:
        # gamma (k |u| + u) has slopes gamma (k + 1) and -gamma (k - 1)
        times, line, _ = self._parts()
        one = np.ones_like(y)
        weights = np.stack([(times - 0.5 * line) * c, 0.5 * line * c])
        return Hinges(np.stack([y, -y]), np.stack([one, -one]), weights)

    def draw(self, y: Array, f: Array, c: Array, rng: np.random.Generator) -> Contribution:
        times, line, _ = self._parts()
        row = HINGE.draw(y, f, times * c, rng)  # Henao eq. 7, in the hinge's terms
        return row._replace(g=row.g - line * c * y, bound=c * self.log_prob(y, f))

    def log_prob(self, y: Array, f: Array) -> Array:
        times, line, constant = self._parts()
        out: Array = times * HINGE.log_prob(y, f) + line * (1.0 - y * f) + constant
        return out

    def log_mean(self, y: Array | float, m: Array, v: Array) -> Array:
        """Log of the expected density under f ~ N(m, v)."""
        s, mu = np.sqrt(np.maximum(v, 1e-100)), 1.0 - y * m
        times, line, constant = self._parts()
        wrong = log_half_mean(2.0 * times - line, mu, s)  # u > 0, where -log L is 2 gamma k - line
        out: Array = np.logaddexp(wrong, log_half_mean(line, -mu, s)) + constant
        return out

    # ----- learning the scale

    def _log_prior(self, t: float) -> float:
        """Log prior density of t = log gamma or log gamma0."""
        return (self.a0 - 1.0) * t - self.b0 * math.exp(t)

    def _profile(self, fit: float, residual: float, n: float) -> Callable[..., float]:
        r"""Log posterior density of :math:`\gamma`, as a function of :math:`\log\gamma`.

        ``fit`` and ``residual`` are the weighted sums of :math:`\ell_i` and :math:`\bar u_i` over
        rows, ``n`` is the sum of weights.  An optional second argument is :math:`\gamma_0`.
        """
        times, line, constant = self._parts()
        size = (n * constant - fit + line * residual) / times - residual  # the sum of E|u|

        def value(t: float, rate: float | None = None) -> float:
            times, line, constant = self._parts(math.exp(t), rate)
            loss = times * (size + residual) - line * residual
            return n * constant - loss + self._log_prior(t)

        return value

    def update(self, fit: float, residual: float, n: float) -> SkewedLaplace:
        value = self._profile(fit, residual, n)
        grid = np.linspace(-FARTHEST, FARTHEST, 57)
        best = grid[int(np.argmax([value(t) for t in grid]))]
        around = (best - 0.5, best + 0.5)
        found = minimize_scalar(lambda t: -value(t), bounds=around, options={"xatol": 1e-7})
        return self.with_numbers([math.exp(found.x)])

    def redraw(
        self, fit: float, residual: float, n: float, rng: np.random.Generator
    ) -> SkewedLaplace:
        """Draw the scale given f, with the mixing variables integrated out, and the rate if
        it is drawn."""
        value = self._profile(fit, residual, n)
        t = slice_sample(
            lambda t: value(t) + t if abs(t) < FARTHEST else -np.inf, math.log(self.scale), rng
        )
        if self.gamma0 is not None:
            return self.with_numbers([math.exp(t)])

        def of_rate(r: float) -> float:
            if abs(r) >= FARTHEST:
                return -np.inf
            return value(t, math.exp(r)) + self._log_prior(r) + r

        r = slice_sample(of_rate, math.log(self.rate), rng)
        return self.with_numbers([math.exp(t), math.exp(r)])
