"""A Laplace slab and a spike at zero: variable selection by variational Bayes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, gammaln

from ..core.distributions import LOG_2PI, inverse_gaussian
from ..core.types import Array, Own
from ..gaussian.gates import OPEN
from ._inclusion import (
    WIDEST,
    Inclusion,
    check_inclusion,
    check_positive,
    gate_bound,
    gate_starts,
    prior_odds,
    sized,
)

SMALLEST = 1e-30  # E v^2 at which its precision stops growing


class LaplaceZeroState(NamedTuple):
    """1 / E[1/sigma^2] (or a draw of sigma^2), E[b] (or a draw), log odds of the gates."""

    variance: float
    mixing: Array
    eta: Array


@dataclass(frozen=True)
class LaplaceZero:
    r"""Coefficients that are zero or Laplace: which columns matter, and how surely.

    .. math::

        \theta_k = \gamma_k \mathsf v_k, \quad
        \gamma_k \sim \mathrm{Bernoulli}(\rho), \quad
        \mathsf v_k \mid b_k, \sigma^2 \sim N(0, \sigma^2/b_k), \quad
        b_k \sim \mathrm{IG}(1, \tfrac12), \quad
        \sigma^2 \sim \mathrm{IG}(a, b),

    so that :math:`\mathsf v_k` is Laplace of scale :math:`\sigma`.  The variational factors are
    :math:`q(b_k)`, inverse Gaussian of mean :math:`(E[\sigma^{-2}]E\mathsf v_k^2)^{-1/2}` and shape
    1, :math:`q(\sigma^2) = \mathrm{IG}(a + p/2,\; b + \frac12\sum_k E b_k E\mathsf v_k^2)` and one
    probability a gate.  A chain draws gates and coefficients together, given *b* and
    :math:`\sigma^2`.

    Parameters
    ----------
    inclusion : float or array of shape (p,), optional
        Chance :math:`\rho` of each column to matter, before the data: one for all, or one a
        column.  The default is one half, or :math:`n / (p\log_2 p)` of *n* rows and *p* columns if
        that is less: to name a column takes :math:`\log_2 p` bits, and labels hold *n*.  52 rows of
        12,625 genes expect 4 to matter.
    expected_size : float, optional
        Number of columns expected to matter; replaces ``inclusion``.
    a, b : float, default=5.0
        Shape and rate of the inverse gamma on :math:`\sigma^2`.  The paper has 0.01 for both; a
        chain whose model is empty for a while, or whose columns separate the classes, then loses
        itself in the tail.

    Notes
    -----
    Variational inclusion probabilities are too sure of themselves, and there are local optima:
    several starts are made and the best bound is kept.  Gibbs gives honest ones.

    References
    ----------
    Luts & Ormerod (2014), section 3.2, Algorithm 3 and Appendix B (here collapsed, which mixes
    better).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import BayesianLinearSVC
    >>> from bayesvm.priors import LaplaceZero
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianLinearSVC(prior=LaplaceZero(expected_size=5)).fit(X, y)
    >>> model.inclusion_proba_.shape
    (30,)
    """

    inclusion: Inclusion = None
    expected_size: float | None = None
    a: float = 5.0
    b: float = 5.0

    def __post_init__(self) -> None:
        chance = check_inclusion("LaplaceZero", self.inclusion, self.expected_size)
        object.__setattr__(self, "inclusion", chance)
        check_positive("LaplaceZero", a=self.a, b=self.b)

    sized = sized

    def init(self, p: int) -> LaplaceZeroState:
        self._odds(p)
        return LaplaceZeroState(1.0, np.ones(p), np.full(p, OPEN))

    def starts(self, p: int, rng: np.random.Generator) -> list[LaplaceZeroState]:
        s = self.init(p)
        return [s._replace(eta=eta) for eta in gate_starts(self._odds(p), p, rng)]

    def _odds(self, p: int) -> Any:
        return prior_odds("LaplaceZero", self.inclusion, self.expected_size, p)

    def odds(self, s: LaplaceZeroState, p: int) -> Array:
        return np.full(p, self._odds(p))

    def gates(self, s: LaplaceZeroState, p: int) -> Array:
        return expit(s.eta)

    def gated(self, s: LaplaceZeroState, eta: Array) -> LaplaceZeroState:
        return s._replace(eta=eta)

    def precisions(self, s: LaplaceZeroState, p: int) -> Array:
        return s.mixing / s.variance

    def update(self, s: LaplaceZeroState, own: Own) -> LaplaceZeroState:
        square = np.maximum(own.square, SMALLEST)
        mixing = np.sqrt(s.variance / square)
        variance = (self.b + 0.5 * mixing @ square) / (self.a + 0.5 * own.mean.size)
        return s._replace(variance=float(variance), mixing=mixing)

    def hasten(self, s: LaplaceZeroState, own: Own) -> LaplaceZeroState:
        """The scale by its fixed point: an excluded column, which only echoes it, has no say."""
        tau, p = 1.0 / s.variance, own.mean.size
        free = p - tau * float(s.mixing @ own.var)  # columns the data determine
        rate = self.b + 0.5 * float(s.mixing @ own.mean**2)
        return s._replace(variance=float(rate / (self.a + 0.5 * max(free, 0.0))))

    def bound(self, s: LaplaceZeroState, own: Own) -> float:
        p, tau = own.mean.size, 1.0 / s.variance
        total = float(s.mixing @ np.maximum(own.square, SMALLEST))
        Aq = self.a + 0.5 * p
        Bq = Aq * s.variance
        scale = (
            -0.5 * p * LOG_2PI - 0.5 * tau * total + self.a * math.log(self.b) - gammaln(self.a)
            - self.b * tau - Aq * math.log(Bq) + gammaln(Aq) + Bq * tau
        )  # fmt: skip
        mixing = np.sum(0.5 * LOG_2PI - math.log(2.0) - 0.5 / s.mixing)
        return float(scale + mixing + gate_bound(s.eta, self._odds(p)))

    def draw(self, s: LaplaceZeroState, theta: Array, rng: np.random.Generator) -> LaplaceZeroState:
        """Mixing variables, then the scale; a coefficient of zero is one that is out."""
        inside = theta != 0
        mixing = 0.5 / rng.standard_exponential(theta.size)  # 1/b is exponential with mean 2
        mixing[inside] = inverse_gaussian(np.abs(theta[inside]) / math.sqrt(s.variance), 1.0, rng)
        mixing = np.minimum(mixing, 1e15)
        rate = self.b + 0.5 * float(mixing[inside] @ theta[inside] ** 2)
        variance = rate / rng.gamma(self.a + 0.5 * int(inside.sum()))
        return LaplaceZeroState(float(variance), mixing, s.eta)

    def reported(self, hyper: Array) -> dict[str, Array]:
        """Kept draws by name: the scale of the slab, whose variance is twice its square."""
        return {"scale": np.sqrt(hyper[..., 0])}

    def stretch(self, s: LaplaceZeroState, own: Own) -> Callable[[float], float]:
        return lambda t: -self.b * math.exp(-2 * t) / s.variance - 2 * self.a * t

    def stretched(self, s: LaplaceZeroState, t: float) -> LaplaceZeroState:
        return s._replace(variance=math.exp(2 * t) * s.variance)

    def vector(self, s: LaplaceZeroState) -> Array:
        eta = np.clip(s.eta, -WIDEST, WIDEST)
        return np.concatenate([[math.log(s.variance)], np.log(s.mixing), eta])

    def restore(self, vector: Array) -> LaplaceZeroState:
        p = vector.size // 2
        return LaplaceZeroState(
            float(np.exp(vector[0])), np.exp(vector[1 : p + 1]), vector[p + 1 :].copy()
        )
