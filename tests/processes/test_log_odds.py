"""Logistic processes beside a kernel machine, from which intervals of probabilities come."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, softmax
from scipy.stats import norm

from bayesvm import BayesianSVC
from bayesvm.kernels import RBF, Linear, Matern, Scaled
from bayesvm.likelihoods import Logistic
from bayesvm.processes import log_odds
from bayesvm.processes.log_odds import mixture_quantile, rougher
from bayesvm.processes.process import Gram
from bayesvm.processes.site_fit import fit_sites


def step(X):
    return np.where(np.sin(1.5 * X[:, 0]) > 0, 0.85, 0.15)


def data(n=120, seed=0, truth=step):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.5, 2.5, (n, 1))
    return X, (rng.random(n) < truth(X)).astype(int)


def classes(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.5, 2.5, (n, 1))
    P = softmax(np.stack([2 * np.sin(X[:, 0]), 0 * X[:, 0], np.cos(2 * X[:, 0])], axis=1), axis=1)
    return X, (rng.random((n, 1)) > P.cumsum(axis=1)).sum(axis=1)


def test_quantiles_of_a_mixture():
    share, m, sd = np.array([0.3, 0.7]), np.array([[0.0], [2.0]]), np.array([[1.0], [0.2]])

    def below(z):
        return float(share @ norm.cdf((z - m[:, 0]) / sd[:, 0]))

    for level in (1e-4, 0.05, 0.5, 0.95):
        exact = brentq(lambda z: below(z) - level, -9, 9, xtol=1e-13)
        assert mixture_quantile(level, share, m, sd)[0] == pytest.approx(exact, abs=1e-9)


def test_rough_kernels_keep_amplitude_and_columns():
    found = rougher(Scaled(3.0, RBF((1.0, 2.0), groups=(0, 1))))
    for rough, by in zip(found, log_odds.LONGER, strict=True):
        assert (rough.weight, rough.kernel.nu, rough.kernel.groups) == (3.0, 0.5, (0, 1))
        np.testing.assert_allclose(rough.kernel.length_scale, by * np.array([1.0, 2.0]))
    assert rougher(Scaled(1.0, Linear())) == rougher(Scaled(1.0, Matern(nu=0.5))) == ()


def test_processes_are_those_of_both_kernels():
    X, y = data()
    model = BayesianSVC().fit(X, y)
    odds, bounds, new = model.fit_.log_odds, [], X[:9] + 0.01
    m, v = odds.moments(new)
    at, seen = odds.inputs.columns(new), odds.seen
    for k, part in enumerate(odds.parts):
        process = Gram(part.kernel(seen.X) + seen.level)
        fit = fit_sites(process, seen.machines[0], Logistic().tight, tol=1e-9)
        bounds.append(fit.bound)
        cross, diag = part.kernel(at, seen.X) + seen.level, part.kernel.diag(at) + seen.level
        mean, variance = fit.predictor(cross, diag)
        np.testing.assert_allclose(m[k, :, 0], mean, atol=0.02)
        np.testing.assert_allclose(v[k, :, 0], variance, rtol=0.02)
    shares = [part.share for part in odds.parts]
    np.testing.assert_allclose(shares, softmax(bounds), atol=0.01)


def test_points_that_were_not_compared_count(monkeypatch):
    X, y = data(200)
    model, new = BayesianSVC().fit(X, y), np.linspace(-2, 2, 9)[:, None]
    whole = model.fit_.log_odds.moments(new)
    monkeypatch.setattr(log_odds, "POINTS", 160)
    part = pickle.loads(pickle.dumps(model)).fit_.log_odds.moments(new)
    np.testing.assert_allclose(part[0], whole[0], atol=0.5)
    np.testing.assert_allclose(part[1], whole[1], rtol=0.25)


def test_steps_are_covered():
    inside = []
    for seed in range(3):
        X, y = data(200, seed)
        new = np.random.default_rng(seed).uniform(-2.5, 2.5, (200, 1))
        low, high = BayesianSVC().fit(X, y).predict_interval(new)
        inside.append((low[:, 1] <= step(new)) & (step(new) <= high[:, 1]))
    assert 0.8 < np.mean(inside) < 0.97  # 0.7 by one factor of the variances


def test_intervals_follow_labels():
    X, y = data(60)
    low, high = BayesianSVC().fit(X, y).predict_interval(X)
    flipped = BayesianSVC().fit(X, 1 - y).predict_interval(X)
    np.testing.assert_allclose(flipped[0][:, ::-1], low, atol=1e-4)
    X, y = classes(60)
    low, high = BayesianSVC().fit(X, y).predict_interval(X)
    order = np.array([2, 0, 1])  # class k is now called order[k]
    moved = BayesianSVC().fit(X, order[y]).predict_interval(X)
    np.testing.assert_allclose(moved[0][:, order], low, atol=1e-3)
    np.testing.assert_allclose(moved[1][:, order], high, atol=1e-3)


def test_classes_may_share_a_factor(monkeypatch):
    X, y = classes()
    model = BayesianSVC().fit(X, y)
    monkeypatch.setattr(log_odds, "HELD", 1)
    monkeypatch.setattr(log_odds, "LEFT", 0.0)  # all points
    shared = pickle.loads(pickle.dumps(model))
    assert len(shared.fit_.log_odds.parts[0].posterior.spread) == 1
    ends = model.predict_interval(X), shared.predict_interval(X)
    assert np.mean(np.abs(ends[0][0] - ends[1][0])) < 0.05
    np.testing.assert_allclose(expit(shared.decision_function(X)), model.predict_proba(X))


def test_a_weight_of_two_is_two_rows():
    X, y = data(60)
    c = np.where(np.arange(60) % 3, 1.0, 2.0)
    twice = np.repeat(np.arange(60), c.astype(int))
    one = BayesianSVC().fit(X, y, sample_weight=c).predict_interval(X)
    two = BayesianSVC().fit(X[twice], y[twice]).predict_interval(X)
    np.testing.assert_allclose(one, two, atol=1e-6)


@pytest.mark.parametrize("how", [{"width": "model"}, {"tune": False}, {"probability": "probit"}])
def test_there_are_none_without_a_logistic_amplitude(how):
    X, y = data(60)
    assert BayesianSVC(**how).fit(X, y).fit_.log_odds is None


def waves(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.5, 2.5, (n, 2))
    P = expit(2.5 * np.sin(1.5 * X[:, 0]) * np.cos(1.2 * X[:, 1]))
    return X, (rng.random(n) < P).astype(int), P


def given_all(odds, monkeypatch):
    """The same processes with each class's own factor of all points, in double precision."""
    with monkeypatch.context() as change:
        change.setattr(log_odds, "LEFT", -1.0)
        change.setattr(log_odds, "SPARED", np.inf)
        change.setattr(log_odds, "SINGLE", np.inf)
        change.setattr(log_odds, "HELD", np.inf)
        whole = replace(odds, Z=None)
        assert all(len(part.Z) == len(odds.seen.X) for part in whole.parts)
    return whole


def test_few_points_take_the_place_of_all_in_intervals_too(monkeypatch):
    X, y, _ = waves(1500)
    model, new = BayesianSVC(random_state=0).fit(X, y), waves(300, 1)[0]
    points, odds = model.inducing_points_, model.fit_.log_odds
    assert len(points) < 400
    assert {len(part.Z) for part in odds.parts} == {len(points)}
    (m, v), (mean, variance) = odds.moments(new), given_all(odds, monkeypatch).moments(new)
    np.testing.assert_allclose(v[0], variance[0], rtol=0.1)
    assert np.mean(v[0] / variance[0]) == pytest.approx(1.0, abs=0.01)
    assert np.sqrt(np.mean((m[0] - mean[0]) ** 2 / variance[0])) < 0.05
    assert np.all(np.mean(v / variance, axis=(1, 2)) > 0.999)  # rough kernels are no more certain


@pytest.mark.parametrize("several", [False, True])
def test_rows_that_span_a_smooth_process_predict_its_log_odds(several, monkeypatch):
    X, y = classes(400) if several else waves(400)[:2]
    model = BayesianSVC(random_state=0).fit(X, y)
    odds, new = model.fit_.log_odds, X[:200] + 0.05
    assert len(model.inducing_points_) == len(X)
    whole = given_all(odds, monkeypatch)
    m, v = odds.moments(new)
    mean, variance = whole.moments(new)
    smooth = [k for k, part in enumerate(odds.parts) if isinstance(part.kernel.kernel, RBF)]
    assert smooth
    assert all(2 * len(odds.parts[k].Z) <= len(X) for k in smooth)
    for k in smooth:
        np.testing.assert_allclose(v[k], variance[k], rtol=0.05)
        assert np.mean(v[k] / variance[k]) > 0.999  # no more certain than given all rows
        assert np.sqrt(np.mean((m[k] - mean[k]) ** 2 / variance[k])) < 0.02


def test_points_that_leave_much_make_log_odds_less_certain_by_no_more(monkeypatch):
    X, y, _ = waves(500)
    odds = BayesianSVC(random_state=0).fit(X, y).fit_.log_odds
    new = odds.inputs.columns(waves(200, 1)[0])
    few = replace(odds, Z=odds.seen.X[:12])
    level, whole = odds.seen.level, given_all(odds, monkeypatch)
    for part, exact in zip(few.parts, whole.parts, strict=True):
        both = [
            one.posterior(part.kernel(new, one.Z), part.kernel.diag(new), level)[1]
            for one in (part, exact)
        ]
        K = part.kernel(few.Z) + level
        K[np.diag_indices_from(K)] += 1e-6 * np.mean(np.diag(K))
        cross = part.kernel(new, few.Z) + level
        left = part.kernel.diag(new) + level - np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1)
        assert left.mean() > 0.1
        assert np.all(both[0] - both[1] <= left[:, None] + 1e-9)


@pytest.mark.parametrize("n", [150, 1100])
def test_points_need_not_span_the_level(n, monkeypatch):
    """Two points span a linear kernel of two columns, but no constant."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    y = (X[:, 0] + 0.5 * X[:, 1] ** 2 + rng.standard_normal(n) > 1).astype(int)
    X /= np.linalg.norm(X, axis=1, keepdims=True)  # new rows have the variance of all others
    odds = BayesianSVC(kernel="precomputed", random_state=0).fit(X @ X.T, y).fit_.log_odds
    assert len(odds.parts[0].Z) <= 3
    at = np.linspace(0, 6, 50)
    new = np.stack([np.cos(at), np.sin(at)], axis=1) @ X.T
    (m, v), (mean, variance) = odds.moments(new), given_all(odds, monkeypatch).moments(new)
    np.testing.assert_allclose(m, mean, atol=1e-4)
    np.testing.assert_allclose(v, variance, rtol=1e-3)


def test_single_precision_of_many_points_keeps_three_digits(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 8))
    y = (X[:, 0] + np.sin(3 * X[:, 1]) + 0.5 * rng.standard_normal(400) > 0).astype(int)
    odds = BayesianSVC(kernel=4.0 * Matern(3.0, nu=0.5), random_state=0).fit(X, y).fit_.log_odds
    assert all(one.single for part in odds.parts for one in part.posterior.spread)
    v, exact = odds.moments(X[:99] + 0.1)[1], given_all(odds, monkeypatch).moments(X[:99] + 0.1)[1]
    np.testing.assert_allclose(v, exact, rtol=2e-3)
    assert not np.array_equal(v, exact)
