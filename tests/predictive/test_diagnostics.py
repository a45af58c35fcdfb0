"""Effective sizes and R-hat of chains whose answers are known."""

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter
from tests.problems import Z

from bayesvm.predictive.diagnostics import _plain_r_hat, _split, ess, indicator_r_hat, r_hat


def ar1(phi, chains, draws, series, seed):
    """Stationary chains x_t = phi x_{t-1} + e_t of unit variance, (chains, draws, series)."""
    rng = np.random.default_rng(seed)
    noise = np.sqrt(1 - phi**2) * rng.standard_normal((chains, draws, series))
    noise[:, 0] /= np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=1)


@pytest.mark.parametrize("phi", [-0.4, 0.0, 0.5, 0.9])
def test_ess_of_an_autoregression(phi):
    """The truth is N (1 - phi) / (1 + phi); the mean of 1/ess over 60 series estimates its inverse.

    Geyer's rule keeps every pair of lags that is positive by chance, so 1/ess is biased up, by a
    few times sqrt(1/N) per pair; 10% is allowed for that on top of 4.5 standard errors.
    """
    chains, draws, series = 4, 4000, 60
    found = ess(ar1(phi, chains, draws, series, seed=1))
    assert found.shape == (series,)
    truth = chains * draws * (1 - phi) / (1 + phi)
    ratio = truth / found
    error = ratio.std(ddof=1) / np.sqrt(series)
    assert -Z * error < ratio.mean() - 1 < 0.1 + Z * error


def test_the_plain_statistic_of_chains_that_agree():
    """n (R^2 - 1 + 1/n) is about F(2m - 1, .) for 2m half chains of n: 200 series, level 1e-5."""
    chains, draws, series = 4, 1000, 200
    x = np.random.default_rng(5).standard_normal((chains, draws, series))
    half = draws // 2
    value = _plain_r_hat(_split(x))
    statistic = half * (value**2 - 1 + 1 / half)
    law = stats.f(2 * chains - 1, 2 * chains * (half - 1))
    assert stats.kstest(statistic, law.cdf).pvalue > 1e-5
    assert r_hat(x).max() < 1.02


def test_r_hat_of_chains_that_disagree():
    """Chains of unit variance at 0 and d: between half chains the variance is d^2 / 3."""
    x = np.random.default_rng(6).standard_normal((2, 4000, 1))
    for d in (1.0, 5.0):
        shifted = x + np.array([0.0, d])[:, None, None]
        plain = _plain_r_hat(_split(shifted))[0]
        assert plain == pytest.approx(np.sqrt(1 + d**2 / 3), rel=0.05)
        assert r_hat(shifted)[0] > 1.1
        assert ess(shifted)[0] < 50


def test_r_hat_sees_a_different_spread_and_chains_without_moments():
    x = np.random.default_rng(8).standard_normal((4, 1000, 1))
    assert r_hat(x * np.array([1.0, 1.0, 1.0, 4.0])[:, None, None])[0] > 1.1
    runaway = np.exp(40 * np.linspace(0, 1, 1000))[:, None] * x
    assert r_hat(runaway)[0] > 1.5
    cauchy = np.random.default_rng(9).standard_cauchy((4, 1000, 1))
    assert r_hat(cauchy)[0] < 1.02


def test_constant_chains():
    same = np.full((4, 100, 1), 2.5)
    assert r_hat(same)[0] == 1.0
    assert np.isfinite(ess(same)).all()


def test_chains_stuck_apart_are_not_called_converged():
    """No variance within, some between: as far from agreement as chains can be."""
    stuck = np.broadcast_to(np.arange(4.0)[:, None, None], (4, 100, 1))
    assert r_hat(stuck)[0] > 10
    assert ess(stuck)[0] < 10


@pytest.mark.parametrize("draws", [2, 3, 5, 11])
def test_few_draws_give_finite_numbers(draws):
    x = np.random.default_rng(8).standard_normal((2, draws, 3))
    if draws >= 4:  # a half chain needs two draws to have a variance
        assert np.isfinite(r_hat(x)).all()
    assert np.isfinite(ess(x)).all()
    assert (ess(x) > 0).all()


def test_indicators_have_an_r_hat_of_their_own():
    rng = np.random.default_rng(0)
    same = rng.random((4, 2000, 3)) < [0.0, 0.3, 1.0]
    np.testing.assert_allclose(indicator_r_hat(same), 1.0, atol=0.01)
    apart = np.stack([np.zeros((1000, 1)), np.ones((1000, 1))])
    assert indicator_r_hat(apart)[0] > 5
    rare = np.zeros((2, 2000, 1))
    rare[0, 7] = 1.0  # one visit in four thousand says nothing
    assert indicator_r_hat(rare)[0] < 1.01
    assert np.isnan(indicator_r_hat(np.zeros((2, 3, 2)))).all()
