"""Paths over the scale of a prior are what single fits give."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from bayesvm import BayesianLinearSVC
from bayesvm.inference import EM
from bayesvm.plot import PathDisplay, coefficient_path
from bayesvm.priors import Bridge, Lasso

NUS = [0.3, 0.003, 0.03]


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X.iloc[:150, :8], y[:150]


def test_warm_starts_change_nothing(data):
    """The lasso is a convex programme: every start leads to the same coefficients."""
    X, y = data
    nus, coefs = coefficient_path(BayesianLinearSVC("lasso", "em"), X, y, NUS)
    scale = np.std(X, axis=0) / np.sqrt((X != 0).mean())  # zeros do not count as spread
    np.testing.assert_array_equal(nus, np.sort(NUS))
    for nu, coef in zip(nus, coefs):
        alone = BayesianLinearSVC(Lasso(nu=nu), "em").fit(X, y)
        np.testing.assert_allclose(coef, alone.coef_[0] * scale, atol=1e-6)


def test_the_model_grows_with_the_scale(data):
    model = BayesianLinearSVC("lasso", "em", likelihood="hinge")
    display = PathDisplay.from_estimator(model, *data, nus=[1e-4, 1e-2, 1.0], best=0.1, top=3)
    assert display.counts[0] == 0
    assert np.all(np.diff(display.counts) > 0)
    assert display.names == list(data[0].columns)
    upper, lower = display.ax_
    assert len(upper.lines) == 8 + 1  # one line per coefficient and the mark
    np.testing.assert_array_equal(upper.lines[2].get_ydata(), display.coefs[:, 2])
    np.testing.assert_array_equal(lower.lines[0].get_ydata(), display.counts)
    named = [t.get_text() for t in upper.get_legend().get_texts()]
    largest = np.argsort(-np.abs(display.coefs[-1]))[:3]
    assert set(named) == {display.names[j] for j in largest}
    assert upper.get_xscale() == "log"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_bridge_keeps_its_power(data):
    X, y = data
    estimator = BayesianLinearSVC(Bridge(alpha=0.7), EM(), random_state=0)
    nus, coefs = coefficient_path(estimator, X, y, [0.02, 0.1])
    lasso = coefficient_path(BayesianLinearSVC("lasso", "em"), X, y, nus)[1]
    assert np.abs(coefs - lasso).max() > 0.01
    assert estimator.prior.nu is None  # the estimator given is left as it was
    assert not hasattr(estimator, "machines_")


def test_one_class_of_several():
    X, y = load_iris(return_X_y=True)
    estimator = BayesianLinearSVC("lasso", "em")
    _, coefs = coefficient_path(estimator, X, y, [0.1], label=1)
    alone = BayesianLinearSVC(Lasso(nu=0.1), "em").fit(X, y)
    np.testing.assert_allclose(coefs[0], alone.coef_[1] * X.std(axis=0), atol=1e-6)
    assert PathDisplay.from_estimator(estimator, X, y, nus=[0.1]).names == ["x0", "x1", "x2", "x3"]


@pytest.mark.parametrize(("prior", "inference"), [("ridge", "em"), ("lasso", "vb")])
def test_what_has_no_path(prior, inference, data):
    with pytest.raises(ValueError, match="a path needs inference='em' and a prior with a scale"):
        coefficient_path(BayesianLinearSVC(prior, inference), *data, NUS)
