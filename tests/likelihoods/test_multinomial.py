"""The bound of the multinomial likelihood against quadrature, and its derivatives."""

import itertools

import numpy as np
import pytest
from scipy.special import log_softmax

from bayesvm.likelihoods.base import NODES, WEIGHTS
from bayesvm.likelihoods.multinomial import expected, log_prob, softmax

RNG = np.random.default_rng(0)
CODES = np.array([0.0, 1.0, 2.0, 2.0])
M = RNG.standard_normal((4, 3)) * 2.0


def by_quadrature(codes, m, v):
    """E log p by a product of one-dimensional rules."""
    at = np.array(list(itertools.product(range(NODES.size), repeat=3)))
    f = m + np.sqrt(v) * NODES[at][:, None]  # (nodes, rows, classes)
    logs = log_softmax(f, axis=2)[:, np.arange(len(m)), codes.astype(int)]
    return np.prod(WEIGHTS[at], axis=1) @ logs


@pytest.mark.parametrize("size", [0.01, 0.5, 3.0])
def test_it_is_a_lower_bound_and_a_close_one(size):
    v = size * RNG.uniform(0.5, 1.5, M.shape)
    exact, bound = by_quadrature(CODES, M, v), expected(CODES, M, v).bound
    assert np.all(bound <= exact + 1e-10)
    # Jensen's bound, which has no tilt, is further below
    jensen = M[np.arange(4), CODES.astype(int)] - softmax(M + 0.5 * v)[1]
    assert np.all(exact - bound < 0.8 * (exact - jensen))


def test_without_variance_it_is_the_likelihood():
    logs = log_softmax(M, axis=1)[np.arange(4), CODES.astype(int)]
    np.testing.assert_allclose(log_prob(CODES, M), logs, rtol=1e-13)
    np.testing.assert_allclose(expected(CODES, M, np.zeros_like(M)).bound, logs, rtol=1e-13)


def test_gradients_are_those_of_the_bound():
    v, h = RNG.uniform(0.1, 2.0, M.shape), 1e-5
    here = expected(CODES, M, v)
    for k in range(3):
        e = h * np.eye(3)[k]
        slope = (expected(CODES, M + e, v).bound - expected(CODES, M - e, v).bound) / (2 * h)
        np.testing.assert_allclose(here.g[:, k], slope, atol=2e-5)
        slope = (expected(CODES, M, v + e).bound - expected(CODES, M, v - e).bound) / (2 * h)
        np.testing.assert_allclose(-0.5 * here.w[:, k], slope, atol=2e-5)


def test_what_all_classes_share_does_not_matter():
    v = RNG.uniform(0.1, 2.0, M.shape)
    a, b = expected(CODES, M, v), expected(CODES, M + 7.0, v)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12)


def test_far_from_zero():
    m, v = np.array([[800.0, -800.0, 0.0]]), np.array([[4.0, 400.0, 1e-12]])
    found = expected(np.array([1.0]), m, v)
    assert all(np.all(np.isfinite(x)) for x in found)
    assert np.all(found.w >= 0)
