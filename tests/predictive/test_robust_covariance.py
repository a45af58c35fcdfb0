"""Robust covariances of rows and of groups, factors, and coverage on simulated sets."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, logit, ndtri
from tests.groups import maximum_likelihood
from tests.problems import make_problem

from bayesvm import AdditiveSVC, BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.core.types import Coef, Contribution
from bayesvm.inference import Gibbs
from bayesvm.likelihoods import Hinge, Logistic
from bayesvm.linalg.covariances import FullCovariance
from bayesvm.predictive.leave_one_out import LooMoments
from bayesvm.predictive.links import CalibratedLink
from bayesvm.predictive.posterior import DrawsPosterior
from bayesvm.predictive.robust_covariance import (
    RobustCovariance,
    squared_scores,
    variance_factor_of,
)
from bayesvm.priors import Fixed


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
    coef, lik = gaussian(3, 1), likelihood.tightened()
    J = np.zeros((3, 3))
    S = coef.cov.dense()
    for x, label in zip(C, y, strict=True):
        m, v = x @ coef.mean, x @ S @ x
        own = Contribution(*(x[0] for x in lik.expected(np.array([label]), m[None], v[None])))
        without = np.linalg.inv(np.linalg.inv(S) - own.h * np.outer(x, x))  # for a fixed site
        at = coef.mean - without @ x * own.g
        g = own.g - own.h * (x @ at - m)  # of its quadratic
        J = J + g**2 * np.outer(x, x)
    found = squared_scores(make_problem(C, y, likelihood=lik), coef)
    assert_allclose(found, J, rtol=1e-10)


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
    data, model = (
        BayesianLinearSVC(covariance=w).fit(X, y).coef_std_[0] for w in ("robust", "model")
    )
    assert np.all(data[1:4] > 0.8 * model[1:4])


def test_draws_are_moved_to_the_covariance():
    rng = np.random.default_rng(0)
    post = DrawsPosterior(rng.standard_normal((2, 500, 4)) @ rng.standard_normal((4, 4)) + 1.0)
    F = rng.standard_normal((4, 4))
    moved = RobustCovariance(root=F).posterior(post)
    assert_allclose(moved.mean, post.mean)
    assert_allclose(moved.covariance(), F @ F.T, rtol=1e-8)
    wider = RobustCovariance(variance_factor=3.0).posterior(post)
    assert_allclose(wider.covariance(), 3.0 * post.covariance())


def test_the_factor_of_a_true_model_is_near_one():
    rng = np.random.default_rng(0)
    m, v = rng.normal(0, 2, 20_000), np.full(20_000, 1e-3)
    y, c = np.where(rng.random(20_000) < expit(m), 1.0, -1.0), np.ones(20_000)
    assert 1.0 <= variance_factor_of(Logistic(), LooMoments(y, m, v, c), m, v) < 1.05
    # the hinge does not have the scale of the data
    assert variance_factor_of(Hinge(), LooMoments(y, m / 2, v, c), m / 2, v) > 1.5


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
    found = link(x).band(m + sd * ndtri(np.array(levels))[:, None], levels)
    all_of_it = np.sqrt(link(x).counted * (np.einsum("in,ij,jn->n", D, V, D) + (rise * sd) ** 2))
    expected = ndtri(np.array(levels))[:, None] * all_of_it
    assert_allclose(found - link(x).logit(m, v), expected, rtol=2e-3, atol=1e-12)


def test_predictions_do_not_depend_on_the_width():
    X, y, _, _ = simulated(120, 3, 5)
    groups = np.arange(120) % 12
    with pytest.raises(ValueError, match="'covariance' parameter"):
        BayesianLinearSVC(covariance="wide").fit(X, y)
    for model, more in (
        (BayesianLinearSVC(), {}),
        (BayesianSVC(), {}),
        (MixedSVC(), {"groups": groups}),
        (AdditiveSVC(), {}),
    ):
        a = model.fit(X, y, **more)
        b = type(model)(covariance="model").fit(X, y, **more)
        assert_allclose(a.predict_proba(X, **more), b.predict_proba(X, **more))
        assert a.machines_[0].robust_covariance is not None
        assert b.machines_[0].robust_covariance is None
        std = [m.decision_function(X, return_std=True, **more)[1] for m in (a, b)]
        assert not np.allclose(*std)


def test_pseudo_likelihoods_are_never_narrower():
    X, y = grouped_rows(3)
    robust, model = (
        MixedSVC(likelihood="hinge", covariance=width).fit(X, y, groups=GROUPS).coef_std_.ravel()
        for width in ("robust", "model")
    )
    assert np.all(robust >= model)
    assert robust[0] > 1.2 * model[0]


def test_weak_effects_are_covered_with_a_nearly_flat_prior():
    b, held = np.array([0.5, -0.3]), []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((300, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
        y = rng.random(300) < expit(X @ b)
        lower, upper = BayesianLinearSVC(Fixed(1e-4)).fit(X, y).coef_interval()
        held.append((lower[0] < b) & (b < upper[0]))
    assert np.mean(held) > 0.83


def test_separated_rows_do_not_say_how_large_coefficients_are():
    """The size of coefficients differs by half between samples: an interval has to say so."""
    found = []
    for seed in range(4):
        X = np.random.default_rng(seed).normal(size=(100, 2)).round(2)
        y = X.sum(axis=1) > 0
        model = BayesianLinearSVC().fit(X, y)
        posterior = BayesianLinearSVC(covariance="model").fit(X, y)
        assert np.all(model.coef_std_ >= posterior.coef_std_)
        assert "The classes are (nearly) separated" in model.summary().attrs["note"]
        found.append((model.coef_[0, 0], model.coef_std_[0, 0]))
    size, sd = np.array(found).T
    assert sd.mean() > 0.5 * size.std()
    X = np.random.default_rng(0).normal(size=(1000, 2))
    rare = BayesianLinearSVC().fit(X, np.arange(1000) < 20)  # which is never predicted
    assert "separated" not in rare.summary().attrs.get("note", "")


# ----- groups

N, SIZE = 240, 8
GROUPS = np.repeat(np.arange(N // SIZE), SIZE)


def grouped_rows(seed, omitted=1.0):
    """A time within groups of no effect on average, and a column that differs between groups."""
    rng = np.random.default_rng(seed)
    G, time = N // SIZE, np.tile(np.linspace(-1.5, 1.5, SIZE), N // SIZE)
    X = np.column_stack([time, rng.standard_normal(G)[GROUPS]])
    f = X[:, 1] + rng.standard_normal(G)[GROUPS] + omitted * rng.standard_normal(G)[GROUPS] * time
    return X, (rng.random(N) < expit(f)).astype(int)


@pytest.mark.parametrize("sd", [1.0, 3.0])
def test_clustered_widths_are_those_of_maximum_likelihood_clustered_by_group(sd):
    """With a slope that varies and is not in the model; 60 groups of eight rows.

    The penalty makes the column between groups up to 15 % narrower, and the simulation noise of
    *J* is common to both.
    """
    rng = np.random.default_rng(7)
    groups = np.repeat(np.arange(60), SIZE)
    time = np.tile(np.linspace(-1.5, 1.5, SIZE), 60)
    X = np.column_stack([time, 2.0 * rng.standard_normal(60)[groups] + 1.0])
    u = rng.standard_normal((2, 60))[:, groups]
    y = (rng.random(480) < expit(0.5 * X[:, 1] + sd * u[0] + (1 + sd / 3) * u[1] * time)) * 1
    _, model, clustered = maximum_likelihood(X, y, groups)
    expected = np.maximum(model, clustered)
    assert expected[1] > 1.3 * model[1]
    vb = MixedSVC().fit(X, y, groups=groups)
    assert_allclose(vb.summary()["sd"], expected, rtol=0.15)
    gibbs = Gibbs(draws=400, burn_in=100, chains=1)
    drawn = MixedSVC(inference=gibbs, random_state=0).fit(X, y, groups=groups)
    assert_allclose(drawn.summary()["sd"], vb.summary()["sd"], rtol=0.1)


def test_a_weight_of_two_is_the_row_of_a_group_twice():
    X, y = grouped_rows(2)
    c = np.where(np.random.default_rng(0).random(N) < 0.3, 2, 1)
    twice = np.repeat(np.arange(N), c)
    one = MixedSVC().fit(X, y, c, groups=GROUPS)
    other = MixedSVC().fit(X[twice], y[twice], groups=GROUPS[twice])
    assert_allclose(one.coef_std_, other.coef_std_, rtol=1e-5)


def test_intervals_of_a_new_group_are_quantiles_of_f():
    """They reach further only as far as the averaged probability does."""
    rng = np.random.default_rng(6)
    groups = np.repeat(np.arange(150), 6)
    X = rng.standard_normal((900, 1))
    f = 4.0 * rng.standard_normal(150)[groups] + X[:, 0] - 6.0
    model = MixedSVC().fit(X, rng.random(900) < expit(f), groups=groups)
    new = {"groups": np.full(5, 999)}
    m, sd = model.decision_function(X[:5], return_std=True, **new)
    p = model.predict_proba(X[:5], **new)[:, 1]
    assert np.all(sd > 2.0)
    for level in (0.5, 0.9):
        low, high = (end[:, 1] for end in model.predict_interval(X[:5], level, **new))
        z = ndtri(0.5 + 0.5 * level) * sd
        assert_allclose(logit(low), m - z, atol=0.4)
        assert_allclose(logit(high), np.maximum(m + z, logit(p)), atol=0.4)
        assert np.all((low < p) & (p < high))
