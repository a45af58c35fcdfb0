r"""Independence Metropolis steps (leaps) between Gibbs sweeps, with latent weights integrated out.

Proposals that do not depend on the position of the chain can be evaluated in advance, many at a
time: one product of the design matrix with a matrix of proposals, whereas a sweep needs a Gram
matrix.  The coefficients are drawn from a Student distribution around a Gaussian approximation of
the posterior, the scales :math:`s` exactly or approximately from their conditional.  A leap from
:math:`(\theta, s)` to :math:`(\theta^*, s^*)` is accepted with probability :math:`\min(1, R^*/R)`,

.. math::

    \log R = \ell(\theta) + \log\frac{p(\theta, s)}{q(s \mid \theta)} - \log q(\theta),

with :math:`\ell` the log pseudo-likelihood.  One vector of :math:`\log R` thus decides a whole run
of leaps.  If the posterior is far from elliptical, few proposals would be accepted; then no leaps
are made, and the chain is plain Gibbs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import multivariate_t

from ..core.precision import scaled_cholesky
from ..core.types import Array, Coef
from ..linalg.covariances import FullCovariance
from ..priors import Fixed
from .draws import Position, Run
from .model import State
from .problem import Problem
from .vb import fit_gaussian


def leap(
    problem: Problem,
    proposal: Any,
    at: Position,
    steps: int,
    tries: int,
    rng: np.random.Generator,
) -> Run:
    """Make ``steps`` draws, each after ``tries`` proposals from a Student distribution."""
    places = Run.of(at).then(offers(problem, proposal, steps * tries, rng))
    return places.take(accept(ratios(problem, proposal, places), rng)[tries::tries])


def offers(problem: Problem, proposal: Any, n: int, rng: np.random.Generator) -> Run:
    """Draw proposals of coefficients and scales."""
    model = problem.model
    theta = proposal.rvs(n, random_state=rng).reshape(n, model.width)
    terms = zip(model.terms, model.slices, strict=True)
    priors = tuple(term.prior.propose(theta[:, at], rng) for term, at in terms)
    return Run(theta, priors, problem.log_likelihoods(theta))


def ratios(problem: Problem, proposal: Any, places: Run) -> Array:
    """Log ratio of posterior and proposal density, up to a constant."""
    parts = problem.model.parts(places.priors)
    prior = np.sum([p.log_weight(s, places.theta[:, at]) for p, s, at in parts], axis=0)
    out: Array = places.fit + prior - proposal.logpdf(places.theta)
    return out


def accept(weights: Array, rng: np.random.Generator) -> Array:
    """Positions of an independence chain that starts at 0 and has proposals 1, 2, ... in turn.

    ``weights`` are log ratios of target to proposal.
    """
    level, *proposed = weights.tolist()
    here, path, dice = 0, [0], rng.standard_exponential(len(proposed)).tolist()
    for j, (weight, bar) in enumerate(zip(proposed, dice, strict=True), start=1):
        if level - weight < bar:
            here, level = j, weight
        path.append(here)
    return np.array(path)


def tight_gaussian(problem: Problem, coef: Coef, P: Array) -> Coef:
    """The Gaussian closest to the posterior at given prior precisions.

    With augmentation a variational posterior is too narrow; without it standard deviations are
    accurate to a few per cent, as a proposal requires.
    """
    model = problem.model
    each = zip(model.terms, model.slices, strict=True)
    model = replace(model, terms=tuple(t._replace(prior=Fixed(P[at])) for t, at in each))
    model = replace(model, likelihood=model.likelihood.tightened())
    problem = replace(problem, model=model, form="dense")
    cov = FullCovariance(*scaled_cholesky(np.linalg.inv(coef.cov.dense())))
    start = State(Coef(coef.mean, cov), model.init())
    out: Coef = fit_gaussian(problem, start, max_iter=40, tol=1e-8).state.coef
    return out


def can_leap(problem: Problem) -> bool:
    """Whether likelihood and priors support leaps; models with groups or latent cells do not."""
    model = problem.model
    priors = [t.prior for t in model.terms]
    proposes = all(p.implements("propose") and not p.is_blocked for p in priors)
    plain = problem.form != "arrow" and not model.is_latent
    return plain and proposes and model.likelihood.implements("tight")


def learn(
    problem: Problem,
    start: Coef,
    burnt: Run,
    rng: np.random.Generator,
    trials: int = 64,
    wider: float = 1.1,
    useful: float = 0.05,
) -> Any | None:
    """The proposal distribution; ``None`` if draws of the burn-in would seldom accept proposals.

    Nine in ten draws must accept a share ``useful`` of ``trials``.  Variances of the Gaussian are
    multiplied by ``wider``, because a variational approximation is slightly too narrow.
    """
    try:
        places = (burnt.position(row) for row in range(len(burnt.fit)))
        P = np.mean([problem.model.precision(at.priors) for at in places], axis=0)
        mean, cov = tight_gaussian(problem, start, P)
        # tails heavier than in the posterior bound the ratio
        proposal = multivariate_t(mean, wider * cov.dense(), df=10.0 + 2.0 * mean.size)
        trial = ratios(problem, proposal, offers(problem, proposal, trials, rng))
    except np.linalg.LinAlgError:
        return None
    gain = trial[:, None] - ratios(problem, proposal, burnt)
    accepted = np.exp(np.minimum(gain, 0.0)).mean(axis=0)
    # not the average: a chain stays long at points where few proposals are accepted
    return proposal if np.quantile(accepted, 0.1) >= useful else None
