"""The skewed Laplace loss: a hinge that is also a density of the margin residual."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import ClassVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from ..core.distributions import slice_sample
from ..core.types import Array, Local
from ._shared import log_half_mean
from .hinge import Hinge

HINGE = Hinge()
FARTHEST = 14.0  # largest |log gamma| that is tried
PRIOR_RATE = 1.0  # of the exponential prior of gamma


@dataclass(frozen=True)
class SkewedLaplace:
    r"""Skewed Laplace density of :math:`u = 1 - yf`, whose scale can be learned.

    With :math:`\gamma_0 > 0`, :math:`k = \sqrt{1 + 2\gamma_0/\gamma}` and
    :math:`a \sim \mathrm{Exp}(\gamma_0)`,

    .. math::

        L(y \mid f) = \frac{\gamma_0}{k}\, e^{-\gamma(k|u| + u)}
          = \int_0^\infty \gamma_0 \sqrt{\frac{\gamma}{2\pi a}}
            \exp\Big\{-\frac{\gamma(u + a)^2}{2a} - \gamma_0 a\Big\}\, da .

    It is the hinge counted :math:`\gamma k` times, and a straight line,

    .. math:: \log L = \log\frac{\gamma_0}{k} + \gamma k \log L_{hinge} + \gamma(k - 1)\,u ,

    so rows answer as those of :class:`Hinge` do, with weights times :math:`\gamma k` and slopes
    moved.  A row that is right by a wide margin still pulls, with slope :math:`\gamma(k - 1)`.

    Parameters
    ----------
    gamma : float, optional
        Scale :math:`\gamma` of the loss; ``C`` of a support vector machine is
        :math:`2\gamma`.  ``None``: learned, by the bound under VB, SVI and EM, drawn
        by Gibbs, with an exponential prior of mean one.  (Where classes can be separated the
        likelihood alone would let it grow without end.)
    gamma0 : float, default=0.1
        Rate :math:`\gamma_0` of the latent scales.  Zero is the hinge to the power
        :math:`\gamma`, from which no data can learn :math:`\gamma`: the function has no mass to
        compare, and the estimate falls to zero.

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

    normalised: ClassVar[bool] = False  # over residuals it is, over the two labels it is not
    is_kinked: ClassVar[bool] = True  # EM smooths it first

    gamma: float | None = None
    gamma0: float = 0.1

    def __post_init__(self) -> None:
        for name, value in (("gamma", self.gamma), ("gamma0", self.gamma0)):
            if value is None and name == "gamma":
                continue
            good = isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(value)
            if not good or float(value) < 0 or (name == "gamma" and value == 0):  # type: ignore[arg-type]
                least = "a positive number or None" if name == "gamma" else "a number of at least 0"
                raise ValueError(f"SkewedLaplace({name}) must be {least}; got {value!r}.")
        if self.gamma is None and self.gamma0 == 0:
            raise ValueError(
                "gamma cannot be learned with gamma0=0: that is the hinge, which is no density, so "
                "that data can only lower gamma, down to zero. Give gamma0 > 0, or give gamma (1.0 "
                "is the hinge itself) and let the scale of f be learned."
            )

    @property
    def is_learned(self) -> bool:
        """Whether the scale is still to be found."""
        return self.gamma is None

    @property
    def scale(self) -> float:
        return 1.0 if self.gamma is None else float(self.gamma)

    def with_scale(self, gamma: float) -> SkewedLaplace:
        return replace(self, gamma=float(gamma))

    def _parts(self, gamma: float) -> tuple[float, float, float]:
        """Times the hinge is counted, slope of the line, and the constant."""
        k = math.sqrt(1.0 + 2.0 * self.gamma0 / gamma)
        # k - 1 without a difference of near equals
        line = 2.0 * self.gamma0 / (k + 1.0)
        return gamma * k, line, math.log(self.gamma0 / k) if self.gamma0 > 0 else 0.0

    def _bent(self, row: Local, y: Array, m: Array) -> Local:
        """A row of the hinge, counted and with the line added."""
        times, line, constant = self._parts(self.scale)
        bound = times * row.bound + line * (1.0 - y * m) + constant
        return Local(times * row.w, times * row.g - line * y, bound, times * row.h)

    def expected(self, y: Array, m: Array, v: Array | float) -> Local:
        return self._bent(HINGE.expected(y, m, v), y, m)

    def tight(self, y: Array, m: Array, v: Array | float) -> Local:
        r"""The row without augmentation: :math:`\ell = E\log L`, with :math:`E|u|` itself."""
        return self._bent(HINGE.tight(y, m, v), y, m)

    def draw(self, y: Array, f: Array, c: Array, rng: np.random.Generator) -> Local:
        times, line, _ = self._parts(self.scale)
        row = HINGE.draw(y, f, times * c, rng)  # Henao eq. 7, in the hinge's terms
        return row._replace(g=row.g - line * c * y, bound=c * self.log_prob(y, f))

    def log_prob(self, y: Array, f: Array) -> Array:
        times, line, constant = self._parts(self.scale)
        out: Array = times * HINGE.log_prob(y, f) + line * (1.0 - y * f) + constant
        return out

    def proba(self, m: Array, v: Array) -> Array:
        """P(y = 1) from the averaged density, normalised over the two labels."""
        return expit(self.log_odds(m, v))

    def log_odds(self, m: Array, v: Array) -> Array:
        """Log odds of the two labels under the averaged density."""
        s = np.sqrt(np.maximum(v, 1e-100))
        times, line, _ = self._parts(self.scale)

        def log_mean(mu: Array) -> Array:  # log E L, u ~ N(mu, s^2): slopes 2 gamma k - line, line
            inside = log_half_mean(2.0 * times - line, mu, s)
            return np.logaddexp(inside, log_half_mean(line, -mu, s))

        return log_mean(1.0 - m) - log_mean(1.0 + m)

    # ----- learning the scale

    def _profile(self, fit: float, lean: float, n: float):  # type: ignore[no-untyped-def]
        r"""Log density of :math:`\gamma`, at :math:`\log\gamma`, given what rows say now.

        ``fit`` is the sum of :math:`\ell_i`, ``lean`` that of :math:`\bar u_i` and ``n`` of one,
        each over rows counted by their weights; the sum of :math:`E|u_i|` (or of its bound) is what
        is left of ``fit``.
        """
        times, line, constant = self._parts(self.scale)
        spread = (n * constant - fit + line * lean) / times - lean  # sum of E|u|

        def value(t: float) -> float:
            times, line, constant = self._parts(math.exp(t))
            return n * constant - times * (spread + lean) + line * lean - PRIOR_RATE * math.exp(t)

        return value

    def update(self, fit: float, lean: float, n: float) -> SkewedLaplace:
        r"""The scale of most density given the sums of :math:`\ell_i`, :math:`\bar u_i`, 1."""
        value = self._profile(fit, lean, n)
        grid = np.linspace(-FARTHEST, FARTHEST, 57)
        best = grid[int(np.argmax([value(t) for t in grid]))]
        ends = (best - 0.5, best + 0.5)
        found = minimize_scalar(
            lambda t: -value(t), bounds=ends, method="bounded", options={"xatol": 1e-7}
        )
        return self.with_scale(math.exp(found.x))

    def redraw(self, fit: float, lean: float, n: float, rng: np.random.Generator) -> SkewedLaplace:
        """A draw of the scale given f, with the latent scales integrated out."""
        value = self._profile(fit, lean, n)
        t = slice_sample(
            lambda t: value(t) + t if abs(t) < FARTHEST else -np.inf, math.log(self.scale), rng
        )
        return self.with_scale(math.exp(t))
