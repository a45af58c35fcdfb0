"""Displays hold what estimators say, and draw it."""

import builtins

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.exceptions import NotFittedError

from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.kernels import RBF
from bayesvm.plot import (
    CoefficientDisplay,
    DecisionBandDisplay,
    ProbabilityDisplay,
    RelevanceDisplay,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*the chains do not agree")


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X.iloc[:, :6], np.array(["malignant", "benign"])[y]


@pytest.fixture(scope="module")
def vb(data):
    return BayesianLinearSVC().fit(*data)


@pytest.fixture(scope="module")
def em(data):
    return BayesianLinearSVC(inference="em").fit(*data)


@pytest.fixture(scope="module")
def three():
    return BayesianLinearSVC().fit(*load_iris(return_X_y=True))


def test_coefficients_are_sorted_and_scaled(vb, data):
    display = CoefficientDisplay.from_estimator(vb, top=3, level=0.8)
    sure = np.abs(vb.coef_[0]) / vb.coef_std_[0]
    order = np.argsort(-sure)[:3]
    assert display.names == list(data[0].columns[order])
    scale = np.asarray(data[0].std(ddof=0))[order]
    np.testing.assert_allclose(display.mean, vb.coef_[0, order] * scale)
    np.testing.assert_allclose(display.lower, vb.coef_interval(0.8)[0][0, order] * scale)
    assert "80% interval" in display.ax_.get_xlabel()


def test_coefficients_as_given(vb):
    names = [f"column {j}" for j in range(6)]
    display = CoefficientDisplay.from_estimator(vb, sort=False, standardized=False, names=names)
    assert display.names == names
    np.testing.assert_array_equal(display.mean, vb.coef_[0])


def test_point_estimate_has_no_bars(em, data):
    display = CoefficientDisplay.from_estimator(em)
    assert display.lower is None
    assert "interval" not in display.ax_.get_xlabel()
    assert not display.ax_.containers[0].has_xerr
    display = ProbabilityDisplay.from_estimator(em, *data)
    assert display.upper is None
    assert not display.ax_.collections


def test_coefficients_of_one_class(three):
    display = CoefficientDisplay.from_estimator(three, label=1, standardized=False, sort=False)
    np.testing.assert_array_equal(display.mean, three.coef_[1])
    with pytest.raises(ValueError, match="label must be one of the classes"):
        CoefficientDisplay.from_estimator(three, label=7)


def test_probabilities_ascend_inside_their_band(vb, data):
    display = ProbabilityDisplay.from_estimator(vb, *data, level=0.5)
    assert np.all(np.diff(display.proba) >= 0)
    assert np.all(display.lower <= display.proba)
    assert np.all(display.proba <= display.upper)
    assert display.hit.sum() == (data[1] == "malignant").sum()
    assert ProbabilityDisplay.from_estimator(vb, data[0]).hit is None


def test_displays_need_a_fit():
    with pytest.raises(NotFittedError):
        CoefficientDisplay.from_estimator(BayesianLinearSVC())


def test_what_to_install(vb, monkeypatch):
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ImportError, match=r"pip install 'bayesvm\[plot\]'"):
        CoefficientDisplay.from_estimator(vb)


# ----- the kernel machine


@pytest.fixture(scope="module")
def moons():
    return make_moons(60, noise=0.2, random_state=0)


@pytest.fixture(scope="module")
def bent(moons):
    return BayesianSVC(2.0 * RBF((0.6, 0.9)), tune=False).fit(*moons)


def test_band_is_what_the_estimator_says(bent, moons):
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


def test_band_keeps_names_and_needs_two_columns(vb, data):
    X, y = data
    two = BayesianLinearSVC().fit(X.iloc[:, :2], y)
    display = DecisionBandDisplay.from_estimator(two, X.iloc[:, :2], y, cells=5)
    assert display.ax_.get_xlabel() == "mean radius"
    with pytest.raises(ValueError, match="two columns"):
        DecisionBandDisplay.from_estimator(vb, X, y)
    text = X.iloc[:, :1].assign(kind=np.where(X.iloc[:, 1] > 20, "a", "b"))
    mixed = BayesianLinearSVC().fit(text, y)
    with pytest.raises(ValueError, match="two columns of numbers, and X has others"):
        DecisionBandDisplay.from_estimator(mixed, text, y)
    with pytest.raises(ValueError, match=r"two columns.*shape \(569, 1\)"):
        DecisionBandDisplay.from_estimator(mixed, text[["kind"]], y)


def test_relevance_is_one_over_the_length_scale(bent, moons):
    display = RelevanceDisplay.from_estimator(bent)
    assert display.names == ["x0", "x1"]
    np.testing.assert_allclose(display.relevance, [1 / 0.6, 1 / 0.9])
    assert RelevanceDisplay.from_estimator(bent, top=1).names == ["x0"]
    alike = BayesianSVC(2.0 * RBF(0.5), tune=False).fit(*moons)
    assert display.ax_.get_title() == ""
    common = RelevanceDisplay.from_estimator(alike)
    np.testing.assert_allclose(common.relevance, [2.0, 2.0])
    assert common.ax_.get_title() == "one common length scale; see average_effects"
    two = BayesianSVC(RBF(1.0) + RBF(3.0), tune=False).fit(*moons)
    with pytest.raises(ValueError, match="length scales"):
        RelevanceDisplay.from_estimator(two)


def test_representations_are_short():
    many = CoefficientDisplay([f"column {k}" for k in range(50)], np.zeros(50), xlabel="x" * 100)
    assert repr(many) == f"CoefficientDisplay(names=<50>, mean=<50>, xlabel='{'x' * 56}...)"
