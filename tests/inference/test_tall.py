"""Fits of many rows by few passes, against fits by full passes in float64 until nothing changes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.problems import fitted_problem

from bayesvm import BayesianLinearSVC
from bayesvm.inference import vb
from bayesvm.machines import penalty

N, K = 25_000, 6


def plain() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((N, K))


def correlated() -> np.ndarray:
    """Variance inflation factors of about 50, and centres seven standard deviations from zero."""
    X = plain()
    X[:, 1:] = X[:, :1] + 0.35 * X[:, 1:]
    return X + 7.0 * X.std(0)


def outlier() -> np.ndarray:
    """A column of one far row, and one of heavy tails."""
    X = plain()
    X[7, 1] = 1e4
    X[:, 2] = np.random.default_rng(1).standard_t(2, N)
    return X


def offset() -> np.ndarray:
    """Centres too far from zero for sums of squares in float32."""
    return plain() + 1e4


def labels(X: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(2)
    Z = np.clip((X - X.mean(0)) / X.std(0), -3, 3)
    f = Z @ rng.standard_normal(K) - 1.0
    return np.where(rng.random(N) < 1.0 / (1.0 + np.exp(-f)), 1, -1)


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (plain, np.float32),
        (plain, np.float64),
        (correlated, np.float32),
        (correlated, np.float64),
        pytest.param(outlier, np.float64, marks=pytest.mark.slow),
        (offset, np.float64),
    ],
)
def test_fit_is_that_of_full_passes(make, dtype, monkeypatch):
    """Passes that are made until nothing changes.

    What the far row alone tells changes slowly: full passes of the default tolerance end 0.05
    standard deviations from the top, with a width that is 15 % too large.
    """
    X = make().astype(dtype)
    y = labels(X.astype(float))
    # the squared slope of a row that decides a coefficient converges slowly in full passes too
    few, problem = fitted_problem(BayesianLinearSVC(tol=1e-10 if make is outlier else None), X, y)
    assert vb.is_tall(problem)
    monkeypatch.setattr(penalty, "THIN_ROWS", np.inf)
    full, other = fitted_problem(BayesianLinearSVC(tol=1e-12), X, y)
    assert not other.single
    a, b = few.machines_[0], full.machines_[0]
    sd = np.sqrt(b.state.coef.cov.diag())
    near, wide = (0.1, 0.05) if make is outlier else (0.02, 0.01)
    assert np.max(np.abs(a.state.coef.mean - b.state.coef.mean) / sd) < near
    for found, want in ((a.state.coef.cov, b.state.coef.cov), (a.width.cov, b.width.cov)):
        np.testing.assert_allclose(np.sqrt(found.diag()), np.sqrt(want.diag()), rtol=wide)
    np.testing.assert_allclose(few.predict_proba(X[:500]), full.predict_proba(X[:500]), atol=1e-3)


def test_a_tenth_is_fitted_first(monkeypatch):
    """Rows that are few here: the same route as of 100,000."""
    monkeypatch.setattr(vb, "START_ROWS", 500)
    X = plain()
    y = labels(X)
    sizes = []
    usual = vb.VB._fit_tight

    def count(self, problem, *args):
        sizes.append(problem.n)
        return usual(self, problem, *args)

    monkeypatch.setattr(vb.VB, "_fit_tight", count)
    few = BayesianLinearSVC().fit(X, y)
    assert N // 10 in sizes
    monkeypatch.setattr(penalty, "THIN_ROWS", np.inf)
    a, b = few.machines_[0].state.coef, BayesianLinearSVC().fit(X, y).machines_[0].state.coef
    assert np.max(np.abs(a.mean - b.mean) / np.sqrt(b.cov.diag())) < 0.02
    np.testing.assert_allclose(a.cov.diag(), b.cov.diag(), rtol=0.02)


def test_squares_of_slopes_in_the_pass_are_those_of_their_own():
    X = plain()
    few, problem = fitted_problem(BayesianLinearSVC(), X, labels(X))
    coef = few.machines_[0].state.coef
    found, want = problem.stats(coef, squares=True), problem.slopes(coef)
    np.testing.assert_array_equal(found.J.M, want.J.M)
    np.testing.assert_array_equal(found.S.M, want.A.M)
