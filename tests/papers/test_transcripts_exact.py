"""Quadrature against closed forms, and the Gibbs transcript against quadrature."""

import numpy as np
import pytest
from scipy import stats

from . import exact, gibbs, oracle

ONE, SLOPE = oracle.DESIGN[:, :1], oracle.DESIGN[:, 1:]
P_BETA = np.eye(1) / oracle.ALG2_INTERCEPT_VARIANCE


def test_quadrature_does_not_depend_on_the_nodes():
    for prior in ({"A": 3.0, "B": 2.0}, {"s0": 1.5}):
        coarse, fine = (
            exact.variance_prior(oracle.X, oracle.Y, 4.0, nodes=k, **prior) for k in (8, 14)
        )
        assert coarse.log_evidence == pytest.approx(fine.log_evidence, abs=1e-10)
        second = [g.mean(lambda b0, u: u**2) for g in (coarse, fine)]
        assert second[0] == pytest.approx(second[1], rel=1e-9)
    no_data = exact.fixed_prior([0.3], [1.0], c=[0.0])
    assert no_data.log_evidence == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("u", [0.03, 0.7, 4.0, 30.0])
def test_slope_marginals(u):
    ig = exact.log_slope_by_quadrature(
        u, lambda s: np.log(2 * s) + stats.invgamma.logpdf(s**2, 3.0, scale=2.0)
    )
    assert exact.log_slope_ig(u, 3.0, 2.0) == pytest.approx(ig, abs=1e-9)
    cauchy = exact.log_slope_by_quadrature(u, lambda s: stats.halfcauchy.logpdf(s, scale=1.5))
    assert exact.log_slope_half_cauchy(u, 1.5) == pytest.approx(cauchy, abs=1e-9)


@pytest.mark.parametrize("c", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("u", [-2.0, -0.01, 0.0, 0.4, 3.0])
def test_scale_mixture_identity(u, c):
    integral, inverse = exact.hinge_mixture(u, c)
    assert integral == pytest.approx(np.exp(-2 * c * max(0, u)), rel=1e-8, abs=1e-12)
    if u != 0:
        assert inverse == pytest.approx(c / abs(u), rel=1e-6)


@pytest.mark.parametrize("m", [-3.0, 0.2, 1.0])
@pytest.mark.parametrize("s", [0.05, 1.0, 4.0])
def test_mean_likelihood(m, s):
    for y in (-1.0, 1.0):
        for c in (1.0, 0.5):
            by_quadrature = exact.log_mean_likelihood_by_quadrature(m, s, y, c)
            assert exact.log_mean_likelihood(m, s, y, c) == pytest.approx(by_quadrature, abs=1e-10)
    narrow = exact.predictive_probability(0.3, 1e-6)  # expit(4 m) inside the margin
    assert narrow == pytest.approx(1 / (1 + np.exp(-1.2)), abs=1e-9)


def test_inverse_gaussian_draw():
    """Kolmogorov-Smirnov at level 1e-4, three laws: mean 2; mean 1e12; infinite mean."""
    rng, size = np.random.default_rng(11), 20000
    x = gibbs.inverse_gaussian(np.full(size, 0.5), 3.0, rng)
    assert stats.kstest(x, stats.invgauss(2 / 3, scale=3).cdf).pvalue > 1e-4
    for r in (1e-12, 0.0):
        x = gibbs.inverse_gaussian(np.full(size, r), 2.25, rng)
        assert (x > 0).all()
        assert np.isfinite(x).all()
        assert stats.kstest(2.25 / x, stats.chi2(1).cdf).pvalue > 1e-4


@pytest.mark.parametrize("c", [0.4, 3.0])
def test_latent_scale_draw(c):
    """a | u has density proportional to the mixture's integrand: KS at level 1e-4, two laws."""
    u, size = -0.7, 20000
    w = gibbs.draw_w(np.full(size, u), np.full(size, c), np.random.default_rng(12))
    # GIG(1/2, c^2, u^2): density proportional to a^(-1/2) exp{-(u^2 / a + c^2 a) / 2}
    law = stats.geninvgauss(0.5, c * abs(u), scale=abs(u) / c)
    assert stats.kstest(1 / w, law.cdf).pvalue > 1e-4
    assert (gibbs.draw_w(np.ones(3), np.zeros(3), np.random.default_rng(0)) == 0).all()


@pytest.mark.parametrize(
    ("prior", "c", "scale_move", "seed"),
    [
        ({"A": 3.0, "B": 2.0}, None, False, 1),
        ({"A": 3.0, "B": 2.0}, oracle.WEIGHTS, True, 2),
        ({"s0": 1.5}, None, True, 3),
    ],
)
def test_gibbs_moments(prior, c, scale_move, seed):
    """Chain against quadrature: 21 comparisons in all, each |z| < 4.5.

    The standard error comes from 40 batch means, so z is about t with 39 degrees of
    freedom: P(|t| > 4.5) = 6e-5, hence 1e-3 that a right sampler fails for some seed.
    """
    posterior = exact.variance_prior(oracle.X, oracle.Y, 4.0, c=c, **prior)
    rng = np.random.default_rng(seed)
    chain = gibbs.sample(
        ONE, SLOPE, oracle.Y, P_BETA, rng, 8000, burn=200, c=c, scale_move=scale_move, **prior
    )
    b0, u = chain.theta.T
    if "s0" in prior:
        variance = (
            1 / (1 + chain.sigma2 / 1.5**2),
            lambda b0, u: exact.shrinkage_given_slope(u, 1.5),
        )
    else:
        variance = np.log(chain.sigma2), lambda b0, u: exact.log_variance_given_slope(u, 3.0, 2.0)
    pairs = [
        (b0, lambda b0, u: b0),
        (u, lambda b0, u: u),
        (b0**2, lambda b0, u: b0**2),
        (u**2, lambda b0, u: u**2),
        (u > 0, lambda b0, u: u > 0),
        (chain.theta_rb[:, 1], lambda b0, u: u),
        variance,
    ]
    for draws, g in pairs:
        mean, error = gibbs.batch_means(draws)
        assert abs(mean - posterior.mean(g)) < 4.5 * error


@pytest.mark.parametrize(
    ("prior", "means"),
    [
        ({"A": 0.01, "B": 0.01}, [27.8, 1174.8, 71143.3]),
        ({"s0": 1.0}, [10.7, 24.9, 39.5]),
        ({"A": 2.0, "B": 2.0}, [2.9, 2.9, 2.9]),
    ],
    ids=["flat", "half_cauchy", "light"],
)
def test_slopes_of_separable_rows_as_the_range_grows(prior, means):
    """The numbers of docs/faq.md: only a light tail gives a finite mean."""
    x = np.array([-1.5, -1.0, -0.6, 0.5, 0.9, 1.4])
    fits = [exact.variance_prior(x, np.sign(x), 4.0, u_max=u, **prior) for u in (1e2, 1e4, 1e6)]
    assert [round(fit.mean(lambda b, u: u), 1) for fit in fits] == means
