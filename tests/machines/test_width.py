"""Widths of the data: sums, matrices, factors, and coverage on simulated sets."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import multivariate_normal

from bayesvm import AdditiveSVC, BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.core.types import Coef, Rows
from bayesvm.gaussian.covariances import FullCovariance
from bayesvm.inference import Gibbs
from bayesvm.likelihoods import Hinge, Logistic
from bayesvm.likelihoods.tight import Tight
from bayesvm.machines.calibration import Scale, fit_link
from bayesvm.machines.posterior import DrawsPosterior
from bayesvm.machines.skewed import Skewed
from bayesvm.machines.width import GRID, SPREAD, RootCovariance, Width, factor, prior_scale
from bayesvm.model.passes import slope_block


def simulated(n, p, seed, share=0.0):
    rng = np.random.default_rng(seed)
    b = rng.standard_normal(p)
    b *= 2.0 / np.sqrt(b @ b)
    X = rng.standard_normal((n, p))
    P = expit(share + X @ b)
    return X, (rng.random(n) < P).astype(int), P, b


def gaussian(K, seed):
    rng = np.random.default_rng(seed)
    L = np.tril(rng.standard_normal((K, K))) + 3.0 * np.eye(K)
    return Coef(rng.standard_normal(K), FullCovariance(L))


@pytest.mark.parametrize("likelihood", [Logistic(), Hinge()])
def test_slopes_are_those_of_a_row_left_out(likelihood):
    rng = np.random.default_rng(0)
    C, y = rng.standard_normal((30, 3)), np.where(rng.random(30) < 0.5, 1.0, -1.0)
    coef, lik = gaussian(3, 1), Tight(likelihood)
    sums = slope_block(Rows(C), y, np.ones(30), coef, lik, "dense")
    A = J = np.zeros((3, 3))
    S = coef.cov.dense()
    for x, label in zip(C, y, strict=True):
        m, v = x @ coef.mean, x @ S @ x
        own = lik.expected(label, np.array(m), np.array(v))
        without = np.linalg.inv(np.linalg.inv(S) - own.h * np.outer(x, x))  # for a fixed site
        at = coef.mean - without @ x * own.g
        g = own.g - own.h * (x @ at - m)  # of its quadratic
        A, J = A + own.h * np.outer(x, x), J + g**2 * np.outer(x, x)
    assert_allclose(sums.A.M, A, rtol=1e-10)
    assert_allclose(sums.J.M, J, rtol=1e-10)


def test_a_weight_of_two_is_two_rows():
    X, y, _, _ = simulated(80, 3, 0)
    twice = np.concatenate([X, X[:40]]), np.concatenate([y, y[:40]])
    weight = np.where(np.arange(80) < 40, 2.0, 1.0)
    for more in ({}, {"likelihood": "hinge", "prior": "ridge"}):
        how = {"standardize": False, "tol": 1e-12, "prior": "fixed"} | more
        a = BayesianLinearSVC(**how).fit(X, y, sample_weight=weight)
        b = BayesianLinearSVC(**how).fit(*twice)
        assert_allclose(a.coef_cov_, b.coef_cov_, rtol=1e-6)
        ends = [model.predict_interval(X[:5]) for model in (a, b)]
        assert_allclose(*ends, rtol=1e-5)


def test_the_scale_of_the_prior_is_its_expectation():
    """One coefficient: against quadrature over the variance."""
    a, estimate, precision = 7.0, 0.8, 2.5
    found = prior_scale(np.array([[a]]), np.array([a * estimate]), np.array([precision]))

    def density(x):
        t = np.exp(x)
        fit = multivariate_normal.pdf(a * estimate, 0.0, a + a * t * a)
        return fit * np.exp(0.5 * x) / (1.0 + t / SPREAD)

    ends = (1.5 * GRID[0] - 0.5 * GRID[1], 1.5 * GRID[-1] - 0.5 * GRID[-2])  # half a step further
    top = quad(lambda x: np.exp(x) * density(x), *ends)[0]
    assert_allclose(found, precision * top / quad(density, *ends)[0], rtol=1e-3)


def test_with_many_rows_it_is_the_sandwich_of_an_estimate_without_penalty():
    X, y, _, _ = simulated(6000, 3, 1)
    y = np.where(np.random.default_rng(2).random(6000) < 0.1, 1 - y, y)  # the model is wrong
    model = BayesianLinearSVC().fit(X, y)
    C, theta = np.column_stack([np.ones(6000), X]), np.append(model.intercept_, model.coef_)
    for _ in range(20):
        p = expit(C @ theta)
        H = (C.T * (p * (1 - p))) @ C
        theta = theta + np.linalg.solve(H, C.T @ (y - p))
    V = np.linalg.solve(H, (C.T * (y - p) ** 2) @ C) @ np.linalg.inv(H)
    assert_allclose(model.coef_std_[0], np.sqrt(np.diag(V))[1:], rtol=0.03)


def test_draws_are_moved_to_the_covariance():
    rng = np.random.default_rng(0)
    post = DrawsPosterior(rng.standard_normal((2, 500, 4)) @ rng.standard_normal((4, 4)) + 1.0)
    F = rng.standard_normal((4, 4))
    moved = Width(cov=RootCovariance(F)).posterior(post)
    assert_allclose(moved.mean, post.mean)
    assert_allclose(moved.covariance(), F @ F.T, rtol=1e-8)
    wider = Width(by=3.0).posterior(post)
    assert_allclose(wider.covariance(), 3.0 * post.covariance())


def test_gibbs_and_variational_widths_agree():
    X, y, _, _ = simulated(300, 3, 4)
    how = {"likelihood": "hinge", "prior": "fixed", "random_state": 0}
    drawn = BayesianLinearSVC(inference=Gibbs(draws=2000, chains=2), **how).fit(X, y)
    found = BayesianLinearSVC(**how).fit(X, y)
    assert_allclose(drawn.coef_std_, found.coef_std_, rtol=0.1)
    sds = drawn.sample_posterior(2000, random_state=1).std(axis=0)
    assert_allclose(sds, drawn.coef_std_[0], rtol=0.1)


def test_the_factor_of_a_true_model_is_near_one():
    rng = np.random.default_rng(0)
    m, v = rng.normal(0, 2, 20_000), np.full(20_000, 1e-3)
    y, c = np.where(rng.random(20_000) < expit(m), 1.0, -1.0), np.ones(20_000)
    assert 1.0 <= factor(Logistic(), y, c, m, v, (m, v)) < 1.05
    assert factor(Hinge(), y, c, m / 2, v, (m / 2, v)) > 1.5  # its scale is not the data's


@pytest.mark.parametrize("curve", [(), (0.3, -0.2)])
def test_variance_of_the_link(curve):
    """By differences of the log odds in its parameters, on the scale of the rows."""
    scale, x = Scale(0.4, 1.7), np.array([np.log(2.0), 0.2, np.log(0.5), *curve])
    R = np.random.default_rng(0).standard_normal((x.size, x.size))
    V, m, v = R @ R.T, np.linspace(-2, 3, 7), np.linspace(0, 2, 7)

    def link(x):
        plain = scale.link(x[:3], V)
        numbers = plain.a, plain.b, plain.c, plain.centre, V
        return Skewed(*numbers, *x[3:]) if curve else plain

    eps = 1e-6
    each = eps * np.eye(x.size)
    D = np.stack([(link(x + e).logit(m, v) - link(x - e).logit(m, v)) / (2 * eps) for e in each])
    D, V = D[:3], V[:3, :3]  # given the curve
    found = replace(link(x), cov=V)
    own = found.variance(m, v) - replace(found, cov=None).variance(m, v)
    expected = (1.0 + found.c * v) * np.einsum("in,ij,jn->n", D, V, D)
    assert_allclose(own, expected, rtol=1e-6)


def test_uncertainty_of_the_link_is_that_of_repeated_labels():
    rng = np.random.default_rng(3)
    m, v, c = rng.normal(0, 1.5, 400), np.zeros(400), np.ones(400)
    links = [
        fit_link(np.where(rng.random(400) < expit(1.2 * m), 1.0, -1.0), m, v, c) for _ in range(150)
    ]
    assert np.isclose(links[0].centre, Scale.of(m, c).mean)
    drawn = np.var([np.log(link.a) for link in links])
    assert 0.7 < drawn / np.mean([link.cov[0, 0] for link in links]) < 1.4


@pytest.mark.parametrize("likelihood", ["logistic", "hinge"])
def test_coverage(likelihood):
    probability, coefficients = [], []
    for seed in range(25):
        X, y, P, b = simulated(300, 4, seed)
        model = BayesianLinearSVC(likelihood=likelihood, prior="ridge").fit(X[:200], y[:200])
        low, high = model.predict_interval(X[200:])
        probability.append(np.mean((low[:, 1] <= P[200:]) & (P[200:] <= high[:, 1])))
        low, high = model.coef_interval()
        coefficients.append(np.mean((low <= b) & (b <= high)))
    assert np.mean(probability) > 0.83
    if likelihood == "logistic":
        assert np.mean(coefficients) > 0.83


def test_predictions_do_not_depend_on_the_width():
    X, y, _, _ = simulated(120, 3, 5)
    groups = np.arange(120) % 12
    for model, more in (
        (BayesianLinearSVC(), {}),
        (BayesianSVC(), {}),
        (MixedSVC(), {"groups": groups}),
        (AdditiveSVC(), {}),
    ):
        a = model.fit(X, y, **more)
        b = type(model)(width="model").fit(X, y, **more)
        assert_allclose(a.predict_proba(X, **more), b.predict_proba(X, **more))
        assert a.machines_[0].width is not None
        assert b.machines_[0].width is None
        std = [m.decision_function(X, return_std=True, **more)[1] for m in (a, b)]
        assert not np.allclose(*std)


def test_draws_of_f_have_the_reported_width():
    X, y, _, _ = simulated(150, 2, 6)
    model = BayesianSVC(random_state=0).fit(X, y)
    mean, sd = model.decision_function(X[:20], return_std=True)
    f = model.sample_posterior(4000, X[:20])
    assert_allclose(f.std(axis=0), sd, rtol=0.08)
    assert np.all(np.abs(f.mean(axis=0) + model.offset_ - mean) < 5 * sd / np.sqrt(4000))


def test_unknown_width():
    X, y, _, _ = simulated(30, 2, 7)
    with pytest.raises(ValueError, match="width='wide' is not known"):
        BayesianLinearSVC(width="wide").fit(X, y)
