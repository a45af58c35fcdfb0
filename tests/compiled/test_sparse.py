"""Compiled loops over pairs of entries of sparse rows equal products by SciPy."""

import numpy as np
import pytest
from scipy import sparse

from bayesvm import BayesianLinearSVC, compiled
from bayesvm.engines import Threads
from bayesvm.gaussian.columns import Looped
from bayesvm.gaussian.covariances import FullCovariance
from bayesvm.gaussian.forms import sandwich
from bayesvm.model.problem import Problem

N, P = 6000, 12


def rows(seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = sparse.csr_array(
        sparse.random(N, P, density=0.2, random_state=rng, data_rvs=rng.standard_normal)
    )
    f = X @ rng.standard_normal((P, n_classes - 1)) + rng.logistic(size=(N, n_classes - 1))
    return X, (f > 0).sum(axis=1)


@pytest.fixture
def at_once(monkeypatch):
    """Loops for fits of any size, and how many problems had them."""
    pytest.importorskip("numba")
    monkeypatch.setattr("bayesvm.likelihoods.logistic.NARROW", 0.0)  # the same hinges on both sides
    monkeypatch.setattr(compiled, "MANY_ENTRIES", 1)
    plain, found = Problem.assembled, []

    def counting(problem):
        out = plain(problem)
        found.append(isinstance(out.blocks.X, Looped))
        return out

    monkeypatch.setattr(Problem, "assembled", counting)
    return found


def test_sums_and_quadratic_forms_are_those_of_dense_columns():
    pytest.importorskip("numba")
    rng, (X, _) = np.random.default_rng(1), rows()
    order = np.arange(X.nnz)  # entries in any order, and one in two parts
    for first, last in zip(X.indptr, X.indptr[1:], strict=False):
        order[first:last] = rng.permutation(order[first:last])
    mixed = sparse.csr_array((X.data[order], X.indices[order], X.indptr), shape=X.shape)
    parts = sparse.csr_array(
        (np.r_[0.3, 0.7, X.data], np.r_[4, 4, X.indices], np.r_[0, X.indptr + 2]), shape=(N + 1, P)
    )
    A = rng.standard_normal((2 * P, P))
    cov = FullCovariance(np.linalg.cholesky(A.T @ A))
    for each in (X, mixed, parts):
        C, w = each.toarray(), rng.random(each.shape[0])
        looped = Looped.of(each)
        np.testing.assert_allclose(sandwich(looped, w, "dense").M, (C.T * w) @ C, rtol=1e-11)
        np.testing.assert_allclose(cov.quad(looped), cov.quad(C), rtol=1e-11, atol=1e-14)
        np.testing.assert_allclose(cov.quad(looped[5:9]), cov.quad(C[5:9]), rtol=1e-11)
        np.testing.assert_array_equal(looped.toarray(), C)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("likelihood", ["logistic", "hinge"])
def test_fits_are_those_of_sparse_and_dense_products(likelihood, n_classes, at_once, monkeypatch):
    X, y = rows(n_classes=n_classes)
    how = {"likelihood": likelihood, "standardize": False, "engine": Threads(2)}
    c = np.where(np.arange(N) % 3, 1.0, 2.0)
    fast = BayesianLinearSVC(**how).fit(X, y, sample_weight=c)
    assert at_once[0]
    monkeypatch.setattr(compiled, "loops", lambda name: None)
    plain = BayesianLinearSVC(**how).fit(X, y, sample_weight=c)
    assert not at_once[-1]
    dense = BayesianLinearSVC(**how).fit(X.toarray(), y, sample_weight=c)
    for other, digits in ((plain, 1e-7), (dense, 2e-4)):
        np.testing.assert_allclose(fast.predict_proba(X), other.predict_proba(X), atol=digits)
        np.testing.assert_allclose(fast.coef_std_, other.coef_std_, rtol=10 * digits)


def test_wide_sparse_rows_have_no_loops(at_once):
    rng = np.random.default_rng(2)
    X = sparse.random(3000, 1200, density=0.01, random_state=rng, format="csr")
    BayesianLinearSVC().fit(X, (X @ rng.standard_normal(1200) > 0).astype(int))
    assert not any(at_once)
