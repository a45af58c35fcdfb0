"""The contract of a likelihood, and what several likelihoods share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import erfcx, log_ndtr

from ..core import arrays
from ..core.types import Array, Local

# Copies of a row beyond which a sum of draws is taken from its first three cumulants.  What is left
# out of the distribution function is of the order of (excess kurtosis) / (24 copies): at most 6
# over 24 * 200, about 1e-3.
MANY = 200

BELL = 1.0 / float(np.sqrt(2.0 * np.pi))  # standard normal density at zero
NODES, WEIGHTS = hermegauss(24)  # averages over a standard normal
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class Hinges(NamedTuple):
    """Losses ``2 c max(t - s f, 0)``, *k* of them for each of *n* rows: all ``(k, n)``."""

    s: Array  # signs
    t: Array  # margins
    c: Array  # weights


class HingeAverage(NamedTuple):
    r"""Numbers of :math:`\log p = -\sum_j k_j E(o + \sqrt{q_j}\,\epsilon - yf)^+`.

    With a normal :math:`\epsilon`, and f Gaussian, expectations have a closed form.
    """

    offset: float
    k: Array
    q: Array
    narrow: float = 0.0  # variance of f up to which the series of the logistic likelihood serves


class Derivatives(NamedTuple):
    """A log likelihood at known f, its gradient, and minus its second derivative."""

    value: Array
    g: Array
    h: Array


class Likelihood(ABC):
    """Base of all likelihoods :math:`p(y \\mid f)` of a label *y* in {-1, +1}, or of a number.

    ``expected`` (for one copy of a row) is needed by VB, SVI and EM, ``draw`` (for all ``c``
    copies) by Gibbs, ``tight`` by ``VB(bound="tight")`` and kernel machines, ``proba`` by
    classifiers.  A method that is not implemented raises ``NotImplementedError``;
    :meth:`implements` finds out beforehand.
    """

    normalised: ClassVar[bool] = True  # the values of the two labels sum to one
    is_kinked: ClassVar[bool] = False  # not differentiable somewhere: EM smooths it first
    is_tight: ClassVar[bool] = False  # rows contribute E log p(y | f) itself, not a bound on it

    @property
    def plain(self) -> Likelihood:
        """The likelihood of a label given f, without the choice of a bound."""
        return self

    @abstractmethod
    def expected(self, y: Array, m: Array, v: Array | float) -> Local:
        """Augmented lower bound of E log p(y | f) under f ~ N(m, v), its slopes and weights."""

    @abstractmethod
    def log_prob(self, y: Array, f: Array) -> Array:
        """log p(y | f)."""

    def proba(self, m: Array, v: Array) -> Array:
        """P(y = 1) under f ~ N(m, v); a likelihood of numbers has none."""
        raise NotImplementedError

    def tight(self, y: Array, m: Array, v: Array | float) -> Local:
        """E log p(y | f) itself, without augmentation, and its derivatives."""
        average = self.hinge_average()
        if average is None:
            raise NotImplementedError
        return averaged_hinges(y, m, v, average)

    def roughly(self, y: Array, m: Array, v: Array | float) -> Local:
        """The same for a search for kernels, to at least four digits."""
        return self.tight(y, m, v)

    def hinge_average(self) -> HingeAverage | None:
        """The log likelihood as an average of hinges with Gaussian margins, if it is one."""
        return None

    def draw(self, y: Array, f: Array, c: Array, rng: np.random.Generator) -> Local:
        """Draw the mixing variables of rows with weights ``c``, given f."""
        raise NotImplementedError

    def hinges(self, y: Array, c: Array) -> Hinges:
        """Minus the log likelihood as a sum of hinges; only where EM has an exact mode."""
        raise NotImplementedError

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """Log likelihood of rows at known f, its gradient, and minus its second derivative."""
        local = self.expected(y, f, 0.0)
        return Derivatives(local.bound, local.g, local.h)

    def log_odds(self, m: Array, v: Array) -> Array:
        """Log odds of the two labels under f ~ N(m, v)."""
        # by the smaller of the two probabilities, which keeps its digits
        p = np.maximum(self.proba(-np.abs(m), v), np.finfo(float).tiny)
        out: Array = np.copysign(np.log1p(-p) - np.log(p), m)
        return out

    def log_mean(self, y: Array | float, m: Array, v: Array) -> Array:
        """Log of the likelihood averaged over f ~ N(m, v), here that of a normalised one."""
        out: Array = np.log(np.maximum(self.proba(y * m, v), np.finfo(float).tiny))
        return out

    @classmethod
    def implements(cls, method: str) -> bool:
        """Whether an optional method is implemented."""
        names = (method, "hinge_average") if method == "tight" else (method,)
        return any(getattr(cls, name) is not getattr(Likelihood, name) for name in names)

    # ----- a scale that can be learned; most likelihoods have none

    is_learned: bool = False  # the scale is to be learned
    scale: float = 1.0

    def with_scale(self, scale: float) -> Likelihood:
        raise NotImplementedError

    @property
    def numbers(self) -> tuple[float, ...]:
        """All numbers that chains draw, the scale first."""
        return (self.scale,)

    def with_numbers(self, numbers: Sequence[float]) -> Likelihood:
        return self.with_scale(numbers[0])

    def update(self, fit: float, residual: float, n: float) -> Likelihood:
        """The likelihood with the scale of highest density given sums over rows.

        ``fit`` is the sum of the bounds, ``residual`` of 1 - y m and ``n`` of the weights.
        """
        raise NotImplementedError

    def redraw(self, fit: float, residual: float, n: float, rng: np.random.Generator) -> Likelihood:
        """The likelihood with a scale drawn given the same sums."""
        raise NotImplementedError


def averaged_hinges(y: Array, m: Array, v: Any, average: HingeAverage) -> Local:
    """E log p(y | f) and its derivatives for an average of hinges."""
    xp, t = arrays.of(m), average.offset - y * m
    w = slope = loss = 0.0 * t
    for share, square in zip(average.k.tolist(), average.q.tolist(), strict=True):
        sd = (v + square) ** 0.5  # may have one value for many of t
        z = t / sd
        bell = xp.exp(-0.5 * z * z) * (share * BELL)
        w, loss, slope = w + bell / sd, loss + sd * bell, slope + arrays.ndtr(z) * share
    return Local(w, y * slope, -(loss + t * slope), w)


def by_quadrature(
    derivatives: Callable[[Array], tuple[Array, Array, Array]], y: Array, m: Array, v: Any
) -> Local:
    """E log p(y | f) and its derivatives for a log likelihood of z = y f.

    ``derivatives(z)`` gives minus the second derivative, the first, and the value.
    """
    s = arrays.of(m).sqrt(v)
    w = g = bound = 0.0 * m
    for x, k in zip(NODES.tolist(), WEIGHTS.tolist(), strict=True):
        curvature, slope, value = derivatives(y * (m + x * s))
        w, g, bound = w + k * curvature, g + k * slope, bound + k * value
    return Local(w, y * g, bound, w)


def summed(
    c: Array,
    name: str,
    one: Callable[[Array], Array],
    cumulants: Callable[[Array], tuple[Array, Array, Array]],
    rng: np.random.Generator,
) -> Array:
    """Sums of c independent draws for each row, for the likelihood ``name``.

    ``one`` gives a draw for some rows, chosen by a mask; ``cumulants`` their mean, variance and
    third cumulant, from which sums of more than ``MANY`` are drawn (Cornish & Fisher).
    """
    copies = np.rint(c)
    if np.any(np.abs(copies - c) > 1e-12):
        raise ValueError(
            f"inference='gibbs' with the {name} likelihood draws one latent variable per copy of "
            "a row, so weights must be whole numbers. Use inference='vb', likelihood='hinge', or "
            "round the weights."
        )
    out = np.zeros(np.shape(copies))
    few = copies <= MANY
    for k in range(int(copies[few].max(initial=0))):
        more = few & (copies > k)
        out[more] += one(more)
    if not few.all():
        n, (mean, variance, third) = copies[~few], cumulants(~few)
        skew, z = third / (variance**1.5 * np.sqrt(n)), rng.standard_normal(n.shape)
        bent = (z + skew / 6.0 * (z * z - 1.0)) / np.sqrt(1.0 + skew * skew / 18.0)
        out[~few] = n * mean + np.sqrt(n * variance) * bent
    return out


def log_half_mean(a: float, mu: Array, s: Array) -> Array:
    r"""Log of :math:`E[e^{-au}; u > 0]` under :math:`u \sim N(\mu, s^2)`, for ``a >= 0``."""
    x = (a * s - mu / s) / np.sqrt(2.0)
    # exp(a^2 s^2 / 2 - a mu) Phi(-sqrt(2) x), by the scaled error function where x > 0
    right = np.log(0.5 * erfcx(np.maximum(x, 0.0))) - 0.5 * np.square(mu / s)
    left = a * (0.5 * a * s * s - mu) + log_ndtr(-np.sqrt(2.0) * np.minimum(x, 0.0))
    return np.where(x > 0, right, left)
