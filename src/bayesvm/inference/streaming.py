r"""Streaming variational Bayes: the posterior after each chunk is the prior of the next chunk.

With :math:`q_t(\theta) = N(\mu_t, \Sigma_t)` after chunk *t*, the next chunk has the posterior

.. math::

    q_{t+1} = \arg\max_q\; E_q \log p(y_{t+1} \mid \theta)
        - \mathrm{KL}\{q(\theta)\,\|\,N(\mu_t, \Sigma_t)\} .

The sum of the maxima is a lower bound on the log evidence of all chunks.  Under the tight bound
each row adds its curvature in the mean to :math:`\Sigma^{-1}`; the augmented bound adds more, so
that early rows would get too much weight.

References
----------
Broderick, Boyd, Wibisono, Wilson & Jordan (2013), *Streaming variational Bayes*.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.precision import Blocked, Precision, scaled_cholesky
from ..core.types import Coef
from ..linalg.covariances import DiagonalCovariance, FullCovariance
from .model import Latents, Model, State, States
from .problem import Problem
from .progress import Ascent
from .vb import VB


@dataclass(frozen=True)
class SequentialModel(Model):
    """A model with a Gaussian prior of given mean and covariance, without hyperparameters."""

    prior: Any = None  # Coef, with a full or a diagonal covariance
    P: Precision = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        cov, P = self.prior.cov, np.zeros(self.width)  # type: Any, Any
        if isinstance(cov, DiagonalCovariance):
            P = 1.0 / cov.variance
        else:
            P = Blocked(P, ((slice(0, self.width), cov.L @ cov.L.T),))
        self.__dict__.update(prior_mean=self.prior.mean, P=P)

    def init(self) -> States:
        return ()

    def update(self, states: States, coef: Coef, method: str = "update") -> States:
        return states

    def precision(self, states: States) -> Precision:
        return self.P

    def bound(self, coef: Coef, states: States, latents: Latents = ()) -> float:
        """Minus the Kullback-Leibler divergence from the prior."""
        P, gap = self.precision(states), coef.mean - self.prior.mean
        if isinstance(P, Blocked):
            trace = float(np.vdot(P.parts[0][1], coef.cov.dense()))
        else:
            trace = float(P @ coef.cov.diag())
        logdet = coef.cov.logdet - self.prior.cov.logdet
        return 0.5 * (self.width + logdet - trace - float(gap @ (P * gap)))


def as_prior(coef: Coef) -> Coef:
    """The Gaussian with a diagonal covariance, or stored as a factor of the precision."""
    if isinstance(coef.cov, DiagonalCovariance | FullCovariance):
        return coef
    precision = np.linalg.inv(coef.cov.dense())
    return Coef(coef.mean, FullCovariance(*scaled_cholesky(precision)))


def update_posterior(problem: Problem, prior: Coef, scheme: VB, rng: np.random.Generator) -> Ascent:
    """The posterior given new rows under a Gaussian prior, with the ELBO of the new rows."""
    prior, model = as_prior(prior), problem.model
    sequential = SequentialModel(model.terms, model.likelihood, model.dtype, prior)
    form = "diagonal" if isinstance(prior.cov, DiagonalCovariance) else "dense"
    return scheme.fit(replace(problem, model=sequential, form=form), rng, State(prior, ()))
