"""Effective sizes and R-hat of chains whose answers are known."""

import numpy as np
import pytest
from scipy.signal import lfilter
from tests.problems import Z

from bayesvm.predictive.diagnostics import ess, indicator_r_hat, r_hat


def ar1(phi, chains, draws, series, seed):
    """Stationary chains x_t = phi x_{t-1} + e_t of unit variance, (chains, draws, series)."""
    rng = np.random.default_rng(seed)
    noise = np.sqrt(1 - phi**2) * rng.standard_normal((chains, draws, series))
    noise[:, 0] /= np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=1)


@pytest.mark.parametrize("phi", [-0.4, 0.0, 0.9])
def test_ess_of_an_autoregression(phi):
    """The truth is N (1 - phi) / (1 + phi); the mean of 1/ess over 60 series estimates its inverse.

    Geyer's rule keeps every pair of lags that is positive by chance, so 1/ess is biased up, by a
    few times sqrt(1/N) per pair; 10% is allowed for that on top of 4.5 standard errors.
    """
    chains, draws, series = 4, 4000, 60
    ratio = chains * draws * (1 - phi) / (1 + phi) / ess(ar1(phi, chains, draws, series, seed=1))
    error = ratio.std(ddof=1) / np.sqrt(series)
    assert -Z * error < ratio.mean() - 1 < 0.1 + Z * error


def test_chains_that_agree_and_chains_that_do_not():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((4, 1000, 200))
    assert r_hat(x).max() < 1.02
    apart = x[:, :, :1] + np.array([0.0, 0.0, 0.0, 1.0])[:, None, None]
    wide = x[:, :, :1] * np.array([1.0, 1.0, 1.0, 4.0])[:, None, None]
    runaway = np.exp(40 * np.linspace(0, 1, 1000))[:, None] * x[:, :, :1]
    for different in (apart, wide, runaway):
        assert r_hat(different)[0] > 1.1
    assert ess(apart + 4 * (apart > 0.5))[0] < ess(x)[0]
    assert r_hat(rng.standard_cauchy((4, 1000, 1)))[0] < 1.02  # without moments


def test_constant_chains():
    same = np.full((4, 100, 1), 2.5)
    assert r_hat(same)[0] == 1.0
    assert np.isfinite(ess(same)).all()
    stuck = np.broadcast_to(np.arange(4.0)[:, None, None], (4, 100, 1))
    assert r_hat(stuck)[0] > 10  # no variance within, some between
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
