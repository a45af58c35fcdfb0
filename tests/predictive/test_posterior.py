"""What was learned about theta: the same questions to a Gaussian, to draws and to a point."""

import numpy as np
import pytest
from scipy import sparse, stats
from tests.problems import Z, frozen

from bayesvm.core.types import Coef
from bayesvm.linalg.covariances import FullCovariance
from bayesvm.predictive.posterior import DrawsPosterior, GaussianPosterior, PointPosterior

L = np.tril(np.full((3, 3), 0.4)) + np.diag([1.0, 2.0, 0.5])
MEAN = frozen(np.array([0.5, -1.0, 2.0]))
SIGMA = np.linalg.inv(L @ L.T)
GAUSSIAN = GaussianPosterior(Coef(MEAN, FullCovariance(frozen(L))))
C = frozen(np.random.default_rng(0).standard_normal((5, 3)))


def test_gaussian_moments_and_quantiles():
    np.testing.assert_allclose(GAUSSIAN.variance(), np.diag(SIGMA), rtol=1e-12)
    np.testing.assert_allclose(GAUSSIAN.covariance(), SIGMA, rtol=1e-12)
    sd = np.sqrt(np.diag(C @ SIGMA @ C.T))
    for rows in (C, sparse.csr_array(C)):
        m, v = GAUSSIAN.moments(rows)
        np.testing.assert_allclose(m, C @ MEAN, rtol=1e-12)
        np.testing.assert_allclose(v, sd**2, rtol=1e-12)
    levels = (0.05, 0.5, 0.9)
    expected = stats.norm.ppf(np.array(levels)[:, None], C @ MEAN, sd)
    np.testing.assert_allclose(GAUSSIAN.quantiles(C, levels), expected, rtol=1e-10)


def test_draws_of_a_gaussian_agree_with_it():
    """40 000 draws: means and variances of theta and of f at five rows, 16 z-scores < 4.5."""
    n = 40_000
    theta = GAUSSIAN.sample(n, np.random.default_rng(1))
    drawn = DrawsPosterior(theta.reshape(4, n // 4, 3))
    np.testing.assert_allclose(drawn.mean, theta.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(drawn.variance(), theta.var(axis=0), rtol=1e-12)
    np.testing.assert_allclose(np.diag(drawn.covariance()), drawn.variance(), rtol=1e-3)
    pairs = [
        (drawn.mean, drawn.variance(), MEAN, np.diag(SIGMA)),
        (*drawn.moments(C), *GAUSSIAN.moments(C)),
    ]
    np.testing.assert_allclose(
        drawn.quantiles(C, (0.25, 0.75)), np.quantile(C @ theta.T, [0.25, 0.75], axis=1)
    )
    for mean, variance, m, v in pairs:
        assert (np.abs(mean - m) < Z * np.sqrt(v / n)).all()
        assert (np.abs(variance / v - 1) < Z * np.sqrt(2 / n)).all()


def test_a_point_refuses_what_it_does_not_know():
    point = PointPosterior(MEAN, FullCovariance(L))
    m, v = point.moments(C)
    np.testing.assert_allclose(m, C @ MEAN)
    assert not v.any()
    for ask in (
        point.variance,
        point.covariance,
        lambda: point.quantiles(C, (0.1,)),
        lambda: point.sample(3, np.random.default_rng(0)),
    ):
        with pytest.raises(ValueError, match=r"point estimate.*Fit with inference='vb'"):
            ask()
