"""Selection priors: spike-and-slab priors under which coefficients can be exactly zero."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, gammaln, logit

from ..core.distributions import LOG_2PI, inverse_gaussian
from ..core.types import Array, TermMoments
from ..linalg.spike_slab import OPEN
from .base import Prior, check_positive

Inclusion = float | tuple[float, ...] | None


class SelectionState(NamedTuple):
    """State of a selection prior; under Gibbs, draws."""

    variance: float  # 1 / E[1/sigma^2]
    log_odds: Any  # prior log odds of inclusion, a number or (p,)
    mixing: Any  # E[b], one or (p,)
    eta: Array  # (p,), posterior log odds of inclusion


class Selection(Prior):
    r"""Base class of the selection priors: :math:`\mathsf v_k \sim N(0, \sigma^2/b_k)`.

    Here :math:`b_k = 1`; a subclass may give it a distribution.
    """

    has_gates: ClassVar[bool] = True

    inclusion: Inclusion
    expected_size: float | None
    nu: float | None = None  # standard deviation of the slab if it is known
    a: float
    b: float

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_positive(name, a=self.a, b=self.b)
        if self.inclusion is not None:
            values = np.asarray(self.inclusion)
            is_given = values.dtype.kind in "iuf" and values.ndim < 2 and values.size
            if not (is_given and np.all((values > 0) & (values < 1))):
                raise ValueError(
                    f"{name}(inclusion) is a probability, or one for each column, so it must be "
                    f"above 0 and below 1; got {self.inclusion!r}. Leave out columns that cannot "
                    "have an effect."
                )
            chances = values.astype(float).tolist()
            self.__dict__["inclusion"] = tuple(chances) if values.ndim else chances
        if self.expected_size is not None:
            check_positive(name, " of columns", expected_size=self.expected_size)
            if isinstance(self.inclusion, tuple):
                raise ValueError(
                    f"{name} takes a probability for each column in inclusion, or expected_size "
                    "for all of them; got both."
                )

    def sized(self, rows: float, p: int) -> Prior:
        r"""The prior with the default inclusion probability for n rows and p columns.

        This is one half, or :math:`n / (p\log_2 p)` if that is less: *n* labels contain at most *n*
        bits, and specifying one of *p* columns takes :math:`\log_2 p` bits, so the labels cannot
        identify more than :math:`n/\log_2 p` columns.
        """
        if self.inclusion is not None or self.expected_size is not None:
            return self
        this: Any = self  # a dataclass
        return replace(this, inclusion=min(0.5, rows / (p * max(math.log2(p), 1.0))))

    def _prior_odds(self, p: int) -> Any:
        """Log odds of inclusion, a number or ``(p,)``; ``expected_size`` has precedence."""
        name = type(self).__name__
        if self.expected_size is None:
            if isinstance(self.inclusion, tuple) and len(self.inclusion) != p:
                raise ValueError(
                    f"{name}(inclusion) has {len(self.inclusion)} entries but there are {p} "
                    "columns to select from; give one number or one per column."
                )
            return logit(0.5 if self.inclusion is None else self.inclusion)
        if self.expected_size >= p:
            raise ValueError(
                f"{name}(expected_size={self.expected_size:g}) must be below the number of columns "
                f"it selects from, which is {p}; give fewer, or use prior='ridge' to keep them all."
            )
        return logit(self.expected_size / p)

    # ----- inclusion

    def init(self, p: int) -> SelectionState:
        variance = 1.0 if self.nu is None else float(self.nu) ** 2
        return SelectionState(variance, self._prior_odds(p), 1.0, np.full(p, OPEN))

    def odds(self, s: SelectionState, p: int) -> Array:
        return np.full(p, s.log_odds)

    def gates(self, s: SelectionState, p: int) -> Array:
        return expit(s.eta)

    def gated(self, s: SelectionState, eta: Array) -> SelectionState:
        return s._replace(eta=eta)

    def starts(self, p: int, rng: np.random.Generator) -> list[Any]:
        """Start with all columns included, at the prior odds, and at random."""
        etas = np.full(p, OPEN), np.full(p, self._prior_odds(p)), logit(rng.uniform(0.05, 0.95, p))
        return [self.init(p)._replace(eta=eta) for eta in etas]

    # ----- the scale of the slab

    def precisions(self, s: SelectionState, p: int) -> Array:
        return np.full(p, s.mixing / s.variance)

    def update(self, s: SelectionState, moments: TermMoments) -> SelectionState:
        if self.nu is not None:
            return s
        rate = self.b + 0.5 * np.sum(s.mixing * moments.square)
        return s._replace(variance=float(rate / (self.a + 0.5 * moments.mean.size)))

    def fixed_point_update(
        self, s: SelectionState, moments: TermMoments, rounds: int = 100, tol: float = 1e-3
    ) -> SelectionState:
        """In closed form: excluded columns do not contribute to the scale."""
        if self.nu is not None:
            return s
        # number of well-determined parameters
        free = moments.mean.size - np.sum(s.mixing * moments.var) / s.variance
        rate = self.b + 0.5 * np.sum(s.mixing * moments.mean**2)
        return s._replace(variance=float(rate / (self.a + 0.5 * max(free, 0.0))))

    def bound(self, s: SelectionState, moments: TermMoments) -> float:
        p, tau = moments.mean.size, 1.0 / s.variance
        square = np.sum(s.mixing * moments.square)
        odds = self.odds(s, p)
        # minus the KL divergence of the inclusion probabilities from their prior
        softplus = np.logaddexp(0.0, s.eta) - np.logaddexp(0.0, odds)
        gates = np.sum(expit(s.eta) * (odds - s.eta) + softplus)
        total = -0.5 * p * LOG_2PI - 0.5 * tau * square + gates
        if self.nu is not None:
            return float(total + 0.5 * p * math.log(tau))
        A = self.a + 0.5 * p  # q(sigma^2) = IG(A, A s.variance)
        prior = self.a * math.log(self.b) - gammaln(self.a) - self.b * tau
        return float(total + prior - A * math.log(A * s.variance) + gammaln(A) + A)

    def stretch(self, s: SelectionState, moments: TermMoments) -> Callable[[float], float]:
        if self.nu is None:
            return lambda t: -self.b * math.exp(-2 * t) / s.variance - 2 * self.a * t
        square = float(moments.mean @ moments.mean) / s.variance
        size = int(np.count_nonzero(moments.mean))
        return lambda t: -0.5 * math.exp(2 * t) * square + size * t

    def stretched(self, s: SelectionState, t: float) -> SelectionState:
        return s if self.nu is not None else s._replace(variance=math.exp(2 * t) * s.variance)


@dataclass(frozen=True)
class SpikeSlab(Selection):
    r"""Spike-and-slab prior with a Gaussian slab; reports inclusion probabilities.

    .. math::

        \theta_k = \gamma_k \mathsf v_k, \quad
        \gamma_k \sim \mathrm{Bernoulli}(\pi), \quad
        \mathsf v_k \mid \nu \sim N(0, \nu^2), \quad
        \nu^2 \sim \mathrm{IG}(a, b).

    Gibbs draws each :math:`\gamma_k` with the coefficients integrated out, from sums over rows.
    Reported inclusion probabilities are averages of the conditional probabilities of these draws.

    Parameters
    ----------
    inclusion : float or array of shape (p,), optional
        Prior probability :math:`\pi` that a column is included: one for all, or one per column.
        The default is one half, or :math:`n / (p\log_2 p)` for *n* rows and *p* columns if that is
        less: with 52 rows and 12,625 genes, 4 genes are expected to be included.
    expected_size : float, optional
        Expected number of included columns; replaces ``inclusion``.
    nu : float, optional
        Standard deviation of the slab (for standardised columns); learned if not given.
    learn_inclusion : bool, default=False
        Learn :math:`\pi` too (Gibbs only), with the prior
        :math:`\mathrm{Beta}(1, 1/\pi_0 - 1)`, whose mean is ``inclusion``.
    a, b : float, default=5.0
        Shape and rate of the inverse gamma on :math:`\nu^2`.  Its tail must fall quickly: if the
        included columns separate the classes, only the prior limits the draws.

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
        super().__post_init__()
        if self.learn_inclusion and isinstance(self.inclusion, tuple):
            raise ValueError(
                "SpikeSlab(learn_inclusion=True) learns one probability for all columns; give one "
                "number as inclusion, or none."
            )
        if self.nu is not None:
            check_positive("SpikeSlab", nu=self.nu)
        self.__dict__["needs_draws"] = "inclusion" if self.learn_inclusion else None

    def draw(self, s: SelectionState, theta: Array, rng: np.random.Generator) -> SelectionState:
        size, variance, log_odds = int(np.count_nonzero(theta)), s.variance, s.log_odds
        if self.nu is None:
            rate = self.b + 0.5 * float(theta @ theta)
            variance = rate / rng.gamma(self.a + 0.5 * size)
        if self.learn_inclusion:
            few = math.exp(-self._prior_odds(theta.size))  # 1/pi0 - 1
            inside = rng.gamma(1.0 + size)
            log_odds = math.log(inside / rng.gamma(few + theta.size - size))
        return s._replace(variance=float(variance), log_odds=log_odds)

    def reported(self, hyper: Array) -> dict[str, Array]:
        """Variance of the slab, and the prior inclusion probability if it is drawn."""
        out = {"variance": hyper[..., 0]}
        return out | ({"inclusion": expit(hyper[..., 1])} if self.learn_inclusion else {})


@dataclass(frozen=True)
class LaplaceZero(Selection):
    r"""Spike-and-slab prior with a Laplace slab; reports inclusion probabilities.

    .. math::

        \theta_k = \gamma_k \mathsf v_k, \quad
        \gamma_k \sim \mathrm{Bernoulli}(\rho), \quad
        \mathsf v_k \mid b_k, \sigma^2 \sim N(0, \sigma^2/b_k), \quad
        b_k \sim \mathrm{IG}(1, \tfrac12), \quad
        \sigma^2 \sim \mathrm{IG}(a, b),

    so that :math:`\mathsf v_k` is Laplace of scale :math:`\sigma`.  The variational factors are
    :math:`q(b_k)`, inverse Gaussian with mean :math:`(E[\sigma^{-2}]E\mathsf v_k^2)^{-1/2}` and
    shape 1, :math:`q(\sigma^2) = \mathrm{IG}(a + p/2,\; b + \frac12\sum_k E b_k E\mathsf v_k^2)`
    and a probability for each :math:`\gamma_k`.  Gibbs draws :math:`\gamma` and coefficients
    together, given *b* and :math:`\sigma^2`.

    Parameters
    ----------
    inclusion : float or array of shape (p,), optional
        Prior probability :math:`\rho` that a column is included: one for all, or one per column.
        The default is one half, or :math:`n / (p\log_2 p)` for *n* rows and *p* columns if that is
        less: with 52 rows and 12,625 genes, 4 genes are expected to be included.
    expected_size : float, optional
        Expected number of included columns; replaces ``inclusion``.
    a, b : float, default=5.0
        Shape and rate of the inverse gamma on :math:`\sigma^2`.  With 0.01 for both, as in the
        paper, a chain drifts far into the tail while no column is included or if the included
        columns separate the classes.

    Notes
    -----
    Variational inclusion probabilities are overconfident, and there are local optima: the best of
    several starts is used.  Inclusion probabilities of Gibbs sampling are not overconfident.

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

    def init(self, p: int) -> SelectionState:
        return super().init(p)._replace(mixing=np.ones(p))

    def update(self, s: SelectionState, moments: TermMoments) -> SelectionState:
        mixing = np.sqrt(s.variance / np.maximum(moments.square, 1e-30))
        return super().update(s._replace(mixing=mixing), moments)

    def bound(self, s: SelectionState, moments: TermMoments) -> float:
        mixing = np.sum(0.5 * LOG_2PI - math.log(2.0) - 0.5 / s.mixing)
        return super().bound(s, moments) + float(mixing)

    def draw(self, s: SelectionState, theta: Array, rng: np.random.Generator) -> SelectionState:
        """Draw the mixing variables, then the scale."""
        inside = theta != 0
        mixing = 0.5 / rng.standard_exponential(theta.size)  # 1/b is exponential with mean 2
        mixing[inside] = inverse_gaussian(np.abs(theta[inside]) / math.sqrt(s.variance), 1.0, rng)
        mixing = np.minimum(mixing, 1e15)
        rate = self.b + 0.5 * mixing @ theta**2
        variance = rate / rng.gamma(self.a + 0.5 * np.count_nonzero(theta))
        return s._replace(variance=float(variance), mixing=mixing)

    def reported(self, hyper: Array) -> dict[str, Array]:
        """The scale of the slab; the variance of the slab is twice its square."""
        return {"scale": np.sqrt(hyper[..., 0])}
