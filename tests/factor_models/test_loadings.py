"""The factor model: its bound, its updates, its sums."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad, trapezoid
from scipy.linalg import subspace_angles
from tests.problems import Z

from bayesvm.factor_models.fitted import aligned, match
from bayesvm.factor_models.learn import choose_size
from bayesvm.factor_models.loadings import (
    Drawn,
    FactorPrior,
    Loadings,
    energy,
    learn,
    project,
    sparse_bound,
    table_bound,
)
from bayesvm.factor_models.observed_data import Scores, Sheet
from bayesvm.predictive.diagnostics import ess


def simulate(n, d, K, seed, holes=0.0, noise=0.5, sparse=False):
    rng = np.random.default_rng(seed)
    A = rng.laplace(size=(d, K))
    if sparse:
        A *= rng.random((d, K)) < 0.4
    W = rng.standard_normal((n, K))
    X = W @ A.T + noise * rng.standard_normal((n, d))
    X[rng.random((n, d)) < holes] = np.nan
    return X, W, A


@pytest.mark.parametrize(("mean", "sd", "nu", "xi"), [(0.3, 0.5, 1.0, 0.4), (2.0, 0.1, 0.2, 2.3)])
def test_bound_of_sparsity_is_its_integral(mean, sd, nu, xi):
    """E log p(a, phi) - E log q(phi) with q(phi) = GIG(1/2, 2 nu, xi^2), by quadrature."""
    r = np.sqrt(2 * nu)
    square = mean**2 + sd**2

    def integrand(t):
        phi = np.exp(t)
        log_q = (
            0.5 * np.log(r * r / (2 * np.pi)) + r * xi - 0.5 * t - 0.5 * (r * r * phi + xi**2 / phi)
        )
        log_p = -0.5 * np.log(2 * np.pi * phi) - 0.5 * square / phi + np.log(nu) - nu * phi
        return np.exp(log_q + t) * (log_p - log_q)

    q = Loadings(np.array([[mean]]), np.array([[[sd**2]]]), np.array([[r / xi]]), 1.0, 1.0, r)
    assert sparse_bound(q) == pytest.approx(quad(integrand, -25, 12, limit=400)[0], abs=1e-8)


def test_energy_is_the_expected_residual():
    X, _, _ = simulate(6, 4, 2, 0, holes=0.2)
    sheet = Sheet.of(X)
    q, _ = FactorPrior().start(sheet, 2)
    q = q._replace(cov=0.1 * np.eye(2) + np.zeros((4, 2, 2)))
    scores = Scores(np.random.default_rng(1).standard_normal((6, 2)), 0.2 * np.eye(2))
    rng, draws = np.random.default_rng(2), 20_000
    A = q.mean + np.sqrt(0.1) * rng.standard_normal((draws, 4, 2))
    W = scores.mean + np.sqrt(0.2) * rng.standard_normal((draws, 6, 2))
    gap = np.where(np.isnan(X), 0.0, X - W @ A.swapaxes(1, 2))
    each = np.square(gap).sum(axis=(1, 2))
    z = (each.mean() - energy(q, sheet.sums(scores))) / (each.std() / np.sqrt(draws))
    assert abs(z) < 4


@given(
    seed=st.integers(0, 10_000), K=st.integers(1, 3), holes=st.sampled_from([0.0, 0.3]),
    nu=st.sampled_from([1.0, 0.1, None]),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_no_step_lowers_the_bound(seed, K, holes, nu):
    X, _, _ = simulate(12, 7, K, seed, holes)
    c = np.random.default_rng(seed).uniform(0.3, 2.0, 12)
    sheet, prior = Sheet.of(X, c), FactorPrior(nu=nu)
    q, _ = prior.start(sheet, K)
    scores = project(sheet, q)
    value = table_bound(prior, q, sheet, scores)
    for _ in range(4):
        for step in ("loadings", "scores"):
            if step == "scores":
                scores = project(sheet, q)
            else:
                q = prior.update(q, sheet.sums(scores))
            new = table_bound(prior, q, sheet, scores)
            assert new >= value - 1e-9 * abs(value)
            value = new


def test_bound_lies_below_the_evidence():
    """One cell: log p(x) by quadrature over a, w and psi."""
    x, prior = 0.7, FactorPrior(nu=1.0, a=2.0, b=1.0)
    r = np.sqrt(2.0)
    a = np.linspace(-12, 12, 1201)
    psi = np.exp(np.linspace(-8, 3, 400))
    # w integrates out: x | a, psi ~ N(0, a^2 + 1/psi)
    var = a[:, None] ** 2 + 1 / psi
    density = np.exp(-0.5 * x * x / var) / np.sqrt(2 * np.pi * var)
    density = density * (r / 2 * np.exp(-r * np.abs(a)))[:, None] * psi * np.exp(-psi)
    evidence = np.log(trapezoid(trapezoid(density * psi, np.log(psi), axis=1), a))
    sheet = Sheet.of(np.array([[x]]))
    q = Loadings(np.array([[0.5]]), np.array([[[0.3]]]), np.ones((1, 1)), 2.5, 1.5, r)
    scores = project(sheet, q)
    for _ in range(200):
        q = prior.update(q, sheet.sums(scores))
        scores = project(sheet, q)
    bound = table_bound(prior, q, sheet, scores)
    assert evidence - 1.0 < bound < evidence


def test_sums_add_over_rows_complete_or_not():
    X, _, _ = simulate(9, 5, 2, 3)
    X[6:, 2] = np.nan
    W = np.random.default_rng(0).standard_normal((9, 2))
    whole = Sheet.of(X).sums(Scores(W, 0.3 * np.eye(2)))
    parts = [
        Sheet.of(X[rows]).sums(Scores(W[rows], 0.3 * np.eye(2))) for rows in (slice(6), slice(6, 9))
    ]
    both = parts[0] + parts[1]
    for name in ("gram", "cross", "square", "count", "rows", "norm"):
        np.testing.assert_allclose(getattr(both, name), getattr(whole, name), rtol=1e-12)


def test_a_row_of_weight_two_is_two_rows():
    X, _, _ = simulate(10, 6, 2, 4, holes=0.1)
    c = np.ones(10)
    c[3] = 2.0
    twice = learn(FactorPrior(), Sheet.of(np.vstack([X, X[3]])), 2, 30)
    once = learn(FactorPrior(), Sheet.of(X, c), 2, 30)
    np.testing.assert_allclose(once[2], twice[2], rtol=1e-9)


def test_scores_condition_on_the_cells_seen():
    """Against the joint Gaussian of a row and its scores."""
    X, _, A = simulate(5, 6, 2, 5, holes=0.4)
    q = Drawn(A, np.ones_like(A), 1.7, 1.0)
    found = project(Sheet.of(X), q)
    for i, row in enumerate(X):
        seen = ~np.isnan(row)
        B = A[seen]
        gain = B.T @ np.linalg.inv(B @ B.T + np.eye(seen.sum()) / 1.7)
        np.testing.assert_allclose(found.mean[i], gain @ row[seen], atol=1e-10)
        np.testing.assert_allclose(found.cov[i], np.eye(2) - gain @ B, atol=1e-10)


def test_draws_of_loadings_have_their_conditional_moments():
    X, W, _ = simulate(30, 4, 2, 7)
    sheet, prior = Sheet.of(X), FactorPrior()
    at = Drawn(np.zeros((4, 2)), np.full((4, 2), 2.0), 3.0, prior.laplace)
    rng = np.random.default_rng(8)
    A = np.stack([prior.draw(at, sheet.sums(Scores(W)), rng).A for _ in range(4000)])
    Q = 3.0 * W.T @ W + 2.0 * np.eye(2)
    mean = 3.0 * X.T @ W @ np.linalg.inv(Q)
    sd = np.sqrt(np.diag(np.linalg.inv(Q)))
    assert np.max(np.abs(A.mean(axis=0) - mean) / sd * np.sqrt(4000)) < 4  # 8 numbers
    # a ratio of variances has a standard deviation of sqrt(2 / 4000)
    assert np.max(np.abs(A.var(axis=0) / sd**2 - 1)) < 5 * np.sqrt(2 / 4000)


def test_rank_three_is_recovered():
    """The subspace, as closely as sampling theory has it."""
    X, _, A = simulate(200, 60, 3, 9, noise=1.0, sparse=True)
    q, _, _ = learn(FactorPrior(), Sheet.of(X), 3, 300, 1e-8)
    # a direction of length s in d dimensions is missed by about sqrt(d / n) / s
    weakest = np.linalg.svd(A, compute_uv=False)[-1]
    assert subspace_angles(q.mean, A)[0] < 1.3 * np.sqrt(60 / 200) / weakest
    assert q.psi == pytest.approx(1.0, abs=4 * np.sqrt(2 / (200 * 60)))


@pytest.mark.slow
def test_intervals_of_draws_cover_at_their_rate():
    """Loadings from their prior; scores of new rows and loadings, nine in ten.

    How far factors are turned is common to a data set, so that rates of sets vary: by 0.07 and
    0.09 over six other sets.  The average over eight then has a standard deviation of 0.03.
    """
    rates = []
    for seed in range(10, 18):
        rng = np.random.default_rng(seed)
        A = np.sqrt(rng.exponential(size=(40, 3))) * rng.standard_normal((40, 3))
        W = rng.standard_normal((300, 3))
        X = W @ A.T + rng.standard_normal((300, 40))
        sheet, new, prior = Sheet.of(X[:200]), Sheet.of(X[200:]), FactorPrior()
        at, loads, scores = Drawn.of(learn(prior, sheet, 3, 50)[0]), [], []
        for t in range(2000):
            at = prior.draw(at, sheet.sums(Scores(thrown(project(sheet, at), rng))), rng)
            at = prior.turn(at, rng)[0]
            if t >= 400 and t % 4 == 0:
                order, sign = match(at.A, A)
                loads.append(at.A[:, order] * sign)
                scores.append(thrown(project(new, at), rng)[:, order] * sign)
        rates.append([covered(scores, W[200:]), covered(loads, A)])
    assert np.all(np.abs(np.mean(rates, axis=0) - 0.9) < 3 * 0.03)


def thrown(scores, rng):
    return scores.mean + rng.standard_normal(scores.mean.shape) @ np.linalg.cholesky(scores.cov).T


def covered(draws, truth):
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    return np.mean((low < truth) & (truth < high))


def test_alignment_undoes_permutations_and_signs():
    rng = np.random.default_rng(10)
    A = rng.standard_normal((8, 3))
    turned = [A, -A[:, [2, 0, 1]], A[:, [1, 0, 2]] * [1, -1, 1]]
    back = [B[:, at] * sign for B, (at, sign) in zip(turned, aligned(turned), strict=True)]
    for B in back[1:]:
        np.testing.assert_allclose(B, back[0])


def test_number_of_factors_by_the_bound():
    for K in (3, 8):
        X, _, _ = simulate(100, 40, K, 11)
        assert choose_size(FactorPrior(), Sheet.of(X - X.mean(axis=0))) == K


def test_turning_leaves_the_fit_and_follows_the_prior():
    """Fit unchanged; angles of a pair distributed as the Laplace prior has them, by quadrature."""
    _, W, A = simulate(5, 4, 2, 13)
    prior, rng = FactorPrior(), np.random.default_rng(14)
    at = Drawn(A, np.ones_like(A), 1.0, prior.laplace)
    seen = []
    for _ in range(4000):
        at, T = prior.turn(at, rng)
        W = W @ T
        seen.append(np.abs(at.A).sum())
    np.testing.assert_allclose(W @ at.A.T, simulate(5, 4, 2, 13)[1] @ A.T, atol=1e-9)
    angles = np.linspace(0, np.pi / 2, 4001)[:-1]
    turned = np.stack([np.cos(angles), np.sin(angles)])
    size = np.abs(A @ turned).sum(axis=0) + np.abs(A @ (np.array([[0, -1], [1, 0]]) @ turned)).sum(
        axis=0
    )
    weight = np.exp(-prior.laplace * (size - size.min()))
    mean = weight @ size / weight.sum()
    seen = np.array(seen)
    z = (seen.mean() - mean) / (seen.std() / np.sqrt(ess(seen[None, :, None])[0]))
    assert abs(z) < Z


def test_coefficients_turn_along_by_their_own_prior():
    """One column, two factors: the angle by Laplace and Gaussian prior, by quadrature."""
    prior, rng = FactorPrior(), np.random.default_rng(15)
    A, theta, P = np.array([[0.8, -0.3]]), np.array([1.5, 0.4]), np.array([0.5, 3.0])
    at, now, seen = Drawn(A, np.ones_like(A), 1.0, prior.laplace), theta, []
    for _ in range(4000):
        at, T = prior.turn(at, rng, now, P)
        now = now @ T
        seen.append(now[0])
    assert (at.A @ now)[0] == pytest.approx(A @ theta, abs=1e-9)  # they have turned together
    angles = np.linspace(-np.pi, np.pi, 8001)[:-1]
    a, x = (complex(*v) * np.exp(-1j * angles) for v in (A[0], theta))
    size = prior.laplace * (np.abs(a.real) + np.abs(a.imag))
    weight = np.exp(-size - 0.5 * (P[0] * x.real**2 + P[1] * x.imag**2))
    weight /= weight.sum()
    seen = np.square(seen)
    z = (seen.mean() - weight @ x.real**2) / (seen.std() / np.sqrt(ess(seen[None, :, None])[0]))
    assert abs(z) < Z
    assert ess(seen[None, :, None])[0] > 400
