"""Displays hold what estimators say, and draw it."""

import builtins

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.svm import SVC

from bayesvm import PCVC, RVC, BayesianLinearSVC
from bayesvm.diagnostics import r_hat
from bayesvm.inference import Gibbs
from bayesvm.plot import (
    CalibrationDisplay,
    CoefficientDisplay,
    ConvergenceDisplay,
    ProbabilityDisplay,
    TraceDisplay,
    VectorDisplay,
)

pytestmark = pytest.mark.filterwarnings("ignore:the chains disagree")


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


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
def gibbs(data):
    return BayesianLinearSVC(inference=Gibbs(30, 10, chains=2), random_state=0).fit(*data)


@pytest.fixture(scope="module")
def three():
    return BayesianLinearSVC().fit(*load_iris(return_X_y=True))


def test_convergence_is_the_path(vb):
    display = ConvergenceDisplay.from_estimator(vb, name="vb")
    (line,) = display.ax_.lines
    np.testing.assert_array_equal(line.get_ydata(), vb.elbo_path_)
    assert display.ax_.get_ylabel() == "bound"
    assert display.figure_ is display.ax_.figure
    assert display.plot(display.ax_, gap=True, color="red") is display
    assert display.ax_.get_yscale() == "log"


@pytest.mark.parametrize(
    ("name", "quantity"), [("em", "log posterior density"), ("gibbs", "log pseudo-likelihood")]
)
def test_convergence_says_what_it_shows(name, quantity, request):
    display = ConvergenceDisplay.from_estimator(request.getfixturevalue(name))
    assert display.ax_.get_ylabel() == quantity


def test_convergence_of_several_machines(three):
    display = ConvergenceDisplay.from_estimator(three)
    assert len(display.ax_.lines) == 3
    assert [t.get_text() for t in display.ax_.get_legend().get_texts()] == ["0", "1", "2"]


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


def test_calibration_counts_and_scores(vb, data):
    X, y = data
    display = CalibrationDisplay.from_estimator(vb, X, y, n_bins=5)
    p, hit = vb.predict_proba(X)[:, 1], y == "malignant"
    assert display.counts.sum() == len(y)
    np.testing.assert_allclose(display.counts @ display.prob_true, hit.sum())
    np.testing.assert_allclose(display.counts @ display.prob_pred, p.sum())
    np.testing.assert_allclose(display.log_loss, log_loss(hit, p))
    np.testing.assert_allclose(display.brier, brier_score_loss(hit, p))
    (text,) = display.ax_.get_legend().get_texts()
    assert f"log loss {display.log_loss:.3f}" in text.get_text()


def test_calibration_of_any_classifier():
    X, y = load_iris(return_X_y=True)
    display = CalibrationDisplay.from_estimator(
        LogisticRegression(max_iter=1000).fit(X, y), X, y, label=1
    )
    assert display.counts @ display.prob_true == pytest.approx(50)


def test_calibration_takes_certainty():
    display = CalibrationDisplay.from_predictions([0, 1], [0.0, 1.0])
    assert list(display.counts) == [1, 1]


def test_probabilities_ascend_inside_their_band(vb, data):
    display = ProbabilityDisplay.from_estimator(vb, *data, level=0.5)
    assert np.all(np.diff(display.proba) >= 0)
    assert np.all(display.lower <= display.proba)
    assert np.all(display.proba <= display.upper)
    assert display.hit.sum() == (data[1] == "malignant").sum()
    assert ProbabilityDisplay.from_estimator(vb, data[0]).hit is None


def test_trace_shows_chains_on_the_scale_of_the_input(gibbs):
    display = TraceDisplay.from_estimator(gibbs, names=["intercept", "mean area"])
    assert display.draws.shape == (2, 30, 2)
    np.testing.assert_allclose(display.draws[..., 0].mean(), gibbs.intercept_[0])
    j = list(gibbs.feature_names_in_).index("mean area")
    np.testing.assert_allclose(display.draws[..., 1].mean(), gibbs.coef_[0, j])
    assert f"{r_hat(display.draws)[1]:.3f}" in display.ax_[1].get_title()


def test_trace_picks_the_worst_and_explains_itself(gibbs, vb):
    assert len(TraceDisplay.from_estimator(gibbs).ax_) == 3
    with pytest.raises(ValueError, match="no coefficient is called"):
        TraceDisplay.from_estimator(gibbs, names=["area"])
    with pytest.raises(ValueError, match="inference='gibbs'"):
        TraceDisplay.from_estimator(vb)
    with pytest.raises(ValueError, match="3 panels"):
        TraceDisplay.from_estimator(gibbs, ax=plt.subplots()[1])


def test_trace_without_intercept(data):
    model = BayesianLinearSVC(inference=Gibbs(5, 0), fit_intercept=False, random_state=0)
    display = TraceDisplay.from_estimator(model.fit(*data), names=["mean area"])
    assert display.draws.shape == (4, 5, 1)


def test_displays_need_a_fit():
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(BayesianLinearSVC())


def test_what_to_install(vb, monkeypatch):
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ImportError, match=r"pip install 'bayesvm\[plot\]'"):
        ConvergenceDisplay.from_estimator(vb)


# ----- vectors


@pytest.fixture(scope="module")
def moons():
    return make_moons(120, noise=0.25, random_state=0)


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


def test_boundaries_need_two_columns():
    X, y = make_moons(60, noise=0.2, random_state=0)
    model = PCVC(tune=False).fit(np.column_stack([X, X]), y)
    with pytest.raises(ValueError, match="two columns and two classes"):
        VectorDisplay.from_estimator(model, np.column_stack([X, X]), y)
