"""A model lays terms side by side; a problem asks all its rows one question."""

import numpy as np
import pytest
from scipy import sparse
from tests.problems import make_problem, simulate

from bayesvm.core.types import Coef, TermMoments
from bayesvm.linalg.covariances import FullCovariance
from bayesvm.priors import Fixed, Ridge

X, Y, WEIGHTS = simulate(30, 4, seed=3, weighted=True)
L = np.tril(np.full((5, 5), 0.2)) + np.eye(5)
COEF = Coef(np.linspace(-1, 1, 5), FullCovariance(L))
ONES = np.column_stack([np.ones(30), X])


def problem(**options):
    return make_problem(X, Y, WEIGHTS, intercept=Fixed(0.1), prior=Ridge(a=2.0, b=3.0), **options)


def test_terms_lie_side_by_side():
    model = problem().model
    assert model.slices == (slice(0, 1), slice(1, 5))
    assert model.width == 5
    np.testing.assert_array_equal(model.rows(X).C, ONES)
    columns = model.rows(sparse.csr_array(X)).C
    assert sparse.issparse(columns)
    np.testing.assert_array_equal(columns.toarray(), ONES)


def test_each_prior_sees_its_own_coefficients():
    model = problem().model
    priors = model.init()
    np.testing.assert_allclose(model.precision(priors), [0.1, 1, 1, 1, 1])
    var = np.diag(np.linalg.inv(L @ L.T))
    fixed, ridge = (t.prior for t in model.terms)
    total = fixed.bound((), TermMoments(COEF.mean[:1], var[:1]))
    total += ridge.bound(priors[1], TermMoments(COEF.mean[1:], var[1:]))
    entropy = np.linalg.slogdet(2 * np.pi * np.e * np.linalg.inv(L @ L.T))[1] / 2
    assert model.bound(COEF, priors) == pytest.approx(total + entropy, rel=1e-13)


def test_assembled_columns_change_nothing():
    for p in (problem(size=8), make_problem(sparse.csr_array(X), Y, intercept=Fixed(0.1), size=8)):
        ready = p.with_columns()
        a, b = p.expectations(COEF, gram=True), ready.expectations(COEF, gram=True)
        np.testing.assert_allclose(a.S.M, b.S.M, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(a.g, b.g, rtol=1e-6, atol=1e-9)


def test_thinned_rows_are_some_of_the_rows():
    some = problem().thinned(10, np.random.default_rng(0))
    assert some.n == 10
    rows = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in some.blocks.X]
    assert rows == sorted(set(rows))
    np.testing.assert_array_equal(some.c, WEIGHTS[rows])
    np.testing.assert_array_equal(some.y, Y[rows])
