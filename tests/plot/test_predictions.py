"""Probabilities in order, predictive checks by probabilities of the model, imputed cells."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import trapezoid
from scipy.special import expit
from scipy.stats import binom
from sklearn.datasets import load_breast_cancer

from bayesvm import BayesianLinearSVC, FactorSVC, MixedSVC, make_pipeline
from bayesvm.plot import MissingDisplay, PredictiveCheckDisplay, ProbabilityDisplay
from bayesvm.priors import Fixed

RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.standard_normal(200), "g": np.repeat(list("pqrs"), 50)})
Y = np.where(X["a"] + RNG.logistic(size=200) > 0, "b", "a")


def test_probabilities_ascend_inside_their_band():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:, :6], np.array(["malignant", "benign"])[y]
    vb = BayesianLinearSVC().fit(X, y)
    display = ProbabilityDisplay.from_estimator(vb, X, y, level=0.5)
    assert np.all(np.diff(display.proba) >= 0)
    assert np.all(display.lower <= display.proba)
    assert np.all(display.proba <= display.upper)
    assert display.hit.sum() == (y == "malignant").sum()
    assert ProbabilityDisplay.from_estimator(vb, X).hit is None
    point = ProbabilityDisplay.from_estimator(BayesianLinearSVC(inference="em").fit(X, y), X, y)
    assert point.upper is None
    assert not point.ax_.collections


def test_replicates_of_a_model_that_is_certain_are_binomial():
    """A prior so tight that f is zero: shares are those of fair coins."""
    tight = BayesianLinearSVC(prior=Fixed(1e12), fit_intercept=False, random_state=0)
    fitted = tight.fit(X[["a"]], Y)
    shown = PredictiveCheckDisplay.from_estimator(fitted, X[["a"]], Y, by=X["g"], n=4000)
    assert shown.names == list("pqrs")
    assert shown.counts.tolist() == [50] * 4
    assert_allclose(shown.mean, 0.5, atol=4 * 0.5 / np.sqrt(50 * 4000))
    assert_allclose(shown.lower, binom.ppf(0.05, 50, 0.5) / 50, atol=0.02)
    assert_allclose(shown.upper, binom.ppf(0.95, 50, 0.5) / 50, atol=0.02)
    hits = np.array([np.sum(Y[X["g"] == g] == "b") for g in "pqrs"])
    assert_allclose(shown.observed, hits / 50)
    exact = binom.sf(hits, 50, 0.5) + 0.5 * binom.pmf(hits, 50, 0.5)
    assert_allclose(shown.tail, exact, atol=4 * 0.5 / np.sqrt(4000))


def test_shares_are_averages_of_probabilities():
    model = BayesianLinearSVC(probability="normalised", random_state=0).fit(X[["a"]], Y)
    shown = PredictiveCheckDisplay.from_estimator(model, X[["a"]], Y, bins=5, n=4000)
    assert shown.counts.tolist() == [40] * 5
    f = model.to_arviz(X[["a"]], n=4000)["posterior"]["f_obs"].values[0]
    order = np.argsort(f.mean(axis=0))
    p = expit(f).mean(axis=0)[order].reshape(5, 40).mean(axis=1)
    assert_allclose(shown.mean, p, atol=4 * 0.5 / np.sqrt(4000 * 5))
    below = PredictiveCheckDisplay.from_estimator(model, X[["a"]], Y, bins=5, n=500, label="b")
    assert np.all((below.lower <= below.mean) & (below.mean <= below.upper))


def test_a_model_without_groups_fails_where_groups_differ():
    shift = {"p": -3.0, "q": -1.0, "r": 1.0, "s": 3.0}
    y = X["g"].map(shift) + np.random.default_rng(1).logistic(size=200) > 0
    without = make_pipeline(BayesianLinearSVC(random_state=0)).fit(X[["a"]], y)
    shown = PredictiveCheckDisplay.from_estimator(without, X[["a"]], y, by=X["g"])
    assert np.all((shown.tail < 0.01) | (shown.tail > 0.99) | (np.abs(shown.observed - 0.5) < 0.2))
    assert min(shown.tail[0], 1 - shown.tail[0]) < 0.01
    mixed = MixedSVC(random_state=0).fit(X[["a"]], y, groups=X["g"])
    how = {"by": X["g"], "groups": X["g"]}
    shown = PredictiveCheckDisplay.from_estimator(mixed, X[["a"]], y, **how)
    assert np.all((shown.tail > 0.05) & (shown.tail < 0.95))


def test_refusals_and_names():
    model = BayesianLinearSVC(random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="not among"):
        PredictiveCheckDisplay.from_estimator(model, X, Y, by="z")
    with pytest.raises(ValueError, match="a value for each"):
        PredictiveCheckDisplay.from_estimator(model, X, Y, by=[1, 2])
    shown = PredictiveCheckDisplay.from_estimator(model, X, Y, by="g", n=50)
    assert (shown.xlabel, shown.ax_.get_xlabel()) == ("g", "g")
    gone = PredictiveCheckDisplay.from_estimator(model, X, Y, by=X["a"].mask(X["a"] > 1), n=50)
    assert (gone.names[-1], gone.counts[-1]) == ("missing", np.sum(X["a"] > 1))
    assert gone.counts.sum() == 200
    factor = FactorSVC(1, random_state=0).fit(X[["a"]].assign(b=1.0 * np.arange(200)), Y)
    rows = X[["a"]].assign(b=1.0 * np.arange(200))
    assert PredictiveCheckDisplay.from_estimator(factor, rows, Y, n=50).counts.sum() == 200
    point = BayesianLinearSVC(inference="em").fit(X, Y)
    with pytest.raises(ValueError, match="point estimate"):
        PredictiveCheckDisplay.from_estimator(point, X, Y)


def test_panels_show_patterns_and_distributions():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = X.sum(axis=1) > 0
    X[rng.random(80) < 0.3, 1] = np.nan
    X[:7, 2] = np.nan
    model = BayesianLinearSVC(missing="model").fit(X, y)
    display = MissingDisplay.from_estimator(model, X, color="C5")
    gone = np.isnan(X)
    assert display.counts.sum() == 80
    assert np.all(np.diff(display.counts) <= 0)
    for pattern, count in zip(display.patterns, display.counts, strict=True):
        assert (gone == pattern).all(axis=1).sum() == count
    assert display.incomplete == [1, 2]
    assert [k.size for k in display.mean] == list(gone.sum(axis=0))
    np.testing.assert_array_equal(display.observed[1], X[~gone[:, 1], 1])
    at = np.linspace(-8, 8, 4000)
    assert trapezoid(display.density(1, at), at) == pytest.approx(1.0, abs=1e-6)
    assert len(display.ax_) == 3
    assert display.ax_[1].get_title() == "x1"
    np.testing.assert_allclose(display.ax_[0].images[0].get_array(), display.patterns)
