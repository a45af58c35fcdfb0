"""The relevance vector machine: evidence, increments, and two roads to one place."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_expit
from tests.papers import chen

from bayesvm.likelihoods import Logistic, Probit
from bayesvm.sparse_kernel import rvm
from bayesvm.sparse_kernel.newton import FLAT


def problem(n, seed, width=1.0, weighted=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.5 * rng.standard_normal(n) > 0.7, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    c = rng.choice([1.0, 2.0], n) if weighted else np.ones(n)
    return chen.rbf(X, np.sqrt(2) * width), y, c


def mode_of(Phi, active, y, c, alpha):
    full = np.full(Phi.shape[1], np.inf)
    full[active] = alpha
    columns = rvm.Columns(Phi, y, c)
    return columns, columns.mode(rvm.Start(full, np.zeros(full.size + 1)))


def test_mode_and_evidence_are_those_of_the_transcript():
    Phi, y, c = problem(30, 0)
    alpha = np.array([0.5, 2.0, 1.0])
    _, mode = mode_of(Phi, [3, 8, 20], y, c, alpha)
    C = np.column_stack([Phi[:, [3, 8, 20]], np.ones(30)])
    theta, Q = chen.relevance_mode(C, y, np.append(alpha, FLAT))
    assert_array_equal(mode.C, C)
    assert_allclose(mode.at.theta[[3, 8, 20, -1]], theta, atol=1e-6)
    assert np.count_nonzero(mode.at.theta) == 4
    assert_allclose(mode.precision, Q, rtol=1e-5)
    assert mode.evidence == pytest.approx(
        chen.relevance_evidence(C, y, np.append(alpha, FLAT)), abs=1e-8
    )


def test_the_logistic_mode_and_evidence_by_brute_force():
    """Mode by quasi-Newton from zero, Hessian by differences of the plain log posterior."""
    Phi, y, c = problem(30, 0, weighted=True)
    alpha = np.array([0.5, 2.0, 1.0])
    full = np.full(30, np.inf)
    full[[3, 8, 20]] = alpha
    columns = rvm.Columns(Phi, y, c, bias=0.2, likelihood=Logistic())
    mode = columns.mode(rvm.Start(full, np.zeros(31)))
    C, P = np.column_stack([Phi[:, [3, 8, 20]], np.ones(30)]), np.append(alpha, 0.2)

    def log_joint(theta):
        prior = 0.5 * np.log(P / (2 * np.pi)).sum() - 0.5 * (P * theta**2).sum()
        return c @ log_expit(y * (C @ theta)) + prior

    def slope(theta):
        return approx_fprime(theta, log_joint, 1e-6)

    got = mode.at.theta[[3, 8, 20, -1]]
    assert_allclose(got, minimize(lambda t: -log_joint(t), np.zeros(4), tol=1e-10).x, atol=1e-5)
    H = np.stack([(slope(got + d) - slope(got - d)) / 2e-3 for d in 1e-3 * np.eye(4)])
    assert_allclose(mode.precision, -H, atol=1e-3)
    # exact precision of the Gaussian at the mode, from the closed form of the curvature
    p = 1 / (1 + np.exp(-C @ got))
    Q = (C * (c * p * (1 - p))[:, None]).T @ C + np.diag(P)
    laplace = log_joint(got) + 2 * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(Q)[1]
    assert mode.evidence == pytest.approx(laplace, abs=1e-8)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("likelihood", [Probit(), Logistic()], ids=["probit", "logistic"])
def test_either_solver_where_the_maximum_is_one(seed, likelihood):
    """Few columns far apart: both ends are level, and precisions solve MacKay's equation."""
    Phi, y, c = problem(80, seed, width=0.7)
    columns = rvm.Columns(Phi[:, :6], y, c, likelihood=likelihood)
    one = rvm.sequential(columns, tol=1e-9)
    other = rvm.em(columns, tol=1e-9, max_iter=20000)
    assert np.diff(one.path).min() >= 0
    assert one.value == pytest.approx(other.value, abs=0.02)
    assert set(one.columns) <= set(other.columns)
    C = np.column_stack([Phi[:, other.columns], np.ones(80)])
    h = likelihood.augmented(y, C @ other.mean, 0.0).h
    alpha = np.diag(other.precision - C.T @ np.diag(h) @ C)[:-1]
    variance = np.diag(np.linalg.inv(other.precision))[:-1]
    large = alpha < 1e3  # the others are on their way out
    wanted = (1 - alpha * variance) / other.mean[:-1] ** 2
    assert_allclose(alpha[large], wanted[large], rtol=0.01)


def test_weights_are_copies():
    Phi, y, c = problem(20, 1, weighted=True)
    twice = np.repeat(np.arange(20), c.astype(int))
    a = rvm.sequential(rvm.Columns(Phi, y, c))
    b = rvm.sequential(rvm.Columns(Phi[twice], y[twice], np.ones(twice.size)))
    assert a.value == pytest.approx(b.value, abs=1e-9)
    assert_allclose(a.mean, b.mean, rtol=1e-6)


def test_increment_is_exact_for_the_linearised_model():
    """Adding, re-estimating and deleting: log N(t; 0, B^-1 + Phi A^-1 Phi') before and after."""
    Phi, y, c = problem(15, 2)
    active, alpha = np.array([1, 6, 9]), np.array([0.7, 3.0, 1.5])
    columns, mode = mode_of(Phi, active, y, c, alpha)
    targets = mode.C @ mode.at.theta[[*active, -1]] + mode.g / mode.h

    def log_evidence(columns, alpha):
        D = np.column_stack([Phi[:, columns], np.ones(15)])
        V = np.diag(1 / mode.h) + D @ np.diag(1 / np.append(alpha, FLAT)) @ D.T
        return -0.5 * np.linalg.slogdet(V)[1] - 0.5 * targets @ np.linalg.solve(V, targets)

    base = log_evidence(active, alpha)
    s, q = columns.factors(mode)
    for j in (0, 4, 12):  # add
        want = log_evidence([*active, j], [*alpha, 0.9]) - base
        assert rvm.gain_of(0.9, s[j], q[j]) == pytest.approx(want, abs=1e-5)
    for k, j in enumerate(active):  # delete and re-estimate
        own = rvm.gain_of(alpha[k], s[j], q[j])
        others = np.delete(np.arange(3), k)
        want = log_evidence(active[others], alpha[others]) - base
        assert -own == pytest.approx(want, abs=1e-5)
        new = alpha.copy()
        new[k] = 0.2
        want = log_evidence(active, new) - base
        got = rvm.gain_of(0.2, s[j], q[j]) - own
        assert got == pytest.approx(want, abs=1e-5)


def test_nothing_to_learn_leaves_the_bias():
    rng = np.random.default_rng(0)
    Phi = np.ones((40, 3))  # columns that are the bias again
    y = np.where(rng.random(40) < 0.8, 1.0, -1.0)
    found = rvm.sequential(rvm.Columns(Phi, y, np.ones(40)))
    m, _ = found.moments(Phi)
    assert found.columns.size == 0
    assert np.ptp(m) == 0
