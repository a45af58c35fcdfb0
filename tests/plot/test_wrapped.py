"""Displays of estimators inside pipelines and searches."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesvm import BayesianLinearSVC, BayesianSVC, plot

pd = pytest.importorskip("pandas")
pytest.importorskip("matplotlib.pyplot")
pytestmark = pytest.mark.filterwarnings("ignore:.*the chains do not agree")
RNG = np.random.default_rng(0)
X = pd.DataFrame(5.0 + 3.0 * RNG.standard_normal((60, 2)), columns=["age", "dose"])
Y = np.where(X["age"] + RNG.standard_normal(60) > 5.0, "yes", "no")


def wrap(model):
    """A search in a pipeline."""
    return make_pipeline(StandardScaler(), GridSearchCV(model, {}, cv=2))


def test_coefficients():
    display = plot.CoefficientDisplay.from_estimator(wrap(BayesianLinearSVC()).fit(X, Y))
    alone = BayesianLinearSVC().fit(StandardScaler().fit_transform(X), Y)
    want = plot.CoefficientDisplay.from_estimator(alone)
    assert display.names == [["age", "dose"][int(name[1:])] for name in want.names]
    for name in ("mean", "lower", "upper"):
        np.testing.assert_allclose(getattr(display, name), getattr(want, name), rtol=1e-12)


def test_decision_band_is_over_the_columns_that_the_user_gave():
    model = wrap(BayesianSVC(tune=False)).fit(X, Y)
    display = plot.DecisionBandDisplay.from_estimator(model, X, Y, cells=4)
    assert display.names == ("age", "dose")
    assert display.x[0] < X["age"].min() < X["age"].max() < display.x[-1]
    corner = pd.DataFrame({"age": display.x[:1], "dose": display.y[:1]})
    np.testing.assert_allclose(display.proba[0, 0], model.predict_proba(corner)[0, 1])
    assert display.open_ is not None


def test_path():
    model = make_pipeline(StandardScaler(), BayesianLinearSVC("lasso", "em"))
    display = plot.PathDisplay.from_estimator(model, X, Y, nus=[0.01, 0.1])
    assert display.names == ["age", "dose"]
    Z = StandardScaler().fit_transform(X)
    _, want = plot.coefficient_path(model[-1], Z, Y, [0.01, 0.1])
    np.testing.assert_allclose(display.coefs, want)


def test_other_estimators_are_refused_for_what_they_are():
    """They are fitted, and displays said that they were not."""
    for model in (LogisticRegression(), wrap(LogisticRegression())):
        with pytest.raises(ValueError, match=r"estimator of bayesvm.*; got LogisticRegression"):
            plot.CoefficientDisplay.from_estimator(model.fit(X, Y))
    with pytest.raises(ValueError, match=r"has kernel_.*; got BayesianLinearSVC"):
        plot.RelevanceDisplay.from_estimator(BayesianLinearSVC().fit(X, Y))
