"""Missing cells and what fills them in."""

import numpy as np
import pytest
from scipy.integrate import trapezoid

from bayesvm import BayesianLinearSVC
from bayesvm.plot import MissingDisplay


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = X.sum(axis=1) > 0
    X[rng.random(80) < 0.3, 1] = np.nan
    X[:7, 2] = np.nan
    return BayesianLinearSVC(missing="model").fit(X, y), X


def test_panels_show_patterns_and_distributions(fitted):
    model, X = fitted
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
