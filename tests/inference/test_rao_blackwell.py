"""Means and variances of coefficients as averages of conditional moments."""

import numpy as np
import pytest
from tests.papers import oracle
from tests.problems import make_problem, simulate

from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.inference import Gibbs
from bayesvm.predictive.posterior import DrawsPosterior
from bayesvm.priors import Fixed, Ridge, SpikeSlab

B0 = Fixed(1 / oracle.ALG2_INTERCEPT_VARIANCE)
PRIOR = Ridge(a=oracle.ALG2_A, b=oracle.ALG2_B)


def chains(count, draws):
    """Means and variances of both kinds from short chains; (count, 2), two of each."""
    problem = make_problem(oracle.X[:, None], oracle.Y, prior=PRIOR, intercept=B0)
    found = Gibbs(draws, 20, count, rao_blackwell=True).fit(problem, np.random.default_rng(0))
    mean, square = np.moveaxis(found.moments, 1, 0)
    return found.theta.mean(axis=1), mean, (found.theta**2).mean(axis=1), square


def test_same_expectation_and_less_variance():
    """Over 60 chains: unbiased for the exact moments, and less spread than plain averages."""
    plain, mean, plain_square, square = chains(60, 60)
    for k, name in ((0, "b0"), (1, "u")):
        exact, second = (oracle.ALG2_EXACT_MOMENTS[x] for x in (name, f"{name}^2"))
        assert abs(mean[:, k].mean() - exact) < 4 * mean[:, k].std() / np.sqrt(60)
        assert abs(square[:, k].mean() - second) < 4 * square[:, k].std() / np.sqrt(60)
        assert mean[:, k].var() < 0.8 * plain[:, k].var()
        assert square[:, k].var() < plain_square[:, k].var()


def test_reported_moments_are_the_conditional_ones():
    X, y, _ = simulate(60, 3, seed=1)
    scheme = Gibbs(60, 20, 2, rao_blackwell=True)
    model = BayesianLinearSVC(
        Ridge(a=2, b=1), scheme, "hinge", standardize=False, probability="probit", random_state=0
    ).fit(X, y)
    mean, variance = model.machines_[0].draws.conditional
    np.testing.assert_allclose(model.coef_[0], mean[1:])
    post = DrawsPosterior(model.machines_[0].draws.theta, (), (mean, variance))
    np.testing.assert_array_equal(post.variance(), variance)
    np.testing.assert_allclose(np.diag(post.covariance()), post.flat.var(axis=0))  # of the draws
    drawn = model.machines_[0].draws.theta.mean(axis=(0, 1))
    assert np.abs(drawn - mean).max() > 0  # close, not equal
    np.testing.assert_allclose(drawn, mean, atol=0.5 * np.sqrt(variance).max())


def test_refused_where_it_has_no_meaning():
    X, y, _ = simulate(30, 2, seed=1)
    scheme = Gibbs(5, 2, 1, rao_blackwell=True)
    with pytest.raises(ValueError, match="without selection"):
        BayesianLinearSVC(SpikeSlab(0.3), scheme).fit(X, y)
    with pytest.raises(ValueError, match="for BayesianLinearSVC and BayesianSVR"):
        BayesianSVC(inference=scheme).fit(X, y)
    with pytest.raises(ValueError, match="two classes"):
        BayesianLinearSVC("ridge", scheme).fit(X, np.arange(30) % 3)
