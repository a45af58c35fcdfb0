"""Fits of numbers: quantiles of residuals left out, the choice of a tube, rows left out."""

import numpy as np
import pytest
from scipy import stats
from tests.problems import make_problem

from bayesvm.inference import VB
from bayesvm.likelihoods import EpsilonInsensitive
from bayesvm.predictive.fitting import find_posterior
from bayesvm.predictive.regression import LeftOutResiduals

RNG = np.random.default_rng(0)
NOISE = EpsilonInsensitive(1.0, 0.2)


def held(z, c=None):
    """Residuals with these ratios: f is known, and y is in standard deviations of the noise."""
    z = np.asarray(z, float)
    c = np.ones(z.size) if c is None else np.asarray(c, float)
    zero = np.zeros(z.size)
    return LeftOutResiduals.of((z * np.sqrt(NOISE.variance), zero, zero, c), NOISE)


def numbers(n=120, p=3, seed=0, law=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    law = stats.norm() if law is None else law
    return X, X @ np.linspace(0.5, -0.5, p) + 0.5 * law.rvs(n, random_state=rng)


# ----- quantiles


def test_rows_cut_the_line_into_pieces_of_equal_probability():
    """With 99 rows the quantile at k % is row k, as of a new row among 100."""
    z = np.sort(RNG.standard_normal(99))
    found = held(RNG.permutation(z))
    for k in (1, 5, 37, 50, 95, 99):
        assert found.quantile(k / 100) == pytest.approx(z[k - 1], abs=1e-12)
    assert found.quantile(0.055) == pytest.approx((z[4] + z[5]) / 2, abs=1e-12)


def test_a_weight_of_two_is_the_row_twice():
    z = RNG.standard_normal(30)
    c = RNG.integers(1, 4, 30)
    for level in (0.001, 0.03, 0.2, 0.5, 0.77, 0.99):
        expected = held(np.repeat(z, c)).quantile(level)
        assert held(z, c).quantile(level) == pytest.approx(expected, abs=1e-12)


def test_beyond_the_last_row_the_tail_is_exponential():
    """The mean excess beyond a large residual is 1 / (2 gamma)."""
    found = held(np.linspace(-1.0, 1.0, 9))
    assert found.quantile(0.1) == pytest.approx(-1.0)
    at = [found.quantile(0.1 * np.exp(-k)) for k in range(4)]
    step = 0.5 / np.sqrt(NOISE.variance)
    np.testing.assert_allclose(at, -1.0 - step * np.arange(4))
    assert found.quantile(0.9 + 0.1 * (1 - np.exp(-2))) == pytest.approx(1.0 + 2 * step)


# ----- rows left out


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_moments_without_a_row_are_near_those_of_another_fit(epsilon):
    """To a fifth of the change that leaving a row out makes."""
    X, y = numbers(40, 3)
    lik = EpsilonInsensitive(1.5, epsilon).tightened()
    scheme = VB(bound="tight", tol=1e-11)
    machine, problem, *_ = find_posterior(make_problem(X, y, likelihood=lik), scheme, RNG)
    m, _ = machine.posterior.left_out(problem)
    exact = np.empty(40)
    for i in range(40):
        rest = np.arange(40) != i
        other = scheme.fit(make_problem(X[rest], y[rest], likelihood=lik), RNG)
        exact[i] = X[i] @ other.state.coef.mean
    whole = X @ machine.posterior.mean
    assert np.sqrt(np.mean((m - exact) ** 2)) < 0.2 * np.sqrt(np.mean((whole - exact) ** 2))
