"""Widths of coefficients that all groups share, from sums over groups."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp, ndtri

from bayesvm import AdditiveSVC, MixedSVC
from bayesvm.inference import Gibbs

N, SIZE = 240, 8
GROUPS = np.repeat(np.arange(N // SIZE), SIZE)


def rows(seed, omitted=1.0):
    """A time within groups of no effect on average, and a column that differs between groups."""
    rng = np.random.default_rng(seed)
    G, time = N // SIZE, np.tile(np.linspace(-1.5, 1.5, SIZE), N // SIZE)
    X = np.column_stack([time, rng.standard_normal(G)[GROUPS]])
    f = X[:, 1] + rng.standard_normal(G)[GROUPS] + omitted * rng.standard_normal(G)[GROUPS] * time
    return X, (rng.random(N) < expit(f)).astype(int)


def crossed(seed, persons=60, items=12):
    """A column of persons, a column of items and one of rows; all effects are one half."""
    rng = np.random.default_rng(seed)
    p, i = (x.ravel() for x in np.indices((persons, items)))
    X = np.column_stack(
        [
            rng.standard_normal(persons)[p],
            rng.standard_normal(items)[i],
            rng.standard_normal(p.size),
        ]
    )
    f = 0.5 * X.sum(axis=1) + rng.standard_normal(persons)[p] + rng.standard_normal(items)[i]
    return X, rng.random(p.size) < expit(f), np.column_stack([p, i])


@pytest.mark.filterwarnings("ignore:MixedSVC predicts")
def test_of_crossed_factors_they_are_the_empirical_ones():
    """Over 30 sets, whose standard deviation has a standard error of 13 %: within three of it."""
    fits = [MixedSVC().fit(*each[:2], groups=each[2]) for each in map(crossed, range(30))]
    estimates = np.array([model.coef_[0] for model in fits])
    reported = np.mean([model.coef_std_.ravel() for model in fits], axis=0)
    np.testing.assert_allclose(reported, estimates.std(axis=0, ddof=1), rtol=0.39)
    np.testing.assert_allclose(estimates.mean(axis=0), 0.5, atol=0.2)
    assert "Standard errors" in fits[0].summary().attrs["note"]


def maximum_likelihood(X, y, groups):
    """Logistic regression with random intercepts by quadrature, and its two standard errors.

    Those of the inverse information, and those clustered by group, of the intercept and the
    coefficients with the logarithm of the intercepts' standard deviation estimated too.
    """
    A, sign, G = np.column_stack([np.ones(len(y)), X]), 2.0 * y[:, None] - 1, groups.max() + 1
    z = np.linspace(-8.0, 8.0, 101)
    log_k = -0.5 * z * z + np.log((z[1] - z[0]) / np.sqrt(2 * np.pi))

    def each(theta):
        f, sd = (A @ theta[:-1])[:, None], np.exp(theta[-1])
        f = f + sd * z
        log_p = np.zeros((G, z.size)) + log_k
        np.add.at(log_p, groups, -np.logaddexp(0.0, -sign * f))
        value = logsumexp(log_p, axis=1)
        slope = sign * expit(-sign * f) * np.exp(log_p - value[:, None])[groups]
        scores = np.zeros((G, theta.size))
        own = np.column_stack([A * slope.sum(axis=1)[:, None], sd * (slope @ z)])
        np.add.at(scores, groups, own)
        return value.sum(), scores

    def loss(theta):
        value, scores = each(theta)
        return -value, -scores.sum(axis=0)

    theta = minimize(loss, np.zeros(A.shape[1] + 1), jac=True).x
    e = 1e-4 * np.eye(theta.size)
    H = np.array([(loss(theta + d)[1] - loss(theta - d)[1]) / 2e-4 for d in e])
    W, scores = np.linalg.inv(0.5 * (H + H.T)), each(theta)[1]
    J = G / (G - 1) * scores.T @ scores
    return tuple(np.sqrt(np.diag(V))[:-1] for V in (W, W @ J @ W))


def columns_of(model):
    """Standard deviations of the intercept and the coefficients, on the scale of the input."""
    return model.summary()["sd"].to_numpy()


@pytest.mark.parametrize("sd", [1.0, 3.0])
def test_they_are_those_of_maximum_likelihood_clustered_by_group(sd):
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
    model, clustered = maximum_likelihood(X, y, groups)
    expected = np.maximum(model, clustered)
    assert expected[1] > 1.3 * model[1]
    vb = MixedSVC().fit(X, y, groups=groups)
    np.testing.assert_allclose(columns_of(vb), expected, rtol=0.15)
    gibbs = Gibbs(draws=400, burn_in=100, chains=1)
    drawn = MixedSVC(inference=gibbs, random_state=0).fit(X, y, groups=groups)
    np.testing.assert_allclose(columns_of(drawn), columns_of(vb), rtol=0.1)


def test_a_weight_of_two_is_the_row_twice():
    X, y = rows(2)
    c = np.where(np.random.default_rng(0).random(N) < 0.3, 2, 1)
    twice = np.repeat(np.arange(N), c)
    one = MixedSVC().fit(X, y, c, groups=GROUPS)
    other = MixedSVC().fit(X[twice], y[twice], groups=GROUPS[twice])
    np.testing.assert_allclose(one.coef_std_, other.coef_std_, rtol=1e-5)


@pytest.mark.parametrize("likelihood", ["hinge", "soft_hinge"])
def test_pseudo_likelihoods_are_never_narrower(likelihood):
    X, y = rows(3)
    model, narrow = (
        MixedSVC(likelihood=likelihood, width=width).fit(X, y, groups=GROUPS)
        for width in ("data", "model")
    )
    assert np.all(model.coef_std_ >= narrow.coef_std_)
    assert model.coef_std_.ravel()[0] > 1.2 * narrow.coef_std_.ravel()[0]


def test_draws_are_moved_to_the_same_width():
    X, y = rows(4)
    gibbs = Gibbs(draws=300, burn_in=100, chains=1)
    fits = [
        MixedSVC(inference=how, width=width, random_state=0).fit(X, y, groups=GROUPS)
        for how, width in ((gibbs, "data"), (gibbs, "model"), ("vb", "data"))
    ]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_)
    assert fits[0].coef_std_.ravel()[0] > 1.2 * fits[1].coef_std_.ravel()[0]
    np.testing.assert_allclose(fits[0].coef_std_, fits[2].coef_std_, rtol=0.25)
    sd, less = (m.decision_function(X, return_std=True, groups=GROUPS)[1] for m in fits[:2])
    assert less.mean() < sd.mean() < 1.3 * less.mean()


def test_draws_of_a_smooth_term_are_as_wide_as_the_variational_posterior():
    """Rows tell nothing of most of its columns, and the mean of their draws is not exact."""
    rng = np.random.default_rng(5)
    n, sites = 300, 20
    data = pd.DataFrame({"age": rng.uniform(20, 80, n), "x": rng.standard_normal(n)})
    data["site"] = rng.integers(0, sites, n)
    f = 2 * np.sin(data.age / 10) + 0.7 * data.x + rng.standard_normal(sites)[data.site] - 0.5
    data["ill"] = rng.random(n) < expit(f)
    fits = [
        AdditiveSVC.from_formula("ill ~ s(age) + x + (1|site)", data, inference=how, random_state=0)
        for how in (Gibbs(draws=100, burn_in=50, chains=2), "vb")
    ]
    # the level is shared between intercept and smooth term, whose length scale only vb learns
    drawn, vb = (model.summary().loc[("columns", "x"), "sd"] for model in fits)
    np.testing.assert_allclose(drawn, vb, rtol=0.25)
    drawn, vb = (np.mean(np.ptp(model.predict_interval(data), axis=0)) for model in fits)
    np.testing.assert_allclose(drawn, vb, rtol=0.25)


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
        np.testing.assert_allclose(logit(low), m - z, atol=0.4)
        np.testing.assert_allclose(logit(high), np.maximum(m + z, logit(p)), atol=0.4)
        assert np.all((low < p) & (p < high))


@pytest.mark.slow
def test_intervals_cover():
    """A time of no effect whose slopes vary, and a column between groups: 60 sets each."""
    held = 0
    for seed in range(60):
        X, y = rows(seed, omitted=0.8)
        low, high = (end[0] for end in MixedSVC().fit(X, y, groups=GROUPS).coef_interval(0.9))
        held += int(low[0] <= 0 <= high[0])
    assert 46 <= held <= 60  # three standard deviations below 54
