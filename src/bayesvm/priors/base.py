"""The base class of priors, with default implementations of optional methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from ..core.types import Array, TermMoments


class Prior(ABC):
    """Base class of priors of the *p* coefficients of a term.

    ``s`` is the state of the prior, a NamedTuple: the variational factor of its hyperparameters
    (VB, SVI), their mode (EM) or a draw of them (Gibbs).  ``moments`` has the means and variances
    of the coefficients of the term.

    Every prior implements ``init`` and ``precisions``; for VB and SVI also ``update`` and
    ``bound``, for EM ``mode`` and ``log_prob``, for Gibbs ``draw``, ``stretch`` and ``stretched``.
    A method that is not implemented raises ``NotImplementedError``; :meth:`implements` tells
    beforehand.
    """

    is_blocked: ClassVar[bool] = False  # groups of ``size`` coefficients are correlated a priori
    has_gates: ClassVar[bool] = False  # coefficients can be exactly zero: a selection prior
    is_learned: bool = True  # hyperparameters are learned in the fit
    is_open: bool = False  # hyperparameters are chosen before the fit
    is_quadratic: bool = True  # the penalty under EM is quadratic
    is_isotropic: bool = False  # the prior is the same in every orthonormal basis
    is_pooled: ClassVar[bool] = False  # the state does not depend on the number of coefficients
    needs_draws: str | None = None  # the parameter that only Gibbs can learn, if there is one

    @classmethod
    def implements(cls, method: str) -> bool:
        """Whether an optional method is implemented."""
        return getattr(cls, method) is not getattr(Prior, method)

    # ----- state and precision

    @abstractmethod
    def init(self, p: int) -> Any:
        """Initial state for p coefficients."""

    @abstractmethod
    def precisions(self, s: Any, p: int) -> Array:
        """E[P], the expected prior precision of each coefficient, ``(p,)``."""

    def sized(self, rows: float, p: int) -> Prior:
        """The prior with defaults filled in that depend on the number of rows and columns."""
        return self

    # ----- variational Bayes

    def update(self, s: Any, moments: TermMoments) -> Any:
        """Optimal variational factor of the hyperparameters."""
        raise NotImplementedError

    def bound(self, s: Any, moments: TermMoments) -> float:
        """E log p(theta, hyperparameters) - E log q(hyperparameters), for any state."""
        raise NotImplementedError

    def fixed_point_update(
        self, s: Any, moments: TermMoments, rounds: int = 100, tol: float = 1e-3
    ) -> Any:
        r"""The fixed point of :meth:`update` for fixed numbers of well-determined parameters.

        The number :math:`1 - P_j\Sigma_{jj}` for a coefficient (MacKay 1992) is held fixed, so that
        its variance under another prior precision is :math:`\Sigma_{jj}P_j/P'_j`.
        """
        if self.is_blocked or not s:
            return self.update(s, moments)
        P = self.precisions(s, moments.var.size)
        follow = moments.var * P
        for _ in range(rounds):
            s, old = self.update(s, moments), P
            P = self.precisions(s, moments.var.size)
            moments = moments._replace(var=follow / P)
            if np.allclose(P, old, rtol=tol, atol=0.0):
                break
        return s

    # ----- EM

    def expect(self, s: Any, moments: TermMoments) -> Any:
        """State with new expectations of mixing variables; hyperparameters are fixed."""
        return s

    def mode(self, s: Any, moments: TermMoments) -> Any:
        """State with the conditional maximum of the hyperparameters."""
        raise NotImplementedError

    def log_prob(self, s: Any, moments: TermMoments) -> float:
        """log p(theta, hyperparameters) at a point."""
        raise NotImplementedError

    def corner(self, s: Any, p: int) -> Array:
        """Right derivative of the penalty at zero, ``(p,)``; positive for a kink at zero."""
        return np.zeros(p)

    def zeroed(self, s: Any, theta: Array, eps: float) -> Array:
        """Coefficients, set to zero if they are nonzero only because of the smoothing ``eps``."""
        return theta

    # ----- Gibbs

    def draw(self, s: Any, theta: Array, rng: np.random.Generator) -> Any:
        """Draw the hyperparameters given the coefficients."""
        raise NotImplementedError

    def stretch(self, s: Any, moments: TermMoments) -> Callable[[float], float]:
        """Log density of ``e^t theta`` and its hyperparameters as a function of t."""
        raise NotImplementedError

    def stretched(self, s: Any, t: float) -> Any:
        """The state scaled to match ``e^t theta``."""
        raise NotImplementedError

    def reported(self, hyper: Array) -> dict[str, Array]:
        """Draws of the hyperparameters by name, from the numbers of the states ``(..., k)``."""
        return {}

    def propose(self, theta: Array, rng: np.random.Generator) -> Any:
        """Proposed hyperparameters of independence Metropolis for rows of ``theta``, ``(m, p)``."""
        raise NotImplementedError

    def log_weight(self, s: Any, theta: Array) -> Array:
        """log p(theta, s) minus the log density of the proposal, ``(m,)``."""
        raise NotImplementedError

    # ----- selection: inclusion of coefficients that may be zero

    def odds(self, s: Any, p: int) -> Array:
        """Prior log odds of inclusion of each coefficient, ``(p,)``."""
        return np.full(p, np.inf)

    def gates(self, s: Any, p: int) -> Array:
        """Posterior inclusion probability of each coefficient, ``(p,)``."""
        return np.ones(p)

    def gated(self, s: Any, eta: Array) -> Any:
        """State with new posterior log odds of inclusion."""
        return s

    def starts(self, p: int, rng: np.random.Generator) -> list[Any]:
        """Initial states of a search with several starts."""
        return [self.init(p)] * 3

    # ----- random effects

    size: int  # coefficients per group, if :attr:`is_blocked`

    def matrix(self, s: Any) -> Array:
        """E[Sigma^-1] of the coefficients of a group, ``(size, size)``."""
        raise NotImplementedError

    def spread(self, s: Any, p: int) -> Any:
        """Expected variance (or covariance) of the effects of an unknown group."""
        raise NotImplementedError

    def scatter(self, s: Any, p: int, n: int, rng: np.random.Generator) -> Array:
        """n draws of the variance (or covariance) of the effects from its variational factor."""
        raise NotImplementedError


def check_positive(name: str, hint: str = "", **values: Any) -> None:
    """Raise an error for parameters of the prior ``name`` that are not positive numbers."""
    for key, value in values.items():
        if not (isinstance(value, Real) and 0 < float(value) < np.inf):
            raise ValueError(f"{name}({key}) must be a positive number{hint}; got {value!r}.")


def is_definite(M: Array) -> bool:
    """Whether a matrix is symmetric and positive definite."""
    if M.ndim != 2 or not 0 < M.shape[0] == M.shape[1] or not np.all(np.isfinite(M)):
        return False
    return bool(np.allclose(M, M.T) and np.linalg.eigvalsh(M)[0] > 0)
