"""Displays over a plane: bands, scores of factors, boundaries with their vectors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesvm import PCVC, RVC, BayesianLinearSVC, BayesianSVC, FactorSVC
from bayesvm.kernels import RBF
from bayesvm.plot import DecisionBandDisplay, FactorScoreDisplay, VectorDisplay


@pytest.fixture(scope="module")
def moons():
    return make_moons(120, noise=0.25, random_state=0)


def test_band_is_what_the_estimator_says():
    moons = make_moons(60, noise=0.2, random_state=0)
    bent = BayesianSVC(2.0 * RBF((0.6, 0.9)), tune=False).fit(*moons)
    display = DecisionBandDisplay.from_estimator(bent, *moons, cells=15, level=0.8)
    assert display.proba.shape == display.open_.shape == (15, 15)
    cell = [[display.x[3], display.y[11]]]
    assert display.proba[11, 3] == pytest.approx(bent.predict_proba(cell)[0, 1])
    lower, upper = bent.predict_interval(cell, level=0.8)
    assert display.open_[11, 3] == (lower[0, 1] < 0.5 < upper[0, 1])
    assert 0 < display.open_.sum() < 15 * 15
    np.testing.assert_array_equal(display.hit, moons[1] == 1)
    assert display.x[0] < moons[0][:, 0].min()
    assert display.x[-1] > moons[0][:, 0].max()
    assert "probability of 1" in [ax.get_ylabel() for ax in display.figure_.axes]
    wider = DecisionBandDisplay.from_estimator(bent, moons[0], cells=15, level=0.99)
    assert wider.hit is None
    assert wider.open_.sum() > display.open_.sum()


def test_band_keeps_names_and_needs_two_columns():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    two = BayesianLinearSVC().fit(X.iloc[:, :2], y)
    display = DecisionBandDisplay.from_estimator(two, X.iloc[:, :2], y, cells=5)
    assert display.ax_.get_xlabel() == "mean radius"
    with pytest.raises(ValueError, match="two columns"):
        DecisionBandDisplay.from_estimator(BayesianLinearSVC().fit(X, y), X, y)
    text = X.iloc[:, :1].assign(kind=np.where(X.iloc[:, 1] > 20, "a", "b"))
    mixed = BayesianLinearSVC().fit(text, y)
    with pytest.raises(ValueError, match="two columns of numbers, and X has others"):
        DecisionBandDisplay.from_estimator(mixed, text, y)
    with pytest.raises(ValueError, match=r"two columns.*shape \(569, 1\)"):
        DecisionBandDisplay.from_estimator(mixed, text[["kind"]], y)


def test_scores_of_factors_over_the_band():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((60, 3))
    X = W @ rng.laplace(size=(3, 12)) + 0.5 * rng.standard_normal((60, 12))
    y = np.where(W[:, 0] > 0, "ill", "well")
    model = FactorSVC(3, "linear").fit(X, y)
    display = FactorScoreDisplay.from_estimator(model, X, y, factors=(0, 2))
    assert_allclose(display.scores, model.transform(X)[:, [0, 2]])
    assert display.proba.min() < 0.3 < 0.7 < display.proba.max()
    assert display.ax_.get_xlabel() == "factor 0"
    three = FactorSVC(2).fit(X, np.arange(60) % 3)
    with pytest.raises(ValueError, match="got 3 classes and 2 factors"):
        FactorScoreDisplay.from_estimator(three, X, y)


@pytest.mark.parametrize("model", [PCVC(), RVC(), SVC()], ids=["pcvc", "rvc", "svc"])
def test_vectors_are_ringed_and_wrong_signs_marked(model, moons):
    X, y = moons
    display = VectorDisplay.from_estimator(model.fit(X, y), X, y, size=40)
    assert_allclose(display.vectors, X[model.support_])
    against = np.sign(model.dual_coef_[0]) != np.where(y[model.support_] == 1, 1, -1)
    assert np.array_equal(display.wrong, against)
    assert display.wrong.any() == (isinstance(model, RVC) and against.any())
    # the net is laid out as contour wants it: columns are the first coordinate
    at = np.array([[display.grid[0, 3], display.grid[1, 30]]])
    assert display.values[30, 3] == pytest.approx(model.decision_function(at)[0])
    rings = display.ax_.collections[2]
    assert_allclose(rings.get_offsets(), display.vectors)


def test_machines_inside_others(moons):
    """Vectors are drawn among the rows that went in, not among those that the machine saw."""
    X, y = moons
    pipeline = make_pipeline(StandardScaler(), SVC())
    search = GridSearchCV(pipeline, {"svc__C": [1.0]}, cv=2)
    for model in (pipeline.fit(X, y), search.fit(X, y)):
        display = VectorDisplay.from_estimator(model, X, y, size=10)
        assert_allclose(display.vectors, X[pipeline[-1].support_])
        assert not display.wrong.any()
        at = np.array([[display.grid[0, 3], display.grid[1, 7]]])
        assert display.values[7, 3] == pytest.approx(model.decision_function(at)[0])


X, Y = make_moons(40, noise=0.2, random_state=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: VectorDisplay.from_estimator(SVC().fit(X, Y), X[:9], Y[:9]), "X has 9 rows, y 9"),
        (lambda: VectorDisplay.from_estimator(SVC().fit(X, Y), X, Y[:39]), "X has 40 rows, y 39"),
        (
            lambda: VectorDisplay.from_estimator(KNeighborsClassifier().fit(X, Y), X, Y),
            "must keep support_ and dual_coef_.*got KNeighborsClassifier",
        ),
        (
            lambda: VectorDisplay.from_estimator(SVC(kernel=rbf_kernel).fit(X, Y), X[:, 0], Y),
            r"two columns and two classes; got X of shape \(40,\)",
        ),
        (
            lambda: VectorDisplay.from_estimator(
                SVC(kernel="precomputed").fit(rbf_kernel(X), Y), X, Y
            ),
            "cannot be drawn for kernel='precomputed'",
        ),
    ],
    ids=["rows", "labels", "neighbours", "shape", "precomputed"],
)
def test_what_cannot_be_drawn(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("model", [PCVC(), make_pipeline(SVC())], ids=["machine", "pipeline"])
def test_machines_must_be_fitted(model):
    with pytest.raises(NotFittedError):
        VectorDisplay.from_estimator(model, X, Y)
