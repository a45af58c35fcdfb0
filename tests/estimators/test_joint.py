"""Estimators of more than two classes: which have a joint likelihood, and what they report."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from bayesvm import AdditiveSVC, BayesianLinearSVC, MixedSVC
from bayesvm.inference import SVI, Gibbs
from bayesvm.predictive.posterior import NoPosterior
from bayesvm.terms import Columns, Intercept, Process

X, Y = load_wine(return_X_y=True)
X = X[:, :4]
GROUPS = np.random.default_rng(0).integers(0, 6, len(Y))


@pytest.fixture(scope="module")
def fitted():
    return BayesianLinearSVC(likelihood="logistic", prior="ridge").fit(X, Y)


def test_one_bound_one_history_and_coefficients_that_sum_to_zero(fitted):
    assert fitted.fit_.is_joint
    assert fitted.elbo_ == fitted.elbo_path_[-1]
    assert fitted.elbo_path_.ndim == 1
    assert fitted.coef_.shape == (3, 4)
    np.testing.assert_allclose(fitted.coef_.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(fitted.intercept_.sum(), 0.0, atol=1e-10)


def test_reports_are_about_differences_to_the_mean(fitted):
    draws = fitted.sample_posterior(20_000, random_state=0)
    assert draws.shape == (20_000, 3, 4)
    np.testing.assert_allclose(draws.mean(axis=0), fitted.coef_, atol=0.1)
    np.testing.assert_allclose(draws.std(axis=0), fitted.coef_std_, rtol=0.05)
    low, high = fitted.coef_interval(0.8)
    width = 2 * 1.2815515655 * fitted.coef_std_
    np.testing.assert_allclose(high - low, width, rtol=1e-6)
    cov = fitted.coef_cov_
    np.testing.assert_allclose(np.sqrt(np.diagonal(cov, axis1=1, axis2=2)), fitted.coef_std_)
    f = fitted.sample_posterior(50, X[:5], random_state=0)
    np.testing.assert_allclose(f.sum(axis=1), 0.0, atol=1e-10)
    table = fitted.summary()
    assert len(table) == 15
    rows = table.loc[table.index.get_level_values("name") != "intercept", "sd"].to_numpy()
    np.testing.assert_allclose(rows.reshape(3, 4), fitted.coef_std_)
    width = 2 * 1.6448536270 * table["sd"]
    np.testing.assert_allclose(table["upper"] - table["lower"], width)


@pytest.mark.parametrize("probability", ["calibrated", "normalised", "probit"])
@pytest.mark.parametrize("inference", ["vb", "em", Gibbs(draws=30, burn_in=10, chains=1)])
def test_predictions_agree_with_each_other(probability, inference):
    how = {"inference": inference, "probability": probability, "random_state": 0}
    model = BayesianLinearSVC(likelihood="logistic", prior="ridge", **how).fit(X, Y)
    assert model.fit_.is_joint == (probability != "probit")  # a link of one class against the rest
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), p.argmax(axis=1))
    order = np.argsort(model.decision_function(X), axis=1)
    np.testing.assert_array_equal(order[:, -1], p.argmax(axis=1))
    if inference != "em":
        low, high = model.predict_interval(X)
        assert np.all((low <= p) & (p <= high))
    else:
        with pytest.raises(NoPosterior, match="point estimate"):
            model.predict_interval(X)
    assert model.score(X, Y) > 0.85


def test_better_than_one_against_the_rest():
    """Three classes in a row: the middle one is no side of a plane."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 2))
    y = np.digitize(x[:, 0] + 0.3 * rng.standard_normal(600), [-0.6, 0.6])
    train, test, a, b = train_test_split(x, y, random_state=0)
    joint = BayesianLinearSVC(likelihood="logistic", prior="ridge").fit(train, a)
    rest = BayesianLinearSVC(likelihood="hinge", prior="ridge").fit(train, a)
    assert not rest.fit_.is_joint
    assert len(rest.elbo_path_) == 3
    loss = [log_loss(b, model.predict_proba(test)) for model in (joint, rest)]
    assert loss[0] < 0.85 * loss[1]


def test_mixed_and_additive_models_too():
    mixed = MixedSVC(likelihood="logistic", prior="ridge").fit(X, Y, groups=GROUPS)
    assert mixed.fit_.is_joint
    each = mixed.variance_components_["mean"].to_numpy()
    np.testing.assert_allclose(each, each[0])  # one variance for all classes
    effects = mixed.random_effects_["mean"].unstack(level=0).to_numpy()
    np.testing.assert_allclose(effects.sum(axis=1), 0.0, atol=1e-10)
    spread = mixed.random_effects_["sd"].to_numpy().reshape(3, -1)
    for machine, sd in zip(mixed.machines_, spread, strict=True):
        where = next(w for w in machine.model.slices if w.stop - w.start == sd.size)
        np.testing.assert_allclose(sd, np.sqrt(machine.posterior.variance()[where]))
    terms = [("intercept", Intercept()), ("coef", Columns())]
    again = AdditiveSVC(terms, likelihood="logistic").fit(X, Y)
    plain = BayesianLinearSVC(likelihood="logistic", prior="ridge").fit(X, Y)
    assert again.fit_.is_joint
    np.testing.assert_allclose(again.predict_proba(X), plain.predict_proba(X), atol=1e-3)
    table = again.summary()
    width = 2 * 1.6448536270 * table["sd"]
    np.testing.assert_allclose(table["upper"] - table["lower"], width)
    sd = again.partial(X[:2], return_std=True)[1]["intercept"]
    assert sd.shape == (2, 3)
    assert np.all(sd < np.sqrt([m.posterior.coef.cov.diag()[0] for m in again.machines_]))


def test_a_group_that_was_not_seen_widens_the_interval():
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(30), 12)
    own = rng.standard_normal((30, 3)) * 1.5
    x = rng.standard_normal((360, 1))
    y = (x * np.array([-1.0, 0.0, 1.0]) + own[groups] + rng.gumbel(size=(360, 3))).argmax(1)
    model = MixedSVC(likelihood="logistic", prior="ridge").fit(x, y, groups=groups)
    known, new = (model.predict_interval(x[:20], groups=g) for g in (groups[:20], [99] * 20))
    assert np.mean(new[1] - new[0]) > 1.3 * np.mean(known[1] - known[0])
    p = model.predict_proba(x, groups=groups)
    assert log_loss(y, p) < 0.9 * log_loss(y, model.predict_proba(x))


@pytest.mark.parametrize(
    "params",
    [
        {"likelihood": "hinge"},
        {"likelihood": "probit"},
        {"likelihood": "logistic", "inference": SVI(max_iter=2)},
        {"likelihood": "logistic", "prior": "spike_slab"},
    ],
    ids=str,
)
def test_others_are_one_against_the_rest(params):
    model = BayesianLinearSVC(**{"prior": "ridge", **params}).fit(X, Y)
    assert not model.fit_.is_joint
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_a_copy_predicts_the_same(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_allclose(copy.predict_proba(X), fitted.predict_proba(X), rtol=1e-6, atol=1e-9)


def test_a_class_of_one_row():
    y = Y.copy()
    y[0] = 9
    model = BayesianLinearSVC(likelihood="logistic", prior="ridge").fit(X, y)
    p = model.predict_proba(X)
    assert np.all(np.isfinite(p))
    assert p[1:, 3].mean() < 0.05


def test_smooth_terms_of_several_classes():
    rng = np.random.default_rng(2)
    x = rng.uniform(-2, 2, (300, 1))
    y = np.digitize(np.sin(2 * x[:, 0]) + 0.1 * rng.standard_normal(300), [-0.4, 0.4])
    terms = [("level", Intercept()), ("wave", Process([0], n_inducing=15))]
    model = AdditiveSVC(terms, likelihood="logistic", random_state=0).fit(x, y)
    assert model.fit_.is_joint
    assert model.score(x, y) > 0.85


def test_a_stream_has_one_class_against_the_rest(fitted):
    """It may begin with a joint fit, whose machines are expanded about equal other classes."""
    after = BayesianLinearSVC(random_state=0).fit(X, Y).partial_fit(X[:5], Y[:5])
    assert not after.fit_.is_joint
    assert log_loss(Y, after.predict_proba(X)) < log_loss(Y, fitted.predict_proba(X)) + 0.2
    model = BayesianLinearSVC(random_state=0).partial_fit(X, Y, classes=np.unique(Y))
    assert not model.fit_.is_joint
    assert log_loss(Y, model.predict_proba(X)) < log_loss(Y, fitted.predict_proba(X)) + 0.2
