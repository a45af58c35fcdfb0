"""One row of a covariance matrix at a time: the short way equals the long one."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from bayesvm.factor_models.updated_inverse import DELAY, UpdatedInverse
from bayesvm.kernels import RBF

N = 12


def problem(seed=0):
    rng = np.random.default_rng(seed)
    W, noise, t = rng.standard_normal((N, 2)), rng.uniform(0.1, 2.0, N), rng.standard_normal(N)
    return W, noise, t, rng


def log_density(W, noise, t):
    return multivariate_normal(np.zeros(N), RBF()(W) + np.diag(noise)).logpdf(t)


def test_conditional_equals_the_full_density():
    W, noise, t, rng = problem()
    inverse = UpdatedInverse(np.linalg.inv(RBF()(W) + np.diag(noise)), t)
    i, new = 4, rng.standard_normal((3, 2))
    column = inverse.column(i)
    value, _, _ = inverse.proposed(column, i, RBF()(new, W), np.ones(3), noise[i])
    for w, v in zip(new, value, strict=True):
        moved = W.copy()
        moved[i] = w
        gain = log_density(moved, noise, t) - log_density(W, noise, t)
        assert v - inverse.now(column, i) == pytest.approx(gain, abs=1e-10)


def test_moves_equal_a_new_inverse():
    """More moves than are kept aside, so that the inverse is multiplied out on the way."""
    W, noise, t, rng = problem(1)
    inverse = UpdatedInverse(np.linalg.inv(RBF()(W) + np.diag(noise)), t)
    for _ in range(2 * DELAY + 3):
        i, w = int(rng.integers(N)), rng.standard_normal((1, 2))
        column = inverse.column(i)
        _, q, spread = inverse.proposed(column, i, RBF()(w, W), np.ones(1), noise[i])
        W[i] = w
        inverse.move(column, i, q[0], float(spread[0]))
    full = np.linalg.inv(RBF()(W) + np.diag(noise))
    np.testing.assert_allclose(inverse.times(np.eye(N)), full, atol=1e-10)
    np.testing.assert_allclose(inverse.column(3), full[:, 3], atol=1e-10)
