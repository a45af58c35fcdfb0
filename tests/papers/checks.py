"""Shared by the tests of the transcripts."""

import numpy as np
from scipy import stats

from .gibbs import inverse_gaussian


def assert_monotone(values):
    """No decrease beyond rounding: 64 units in the last place of the largest value."""
    values = np.array(values)
    assert np.diff(values).min() >= -64 * np.finfo(float).eps * np.abs(values).max()


def problem(n, p, seed, noise=1.0):
    """Design with an intercept, labels from a linear rule (separable when noise = 0)."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p))])
    f = X @ np.concatenate([[0.3], np.ones(p) / np.sqrt(p)]) + noise * rng.standard_normal(n)
    return X, np.where(f > 0, 1.0, -1.0), rng.choice([0.5, 1.0, 2.0], n)


def latent_ratio(f, y, c, w, rng):
    """log p(y, a | f) - log q(a) at draws of a, one for each row of f (draws x rows).

    q(a_i) = GIG(1/2, c_i^2, chi_i), whose E[1/a_i] is w_i = c_i / sqrt(chi_i).
    """
    root, u = c / w, 1 - y * f
    a = 1 / inverse_gaussian(root / c * np.ones(f.shape), c**2, rng)
    log_p = np.log(c) - 0.5 * np.log(2 * np.pi * a) - (u + c * a) ** 2 / (2 * a)
    return (log_p - stats.geninvgauss.logpdf(a, 0.5, c * root, scale=root / c)).sum(1)


def assert_bound(log_ratio, elbo, z):
    """ELBO = E_q[log p - log q] from the densities themselves, within z standard errors."""
    assert abs(log_ratio.mean() - elbo) < z * log_ratio.std() / np.sqrt(len(log_ratio))
