"""Covariances in three forms against a dense inverse, and the solves behind them."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from tests.problems import frozen, site

from bayesvm.core.precision import scaled_cholesky
from bayesvm.core.types import Rows
from bayesvm.inference.problem import gather
from bayesvm.linalg.covariances import Point, covariance
from bayesvm.linalg.forms import weighted_gram


def rows(n, K, seed=0):
    rng = np.random.default_rng(seed)
    C, w = rng.standard_normal((n, K)), rng.uniform(0.1, 4.0, n)
    P = rng.uniform(0.2, 3.0, K)
    return frozen(C, w, P)


C, W, P = rows(5, 8)  # more columns than rows, so that both forms have work to do
Q = frozen(C.T @ np.diag(W) @ C + np.diag(P))
SIGMA = frozen(np.linalg.inv(Q))
COVARIANCES = {
    "full": (covariance(weighted_gram(C, W, "dense"), P), SIGMA),
    "dual": (covariance(weighted_gram(C, W, "factored"), P), SIGMA),
    "diagonal": (covariance(weighted_gram(C, W, "diagonal"), P), np.diag(1 / np.diag(Q))),
}
GATE = frozen(np.array([1.0, 0.2, 0.5, 1.0, 0.9, 0.0, 0.3, 1.0]))
every = pytest.mark.parametrize(("cov", "Sigma"), COVARIANCES.values(), ids=COVARIANCES)


class Units:
    """A generator whose "noise" is unit vectors: draws are then the columns of a root of Sigma."""

    def __init__(self):
        self.used = 0

    def standard_normal(self, shape):
        n, k = shape
        self.used += k
        return np.eye(n)[:, self.used - k : self.used]


def assert_covariance(cov, Sigma, C, A, draws=None):
    """All products of a covariance against its matrix; A are the columns C written out."""
    K, tight = len(Sigma), {"rtol": 1e-9, "atol": 1e-12}
    x = np.random.default_rng(2).standard_normal((K, 2))
    for y in (x, x[:, 0]):
        np.testing.assert_allclose(cov.solve(y), Sigma @ y, **tight)
    variances = np.diag(A @ Sigma @ A.T)
    for rows_ in (C, A, sparse.csr_array(A)):
        np.testing.assert_allclose(cov.quad(rows_), variances, rtol=1e-10)
    np.testing.assert_allclose(cov.diag(), np.diag(Sigma), rtol=1e-10)
    np.testing.assert_allclose(cov.dense(), Sigma, **tight)
    where = slice(1, 3)
    np.testing.assert_allclose(cov.cross(C, where), (A @ Sigma)[:, where], **tight)
    np.testing.assert_allclose(cov.block(where), Sigma[where, where], **tight)
    assert cov.logdet == pytest.approx(np.linalg.slogdet(Sigma)[1], rel=1e-11)
    F = np.stack([cov.times_root(e) for e in np.eye(K)], axis=1)
    np.testing.assert_allclose(F @ F.T, Sigma, **tight)
    transposed = np.stack([cov.times_root_transposed(e) for e in np.eye(K)], axis=1)
    np.testing.assert_allclose(transposed, F.T, **tight)
    root = cov.sample(draws or K, Units())
    np.testing.assert_allclose(root.T @ root, Sigma, **tight)


@every
def test_products_of_a_covariance(cov, Sigma):
    other = np.random.default_rng(1).standard_normal((4, 8))
    for rows_ in (C, other):  # the dual form needs 8 + 5 numbers a draw, the others 8
        assert_covariance(cov, Sigma, rows_, rows_, draws=13)
    expected = [Sigma[2:4, 2:4], Sigma[4:6, 4:6]]
    np.testing.assert_allclose(cov.blocks(slice(2, 6), 2), expected, rtol=1e-11, atol=1e-14)


def test_dual_form_of_gated_columns():
    """Columns times gates, and what the gates add to the diagonal: S o E[gamma gamma']."""
    M = C.T @ np.diag(W) @ C * np.outer(GATE, GATE)
    M[np.diag_indices_from(M)] += GATE * (1 - GATE) * ((C**2).T @ W)
    expected = np.linalg.inv(M + np.diag(P))
    for form in ("dense", "factored"):
        cov = covariance(weighted_gram(C, W, form).gated(GATE), P)
        np.testing.assert_allclose(cov.dense(), expected, rtol=1e-11, atol=1e-14)
        np.testing.assert_allclose(cov.quad(C), np.diag(C @ expected @ C.T), rtol=1e-11)


def test_dual_variance_never_turns_negative():
    """A row pinned by a weight of 1e16 has variance 1e-16, not what cancellation leaves."""
    w = np.array([1e16, 1.0, 1.0, 1.0, 1.0])
    cov = covariance(weighted_gram(C, w, "factored"), P)
    assert (cov.quad(C) > 0).all()
    assert cov.quad(C)[0] < 1e-12
    assert (cov.diag() > 0).all()


def test_point_has_no_spread():
    point = Point(3, eps=0.1)
    assert point.quad(np.ones((5, 3))) == pytest.approx(0.01)
    np.testing.assert_allclose(point.diag(), 0.01)  # coefficients are smoothed as rows are
    assert not Point(3).diag().any()
    for value in (point.solve(np.ones(3)), point.dense()):
        assert not value.any()
    assert point.logdet == 0.0
    assert not point.sample(4, np.random.default_rng(0)).any()
    assert point.sample(4, np.random.default_rng(0)).shape == (4, 3)


# ----- the factor


def test_scaled_cholesky_of_a_badly_scaled_matrix():
    scale = 10.0 ** np.array([-9, -3, 0, 2, 5, 7, 9, 12])
    M = frozen(scale[:, None] * Q * scale)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        L, _ = scaled_cholesky(M)
    assert not np.triu(L, 1).any()
    np.testing.assert_allclose((L @ L.T) / M, 1.0, rtol=1e-12)


def test_scaled_cholesky_retries_with_a_warning():
    """A collinear column: 1e-10 of the scaled diagonal repairs it, and no more is added."""
    x = np.random.default_rng(4).standard_normal((6, 3)) * [1.0, 1e3, 1e-3]
    M = np.column_stack([x, x.sum(axis=1)])
    M = M.T @ M
    M = M - 1e-14 * np.diag(np.diag(M))  # indefinite for certain
    frozen(M)
    with pytest.warns(RuntimeWarning, match=r"numerically singular; 1e-10 was added"):
        L, patched = scaled_cholesky(M)
    d = np.sqrt(np.diag(M))
    gap = (L @ L.T - M) / np.outer(d, d)
    np.testing.assert_allclose(gap, 1e-10 * np.eye(4), atol=1e-14)


@pytest.mark.parametrize("M", [[[1.0, 2.0], [2.0, 1.0]], [[1.0, np.nan], [np.nan, 1.0]]])
def test_scaled_cholesky_gives_up_with_advice(M):
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite; standardise"):
        scaled_cholesky(np.array(M))


# ----- the mean


def step(stats, P, old):
    """mu_old + (S + P)^-1 (g - P mu_old)."""
    return old + covariance(stats.S, P).solve(stats.g - P * old)


def exact_solve(A, b):
    """Gaussian elimination in rational numbers."""
    n = len(b)
    M = [[*row, x] for row, x in zip(A, b)]
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(M[i][k]))
        M[k], M[pivot] = M[pivot], M[k]
        for i in range(k + 1, n):
            factor = M[i][k] / M[k][k]
            M[i] = [a - factor * b for a, b in zip(M[i], M[k])]
    x = [Fraction(0)] * n
    for k in reversed(range(n)):
        x[k] = (M[k][n] - sum(M[k][j] * x[j] for j in range(k + 1, n))) / M[k][k]
    return x


@pytest.mark.parametrize("form", ["dense", "factored"])
@pytest.mark.parametrize("heavy", [1e10, 1e14])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_residual_form_with_one_row_on_the_margin(form, heavy, seed):
    """Steps of the residual form against the exact solution in rational arithmetic.

    Row 0 has u = 1/2w and weight w = 1e10 or 1e14.  S itself is rounded to eps w, so a step of
    length d is off by about eps w d; but the residual is exact, so every step corrects the last
    and the error falls by that factor each time.  The normal equations keep the first error.
    """
    rng = np.random.default_rng(seed)
    n, K = 12, 4
    X, y, mu = rng.standard_normal((n, K)), rng.choice([-1.0, 1.0], n), rng.standard_normal(K)
    X[0] += (y[0] * (1 - 0.5 / heavy) - X[0] @ mu) * mu / (mu @ mu)
    u = 1 - y * (X @ mu)
    w = 1 / np.sqrt(u * u + 0.01)
    w[0] = heavy
    prior = np.full(K, 0.5)

    A = np.array([[Fraction(x) for x in row] for row in X])
    weight, label = [Fraction(x) for x in w], [Fraction(x) for x in y]
    Q_exact = (A.T * weight) @ A + np.diag([Fraction(1, 2)] * K)
    b_exact = A.T @ [(1 + k) * t for k, t in zip(weight, label)]
    exact = np.array([float(x) for x in exact_solve(Q_exact.tolist(), b_exact.tolist())])

    errors = []
    for _ in range(10):
        local = site(w, y * (1 + w * (1 - y * (X @ mu))))
        stats = gather(Rows(X), local, form)
        mu = step(stats, prior, mu)
        errors.append(np.abs(mu - exact).max())
    normal = np.linalg.solve((X.T * w) @ X + np.diag(prior), X.T @ ((1 + w) * y))
    rate = 100 * np.finfo(float).eps * heavy  # 2e-4 and (a bound that says little) 2.2
    assert errors[0] < 5 * rate
    assert errors[1] < max(min(rate, 0.1) * errors[0], 1e-14)
    assert errors[-1] < 5e-15  # a few units in the last place
    assert np.abs(normal - exact).max() > 1e6 * errors[-1]
