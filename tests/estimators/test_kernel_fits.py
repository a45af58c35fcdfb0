"""Kernel machines: tuning, callbacks while it lasts, and sizes of pickles."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons
from sklearn.metrics import recall_score
from sklearn.metrics.pairwise import rbf_kernel

from bayesvm import PCVC, RVC, BayesianSVC
from bayesvm.inference import VB
from bayesvm.kernels import RBF

MOONS, SIDE = make_moons(120, noise=0.25, random_state=0)
NEW = np.random.default_rng(1).uniform(-2, 3, (200, 2))


def test_a_rare_class_is_found():
    """Positives in a small disc, negatives in the square around a ring that is left free."""

    def rare(seed, n, positive):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-3, 3, (8 * n, 2))
        gap = np.hypot(X[:, 0] - 1.0, X[:, 1] - 1.0)
        up, down = X[gap < 0.3][:positive], X[gap > 0.5][: n - positive]
        return np.vstack([up, down]), np.repeat([1, 0], [positive, n - positive])

    model = BayesianSVC(random_state=2, n_inducing=100).fit(*rare(0, 1200, 9))
    new, truth = rare(1, 3000, 20)
    # the disc is 0.2 away from all else: what sees it finds nearly all of it
    assert recall_score(truth, model.predict(new)) > 0.8


def test_the_mode_of_more_rows_than_calibrate_the_link():
    """Links are fitted to at most 20,000 rows; every row has a probability of support."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_500, 2))
    y = X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(len(X)) > 0
    model = BayesianSVC(inference="em", tune=False, n_inducing=20, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.support_.max() > 20_000


@pytest.mark.parametrize("approximation", ["variational", "fitc"])
@pytest.mark.parametrize("kind", ["function", "precomputed"])
def test_the_bound_tunes_kernels_without_a_gradient_in_points(kind, approximation):
    how = {"n_inducing": 30, "tune": "bound", "approximation": approximation, "random_state": 0}
    X = rbf_kernel(MOONS) if kind == "precomputed" else MOONS
    kernel = "precomputed" if kind == "precomputed" else lambda A, B: rbf_kernel(A, B, gamma=1.0)
    model = BayesianSVC(kernel, **how).fit(X, SIDE)
    assert model.score(X, SIDE) > 0.85
    assert model.kernel_.weight != 1.0


SIZED = {
    "exact": (BayesianSVC(2.0 * RBF(3.0), tune=False), 1),
    "augmented": (BayesianSVC(2.0 * RBF(3.0), tune=False, inference=VB(bound="augmented")), 1),
    "em": (BayesianSVC(2.0 * RBF(3.0), tune=False, inference="em"), 1),
    "fitc": (BayesianSVC(2.0 * RBF(3.0), tune=False, n_inducing=60, approximation="fitc"), 0.25),
    "points": (BayesianSVC(2.0 * RBF(3.0), tune=False, n_inducing=150), 0.25),
    "precomputed": (BayesianSVC("precomputed", tune=False), 1),
    "rvc": (RVC(RBF(3.0), tune=False), 0),
    "pcvc": (PCVC(RBF(3.0), tune=False), 0.25),
}


@pytest.mark.parametrize("name", SIZED)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_pickle_holds_at_most_one_square_of_the_points(name):
    model, squares = SIZED[name]
    X, y = make_classification(300, 8, n_informative=5, random_state=0)
    rows = rbf_kernel(X) if name == "precomputed" else X
    model = clone(model).fit(rows, y)
    first = model.predict_proba(rows[:50])
    if model.machines_[0].posterior.has_spread:
        model.predict_interval(rows[:50])
        model.sample_posterior(3)
    data = pickle.dumps(model)
    # a square of numbers, the rows twice (as given and as the kernel sees them), a few columns
    assert len(data) < squares * 8 * 300**2 + 2 * X.nbytes + 20 * 8 * 300 + 10_000
    again = pickle.loads(data)
    assert_allclose(again.predict_proba(rows[:50]), first, atol=1e-9)
    if model.machines_[0].posterior.has_spread:
        draws = [m.sample_posterior(3, random_state=0) for m in (model, again)]
        assert_allclose(draws[1], draws[0], atol=1e-6)
        bands = [np.array(m.predict_interval(rows[:50])) for m in (model, again)]
        assert_allclose(bands[1], bands[0], atol=1e-9)
