r"""Leaps: Metropolis steps between Gibbs sweeps, with the latent weights integrated out.

A proposal that does not depend on where the chain stands can be evaluated in advance, many at a
time: one product of the rows with a matrix of proposals, where a sweep needs a product of the rows
with themselves.  The proposals come from a Student distribution around the Gaussian closest to the
posterior, and bring their scales :math:`s` along, drawn from their conditional or close to it.  A
leap from :math:`(\theta, s)` to :math:`(\theta^*, s^*)` is accepted with probability
:math:`\min(1, R^*/R)`,

.. math::

    \log R = \ell(\theta) + \log\frac{p(\theta, s)}{q(s \mid \theta)} - \log q(\theta),

with :math:`\ell` the log pseudo-likelihood itself.  A whole run of leaps is thus decided by one
vector of numbers.  Where the posterior is far from elliptical few proposals are accepted;
then none are made, and the chain is plain Gibbs.
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
    """A run of ``steps`` draws, each after ``tries`` proposals from a Student distribution."""
    places = Run.of(at).then(offers(problem, proposal, steps * tries, rng))
    return places.take(accept(ratios(problem, proposal, places), rng)[tries::tries])


def offers(problem: Problem, proposal: Any, n: int, rng: np.random.Generator) -> Run:
    """Places to leap to, scales and all."""
    model = problem.model
    theta = proposal.rvs(n, random_state=rng).reshape(n, model.width)
    terms = zip(model.terms, model.slices, strict=True)
    priors = tuple(term.prior.propose(theta[:, at], rng) for term, at in terms)
    return Run(theta, priors, problem.log_likelihoods(theta))


def ratios(problem: Problem, proposal: Any, places: Run) -> Array:
    """Log density of the posterior over that of the proposal, up to a constant."""
    parts = problem.model.parts(places.priors)
    prior = np.sum([p.log_weight(s, places.theta[:, at]) for p, s, at in parts], axis=0)
    out: Array = places.fit + prior - proposal.logpdf(places.theta)
    return out


def accept(weights: Array, rng: np.random.Generator) -> Array:
    """States of an independence chain that starts at 0 and has proposals 1, 2, ... in turn.

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

    Augmentation makes a variational posterior too narrow; without it the spread is right to a few
    per cent, which is what a proposal needs.
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
    """Whether likelihood and priors offer what leaps need; groups are too many, cells latent."""
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
    """Proposals for the posterior; ``None`` if draws of the burn-in would seldom accept them.

    Of ``trials``, nine in ten draws must accept a share ``useful``.  Variances are those of the
    Gaussian times ``wider``: one that is closest from within is a little narrow.
    """
    try:
        places = (burnt.position(row) for row in range(len(burnt.fit)))
        P = np.mean([problem.model.precision(at.priors) for at in places], axis=0)
        mean, cov = tight_gaussian(problem, start, P)
        # tails heavier than the posterior's keep the ratio bounded
        proposal = multivariate_t(mean, wider * cov.dense(), df=10.0 + 2.0 * mean.size)
        trial = ratios(problem, proposal, offers(problem, proposal, trials, rng))
    except np.linalg.LinAlgError:
        return None
    gain = trial[:, None] - ratios(problem, proposal, burnt)
    accepted = np.exp(np.minimum(gain, 0.0)).mean(axis=0)
    # not the average: a chain stays long where few proposals are accepted
    return proposal if np.quantile(accepted, 0.1) >= useful else None
