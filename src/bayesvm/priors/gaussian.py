"""Gaussian priors with fixed precision or with a learned variance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ..core.distributions import LOG_2PI
from ..core.parameters import is_number
from ..core.types import Array, TermMoments
from .base import Prior, check_positive, is_definite


@dataclass(frozen=True, eq=False)
class Fixed(Prior):
    r"""Gaussian prior with a given precision, :math:`\theta \sim N(0, P^{-1})`.

    In the usual parametrisation of a support vector machine,
    :math:`\frac12\|\beta\|^2 + C\sum_i u_i^+`, the precision is :math:`2/C`.

    Parameters
    ----------
    precision : float or array of shape (p,), (p, p) or (r, r)
        Prior precision, on the scale on which the model is fitted (standardised columns unless
        ``standardize=False``): one number, one for each coefficient, or a positive definite matrix.
        An (r, r) matrix, with r dividing p, applies to each consecutive group of r coefficients.
        Zero is a flat prior.

    References
    ----------
    Luts & Ormerod (2014), Algorithm 1, with precision :math:`4\alpha`; Wenzel et al. (2017),
    section 3, with the matrix :math:`\Sigma^{-1}`.

    Examples
    --------
    >>> from bayesvm.priors import Fixed
    >>> Fixed(2.0).precisions((), 3)
    array([2., 2., 2.])
    >>> Fixed([[2.0, -1.0], [-1.0, 2.0]]).precisions((), 4)
    array([2., 2., 2., 2.])
    """

    is_learned = False

    precision: Any = 1.0

    def __post_init__(self) -> None:
        try:
            value = np.asarray(self.precision, dtype=float)
        except (TypeError, ValueError):
            value = np.array(np.nan)
        is_plain = value.ndim < 2 and bool(np.all((value >= 0) & (value < np.inf)))
        if not (is_plain or is_definite(value)):
            raise ValueError(
                "Fixed(precision) needs a number or a vector of numbers that are finite and at "
                f"least 0, or a positive definite matrix; got {self.precision!r}."
            )
        more = {"is_isotropic": value.ndim == 0, "is_blocked": value.ndim == 2}
        self.__dict__.update(more, size=len(value) if value.ndim == 2 else 1)

    def init(self, p: int) -> tuple[()]:
        if self.is_blocked and p % self.size:
            raise ValueError(
                f"Fixed(precision) is a matrix of {self.size} rows but the term has {p} columns; "
                "give a matrix of as many rows as columns, or of a number that divides them."
            )
        size = np.size(self.precision)
        if np.ndim(self.precision) == 1 and size != p:
            raise ValueError(
                f"Fixed(precision) has {size} entries but the term has {p} columns; give one "
                "number or one per column."
            )
        return ()

    def matrix(self, s: Any) -> Array:
        return np.asarray(self.precision, dtype=float)

    def precisions(self, s: Any, p: int) -> Array:
        """The precisions, or the diagonal of their matrix."""
        if self.is_blocked:
            return np.tile(np.diag(self.matrix(s)), p // self.size)
        return np.full(p, self.precision, dtype=float)

    def _square(self, theta: Array) -> Array:
        """theta' P theta for vectors ``(..., p)``."""
        if not self.is_blocked:
            return np.square(theta) @ self.precisions((), theta.shape[-1])
        u = theta.reshape(*theta.shape[:-1], -1, self.size)
        return np.sum((u @ self.matrix(())) * u, axis=(-2, -1))

    def update(self, s: Any, moments: TermMoments) -> Any:
        return s

    mode = update

    def draw(self, s: Any, theta: Array, rng: np.random.Generator) -> Any:
        return s

    def propose(self, theta: Array, rng: np.random.Generator) -> Any:
        return ()

    def log_weight(self, s: Any, theta: Array) -> Array:
        return -0.5 * self._square(theta)

    def bound(self, s: Any, moments: TermMoments) -> float:
        if self.is_blocked:
            r, P = self.size, self.matrix(s)
            logdet = moments.mean.size // r * np.linalg.slogdet(P)[1] - moments.mean.size * LOG_2PI
            spread = 0.0 if moments.blocks is None else np.sum(moments.blocks * P)
        else:
            P = self.precisions(s, moments.mean.size)
            logdet = np.sum(np.log(P[P > 0]) - LOG_2PI)  # a flat prior has density one
            return float(0.5 * (logdet - P @ (moments.mean**2 + moments.var)))
        return float(0.5 * (logdet - self._square(moments.mean) - spread))

    def log_prob(self, s: Any, moments: TermMoments) -> float:
        return self.bound(s, TermMoments(moments.mean, np.zeros_like(moments.mean)))

    def stretch(self, s: Any, moments: TermMoments) -> Callable[[float], float]:
        square, p = float(self._square(moments.mean)), moments.mean.size
        return lambda t: -0.5 * math.exp(2 * t) * square + p * t

    def stretched(self, s: Any, t: float) -> Any:
        return s

    def spread(self, s: Any, p: int) -> Any:
        if self.is_blocked:
            return np.linalg.inv(self.matrix(s))
        return 1.0 / float(np.mean(self.precision))

    def scatter(self, s: Any, p: int, n: int, rng: np.random.Generator) -> Array:
        spread = np.asarray(self.spread(s, p))
        return np.broadcast_to(spread, (n, *spread.shape)).copy()


class RidgeState(NamedTuple):
    """Reciprocal of E[1/sigma^2] (or a draw of sigma^2), and E[1/xi] (or a draw of 1/xi)."""

    variance: float
    xi: float


@dataclass(frozen=True)
class Ridge(Prior):
    r"""Gaussian prior with one learned variance, so that the penalty needs no tuning.

    .. math::

        \theta_j \mid \sigma^2 \sim N(0, \sigma^2), \qquad
        \sigma^2 \sim \mathrm{IG}(a, b) \quad\text{or}\quad \sigma \sim C^+(s_0).

    The half-Cauchy is the mixture :math:`\sigma^2 \mid \xi \sim \mathrm{IG}(\frac12, 1/\xi)`,
    :math:`\xi \sim \mathrm{IG}(\frac12, s_0^{-2})`, for which :math:`a = \frac12` and
    :math:`b = E[1/\xi]` below.  The variational factors are

    .. math::

        q(\sigma^2) = \mathrm{IG}\Big(a + \frac p2,\; b + \frac12\sum_j E\theta_j^2\Big),
        \qquad q(\xi) = \mathrm{IG}(1,\; s_0^{-2} + E[\sigma^{-2}]) .

    Parameters
    ----------
    a, b : float, default=0.01
        Shape and rate of the inverse gamma.
    half_cauchy : float, optional
        Scale :math:`s_0` of a half-Cauchy prior on :math:`\sigma`; replaces ``a`` and ``b``.
    select : bool, default=False
        Choose the variance before the fit, by the log loss of leave-one-out predictions, and fix
        it: see :mod:`bayesvm.predictive.fitting`.

    Notes
    -----
    If the classes are separable, the posterior of :math:`\sigma` has the upper tail of its prior.
    This does not affect a variational fit, but it does affect Gibbs sampling: the tail of
    IG(0.01, 0.01) hardly falls at all; under the half-Cauchy the coefficients have no posterior
    mean; under IG(a, b) they have a mean for a > 1/2 and a variance for a > 1.

    References
    ----------
    Luts & Ormerod (2014), Algorithm 2 and Appendix A (penalty :math:`\alpha = 1/(4\sigma^2)`);
    Polson & Scott (2011), section 3.3, for the mode.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.priors import Ridge
    >>> from bayesvm.core.types import TermMoments
    >>> prior = Ridge(a=3, b=2)
    >>> state = prior.update(prior.init(2), TermMoments(np.array([1.0, 0.0]), np.array([0.5, 0.5])))
    >>> round(1 / state.variance, 6)
    1.333333
    """

    is_isotropic = True
    is_pooled = True

    a: float = 0.01
    b: float = 0.01
    half_cauchy: float | None = None
    select: bool = False

    def __post_init__(self) -> None:
        check_positive("Ridge", a=self.a, b=self.b)
        if self.half_cauchy is not None:
            check_positive("Ridge", half_cauchy=self.half_cauchy)
        self.__dict__["is_open"] = self.select

    def init(self, p: int) -> RidgeState:
        return self._state(1.0)

    def precisions(self, s: RidgeState, p: int) -> Array:
        return np.full(p, 1.0 / s.variance)

    def _shape_rate(self, s: RidgeState) -> tuple[float, float]:
        """Shape and (expected) rate of the inverse gamma prior of the variance."""
        return (self.a, self.b) if self.half_cauchy is None else (0.5, s.xi)

    def _state(self, variance: float) -> RidgeState:
        """The state with E[1/xi] given the variance; one under the inverse gamma prior."""
        scale = self.half_cauchy
        return RidgeState(variance, 1.0 if scale is None else 1.0 / (scale**-2 + 1.0 / variance))

    # ----- variational Bayes

    def update(self, s: RidgeState, moments: TermMoments) -> RidgeState:
        a, b = self._shape_rate(s)
        square = moments.mean @ moments.mean + moments.var.sum()
        variance = float((b + 0.5 * square) / (a + 0.5 * moments.mean.size))
        return self._state(variance)

    def bound(self, s: RidgeState, moments: TermMoments) -> float:
        p, tau, (a, b) = moments.mean.size, 1.0 / s.variance, self._shape_rate(s)
        A = a + 0.5 * p  # q(sigma^2) = IG(A, A s.variance)
        square = moments.mean @ moments.mean + moments.var.sum()
        total = (
            -0.5 * p * LOG_2PI - 0.5 * tau * square - b * tau
            - A * np.log(A * s.variance) + gammaln(A) + A
        )  # fmt: skip
        if self.half_cauchy is None:
            return float(total + a * np.log(b) - gammaln(a))
        rate = self.half_cauchy**-2  # q(xi) = IG(1, 1 / s.xi)
        return float(total - np.log(np.pi * self.half_cauchy) - s.xi * rate + np.log(s.xi) + 1.0)

    # ----- EM

    def mode(self, s: RidgeState, moments: TermMoments) -> RidgeState:
        """Maximise over the precision: the ECME step of Polson & Scott with the sign corrected."""
        a, b = self._shape_rate(s)
        count = a + 0.5 * moments.mean.size - 1.0
        if count <= 0:
            raise ValueError(
                "the mode of the penalty does not exist: with few columns, inference='em' needs "
                f"Ridge(a=1) or larger (got a={a:g}), or prior=Fixed(precision)."
            )
        return self._state((b + 0.5 * float(moments.mean @ moments.mean)) / count)

    def log_prob(self, s: RidgeState, moments: TermMoments) -> float:
        """Log density of theta and the precision, with xi integrated out."""
        p, tau = moments.mean.size, 1.0 / s.variance
        total = 0.5 * p * (np.log(tau) - LOG_2PI) - 0.5 * tau * float(moments.mean @ moments.mean)
        if self.half_cauchy is None:
            prior = self.a * np.log(self.b) - gammaln(self.a)
            return float(total + prior + (self.a - 1.0) * np.log(tau) - self.b * tau)
        s0 = self.half_cauchy
        return float(total - np.log(np.pi * s0) - 1.5 * np.log(tau) - np.log1p(1 / (tau * s0**2)))

    # ----- Gibbs

    def draw(self, s: RidgeState, theta: Array, rng: np.random.Generator) -> RidgeState:
        a, b = self._shape_rate(s)
        variance = (b + 0.5 * float(theta @ theta)) / rng.gamma(a + 0.5 * theta.size)
        return RidgeState(variance, float(self._draw_xi(variance, rng)))

    def _draw_xi(self, variance: Any, rng: np.random.Generator) -> Any:
        if self.half_cauchy is None:
            return np.ones_like(variance)
        rate = self.half_cauchy**-2 + 1.0 / variance
        return rng.standard_exponential(np.shape(variance)) / rate

    def reported(self, hyper: Array) -> dict[str, Array]:
        return {"variance": hyper[..., 0]}

    def stretch(self, s: RidgeState, moments: TermMoments) -> Callable[[float], float]:
        a, b = self._shape_rate(s)
        return lambda t: -b * math.exp(-2 * t) / s.variance - 2 * a * t

    def stretched(self, s: RidgeState, t: float) -> RidgeState:
        return s._replace(variance=math.exp(2 * t) * s.variance)

    def propose(self, theta: Array, rng: np.random.Generator) -> RidgeState:
        """Draw from the conditional; for the half-Cauchy, without its tail factor."""
        a, b = (self.a, self.b) if self.half_cauchy is None else (0.5, 0.0)
        rate = b + 0.5 * np.square(theta).sum(axis=-1)
        variance = rate / rng.gamma(a + 0.5 * theta.shape[-1], size=rate.shape)
        return RidgeState(variance, self._draw_xi(variance, rng))

    def log_weight(self, s: RidgeState, theta: Array) -> Array:
        square, half = 0.5 * np.square(theta).sum(axis=-1), 0.5 * theta.shape[-1]
        if self.half_cauchy is None:
            return -(self.a + half) * np.log(self.b + square)
        return -(0.5 + half) * np.log(square) - np.log1p(self.half_cauchy**2 / s.variance)

    # ----- random effects

    def spread(self, s: RidgeState, p: int) -> float:
        """E[sigma^2], or 1 / E[1/sigma^2] if E[sigma^2] is infinite."""
        A = self._shape_rate(s)[0] + 0.5 * p
        return s.variance * A / (A - 1.0) if A > 1.0 else s.variance

    def scatter(self, s: RidgeState, p: int, n: int, rng: np.random.Generator) -> Array:
        A = self._shape_rate(s)[0] + 0.5 * p
        return A * s.variance / rng.gamma(A, size=n)


def intercept_prior(scale: Any, default: Fixed | None = None) -> Fixed:
    """The prior of an intercept from its standard deviation, which may be infinite (flat).

    The default standard deviation is 100.
    """
    if scale is None:
        return Fixed(1e-4) if default is None else default
    if not (is_number(scale) or scale == math.inf) or not scale > 0:
        raise ValueError(f"intercept_scale must be a positive number or None; got {scale!r}.")
    if not (1e-6 <= scale <= 1e6 or scale == np.inf):
        raise ValueError(f"intercept_scale must lie between 1e-06 and 1e+06; got {scale!r}.")
    return Fixed(float(scale) ** -2.0)
