"""A Gaussian slab and a spike at zero."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, gammaln

from ..core.distributions import LOG_2PI
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


class SpikeSlabState(NamedTuple):
    """1 / E[1/nu^2] (or a draw of nu^2), prior log odds, log odds of the gates."""

    variance: float
    lean: Any  # a number, or (p,)
    eta: Array


@dataclass(frozen=True)
class SpikeSlab:
    r"""Coefficients that are zero or Gaussian: which columns matter, averaged over all models.

    .. math::

        \theta_k = \gamma_k \mathsf v_k, \quad
        \gamma_k \sim \mathrm{Bernoulli}(\pi), \quad
        \mathsf v_k \mid \nu \sim N(0, \nu^2), \quad
        \nu^2 \sim \mathrm{IG}(a, b).

    A chain visits the columns with the coefficients integrated out and works from the sums over
    rows alone, one pass a sweep.  Inclusion probabilities average the chances it decided by.

    Parameters
    ----------
    inclusion : float or array of shape (p,), optional
        Chance :math:`\pi` of each column to matter, before the data: one for all, or one a
        column.  The default is one half, or :math:`n / (p\log_2 p)` of *n* rows and *p* columns if
        that is less: to name a column takes :math:`\log_2 p` bits, and labels hold *n*.  52 rows of
        12,625 genes expect 4 to matter.
    expected_size : float, optional
        Number of columns expected to matter; replaces ``inclusion``.
    nu : float, optional
        Standard deviation of the slab (for standardised columns); learned if not given.
    learn_inclusion : bool, default=False
        Learn :math:`\pi` too, under Gibbs: its prior is then
        :math:`\mathrm{Beta}(1, 1/\pi_0 - 1)`, of mean ``inclusion``.
    a, b : float, default=5.0
        Shape and rate of the inverse gamma on :math:`\nu^2`.  Its tail must fall quickly: where the
        columns that are in separate the classes, nothing else keeps a chain from running away.

    References
    ----------
    Polson & Scott (2011), section 4.2; George & McCulloch (1997).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import BayesianLinearSVC
    >>> from bayesvm.inference import Gibbs
    >>> from bayesvm.priors import SpikeSlab
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> scheme = Gibbs(draws=100, burn_in=50, chains=2)
    >>> model = BayesianLinearSVC(SpikeSlab(expected_size=5), scheme, random_state=0).fit(X, y)
    >>> model.inclusion_proba_.shape  # the columns are correlated: many more draws to conclude
    (30,)
    """

    inclusion: Inclusion = None
    expected_size: float | None = None
    nu: float | None = None
    learn_inclusion: bool = False
    a: float = 5.0
    b: float = 5.0

    def __post_init__(self) -> None:
        chance = check_inclusion("SpikeSlab", self.inclusion, self.expected_size)
        object.__setattr__(self, "inclusion", chance)
        if self.learn_inclusion and isinstance(chance, tuple):
            raise ValueError(
                "SpikeSlab(learn_inclusion=True) learns one probability for all columns; give one "
                "number as inclusion, or none."
            )
        check_positive("SpikeSlab", nu=self.nu, a=self.a, b=self.b)

    @property
    def needs_draws(self) -> str | None:
        """What only a chain can learn, if anything."""
        return "inclusion" if self.learn_inclusion else None

    sized = sized

    def init(self, p: int) -> SpikeSlabState:
        variance = 1.0 if self.nu is None else float(self.nu) ** 2
        return SpikeSlabState(variance, self._odds(p), np.full(p, OPEN))

    def starts(self, p: int, rng: np.random.Generator) -> list[SpikeSlabState]:
        s = self.init(p)
        return [s._replace(eta=eta) for eta in gate_starts(s.lean, p, rng)]

    def _odds(self, p: int) -> Any:
        return prior_odds("SpikeSlab", self.inclusion, self.expected_size, p)

    def odds(self, s: SpikeSlabState, p: int) -> Array:
        return np.full(p, s.lean)

    def gates(self, s: SpikeSlabState, p: int) -> Array:
        return expit(s.eta)

    def gated(self, s: SpikeSlabState, eta: Array) -> SpikeSlabState:
        return s._replace(eta=eta)

    def precisions(self, s: SpikeSlabState, p: int) -> Array:
        return np.full(p, 1.0 / s.variance)

    def update(self, s: SpikeSlabState, own: Own) -> SpikeSlabState:
        if self.nu is not None:
            return s
        variance = (self.b + 0.5 * own.square.sum()) / (self.a + 0.5 * own.mean.size)
        return s._replace(variance=float(variance))

    def hasten(self, s: SpikeSlabState, own: Own) -> SpikeSlabState:
        """The scale by its fixed point: an excluded column, which only echoes it, has no say."""
        if self.nu is not None:
            return s
        free = own.mean.size - float(own.var.sum()) / s.variance
        rate = self.b + 0.5 * float(own.mean @ own.mean)
        return s._replace(variance=float(rate / (self.a + 0.5 * max(free, 0.0))))

    def bound(self, s: SpikeSlabState, own: Own) -> float:
        p, tau, square = own.mean.size, 1.0 / s.variance, float(own.square.sum())
        total = -0.5 * p * LOG_2PI - 0.5 * tau * square + gate_bound(s.eta, s.lean)
        if self.nu is not None:
            return total + 0.5 * p * math.log(tau)
        Aq = self.a + 0.5 * p
        Bq = Aq * s.variance
        prior = self.a * math.log(self.b) - gammaln(self.a) - self.b * tau
        return float(total + prior - Aq * math.log(Bq) + gammaln(Aq) + Bq * tau)

    def draw(self, s: SpikeSlabState, theta: Array, rng: np.random.Generator) -> SpikeSlabState:
        """Scale and odds; a coefficient of zero is one that is out."""
        size, variance, lean = int(np.count_nonzero(theta)), s.variance, s.lean
        if self.nu is None:
            rate = self.b + 0.5 * float(theta @ theta)
            variance = rate / rng.gamma(self.a + 0.5 * size)
        if self.learn_inclusion:
            few = math.exp(-self._odds(theta.size))  # 1/pi0 - 1
            inside = rng.gamma(1.0 + size)
            lean = math.log(inside / rng.gamma(few + theta.size - size))
        return SpikeSlabState(float(variance), lean, s.eta)

    def reported(self, hyper: Array) -> dict[str, Array]:
        """Kept draws by name: variance of the slab, and prior odds if they are drawn."""
        out = {"variance": hyper[..., 0]}
        return out | ({"inclusion": expit(hyper[..., 1])} if self.learn_inclusion else {})

    def stretch(self, s: SpikeSlabState, own: Own) -> Callable[[float], float]:
        if self.nu is None:
            return lambda t: -self.b * math.exp(-2 * t) / s.variance - 2 * self.a * t
        square, size = float(own.mean @ own.mean) / s.variance, int(np.count_nonzero(own.mean))
        return lambda t: -0.5 * math.exp(2 * t) * square + size * t

    def stretched(self, s: SpikeSlabState, t: float) -> SpikeSlabState:
        return s if self.nu is not None else s._replace(variance=math.exp(2 * t) * s.variance)

    def vector(self, s: SpikeSlabState) -> Array:
        eta = np.clip(s.eta, -WIDEST, WIDEST)
        drawn = [s.lean] if self.learn_inclusion else []
        return np.concatenate([[math.log(s.variance), *drawn], eta])

    def restore(self, vector: Array) -> SpikeSlabState:
        first = 1 + self.learn_inclusion
        eta = vector[first:].copy()
        lean = float(vector[1]) if self.learn_inclusion else self._odds(eta.size)
        return SpikeSlabState(float(np.exp(vector[0])), lean, eta)
