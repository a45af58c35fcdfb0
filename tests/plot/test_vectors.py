"""Boundaries with their vectors, and vectors against error."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
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
