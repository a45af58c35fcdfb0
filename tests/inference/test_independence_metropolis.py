"""Leaps: proposals evaluated in advance, and the Gaussian they come from."""

import numpy as np
from scipy import stats
from tests.papers import exact, oracle
from tests.problems import make_problem

from bayesvm.inference import VB
from bayesvm.inference.draws import Position, Run
from bayesvm.inference.independence_metropolis import leap, tight_gaussian
from bayesvm.likelihoods import Hinge
from bayesvm.predictive.diagnostics import ess
from bayesvm.priors import Fixed, Ridge

Z = 4.0  # one comparison in 16,000 fails by chance


def tiny(likelihood=None):
    return make_problem(
        oracle.X[:, None],
        oracle.Y,
        prior=Fixed(1.0),
        intercept=Fixed(1.0),
        likelihood=likelihood or Hinge(),
    )


def leaps_alone(problem, n, tries, rng):
    """One run of n draws with not a single sweep between."""
    coef, priors, _ = VB().fit(problem, rng).state
    coef = tight_gaussian(problem, coef, problem.model.precision(priors))
    priors = Run.of(Position(coef.mean, priors)).position(-1).priors
    fit = float(problem.log_likelihoods(coef.mean[None])[0])
    proposal = stats.multivariate_t(coef.mean, coef.cov.dense(), df=14.0)
    return leap(problem, proposal, Position(coef.mean, priors, fit), n, tries, rng)


def z_score(x, want):
    return (x.mean() - want) / (x.std() / np.sqrt(ess(x[None, :, None])[0]))


def test_leaps_alone_sample_a_learned_scale():
    """Inverse gamma, section 14's Algorithm 2 problem: exact moments of slope and precision."""
    problem = make_problem(
        oracle.X[:, None], oracle.Y, prior=Ridge(3.0, 2.0), intercept=Fixed(0.25)
    )
    run = leaps_alone(problem, 50_000, 4, np.random.default_rng(2))
    precision = 1.0 / run.priors[1].variance
    for x, want in ((run.theta[:, 0], 0.6542), (run.theta[:, 1], 1.1699), (precision, 1.3011)):
        error = 5e-5 / (x.std() / np.sqrt(ess(x[None, :, None])[0]))  # four digits are printed
        assert abs(z_score(x, want)) < Z + error


def test_the_tight_gaussian_has_the_posteriors_spread():
    """On these six rows augmentation loses a quarter of the spread, a tight Gaussian 5 %."""
    problem, rng = tiny(), np.random.default_rng(0)
    start = VB().fit(problem, rng).state.coef
    coef = tight_gaussian(problem, start, np.ones(2))
    truth = exact.fixed_prior(oracle.X, oracle.Y, np.eye(2))
    want = np.sqrt(
        [
            truth.mean(lambda b, u: b**2) - truth.mean(lambda b, u: b) ** 2,
            truth.mean(lambda b, u: u**2) - truth.mean(lambda b, u: u) ** 2,
        ]
    )
    np.testing.assert_allclose(np.sqrt(coef.cov.diag()) / want, [0.963, 0.944], atol=2e-3)
    np.testing.assert_allclose(np.sqrt(start.cov.diag()) / want, [0.730, 0.746], atol=1e-3)
