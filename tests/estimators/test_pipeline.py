"""Pipelines give what their last step gives at transformed rows, and stay scikit-learn's."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import pipeline
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayesvm
from bayesvm import AdditiveSVC, BayesianLinearSVC, MixedSVC
from bayesvm.plot import CoefficientDisplay
from bayesvm.terms import Columns, Intercept, Process

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.standard_normal((120, 3)) * [1, 10, 100], columns=["a", "b", "c"])
Y = np.where(X["a"] + RNG.logistic(size=120) > 0, "yes", "no")
SCALED = StandardScaler().fit_transform(X)
ANSWERS = {
    "predict_interval": {"level": 0.8},
    "predict_set": {"coverage": 0.8, "by_class": True},
    "novelty": {},
    "average_effects": {"change": "unit"},
    "sample_posterior": {"random_state": 3},
}


@pytest.fixture(scope="module")
def pipe():
    return bayesvm.make_pipeline(StandardScaler(), BayesianLinearSVC()).fit(X, Y)


@pytest.mark.parametrize("method", ANSWERS)
def test_answers_are_those_of_the_last_step_at_transformed_rows(pipe, method):
    alone, options = BayesianLinearSVC().fit(SCALED, Y), ANSWERS[method]
    first = (4,) if method == "sample_posterior" else ()
    ours = getattr(pipe, method)(*first, X, **options)
    theirs = getattr(alone, method)(*first, SCALED, **options)
    assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-10)


def test_columns_have_the_names_that_the_steps_give_them(pipe):
    assert list(pipe.summary().index) == ["intercept", "a", "b", "c"]
    assert list(pipe.average_effects(X).index.get_level_values(0)) == ["a", "b", "c"]
    assert sorted(CoefficientDisplay.from_estimator(pipe).names) == ["a", "b", "c"]
    made = bayesvm.make_pipeline(PolynomialFeatures(include_bias=False), BayesianLinearSVC())
    assert "a b" in made.fit(X, Y).summary().index
    assert made.fit(X.to_numpy(), Y).summary().index[4] == "x0^2"
    levels = X.assign(d=np.where(X["c"] > 0, "<b>", "\n"))
    encoder = OneHotEncoder(sparse_output=False)
    columns = ColumnTransformer([("d", encoder, ["d"])], remainder="passthrough")
    made = bayesvm.make_pipeline(columns, BayesianLinearSVC()).fit(levels, Y)
    assert list(made.summary().index[1:3]) == ["d__d_\n", "d__d_<b>"]


def test_terms_and_slopes_may_name_columns():
    terms = [("level", Intercept()), ("x", Columns(["b"])), ("f", Process(["a"], n_inducing=5))]
    model = bayesvm.make_pipeline(StandardScaler(), AdditiveSVC(terms, random_state=0)).fit(X, Y)
    assert sorted(model.partial(X)) == ["f", "level", "x"]
    mixed = bayesvm.make_pipeline(StandardScaler(), MixedSVC(random=["a"]))
    groups = np.arange(120) % 10
    mixed.fit(X, Y, mixedsvc__groups=groups)
    assert set(mixed[-1].random_effects_.index.get_level_values("effect")) == {"intercept", "a"}
    low, high = mixed.predict_interval(X, groups=groups)
    p = mixed.predict_proba(X, groups=groups)
    assert np.all((low <= p) & (p <= high))


def test_it_is_a_pipeline_of_scikit_learn(pipe):
    assert isinstance(pipe, pipeline.Pipeline)
    again = clone(pipe)
    assert type(again) is bayesvm.Pipeline
    assert not hasattr(again[:-1], "predict_interval")
    assert not hasattr(bayesvm.make_pipeline(LogisticRegression()), "predict_interval")
    grid = GridSearchCV(pipe, {"bayesianlinearsvc__prior": ["ridge", "lasso"]}, cv=2).fit(X, Y)
    low, _ = grid.best_estimator_.predict_interval(X)
    assert low.shape == (120, 2)
    assert cross_val_score(pipe, X, Y, cv=2).shape == (2,)
    frames = clone(pipe).set_output(transform="pandas").fit(X, Y)
    assert_array_equal(frames[-1].feature_names_in_, ["a", "b", "c"])
    assert_allclose(frames.predict_proba(X), pipe.predict_proba(X), rtol=1e-10)
    inside = GridSearchCV(BayesianLinearSVC(), {"prior": ["ridge", "lasso"]}, cv=2)
    outer = bayesvm.make_pipeline(StandardScaler(), inside).fit(X, Y)
    assert outer.predict_set(X).shape == (120, 2)
    with pytest.raises(Exception, match="fitted"):
        again.predict_interval(X)


def test_saved_and_loaded(pipe, tmp_path):
    pytest.importorskip("skops")
    bayesvm.save(pipe, tmp_path / "pipe")
    again = bayesvm.load(tmp_path / "pipe")
    assert_allclose(again.predict_interval(X)[0], pipe.predict_interval(X)[0], rtol=1e-6, atol=1e-9)
    assert list(again.summary().index) == list(pipe.summary().index)


@pytest.mark.parametrize("prior", ["auto", "spike_slab"])
def test_columns_of_categories_have_one_importance(prior):
    rng = np.random.default_rng(0)
    rows = X.assign(kind=pd.Categorical(rng.choice(["<x>", "y", "z"], len(X))), b=np.nan)
    rows["b"] = np.where(rng.random(len(X)) < 0.8, X["b"], np.nan)  # an indicator of missing cells
    model = BayesianLinearSVC(prior).fit(rows, Y)
    assert model.coef_.shape == (1, rows.shape[1] + 3)
    names = list(rows.columns)
    own = model.machines_[0].posterior.mean[1:] if prior == "auto" else model.inclusion_proba_
    each = dict(zip(model._names(), np.abs(own), strict=True))
    expected = [max(x for made, x in each.items() if made.startswith(name)) for name in names]
    assert_allclose(model.feature_importances_, expected, rtol=1e-6, atol=1e-9)
    for chosen, how in (
        (model, {"importance_getter": "feature_importances_"}),
        (bayesvm.make_pipeline(BayesianLinearSVC(prior)), {}),
    ):
        picked = SelectFromModel(chosen, max_features=2, threshold=-np.inf, **how).fit(rows, Y)
        best = sorted(np.argsort(expected)[-2:])
        assert_array_equal(np.flatnonzero(picked.get_support()), best)
        kept = picked.set_output(transform="pandas").transform(rows)
        pd.testing.assert_frame_equal(kept, rows.iloc[:, best])


def of_any_pipeline(estimator):
    """Checks that scikit-learn's own pipelines fail too."""
    return {
        "check_estimators_overwrite_params": "steps are fitted in place",
        "check_dont_overwrite_parameters": "steps are fitted in place",
        "check_estimators_nan_inf": "tags are those of the scaler, which lets NaN pass",
    }


@pytest.mark.slow
@parametrize_with_checks(
    [bayesvm.make_pipeline(StandardScaler(), BayesianLinearSVC())],
    expected_failed_checks=of_any_pipeline,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
