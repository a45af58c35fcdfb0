"""A Gaussian prior for groups of coefficients with a learned covariance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import multigammaln
from scipy.stats import invwishart

from ..core.distributions import LOG_2PI
from ..core.types import Array, TermMoments
from .base import Prior, is_definite


class WishartState(NamedTuple):
    """Inverse of E[Sigma^-1] (or a draw of Sigma), ``(r, r)``."""

    covariance: Array


@dataclass(frozen=True, eq=False)
class InverseWishart(Prior):
    r"""Prior of groups of *r* coefficients with a common unstructured covariance (random slopes).

    .. math::

        u_g \mid \Sigma \sim N(0, \Sigma), \quad g = 1, \dots, G, \qquad
        \Sigma \sim \mathrm{IW}(\Psi, \nu), \qquad E[\Sigma^{-1}] = \nu\Psi^{-1} .

    The variational factor of the covariance is
    :math:`\mathrm{IW}(\Psi + \sum_g E[u_g u_g^\top],\; \nu + G)`.

    Parameters
    ----------
    size : int
        Number of coefficients per group, *r*.
    freedom : float, optional
        :math:`\nu > r - 1`; by default :math:`r + 1`, under which correlations are uniform.
    scale : float or array of shape (r, r), default=1.0
        :math:`\Psi`, or the number on its diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.priors import InverseWishart
    >>> from bayesvm.core.types import TermMoments
    >>> prior = InverseWishart(2)
    >>> u, still = np.array([1.0, 0.5, -1.0, 0.5]), np.zeros((2, 2, 2))
    >>> prior.update(prior.init(4), TermMoments(u, np.zeros(4), still)).covariance
    array([[0.6, 0. ],
           [0. , 0.3]])
    """

    is_blocked: ClassVar[bool] = True
    is_pooled: ClassVar[bool] = True

    size: int
    freedom: float | None = None
    scale: Any = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.size, Integral) or self.size < 1:
            raise ValueError(
                f"InverseWishart(size) must be a whole number of at least 1; got {self.size!r}."
            )
        if self.freedom is not None and not (
            isinstance(self.freedom, Real) and self.size - 1 < float(self.freedom) < np.inf
        ):
            raise ValueError(
                f"InverseWishart(freedom) must be above size - 1 = {self.size - 1}, or there is no "
                f"such distribution; got {self.freedom!r}."
            )
        Psi = self.Psi
        if Psi.shape != (self.size, self.size) or not is_definite(Psi):
            raise ValueError(
                "InverseWishart(scale) must be a positive number or a positive definite matrix of "
                f"shape ({self.size}, {self.size}); got {self.scale!r}."
            )

    @property
    def Psi(self) -> Array:
        scale = np.asarray(self.scale, dtype=float)
        return scale * np.eye(self.size) if scale.ndim == 0 else scale

    @property
    def nu(self) -> float:
        return self.size + 1.0 if self.freedom is None else float(self.freedom)

    def init(self, p: int) -> WishartState:
        if p % self.size:
            raise ValueError(
                f"InverseWishart(size={self.size}) cannot be the prior of {p} coefficients, which "
                f"are not groups of {self.size}."
            )
        return WishartState(np.eye(self.size))

    def matrix(self, s: WishartState) -> Array:
        return np.linalg.inv(s.covariance)

    def precisions(self, s: WishartState, p: int) -> Array:
        """The diagonal of :meth:`matrix`."""
        return np.tile(np.diag(self.matrix(s)), p // self.size)

    def _square(self, moments: TermMoments) -> Array:
        """Sum over groups of E[u u'], ``(r, r)``."""
        u = moments.mean.reshape(-1, self.size)
        return u.T @ u + (0.0 if moments.blocks is None else moments.blocks.sum(axis=0))

    def _groups(self, moments: TermMoments) -> int:
        return moments.mean.size // self.size

    def update(self, s: WishartState, moments: TermMoments) -> WishartState:
        return WishartState((self.Psi + self._square(moments)) / (self.nu + self._groups(moments)))

    def bound(self, s: WishartState, moments: TermMoments) -> float:
        r, G, nu = self.size, self._groups(moments), self.nu
        after = (nu + G) * s.covariance  # scale matrix of the factor
        gap = np.trace(self.matrix(s) @ (self.Psi + self._square(moments) - after))
        return float(
            -0.5 * G * r * np.log(np.pi)
            + 0.5 * nu * _logdet(self.Psi) - multigammaln(0.5 * nu, r)
            - 0.5 * (nu + G) * _logdet(after) + multigammaln(0.5 * (nu + G), r)
            - 0.5 * gap
        )  # fmt: skip

    def mode(self, s: WishartState, moments: TermMoments) -> WishartState:
        """Maximise over the precision matrix."""
        count = self.nu + self._groups(moments) - self.size - 1.0
        if count <= 0:
            raise ValueError(
                "the mode of the groups' covariance does not exist: with few groups, "
                f"inference='em' needs InverseWishart(freedom={self.size + 2}) or larger."
            )
        u = moments.mean.reshape(-1, self.size)
        return WishartState((self.Psi + u.T @ u) / count)

    def log_prob(self, s: WishartState, moments: TermMoments) -> float:
        """Log density of the effects and of the precision matrix."""
        r, G, nu, Lambda = self.size, self._groups(moments), self.nu, self.matrix(s)
        u = moments.mean.reshape(-1, r)
        fit = 0.5 * G * (_logdet(Lambda) - r * LOG_2PI) - 0.5 * np.sum((u @ Lambda) * u)
        prior = (
            0.5 * nu * _logdet(self.Psi) - multigammaln(0.5 * nu, r) - 0.5 * nu * r * math.log(2)
            + 0.5 * (nu - r - 1.0) * _logdet(Lambda) - 0.5 * np.trace(self.Psi @ Lambda)
        )  # fmt: skip
        return float(fit + prior)

    def draw(self, s: WishartState, theta: Array, rng: np.random.Generator) -> WishartState:
        u = theta.reshape(-1, self.size)
        law = invwishart(self.nu + u.shape[0], self.Psi + u.T @ u)
        return WishartState(np.reshape(law.rvs(random_state=rng), self.Psi.shape))

    def stretch(self, s: WishartState, moments: TermMoments) -> Callable[[float], float]:
        pull, power = 0.5 * float(np.trace(self.Psi @ self.matrix(s))), self.size * self.nu
        return lambda t: -pull * math.exp(-2 * t) - power * t

    def stretched(self, s: WishartState, t: float) -> WishartState:
        return WishartState(math.exp(2 * t) * s.covariance)

    def spread(self, s: WishartState, p: int) -> Array:
        total = self.nu + p // self.size
        return s.covariance * (total / max(total - self.size - 1.0, 1.0))

    def scatter(self, s: WishartState, p: int, n: int, rng: np.random.Generator) -> Array:
        total = self.nu + p // self.size
        law = invwishart(total, total * s.covariance)
        return np.reshape(law.rvs(n, random_state=rng), (n, self.size, self.size))


def _logdet(M: Array) -> float:
    return float(np.linalg.slogdet(M)[1])
