"""Shared by the tests of the transcripts."""

import numpy as np


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
