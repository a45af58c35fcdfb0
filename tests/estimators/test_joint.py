"""Estimators of more than two classes: which have a joint likelihood, and what they report."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from tests.answers import check_answers

from bayesvm import AdditiveSVC, BayesianLinearSVC, MixedSVC
from bayesvm.inference import SVI, Gibbs
from bayesvm.predictive.posterior import NoPosterior
from bayesvm.terms import Columns, Intercept

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
    assert fitted.score(X, Y) > 0.85
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
    check_answers(model, X)
    if inference == "em":
        with pytest.raises(NoPosterior, match="point estimate"):
            model.predict_interval(X)
    assert model.score(X, Y) > 0.85


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
