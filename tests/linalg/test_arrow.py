"""Groups as codes: columns, sums and covariance against their dense forms."""

import numpy as np
import pytest
from tests.groups import grouped, make_grouped, simulate_groups
from tests.linalg.test_covariances import assert_covariance
from tests.problems import Z, frozen

from bayesvm.core.precision import Blocked, add_precision, blocks_of, masked, scaled_cholesky
from bayesvm.core.types import Contribution, Rows
from bayesvm.inference.problem import gather
from bayesvm.linalg.arrow import ArrowCovariance
from bayesvm.linalg.columns import Arrow, scaled, squared
from bayesvm.linalg.covariances import FullCovariance, covariance
from bayesvm.linalg.forms import Bordered, weighted_gram
from bayesvm.linalg.spike_slab import integrated
from bayesvm.priors import InverseWishart, Ridge

N, P = 40, 3
CASES = {
    "intercepts": [(0, 7, (), True)],
    "slopes": [(0, 7, (1, 2), True)],
    "slopes only": [(0, 7, (0,), False)],
    "crossed": [(0, 7, (), True), (1, 4, (), True)],
    "crossed slopes": [(0, 7, (1,), True), (1, 4, (0, 2), True), (2, 5, (), True)],
}
SIZES = (7, 4, 5)


def problem(case, **options):
    X, y, c = simulate_groups(N, P, SIZES, seed=3, weighted=True)
    groups = [
        (d := grouped(*spec), InverseWishart(d.r, scale=0.7) if d.r > 1 else Ridge(2.0, 1.0))
        for spec in CASES[case]
    ]
    return make_grouped(X, y, c, groups=groups, **options)


class Case:
    """Columns, weights and prior precision, arrow and dense."""

    def __init__(self, name):
        self.problem = problem(name)
        model, rng = self.problem.model, np.random.default_rng(5)
        self.C = model.rows(self.problem.blocks.X).C
        self.A = frozen(self.C.toarray())
        self.K = model.width
        self.w = frozen(rng.uniform(0.2, 3.0, N))
        states = [
            s._replace(covariance=np.array([[1.2, 0.4], [0.4, 0.6]]))
            if hasattr(s, "covariance") and s.covariance.shape == (2, 2)
            else s
            for s in model.init()
        ]
        self.P = model.precision(states)
        self.matrix = np.zeros((self.K, self.K))
        add_precision(self.matrix, self.P)
        self.M = self.A.T @ np.diag(self.w) @ self.A
        self.Sigma = frozen(np.linalg.inv(self.M + self.matrix))
        self.S = weighted_gram(self.C, self.w, "arrow")
        self.cov = covariance(self.S, self.P)


@pytest.fixture(params=CASES)
def case(request):
    return Case(request.param)


def test_columns_multiply_as_if_written_out(case):
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((case.K, 2)), rng.standard_normal(N)
    assert case.C.shape == case.A.shape == (N, case.K)
    np.testing.assert_allclose(case.C @ x, case.A @ x, atol=1e-13)
    np.testing.assert_allclose(case.C @ x[:, 0], case.A @ x[:, 0], atol=1e-13)
    np.testing.assert_allclose(case.C.T @ g, case.A.T @ g, atol=1e-13)
    np.testing.assert_allclose(x.T @ case.C.T, x.T @ case.A.T, atol=1e-13)
    rows = np.array([5, 2, 30])
    np.testing.assert_array_equal(case.C[rows].toarray(), case.A[rows])
    np.testing.assert_array_equal(case.C[3:9].toarray(), case.A[3:9])
    np.testing.assert_array_equal(squared(case.C).toarray(), case.A**2)
    p = 1 + P
    s = np.concatenate([rng.uniform(size=p), np.ones(case.K - p)])
    np.testing.assert_array_equal(scaled(case.C, s).toarray(), case.A * s)


def test_columns_of_effects_are_where_the_model_says(case):
    """Group g has columns g r to g r + r; a row of an unknown group has none."""
    model = case.problem.model
    X = case.problem.blocks.X
    for k in model.grouped:
        design, where = model.terms[k].design, model.slices[k]
        one, codes = case.A[:, where].reshape(N, design.G, design.r), X.codes[:, design.factor]
        values = [np.ones((N, 1))] if design.intercept else []
        values = np.hstack([*values, X.numbers[:, design.slopes]])
        np.testing.assert_array_equal(one[np.arange(N), codes], values)
        assert np.count_nonzero(one) == np.count_nonzero(values)
    codes = X.codes.copy()
    codes[3] = -1
    unknown = model.rows(type(X)(X.numbers, codes)).C.toarray()
    assert not unknown[3, 1 + P :].any()
    np.testing.assert_array_equal(np.delete(unknown, 3, 0), np.delete(case.A, 3, 0))


def test_sums(case):
    S, K, some = case.S, case.K, np.array([9, 0, 5])
    x = np.random.default_rng(1).standard_normal((K, 2))
    assert isinstance(S, Bordered)
    np.testing.assert_allclose(S @ np.eye(K), case.M, atol=1e-12)
    np.testing.assert_allclose(S @ x, case.M @ x, atol=1e-12)
    np.testing.assert_allclose(S @ x[:, 0], case.M @ x[:, 0], atol=1e-12)
    np.testing.assert_allclose(S.diag(), np.diag(case.M), atol=1e-12)
    np.testing.assert_allclose(S.rows(some), case.M[some], atol=1e-12)
    np.testing.assert_allclose((S * 3.0) @ np.eye(K), 3 * case.M, atol=1e-12)
    parts = weighted_gram(case.C[:11], case.w[:11], "arrow") + weighted_gram(
        case.C[11:], case.w[11:], "arrow"
    )
    np.testing.assert_allclose(parts @ np.eye(K), case.M, atol=1e-12)
    np.testing.assert_allclose(weighted_gram(case.C, case.w, "dense").M, case.M, atol=1e-12)


def test_sums_through_gates(case):
    p = 1 + P
    gate = np.concatenate([[1.0, 0.3, 0.8, 1.0], np.ones(case.K - p)])
    Omega = np.outer(gate, gate)
    Omega[np.diag_indices_from(Omega)] = gate
    np.testing.assert_allclose(case.S.gated(gate) @ np.eye(case.K), case.M * Omega, atol=1e-12)


def test_covariance(case):
    assert isinstance(case.cov, ArrowCovariance)
    assert_covariance(case.cov, case.Sigma, case.C, case.A)


def test_variance_of_a_row_whose_group_is_not_known(case):
    X, model = case.problem.blocks.X, case.problem.model
    codes = X.codes.copy()
    codes[::2, 0] = -1
    C = model.rows(type(X)(X.numbers, codes)).C
    expected = np.diag(C.toarray() @ case.Sigma @ C.toarray().T)
    np.testing.assert_allclose(case.cov.quad(C), expected, rtol=1e-10)


def test_covariances_of_groups(case):
    model, full = case.problem.model, FullCovariance(np.linalg.cholesky(case.M + case.matrix))
    for k in model.grouped:
        r, where = model.terms[k].design.r, model.slices[k]
        inside = case.Sigma[where, where].reshape(-1, r, case.Sigma[where].shape[0] // r, r)
        expected = np.stack([inside[g, :, g] for g in range(inside.shape[0])])
        np.testing.assert_allclose(case.cov.blocks(where, r), expected, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(full.blocks(where, r), expected, rtol=1e-10, atol=1e-13)


def test_groups_integrated_out(case):
    """The corner's own Gaussian, and draws of the effects around where they follow it."""
    rng, K, q = np.random.default_rng(4), case.K, case.cov.q
    theta, slope = rng.standard_normal(K), rng.standard_normal(N)
    stats = gather(Rows(case.C), Contribution(case.w, slope, np.zeros(N), case.w), "arrow")
    inner = integrated(stats, case.P, theta)
    mean = theta + case.Sigma @ (case.A.T @ slope - case.matrix @ theta)
    Q = inner.stats.S.M + np.diag(inner.P)
    np.testing.assert_allclose(np.linalg.inv(Q), case.Sigma[:q, :q], rtol=1e-9, atol=1e-12)
    corner = theta[:q] + np.linalg.solve(Q, inner.stats.g - inner.P * theta[:q])
    np.testing.assert_allclose(corner, mean[:q], rtol=1e-9, atol=1e-11)

    class Still:
        def standard_normal(self, size):
            return np.zeros(size)

    np.testing.assert_allclose(inner.draw(corner, Still()), mean[q:], rtol=1e-9, atol=1e-11)
    draws = np.stack([inner.draw(corner, rng) for _ in range(4000)])
    given = np.linalg.inv((case.M + case.matrix)[q:, q:])
    z = (draws - mean[q:]).mean(axis=0) / np.sqrt(np.diag(given) / 4000)
    assert (np.abs(z) < Z).all()
    spread = (draws.var(axis=0) / np.diag(given) - 1) * np.sqrt(4000 / 2)
    assert (np.abs(spread) < Z).all()


def test_nothing_is_written_out():
    """A hundred thousand groups are codes and sums by group: no array has rows times groups."""
    G, n = 100_000, 2_000
    X, _, c = simulate_groups(n, 2, (50,), seed=1)
    model = make_grouped(X, c, groups=[(grouped(0, G), Ridge())]).model
    C = model.rows(X).C
    assert isinstance(C, Arrow)
    S = weighted_gram(C, c, "arrow")
    assert S.E.size == 3 * G
    cov = covariance(S, model.precision(model.init()))
    assert cov.quad(C).shape == (n,)


def test_a_blocked_precision_is_its_matrix():
    P = Blocked(np.array([2.0, 3.0, 0, 0, 0, 0]), ((slice(2, 6), np.array([[2.0, 1], [1, 4]])),))
    Q = np.zeros((6, 6))
    add_precision(Q, P)
    expected = np.diag([2.0, 3.0, 2, 4, 2, 4])
    expected[2, 3] = expected[3, 2] = expected[4, 5] = expected[5, 4] = 1.0
    np.testing.assert_array_equal(Q, expected)
    x = np.arange(6.0)
    np.testing.assert_array_equal(P * x, expected @ x)
    np.testing.assert_array_equal((0.5 * P) * x, 0.5 * expected @ x)
    np.testing.assert_array_equal(blocks_of(P, slice(2, 6), 2), [[2, 1], [1, 4]])
    np.testing.assert_array_equal(blocks_of(P, slice(0, 2), 1), [[[2]], [[3]]])
    kept = masked(P, np.array([True, False, True, True, True, True]))
    assert (kept * x)[1] == 0
    small = np.zeros((2, 2))
    add_precision(small, P)
    np.testing.assert_array_equal(small, np.diag([2.0, 3.0]))


def test_a_stack_of_factors_is_propped_up_together():
    good, bad = np.eye(2), np.array([[1.0, 1.0 + 1e-12], [1.0 + 1e-12, 1.0]])
    with pytest.warns(RuntimeWarning, match="numerically singular"):
        L, patched = scaled_cholesky(np.stack([good, bad]))
    assert patched
    np.testing.assert_allclose(L @ np.swapaxes(L, 1, 2), [good, bad], atol=1e-9)
    with pytest.raises(np.linalg.LinAlgError):
        scaled_cholesky(np.stack([good, bad]), retry=False)
