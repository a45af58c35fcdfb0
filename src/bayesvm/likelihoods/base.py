"""The base class of likelihoods, and functions that several likelihoods share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import erfcx, expit, log_ndtr

from ..core import arrays
from ..core.types import Array, Contribution

BELL = 1.0 / float(np.sqrt(2.0 * np.pi))  # standard normal density at zero
NODES, WEIGHTS = hermegauss(24)  # expectations under a standard normal
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class Hinges(NamedTuple):
    """Hinge losses ``2 c max(t - s f, 0)``, *k* for each of *n* rows; all arrays are ``(k, n)``."""

    s: Array  # signs
    t: Array  # margins
    c: Array  # weights


@dataclass(frozen=True)
class Likelihood(ABC):
    """Base class of likelihoods :math:`p(y \\mid f)` of a label in {-1, +1}, or of a number.

    VB, SVI and EM need ``augmented`` (for a row of weight one), Gibbs needs ``draw`` (for rows of
    weight ``c``), ``VB(bound="tight")`` and kernel machines need ``tight``, classifiers need
    ``proba``.  A method that is not implemented raises ``NotImplementedError``;
    :meth:`implements` tells beforehand.

    Parameters
    ----------
    is_tight : bool, default=False
        Whether :meth:`expected` returns E log p(y | f) itself instead of the augmented bound, under
        which posterior standard deviations are 20 to 40 % too small.  Set by the inference scheme.
    """

    is_tight: bool = field(default=False, repr=False, kw_only=True)

    normalised: ClassVar[bool] = True  # probabilities of the two labels sum to one
    is_logit: ClassVar[bool] = False  # extends to several classes: the multinomial logit
    is_kinked: ClassVar[bool] = False  # not differentiable somewhere: EM smooths it first

    def tightened(self, is_tight: bool = True) -> Self:
        """The likelihood with the given value of ``is_tight``."""
        return replace(self, is_tight=is_tight)

    def expected(self, y: Array, m: Array, v: Array | float) -> Contribution:
        """E log p(y | f) under f ~ N(m, v), or the augmented bound, with derivatives."""
        return self.tight(y, m, v) if self.is_tight else self.augmented(y, m, v)

    @abstractmethod
    def augmented(self, y: Array, m: Array, v: Array | float) -> Contribution:
        """Augmented lower bound of E log p(y | f) under f ~ N(m, v), with derivatives."""

    @abstractmethod
    def log_prob(self, y: Array, f: Array) -> Array:
        """log p(y | f)."""

    def proba(self, m: Array, v: Array) -> Array:
        """P(y = 1) under f ~ N(m, v); not for regression likelihoods."""
        raise NotImplementedError

    def tight(self, y: Array, m: Array, v: Array | float) -> Contribution:
        """E log p(y | f) without augmentation, and its derivatives."""
        raise NotImplementedError

    def draw(self, y: Array, f: Array, c: Array, rng: np.random.Generator) -> Contribution:
        """Draw the mixing variables of rows with weights ``c``, given f."""
        raise NotImplementedError

    def hinges(self, y: Array, c: Array) -> Hinges:
        """Minus the log likelihood as a sum of hinges, if EM finds the exact mode."""
        raise NotImplementedError

    def log_odds(self, m: Array, v: Array) -> Array:
        """Log odds of the two labels under f ~ N(m, v)."""
        # from the smaller of the two probabilities, for precision
        p = np.maximum(self.proba(-np.abs(m), v), np.finfo(float).tiny)
        out: Array = np.copysign(np.log1p(-p) - np.log(p), m)
        return out

    def log_mean(self, y: Array | float, m: Array, v: Array) -> Array:
        """Log of the expected likelihood under f ~ N(m, v)."""
        out: Array = np.log(np.maximum(self.proba(y * m, v), np.finfo(float).tiny))
        return out

    @classmethod
    def implements(cls, method: str) -> bool:
        """Whether an optional method is implemented."""
        return getattr(cls, method) is not getattr(Likelihood, method)

    # ----- learned scales, which most likelihoods do not have

    is_learned: ClassVar[bool] = False  # whether the scale is learned
    scale: ClassVar[float] = 1.0

    @property
    def numbers(self) -> tuple[float, ...]:
        """All parameters that chains draw, with the scale first."""
        return (self.scale,)

    def with_numbers(self, numbers: Sequence[float]) -> Likelihood:
        """The likelihood with other values of the drawn parameters."""
        raise NotImplementedError

    def update(self, fit: float, residual: float, n: float) -> Likelihood:
        """The likelihood with the scale that maximises the bound, given sums over rows.

        ``fit`` is the sum of the bounds, ``residual`` of 1 - y m and ``n`` of the weights.
        """
        raise NotImplementedError

    def redraw(self, fit: float, residual: float, n: float, rng: np.random.Generator) -> Likelihood:
        """The likelihood with a scale drawn given the same sums."""
        raise NotImplementedError


@dataclass(frozen=True)
class PseudoLikelihood(Likelihood):
    """Base class of likelihoods whose values for the two labels do not sum to one.

    Probabilities are expectations over f, normalised over the two labels.
    """

    normalised: ClassVar[bool] = False

    def proba(self, m: Array, v: Array) -> Array:
        out: Array = expit(self.log_odds(m, v))
        return out

    def log_odds(self, m: Array, v: Array) -> Array:
        return self.log_mean(1.0, m, v) - self.log_mean(-1.0, m, v)


def averaged_hinges(
    y: Array, m: Array, v: Any, offset: float, shares: Array, variances: Array
) -> Contribution:
    r"""E log p(y | f) and its derivatives for a mixture of hinges with Gaussian margins.

    :math:`\log p = -\sum_j k_j E(o + \sqrt{q_j}\,\epsilon - yf)^+` with a normal
    :math:`\epsilon`, whose expectations under a Gaussian f have a closed form.
    """
    xp, t = arrays.of(m), offset - y * m
    w = slope = loss = 0.0 * t
    ndtr = arrays.special(xp).ndtr
    for share, square in zip(shares.tolist(), variances.tolist(), strict=True):
        sd = (v + square) ** 0.5  # may broadcast against t
        z = t / sd
        bell = xp.exp(-0.5 * z * z) * (share * BELL)
        w, loss, slope = w + bell / sd, loss + sd * bell, slope + ndtr(z) * share
    return Contribution(w, y * slope, -(loss + t * slope), w)


def log_half_mean(a: float, mu: Array, s: Array) -> Array:
    r"""Log of :math:`E[e^{-au}; u > 0]` under :math:`u \sim N(\mu, s^2)`, for ``a >= 0``."""
    x = (a * s - mu / s) / np.sqrt(2.0)
    # exp(a^2 s^2 / 2 - a mu) Phi(-sqrt(2) x), by the scaled error function where x > 0
    right = np.log(0.5 * erfcx(np.maximum(x, 0.0))) - 0.5 * np.square(mu / s)
    left = a * (0.5 * a * s * s - mu) + log_ndtr(-np.sqrt(2.0) * np.minimum(x, 0.0))
    return np.where(x > 0, right, left)
