"""The soft hinge: its limits, its tight expectation, and its draws."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from bayesvm import BayesianLinearSVC
from bayesvm.estimators.options import choose_likelihood
from bayesvm.inference import VB
from bayesvm.likelihoods import Hinge, Logistic, SoftHinge
from bayesvm.likelihoods.soft_hinge import SHARES, SPREADS

GRID = np.concatenate([-np.geomspace(1e3, 1e-3, 40), [0.0], np.geomspace(1e-3, 1e3, 40)])


def test_ten_gaussians_are_the_student_variable():
    """sqrt(x^2 + 1) and its two derivatives as averages of E|x + e|, at all x."""
    z = GRID[:, None] / SPREADS
    below, bell = 2 * stats.norm.cdf(z) - 1, 2 * stats.norm.pdf(z)
    root = np.hypot(GRID, 1)
    value = (SPREADS * bell + GRID[:, None] * below) @ SHARES
    np.testing.assert_allclose(value, root, rtol=1e-5)
    np.testing.assert_allclose(below @ SHARES, GRID / root, atol=2e-5)
    np.testing.assert_allclose((bell / SPREADS) @ SHARES, root**-3, atol=2e-5)


def test_without_softness_it_is_the_hinge():
    y, m, v = np.ones(41), np.linspace(-5, 5, 41), np.full(41, 0.7)
    lik = SoftHinge(0.0)
    for name in ("expected", "tight"):
        for a, b in zip(getattr(lik, name)(y, m, v), getattr(Hinge(), name)(y, m, v)):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(lik.proba(m, v), Hinge().proba(m, v), atol=1e-6)
    assert choose_likelihood(lik, VB()) == Hinge()


def test_log_odds_of_a_known_f():
    f, s = np.linspace(-8, 8, 33), 1.7
    odds = 2 * f + np.hypot(1 + f, s) - np.hypot(1 - f, s)
    np.testing.assert_allclose(SoftHinge(s).log_odds(f, np.zeros(33)), odds, atol=1e-9)
    # towards twice f for a large softness: the link of a logistic model of 2 f
    p = SoftHinge(1e6).proba(f, np.zeros(33))
    np.testing.assert_allclose(p, expit(2 * f), atol=1e-6)


@pytest.mark.parametrize("softness", [-1.0, np.nan, np.inf, "1"])
def test_refuses_what_is_no_softness(softness):
    with pytest.raises((ValueError, TypeError), match="softness"):
        SoftHinge(softness)


@pytest.mark.parametrize("inference", ["vb", VB(bound="tight"), "em", "svi", "gibbs"])
def test_all_schemes_agree_on_the_coefficients(inference):
    """Means of all schemes on one problem: close to the mode, since rows are many."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = rng.random(400) < expit(1.5 * X[:, 0] - X[:, 1])
    how = {"prior": "fixed", "likelihood": "soft_hinge", "random_state": 0}
    mode = BayesianLinearSVC(inference="em", **how).fit(X, y).coef_
    coef = BayesianLinearSVC(inference=inference, **how).fit(X, y).coef_
    np.testing.assert_allclose(coef, mode, atol=0.04)
    assert not np.allclose(coef, BayesianLinearSVC(likelihood=Logistic()).fit(X, y).coef_, atol=0.1)
