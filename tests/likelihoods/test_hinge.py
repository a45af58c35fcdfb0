"""The hinge where numbers are hard: far from the margin, on it, and without variance."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.special import erfcx, log_ndtr
from tests.papers import exact
from tests.problems import frozen

from bayesvm.likelihoods import Hinge
from bayesvm.likelihoods.hinge import CEILING

HINGE = Hinge()


def exact_row(u, v):
    """w, 1 + u w and the loss u + sqrt(u^2 + v) in 60 digits."""
    with localcontext() as context:
        context.prec = 60
        u, v = Decimal(float(u)), Decimal(float(v))
        root = (u * u + v).sqrt()
        return float(1 / root), float(1 + u / root), float(u + root)


@pytest.mark.parametrize("v", [1e-8, 1.0, 1e6])
@pytest.mark.parametrize("u", [-1e15, -1e8, -1e3, -2.0, -1e-6, 0.0, 1e-6, 0.5, 1e3, 1e8, 1e15])
def test_row_against_sixty_digits(u, v):
    """To the last digits, the loss of rows far on the right side included.

    The label is +1 and m = 1 - u; u is then what 1 - m rounds to.
    """
    m = np.array([1.0 - u])
    w, slope, loss = exact_row(1.0 - m[0], v)
    row = HINGE.expected(np.ones(1), m, v)
    assert row.w[0] == pytest.approx(w, rel=1e-14)
    assert row.g[0] == pytest.approx(slope, rel=1e-14, abs=3e-16)  # a sum of terms of size one
    assert -row.bound[0] == pytest.approx(loss, rel=1e-14)


@pytest.mark.parametrize("v", [0.0, 1e-300, 1.0])
@pytest.mark.parametrize("u", [-1e150, -1e100, 1e100, 1e150])
def test_huge_margins_stay_finite(u, v):
    y, m = np.array([1.0, -1.0]), np.array([-u, u])
    row = HINGE.expected(*frozen(y, m), v)
    np.testing.assert_allclose(row.w, 1 / abs(u), rtol=1e-14)
    np.testing.assert_allclose(row.g, y * (2.0 if u > 0 else 0.0), atol=1e-15)
    np.testing.assert_allclose(row.bound, -2 * max(u, 0.0), rtol=1e-14, atol=1e-15)


def test_row_on_the_margin_without_variance():
    row = HINGE.expected(np.array([1.0, -1.0]), np.array([1.0, -1.0]), 0.0)
    assert np.isfinite(row.w).all()
    assert (row.w >= 1e9).all()
    np.testing.assert_array_equal(row.g, [1.0, -1.0])  # the middle of the subgradient [0, 2]
    np.testing.assert_allclose(row.bound, 0.0, atol=1e-9)


# ----- draws


@pytest.mark.parametrize("u", [0.0, 1e-300, 1e-30, 1e-6, 1.0, 1e6, 1e100])
def test_draws_are_positive_and_finite(u):
    n = 4000
    for c in (0.25, 1.0, 4.0):
        at = np.ones(n), np.full(n, 1.0 - u), np.full(n, c)
        row = HINGE.draw(*at, np.random.default_rng(3))
        for part in row:
            assert np.isfinite(part).all()
        assert ((row.w > 0) & (row.w <= CEILING)).all()


# ----- class probabilities


@pytest.mark.parametrize("s", [1e-3, 0.2, 1.0, 5.0, 30.0])
def test_predictive_probability_is_the_transcript(s):
    m = np.linspace(-6, 6, 25)
    p = HINGE.proba(m, np.full_like(m, s**2))
    np.testing.assert_allclose(p, exact.predictive_probability(m, s), atol=1e-13)
    odds = [
        exact.log_mean_likelihood_by_quadrature(x, s, 1.0)
        - exact.log_mean_likelihood_by_quadrature(x, s, -1.0)
        for x in m
    ]
    np.testing.assert_allclose(p, 1 / (1 + np.exp(-np.array(odds))), atol=1e-9)


@pytest.mark.parametrize("v", [1e2, 1e6, 1e10, 1e14, 1e18])
def test_probability_under_a_huge_variance(v):
    """The same closed form with exp(x^2) Phi(-x) kept in one function, erfcx."""
    s = np.sqrt(v)
    m = s * np.array([-3.0, -0.5, 0.0, 0.1, 1.0, 2.5])

    def log_mean(mu):
        inside = np.log(0.5 * erfcx((2 * v - mu) / (s * np.sqrt(2)))) - mu**2 / (2 * v)
        return np.logaddexp(log_ndtr(-mu / s), inside)

    expected = 1 / (1 + np.exp(log_mean(1 + m) - log_mean(1 - m)))
    np.testing.assert_allclose(HINGE.proba(m, np.full_like(m, v)), expected, atol=1e-9)
