"""A Gaussian prior with a precision matrix is one of unit precision on other columns.

With P = L L', coefficients L' beta of the columns X L^-T are a priori independent with precision 1.
"""

import numpy as np
import pytest
from scipy import stats
from tests.problems import Z, frozen, z_score

from bayesvm import BayesianLinearSVC
from bayesvm.core.types import TermMoments
from bayesvm.inference import VB, Gibbs
from bayesvm.priors import Fixed

RNG = np.random.default_rng(0)
N, D = 300, 4
X = frozen(RNG.standard_normal((N, D)) @ RNG.standard_normal((D, D)))
y = frozen(np.where(X @ [1.0, -1.0, 0.5, 0.0] + RNG.logistic(size=N) > 0, 1, -1))
_A = RNG.standard_normal((D, D))
P = frozen(_A @ _A.T + 0.5 * np.eye(D))
L = np.linalg.cholesky(P)
BLOCK = frozen(np.array([[3.0, -2.0], [-2.0, 2.0]]))


def fit(prior, inference, columns=X, labels=y, **more):
    how = {"likelihood": "hinge", "standardize": False, "random_state": 0, **more}
    return BayesianLinearSVC(prior, inference, **how).fit(columns, labels)


@pytest.mark.parametrize("inference", [VB(bound="augmented"), VB(bound="tight"), "em"], ids=str)
@pytest.mark.parametrize("rows", [N, 3], ids=["tall", "wide"])
def test_full_matrix_is_unit_precision_on_other_columns(inference, rows):
    few = (
        slice(0, rows) if rows == N else np.r_[np.flatnonzero(y > 0)[:2], np.flatnonzero(y < 0)[0]]
    )
    A, b = X[few], y[few]
    whole = fit(Fixed(P), inference, A, b, tol=1e-10, max_iter=5000)
    unit = fit(Fixed(1.0), inference, np.linalg.solve(L, A.T).T, b, tol=1e-10, max_iter=5000)
    np.testing.assert_allclose(whole.coef_ @ L, unit.coef_, rtol=1e-4, atol=1e-5)
    value = "log_posterior_" if inference == "em" else "elbo_"
    # densities of beta and of L' beta differ by the determinant, which the entropy makes good
    turned = np.log(np.diag(L)).sum() if inference == "em" else 0.0
    assert getattr(whole, value) == pytest.approx(getattr(unit, value) + turned, abs=1e-5)


def test_blocks_are_a_block_diagonal_matrix():
    blocks = fit(Fixed(BLOCK), "vb")
    whole = fit(Fixed(np.kron(np.eye(2), BLOCK)), "vb")
    np.testing.assert_allclose(blocks.coef_, whole.coef_, rtol=1e-10)
    assert blocks.elbo_ == pytest.approx(whole.elbo_, rel=1e-12)


def test_draws_against_a_grid():
    """Means of two coefficients and of their product: three z-scores below 4.5."""
    A, b, scheme = X[:25, :2], y[:25], Gibbs(1000, 50, chains=1)
    model = fit(Fixed(BLOCK), scheme, A, b, intercept_scale=1e-6)
    draws = model.machines_[0].draws.theta[..., -2:]
    g = np.stack(np.meshgrid(*2 * [np.linspace(-6, 6, 401)]), axis=-1).reshape(-1, 2)
    log = -0.5 * np.sum((g @ BLOCK) * g, axis=1) - 2 * np.sum(
        np.maximum(0.0, 1.0 - b * (g @ A.T)), axis=1
    )
    w = np.exp(log - log.max())
    w /= w.sum()
    for what in (lambda t: t[..., 0], lambda t: t[..., 1], lambda t: t[..., 0] * t[..., 1]):
        means = what(draws).reshape(-1, 50).mean(axis=1)  # batches of 50 sweeps
        assert abs(z_score(means, w @ what(g))) < Z


def test_bound_and_density():
    rng = np.random.default_rng(1)
    mean = rng.standard_normal(4)
    F = rng.standard_normal((2, 2, 2))
    V = F @ F.transpose(0, 2, 1)
    prior, law = Fixed(BLOCK), stats.multivariate_normal(np.zeros(2), np.linalg.inv(BLOCK))
    moments = TermMoments(mean, np.einsum("gjj->gj", V).ravel(), V)
    density = law.logpdf(mean.reshape(2, 2)).sum()
    assert prior.log_prob((), moments) == pytest.approx(density, rel=1e-12)
    expected = density - 0.5 * sum(np.trace(BLOCK @ v) for v in V)
    assert prior.bound((), moments) == pytest.approx(expected, rel=1e-12)
    both = np.stack([mean, 2 * mean])
    weights = prior.log_weight((), both)
    assert weights[1] == pytest.approx(4 * weights[0], rel=1e-12)
    assert weights[0] - prior.log_weight((), 0 * both)[0] == pytest.approx(
        density - law.logpdf(np.zeros((2, 2))).sum(), rel=1e-12
    )
    assert prior.stretch((), moments)(0.0) == pytest.approx(weights[0], rel=1e-12)
    np.testing.assert_allclose(prior.spread((), 4), np.linalg.inv(BLOCK))
    assert prior.scatter((), 4, 3, rng).shape == (3, 2, 2)


@pytest.mark.parametrize(
    "bad", [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.5], [0.0, 1.0]], np.ones((2, 3)), [[np.nan]]]
)
def test_matrices_that_are_no_precision_are_refused(bad):
    with pytest.raises(ValueError, match="positive definite matrix"):
        Fixed(bad)


def test_a_matrix_of_another_size_is_refused():
    with pytest.raises(ValueError, match="a matrix of 3 rows but the term has 4 columns"):
        fit(Fixed(np.eye(3)), "vb")


def test_a_matrix_needs_a_covariance():
    with pytest.raises(ValueError, match=r"without VB\(covariance='diagonal'\)"):
        fit(Fixed(P), VB(covariance="diagonal"))
