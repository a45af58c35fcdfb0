"""Exponential power priors: bridge and lasso."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from ..core.distributions import inverse_gaussian, slice_sample, tilted_stable
from ..core.types import Array, TermMoments
from .base import Prior, check_positive

SMALLEST = 1e-24  # squared coefficient below which the precision stays constant


class BridgeState(NamedTuple):
    """E[nu^-alpha] (or a mode, or a draw), alpha, and precisions divided by alpha nu^-alpha."""

    rate: float
    alpha: float
    relative: Array


@dataclass(frozen=True)
class Bridge(Prior):
    r"""Exponential power (bridge) prior, sparse under EM for :math:`\alpha \le 1`.

    .. math::

        p(\theta_j \mid \nu) = \frac{1}{2\nu\,\Gamma(1 + 1/\alpha)}
            \exp\Big\{-\Big|\frac{\theta_j}{\nu}\Big|^\alpha\Big\},
        \qquad \vartheta = \nu^{-\alpha} \sim \mathrm{Gamma}(a, b).

    It is a mixture of Gaussians, :math:`\theta_j \mid \omega_j \sim N(0, \nu^2\omega_j)` with
    :math:`E[\omega_j^{-1} \mid \theta_j] = \alpha|\theta_j/\nu|^{\alpha-2}`.  Variational Bayes
    uses the same mixture as a bound that is tight at :math:`\xi_j^2 = E\theta_j^2`,

    .. math::

        -E|\theta_j|^\alpha \ge -\tfrac\alpha2\,\xi_j^{\alpha-2}\,E\theta_j^2
            - (1 - \tfrac\alpha2)\,\xi_j^\alpha ,

    so the precision is :math:`\alpha\,E\vartheta\,\xi_j^{\alpha-2}` and
    :math:`q(\vartheta) = \mathrm{Gamma}(a + p/\alpha,\; b + \sum_j \xi_j^\alpha)`.  EM is the same
    with :math:`E\theta_j^2` replaced by :math:`\theta_j^2 + \varepsilon^2`.

    Parameters
    ----------
    alpha : float or None, default=0.5
        Power, in (0, 2].  ``None`` draws it by slice sampling (Gibbs only), uniform on (0.15, 2).
    nu : float, optional
        Scale of the coefficients (of standardised columns); learned if not given.  The usual
        ``C`` of an l1 support vector machine is :math:`2\nu` at :math:`\alpha = 1`.
    a, b : float, default=1.0
        Shape and rate of the gamma prior on :math:`\nu^{-\alpha}`.

    References
    ----------
    Polson & Scott (2011), sections 2.2, 3.3 and 4.1, with the normaliser, the update of
    :math:`\nu` and the order of the draws corrected (see the errata).

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.priors import Bridge
    >>> from bayesvm.core.types import TermMoments
    >>> prior = Bridge(alpha=1.0, nu=0.5)
    >>> state = prior.update(prior.init(2), TermMoments(np.array([1.0, 0.1]), np.zeros(2)))
    >>> prior.precisions(state, 2)
    array([ 2., 20.])
    """

    alpha: float | None = 0.5
    nu: float | None = None
    a: float = 1.0
    b: float = 1.0

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.alpha is not None and not (isinstance(self.alpha, Real) and 0 < self.alpha <= 2):
            raise ValueError(
                f"{name}(alpha) must be a number above 0 and at most 2, or None to learn it under "
                f"inference='gibbs'; got {self.alpha!r}."
            )
        check_positive(name, a=self.a, b=self.b)
        if self.nu is not None:
            check_positive(name, ", or None to learn it", nu=self.nu)
        unknown = "alpha" if self.alpha is None else None
        more = {"is_learned": self.nu is None, "is_quadratic": self.alpha == 2.0}
        self.__dict__.update(more, needs_draws=unknown)

    def init(self, p: int) -> BridgeState:
        alpha = 1.0 if self.alpha is None else float(self.alpha)
        rate = 1.0 if self.nu is None else float(self.nu) ** -alpha
        return BridgeState(rate, alpha, np.full(p, 1.0 if alpha == 2.0 else 1.0 / alpha))

    def precisions(self, s: BridgeState, p: int) -> Array:
        return s.alpha * s.rate * s.relative

    # ----- variational and EM

    def expect(self, s: BridgeState, moments: TermMoments) -> BridgeState:
        return s._replace(relative=np.maximum(moments.square, SMALLEST) ** (s.alpha / 2 - 1.0))

    def update(self, s: BridgeState, moments: TermMoments) -> BridgeState:
        s = self.expect(s, moments)
        if self.nu is not None:
            return s
        size = np.sum(np.maximum(moments.square, SMALLEST) ** (s.alpha / 2))
        return s._replace(rate=float((self.a + moments.mean.size / s.alpha) / (self.b + size)))

    def mode(self, s: BridgeState, moments: TermMoments) -> BridgeState:
        """Maximise over the rate: the ECME step of Polson & Scott with the right side inverted."""
        if self.nu is not None:
            return s
        count = moments.mean.size / s.alpha + self.a - 1.0
        if count <= 0:
            raise ValueError(
                "the mode of the penalty does not exist: give "
                f"{type(self).__name__}(nu) or a larger a (got a={self.a:g})."
            )
        size = np.sum(np.maximum(moments.square, SMALLEST) ** (s.alpha / 2))
        return s._replace(rate=float(count / (self.b + size)))

    def bound(self, s: BridgeState, moments: TermMoments) -> float:
        half, size = s.alpha / 2, float(moments.square.sum())
        if half != 1.0:  # the quadratic bounds that touch at xi, evaluated at E theta^2
            xi_alpha = s.relative ** (half / (half - 1.0))
            size = float(np.sum(half * s.relative * moments.square + (1.0 - half) * xi_alpha))
        total = self._log_density(s, moments.mean.size, size)
        if self.nu is not None:
            return total
        A = self.a + moments.mean.size / s.alpha  # q(vartheta) = Gamma(A, A / s.rate)
        return float(total + math.log(s.rate) + gammaln(A) + A - A * math.log(A))

    def log_prob(self, s: BridgeState, moments: TermMoments) -> float:
        size = float(np.sum(moments.square ** (s.alpha / 2)))
        return self._log_density(s, moments.mean.size, size)

    def _log_density(self, s: BridgeState, p: int, size: float) -> float:
        """Log density of p coefficients with sum |theta|^alpha, and of the rate if learned."""
        norm = math.log(2.0) + gammaln(1.0 + 1.0 / s.alpha) - math.log(s.rate) / s.alpha
        total = -p * norm - s.rate * size
        if self.nu is None:
            total += self.a * math.log(self.b) - gammaln(self.a)
            total += (self.a - 1.0) * math.log(s.rate) - self.b * s.rate
        return float(total)

    def corner(self, s: BridgeState, p: int) -> Array:
        return np.full(p, s.rate if s.alpha == 1.0 else np.inf if s.alpha < 1.0 else 0.0)

    def zeroed(self, s: BridgeState, theta: Array, eps: float) -> Array:
        # above this the slopes of penalty and smoothed penalty agree to 1e-6
        return np.where((s.alpha <= 1.0) & (np.abs(theta) < 1e3 * eps), 0.0, theta)

    # ----- draws

    def draw(self, s: BridgeState, theta: Array, rng: np.random.Generator) -> BridgeState:
        """Draw scale (and power) with the mixing variables integrated out, then these variables."""
        p, size = theta.size, np.abs(theta)
        alpha, rate = s.alpha, s.rate
        if self.nu is None:
            rate = rng.gamma(self.a + p / alpha) / (self.b + np.sum(size**alpha))
        if self.alpha is None:
            nu = rate ** (-1.0 / alpha)
            z = size / nu

            def log_density(power: float) -> float:
                out = -p * gammaln(1.0 + 1.0 / power) - np.sum(z**power)
                if self.nu is None:  # p(nu | alpha) from the gamma prior on nu^-alpha
                    out += math.log(power) - power * self.a * math.log(nu) - self.b * nu**-power
                return float(out)

            # below .15 the prior is close to a point mass plus a flat density
            alpha = slice_sample(log_density, alpha, rng, bounds=(0.15, 2.0))
            rate = nu**-alpha
        z = size * rate ** (1.0 / alpha)
        if alpha == 2.0:
            inverse = np.full(p, 2.0)
        elif alpha == 1.0:
            inverse = inverse_gaussian(z, 1.0, rng)
        else:
            inverse = 2.0 * tilted_stable(alpha / 2, z**2, rng)
        relative = inverse * rate ** (2.0 / alpha - 1.0) / alpha
        return BridgeState(float(rate), float(alpha), np.minimum(relative, 1e15))

    def reported(self, hyper: Array) -> dict[str, Array]:
        """Draws by name: nu, computed from nu^-alpha and alpha, and alpha if it is drawn."""
        rate, alpha = hyper[..., 0], hyper[..., 1]
        out: dict[str, Array] = {"scale": rate ** (-1.0 / alpha)}
        return out | ({"power": alpha} if self.alpha is None else {})

    def stretch(self, s: BridgeState, moments: TermMoments) -> Callable[[float], float]:
        alpha, rate = s.alpha, s.rate
        if self.nu is None:
            return lambda t: -self.b * rate * math.exp(-alpha * t) - alpha * self.a * t
        size, p = rate * float(np.sum(np.abs(moments.mean) ** alpha)), moments.mean.size
        return lambda t: -size * math.exp(alpha * t) + p * t

    def stretched(self, s: BridgeState, t: float) -> BridgeState:
        return s if self.nu is not None else s._replace(rate=s.rate * math.exp(-s.alpha * t))


@dataclass(frozen=True)
class Lasso(Bridge):
    r"""Laplace prior: the l1 penalty :math:`\sum_j|\theta_j|/\nu` with a learned or given scale.

    :class:`Bridge` with :math:`\alpha = 1`.  The mode under EM is the solution of a convex problem,
    found exactly and with a certificate of optimality.

    Parameters
    ----------
    nu : float, optional
        Scale of the coefficients (of standardised columns); learned if not given.  The usual
        ``C`` of an l1 support vector machine is :math:`2\nu`.
    a, b : float, default=1.0
        Shape and rate of the gamma prior on :math:`1/\nu`.

    References
    ----------
    Polson & Scott (2011), Corollary 4 and section 4.1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import BayesianLinearSVC
    >>> from bayesvm.priors import Lasso
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianLinearSVC(prior=Lasso(nu=0.1), inference="em").fit(X, y)
    >>> int((model.coef_ != 0).sum())
    8
    """

    alpha: float | None = field(default=1.0, init=False, repr=False)
