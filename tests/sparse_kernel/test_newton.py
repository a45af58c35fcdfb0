"""Ascent under signs: EM never falls, Newton reaches the same optimum, conditions hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import log_ndtr
from tests.papers import chen

from bayesvm.sparse_kernel import convex
from bayesvm.sparse_kernel.newton import FLAT, PenalisedLikelihood, largest_rate


def problem(n, seed, width=1.0, noise=0.5, weighted=False):
    """Signed columns of an RBF kernel with the constant last, labels, weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.where(X[:, 0] ** 2 + X[:, 1] + noise * rng.standard_normal(n) > 0.7, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    c = rng.choice([0.5, 1.0, 2.0], n) if weighted else np.ones(n)
    A = np.column_stack([chen.rbf(X, np.sqrt(2) * width) * y, np.ones(n)])
    return A, y, c


def norm(A, y, weight):
    """Matrix of the squared norm of f as a penalty, every row a candidate."""
    return weight * y[:, None] * A[:, :-1] if weight else None


def convex_model(A, y, c, rate, Q=None):
    return convex.convex_model(A, y, c, Q).with_rate(rate)


def with_precision(A, y, c, rate, alpha):
    """A rate and precisions of the weights, and a nearly flat bias."""
    t = np.append(np.full(alpha.size, rate), 0.0)
    return PenalisedLikelihood(A, y, c, t, np.diag(np.append(alpha, FLAT)))


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 25),
    width=st.sampled_from([0.2, 1.0, 5.0]),
    shape=st.sampled_from([-0.25, 0.0]),
    rate=st.sampled_from([0.0, 0.5]),
    weighted=st.booleans(),
)
def test_em_ascends(seed, n, width, shape, rate, weighted):
    """The power prior by its mixture with d = 1e-3, a Laplace rate beside it: never a fall."""
    A, y, c = problem(n, seed, width, weighted=weighted)
    rng = np.random.default_rng(seed)
    x, d = np.append(rng.uniform(0.05, 0.5, n), 0.0), 1e-3

    def log_posterior(x):
        flat = with_precision(A, y, c, rate, np.zeros(n))
        return flat.value(x) + chen.log_student(x[:-1], shape, d).sum()

    values = [log_posterior(x)]
    for _ in range(12):
        alpha = chen.precision(x[:-1], shape, d)
        x = with_precision(A, y, c, rate, alpha).em_step(x)
        values.append(log_posterior(x))
    assert np.diff(values).min() >= -1e-9 * (1 + np.abs(values).max())


@pytest.mark.parametrize("seed", range(3))
def test_em_step_is_that_of_the_transcript(seed):
    A, y, c = problem(12, seed)
    Phi, w = A[:, :-1] * y, y * np.random.default_rng(seed).uniform(0.05, 0.5, 12)
    alpha = chen.precision(w, 0.0, 1e-2)
    best_w, best_b = chen.m_step(Phi, y, chen.latent_mean(Phi @ w, y), alpha)
    x = with_precision(A, y, c, 0.0, alpha).em_step(np.append(y * w, 0.0))
    assert_allclose(y * x[:-1], best_w, atol=1e-7)
    assert x[-1] == pytest.approx(best_b, abs=1e-7)


@pytest.mark.parametrize("rate", [0.5, 2.0])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_newton_em_and_a_general_solver_agree(rate, ridge):
    A, y, c = problem(30, 4, weighted=True)
    p = convex_model(A, y, c, rate, norm(A, y, ridge))
    best, _ = p.maximise(np.zeros(31))
    plain, _ = p.newton(np.full(31, 0.1), 1e-12)
    x = np.full(31, 0.1)
    for _ in range(4000):
        x = p.em_step(x)

    def loss(x):
        return -p.value(x)

    def slope(x):
        return -p.gradient(x)

    bounds = [(0, None)] * 30 + [(None, None)]
    general = minimize(loss, np.full(31, 0.1), jac=slope, bounds=bounds, options={"maxiter": 5000})
    value = p.value(best)
    assert value >= -general.fun - 1e-6
    assert value == pytest.approx(p.value(plain), abs=1e-7)
    assert value == pytest.approx(p.value(x), abs=1e-6)
    assert_allclose(A @ x, A @ best, atol=2e-3)


def test_optimality_conditions_hold():
    A, y, c = problem(60, 1, weighted=True)
    for rate, ridge in ((4.0, 0.0), (0.5, 0.0), (0.05, 0.0), (0.5, 0.3), (0.05, 3.0)):
        p = convex_model(A, y, c, rate, norm(A, y, ridge))
        x, _ = p.maximise(np.zeros(61))
        slope = p.gradient(x)
        assert slope[:-1][x[:-1] == 0].max() < 1e-5 * rate
        assert np.abs(slope[:-1][x[:-1] > 0]).max(initial=0) < 1e-3 * rate
        assert abs(slope[-1]) < 1e-4


def test_the_largest_rate_is_where_the_last_weight_dies():
    A, y, c = problem(40, 2)
    top = largest_rate(convex_model(A, y, c, 0.0))
    for factor, empty in ((1.001, True), (0.99, False)):
        x, _ = convex_model(A, y, c, factor * top).maximise(np.zeros(41))
        assert (x[:-1].max() == 0) == empty


def test_the_penalty_is_that_of_its_matrix():
    A, y, c = problem(12, 5)
    p = convex_model(A, y, c, 0.4, norm(A, y, 0.7))
    x = np.append(np.where(np.arange(12) % 3, 0.0, 0.2), -0.3)
    w = y * x[:-1]
    penalty = 0.4 * x[:-1].sum() + 0.35 * w @ (A[:, :-1] * y) @ w + 0.5e-8 * x[-1] ** 2
    assert p.value(x) == pytest.approx(c @ log_ndtr(y * (A @ x)) - penalty, rel=1e-12)
    assert_allclose(p.gradient(x), A.T @ p.local(A @ x).g - p.t - p.Q @ x, atol=1e-12)
    kept = np.array([0, 4, 7, 12])
    h = p.local(A @ x).h
    assert_allclose(p.of(kept).curvature(h), p.curvature(h)[np.ix_(kept, kept)], atol=1e-14)


@pytest.mark.parametrize("weight", [0.0, 0.2])
def test_laplace_covariance_is_the_inverse_curvature(weight):
    A, y, c = problem(30, 8)
    rate, Q = 0.7, norm(A, y, weight)
    p = convex_model(A, y, c, rate, Q)
    x, _ = p.maximise(np.zeros(31))
    if weight:
        x, _ = convex.relax(p := p.with_rate(0.0), x)
    sparse = convex.approximate(p, x)
    kept = np.append(sparse.columns, 30)
    mixture = np.zeros((kept.size, kept.size))
    mixture[-1, -1] = 1e-8
    own = Q[np.ix_(sparse.columns, sparse.columns)] if weight else np.diag(rate / sparse.mean[:-1])
    mixture[:-1, :-1] = own

    def loss(t):  # the quadratic that touches the prior at the estimate
        return -c @ log_ndtr(y * (A[:, kept] @ t)) + 0.5 * t @ mixture @ t

    e, k = 1e-4, kept.size
    eye = e * np.eye(k)
    t = sparse.mean
    H = [
        [loss(t + a + b) - loss(t + a - b) - loss(t - a + b) + loss(t - a - b) for b in eye]
        for a in eye
    ]
    assert_allclose(np.array(H) / (4 * e * e), sparse.precision, atol=1e-4)
    m, v = sparse.moments(A[:, :-1])
    Sigma = np.linalg.inv(sparse.precision)
    assert_allclose(v, np.einsum("ij,jk,ik->i", A[:, kept], Sigma, A[:, kept]), rtol=1e-8)
