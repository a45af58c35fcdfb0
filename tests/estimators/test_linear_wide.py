"""Sparse rows of so many columns that coefficients are independent in the posterior."""

import numpy as np
import pytest
from scipy import sparse
from tests.problems import frozen

from bayesvm import BayesianLinearSVC
from bayesvm.inference import VB
from bayesvm.linalg.covariances import DiagonalCovariance

RNG = np.random.default_rng(0)
N, P = 1500, 1200
X = sparse.csr_array(sparse.random(N, P, density=0.02, random_state=RNG))
X.data = np.ceil(4.0 * X.data)  # numbers that any type can hold
F = X[:, :20] @ RNG.standard_normal(20)
Y = np.where(F + RNG.logistic(size=N) > 0.5, 1, 0)
X = frozen(X)


@pytest.fixture(scope="module")
def fitted():
    return BayesianLinearSVC().fit(X, Y)


def test_the_posterior_is_that_of_plain_sweeps(fitted):
    """To the tolerance of the fit: its bound to 1e-8, the mean to 0.01 standard deviations."""
    plain = BayesianLinearSVC(inference=VB(accelerate=False, tol=1e-11, max_iter=50_000)).fit(X, Y)
    assert isinstance(fitted.machines_[0].posterior.coef.cov, DiagonalCovariance)
    assert fitted.n_iter_ < 0.1 * plain.n_iter_
    assert fitted.elbo_ == pytest.approx(plain.elbo_, rel=1e-7)
    closer = BayesianLinearSVC(tol=1e-11).fit(X, Y)
    a, b = (model.machines_[0].posterior for model in (closer, plain))
    np.testing.assert_allclose(np.sqrt(a.variance() / b.variance()), 1.0, atol=1e-3)
    assert np.all(np.abs(a.mean - b.mean) < 0.01 * np.sqrt(b.variance()))
    p, q = fitted.predict_proba(X)[:, 1], plain.predict_proba(X)[:, 1]
    np.testing.assert_allclose(p, q, atol=1e-3)


def test_a_row_may_be_very_far():
    far = X.copy()
    far.data = far.data.copy()
    far.data[17] = 1e25
    again = BayesianLinearSVC().fit(far, Y)
    assert np.all(np.isfinite(again.predict_proba(far)))


def test_weights_count_rows(fitted):
    c = RNG.integers(1, 3, N)
    twice = BayesianLinearSVC().fit(X[np.repeat(np.arange(N), c)], np.repeat(Y, c))
    same = BayesianLinearSVC().fit(X, Y, sample_weight=c)
    sd = twice.coef_std_
    assert np.all(np.abs(same.coef_ - twice.coef_) < 0.01 * sd)
