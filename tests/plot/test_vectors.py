"""Boundaries with their vectors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from bayesvm import PCVC, RVC
from bayesvm.plot import VectorDisplay


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
