"""Widths of the data: sums, matrices, factors, and coverage on simulated sets."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import expit, ndtr, ndtri
from scipy.stats import multivariate_normal
from tests.problems import make_problem

from bayesvm import AdditiveSVC, BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.core.types import Coef
from bayesvm.inference import Gibbs
from bayesvm.likelihoods import Hinge, Logistic
from bayesvm.likelihoods.tight import Tight
from bayesvm.linalg.covariances import FullCovariance
from bayesvm.predictive.link_fitting import LogisticFamily, fit_link
from bayesvm.predictive.links import COUNTED, FITTED_SHAPE, CalibratedLink
from bayesvm.predictive.posterior import DrawsPosterior
from bayesvm.predictive.robust_covariance import (
    GRID,
    SPREAD,
    RootCovariance,
    Width,
    _shift,
    factor,
    prior_scale,
)


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


@pytest.mark.parametrize("s", [1.0, 7.0])
@pytest.mark.parametrize("others", [[], [0], [2, 5]], ids=str)
def test_what_the_penalty_moves_the_estimate_by(others, s):
    """Against roots that are multiplied out; some coefficients have (almost) no penalty."""
    rng, K = np.random.default_rng(0), 6
    C = rng.standard_normal((20, K))
    A, P, held = C.T @ C, rng.uniform(5.0, 50.0, K), np.ones(K, bool)
    held[others] = False
    P[others] = 1e-4
    mean, free = rng.standard_normal(K), rng.standard_normal(K)
    V, W = np.linalg.inv(A + np.diag(P / s)), np.linalg.inv(A + np.diag(P))
    theta = held * free
    own = A @ theta
    if others:
        own -= A[:, others] @ np.linalg.solve(A[np.ix_(others, others)], A[others] @ theta)
    k = own @ (mean * held) / (own @ theta)
    shrunk = W @ A - k * np.eye(K)  # of theta, by the penalty, less what is common
    second = (V * np.outer(held, held)) + np.outer(theta, theta)
    have = W @ _shift(A, P, P / s, V, mean, free, held) @ W
    assert_allclose(have, shrunk @ second @ shrunk.T, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("likelihood", [Logistic(), Hinge()])
def test_slopes_are_those_of_a_row_left_out(likelihood):
    rng = np.random.default_rng(0)
    C, y = rng.standard_normal((30, 3)), np.where(rng.random(30) < 0.5, 1.0, -1.0)
    coef, lik = gaussian(3, 1), Tight(likelihood)
    sums = make_problem(C, y, likelihood=lik).slopes(coef)
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


def test_few_rows_are_few_by_weight():
    """Six columns: four rows of weight two are eight rows."""
    X, y = np.random.default_rng(0).standard_normal((4, 6)), np.array([0, 1, 0, 1])
    how = {"standardize": False, "tol": 1e-12, "prior": "fixed", "intercept_scale": 1.0}
    for likelihood in ("hinge", "logistic"):
        a = BayesianLinearSVC(likelihood=likelihood, **how).fit(X, y, sample_weight=[2.0] * 4)
        b = BayesianLinearSVC(likelihood=likelihood, **how).fit(np.tile(X, (2, 1)), np.tile(y, 2))
        assert_allclose(a.coef_cov_, b.coef_cov_, rtol=1e-5, atol=1e-12)


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


def test_rows_of_a_level_with_one_label_do_not_look_certain():
    rng = np.random.default_rng(0)
    level = rng.integers(0, 40, 800)
    X = np.column_stack([rng.standard_normal(800), np.eye(40)[level]])
    y = rng.random(800) < expit(X[:, 0] - 1.0)
    y[level < 3] = False  # some 20 rows each
    data, model = (BayesianLinearSVC(width=w).fit(X, y).coef_std_[0] for w in ("data", "model"))
    assert np.all(data[1:4] > 0.8 * model[1:4])


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


def test_ends_of_a_curved_link_where_it_is_well_known():
    """Then f and its numbers vary little: by differences of the log odds."""
    x, centre, size = np.array([np.log(1.2), 0.2, np.log(0.5), 0.3, -0.2]), 0.4, 1e-8
    R = np.random.default_rng(0).standard_normal((5, 5))
    V, m, v = size * R @ R.T, np.linspace(-1.0, 1.5, 7), np.zeros(7)

    def link(x):
        a = np.exp(x[0])
        return CalibratedLink(
            a, x[1] - a * centre, np.exp(x[2]) * a * a, *x[3:], centre=centre, cov=V
        )

    eps, sd = 1e-6, np.sqrt(size) * np.linspace(1.0, 2.0, 7)
    D = [link(x + e).logit(m, v) - link(x - e).logit(m, v) for e in eps * np.eye(5)]
    D, rise = np.stack(D) / (2 * eps), (link(x).logit(m + eps, v) - link(x).logit(m, v)) / eps
    levels = (0.05, 0.5, 0.9)
    found = link(x).band(m + sd * ndtri(np.array(levels))[:, None], m, v, levels)
    all_of_it = np.sqrt(COUNTED * (np.einsum("in,ij,jn->n", D, V, D) + (rise * sd) ** 2))
    expected = ndtri(np.array(levels))[:, None] * all_of_it
    assert_allclose(found - link(x).logit(m, v), expected, rtol=2e-3, atol=1e-12)


def test_far_from_the_boundary_ends_reach_to_the_probit_curve_and_to_heavier_tails():
    m, v = np.array([-6.0, 6.0]), np.zeros(2)
    low, middle, high = CalibratedLink(1.0, 0.0, 1.0, cov=1e-12 * np.eye(5), heavier=-0.5).band(
        np.tile(m, (3, 1)), m, v, (0.05, 0.5, 0.95)
    )
    far = np.log(ndtr(6.0 / 1.7)) - np.log(ndtr(-6.0 / 1.7)) - 6.0
    assert_allclose(middle, m)
    near, out = 6.0 / (1.0 + 0.5 * far / 6.0), 6.0 + FITTED_SHAPE * ndtri(0.95) * far
    assert_allclose(high, [-near, out], rtol=1e-4)
    assert_allclose(low, [-out, near], rtol=1e-4)


def test_curved_links_of_repeated_labels_vary_as_they_say():
    """Where rows are many the prior does not count."""
    rng = np.random.default_rng(5)
    m, v, c = rng.normal(0, 2.5, 3000), np.zeros(3000), np.ones(3000)
    known = [
        fit_link(LogisticFamily(True), np.where(rng.random(3000) < expit(m), 1.0, -1.0), m, v, c)
        for _ in range(40)
    ]
    drawn = np.var([one.numbers[[0, 1, 3]] for one in known], axis=0)
    said = np.mean([np.diag(one.cov)[[0, 1, 3]] for one in known], axis=0)
    assert np.all((drawn < 1.6 * said) & (drawn > 0.4 * said))


def test_uncertainty_of_the_link_is_that_of_repeated_labels():
    rng = np.random.default_rng(3)
    m, v, c = rng.normal(0, 1.5, 400), np.zeros(400), np.ones(400)
    links = [
        fit_link(LogisticFamily(), np.where(rng.random(400) < expit(1.2 * m), 1.0, -1.0), m, v, c)
        for _ in range(150)
    ]
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


@pytest.mark.parametrize("n", [100, 300])
def test_separated_rows_do_not_say_how_large_coefficients_are(n):
    """The size of coefficients differs by half between samples: an interval has to say so."""
    found = []
    for seed in range(4):
        X = np.random.default_rng(seed).normal(size=(n, 2)).round(2)
        y = X.sum(axis=1) > 0
        model = BayesianLinearSVC().fit(X, y)
        posterior = BayesianLinearSVC(width="model").fit(X, y)
        assert np.all(model.coef_std_ >= posterior.coef_std_)
        assert "A plane separates the classes" in model.summary().attrs["note"]
        assert "A plane separates the classes" in posterior.summary().attrs["note"]
        found.append((model.coef_[0, 0], model.coef_std_[0, 0]))
    size, sd = np.array(found).T
    assert sd.mean() > 0.5 * size.std()


def test_rows_that_overlap_have_no_such_note():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    model = BayesianLinearSVC().fit(X, X.sum(axis=1) + 0.3 * rng.logistic(size=300) > 0)
    assert "note" not in model.summary().attrs
