"""Draws against their laws, where the textbook formulas fail too."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import erfcx, log_ndtr
from tests.problems import Z, z_score

from bayesvm.core.distributions import (
    inverse_gaussian,
    mills,
    polya_gamma,
    polya_gamma_sum,
    slice_sample,
    tilted_stable,
    truncated_normal_positive,
)

N = 40_000

# ----- inverse Gaussian, by its reciprocal mean r


@pytest.mark.parametrize("shape", [0.01, 1.0, 9.0])
@pytest.mark.parametrize("r", [0.0, 1e-300, 1e-12, 1e-3, 0.5, 30.0, 1e12, 1e100])
def test_inverse_gaussian_is_positive_finite_and_has_its_moments(r, shape):
    """E[1/x] = r + 1/shape for any r, 0 included; E[x] = 1/r where the variance is within reach.

    24 laws and at most 2 moments each: 44 comparisons, |z| < 4.5.
    """
    x = inverse_gaussian(np.full(N, r), shape, np.random.default_rng(1))
    assert (x > 0).all()
    assert np.isfinite(x).all()
    assert len(np.unique(x)) > 0.999 * N or r > 1e12 * shape  # as fine as the law itself
    reciprocal, sd = 1 / x, np.sqrt(r / shape + 2 / shape**2)
    rounding = 1e-15 * np.sqrt(N) * r / sd  # where r swamps 1/shape
    z = (reciprocal.mean() - r - 1 / shape) / (sd / np.sqrt(N))
    assert abs(z) < Z + rounding
    if r * shape > 0.01:  # squared coefficient of variation 1 / (r shape)
        z = (x * r - 1).mean() * np.sqrt(N * r * shape)
        assert abs(z) < Z + 1e-15 * np.sqrt(N * r * shape)
    if r * shape > 1e4:  # nearly normal: none of the draws is 8 standard deviations out
        np.testing.assert_allclose(x * r, 1.0, rtol=0, atol=8 / np.sqrt(r * shape) + 1e-14)


@pytest.mark.parametrize(("r", "shape"), [(0.5, 3.0), (4.0, 0.3), (0.01, 1.0)])
def test_inverse_gaussian_law(r, shape):
    """Kolmogorov-Smirnov at level 1e-5, three laws."""
    x = inverse_gaussian(np.full(N, r), shape, np.random.default_rng(2))
    assert stats.kstest(x, stats.invgauss(1 / (r * shape), scale=shape).cdf).pvalue > 1e-5


# ----- truncated normal


@pytest.mark.parametrize("mean", [-300.0, -30.0, -5.0, -1.0, -1e-9, 0.0, 0.3, 8.0, 40.0])
def test_truncated_normal_law(mean):
    """N(mean, 1) above zero: Kolmogorov-Smirnov at level 1e-5 and the mean, nine laws."""
    x = truncated_normal_positive(np.full(N, mean), np.random.default_rng(5))
    assert (x > 0).all()

    def upper(t):  # P(x > t)
        return np.exp(log_ndtr(mean - t) - log_ndtr(mean))

    assert stats.kstest(x, lambda t: 1 - upper(t)).pvalue > 1e-5
    # mean + mills(mean) with erfcx; for mean = -300 it is 1/300 to 1e-5
    expected = mean + np.sqrt(2 / np.pi) / erfcx(-mean / np.sqrt(2))
    assert abs(z_score(x, expected)) < Z


def test_mills_ratio_far_into_the_left_tail():
    """N(z) / Phi(z) = sqrt(2 / pi) / erfcx(-z / sqrt 2), a form without cancellation."""
    z = np.array([-1e8, -1e6, -1e4, -300.0, -30.0, -2.0, 0.0, 1.0, 6.0, 30.0])
    expected = np.sqrt(2 / np.pi) / erfcx(-z / np.sqrt(2))
    np.testing.assert_allclose(mills(z), expected, rtol=1e-10)


# ----- Polya-Gamma


@pytest.mark.parametrize("z", [0.0, 0.5, 2.0, -2.0, 3.2, 10.0, 60.0])
def test_polya_gamma_moments(z):
    """Mean, variance and Laplace transform at three points: 7 x 5 comparisons, |z| < 4.5."""
    x = polya_gamma(np.full(N, z), np.random.default_rng(6))
    assert (x > 0).all()
    a = abs(z)
    mean = 0.25 if a == 0 else np.tanh(a / 2) / (2 * a)
    # (sinh a - a) / (4 a^3 cosh^2(a/2)), written so that a = 60 does not overflow
    variance = 1 / 24
    if a > 0:
        e = np.exp(-a)
        variance = (1 - e * e - 2 * a * e) / (2 * a**3 * (1 + e) ** 2)
    assert abs(z_score(x, mean)) < Z
    assert abs(z_score((x - mean) ** 2, variance)) < Z
    for t in (0.3, 2.0, 15.0):  # E exp(-t x) = cosh(a/2) / cosh(sqrt(a^2/4 + t/2))
        root = np.sqrt(a * a / 4 + t / 2)
        expected = np.exp(a / 2 - root) * (1 + np.exp(-a)) / (1 + np.exp(-2 * root))
        assert abs(z_score(np.exp(-t * x), expected)) < Z


def test_both_draws_of_polya_gamma_have_one_law():
    """PG(1, z) by rejection, and as a sum of gamma variables: KS at level 1e-5."""
    rng, n = np.random.default_rng(7), 8000
    for z in (0.0, 1e-9, 1.5, 6.0, 1e3):
        series = polya_gamma_sum(np.ones(n), np.full(n, z), rng)
        assert stats.ks_2samp(series, polya_gamma(np.full(n, z), rng)).pvalue > 1e-5


# ----- slice sampler

TARGETS = {
    "gumbel": (lambda x: -x - math.exp(-x), stats.gumbel_r()),
    "narrow": (lambda x: -0.5 * ((x - 3) / 0.01) ** 2, stats.norm(3, 0.01)),
    "wide": (lambda x: -0.5 * (x / 4) ** 2, stats.norm(0, 4)),
    "log-gamma": (lambda x: 0.7 * x - math.exp(x), stats.loggamma(0.7)),
}


@pytest.mark.parametrize("name", TARGETS)
def test_slice_update_leaves_its_target_invariant(name):
    """A draw of the target moved once is a draw of the target: KS at level 1e-5, four laws.

    The starts are independent, so the ends are; that they moved is checked too.
    """
    log_density, law = TARGETS[name]
    rng, n = np.random.default_rng(8), 4000
    start = law.rvs(n, random_state=rng)
    end = np.array([slice_sample(log_density, x, rng) for x in start])
    assert stats.kstest(end, law.cdf).pvalue > 1e-5
    assert (end != start).all()
    assert abs(stats.spearmanr(start, end).statistic) < 0.9


@pytest.mark.parametrize("alpha", [0.3, 0.8, 1.0, 1.6])
@pytest.mark.parametrize("z", [0.05, 0.7, 3.0, 12.0])
def test_tilted_stable_moments(alpha, z):
    """E T = alpha z^(alpha - 2) / 2 under the tilt z^2, and its Laplace transform; |z| < 4.5."""
    rng, n, h = np.random.default_rng(int(100 * alpha + z)), 20_000, alpha / 2
    T = tilted_stable(h, np.full(n, z**2), rng)
    assert T.shape == (n,)
    assert (T > 0).all()
    assert abs(z_score(T, 0.5 * alpha * z ** (alpha - 2))) < Z
    t = 0.5 * z**2
    transform = np.exp(z**alpha - (z**2 + t) ** h)
    assert abs(z_score(np.exp(-t * T), transform)) < Z


def test_slice_on_an_interval_samples_its_density():
    rng, x, draws = np.random.default_rng(1), 0.5, np.empty(20_000)
    for i in range(draws.size):
        x = slice_sample(lambda t: 3 * np.log(t), x, rng, bounds=(0.1, 2.0))
        draws[i] = x
    law = lambda t: (t**4 - 0.1**4) / (2.0**4 - 0.1**4)  # noqa: E731
    assert stats.kstest(draws[::10], law).pvalue > 1e-5
