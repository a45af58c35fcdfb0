"""Far from the training rows probabilities go to the shares of the classes."""

import numpy as np
import pytest
from scipy.stats import beta

from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.predictive.leave_one_out import Extrapolation, LooMoments

RNG = np.random.default_rng(0)
V = RNG.uniform(0.1, 1.0, size=(200, 1))
MOMENTS = LooMoments(np.repeat([0, 1], 100), np.zeros((200, 1)), V, np.ones(200))
MASSES = np.array([30.0, 70.0])


@pytest.mark.parametrize("limit", [np.inf, 8.0, 1.5])
def test_nothing_changes_near_and_everything_far_away(limit):
    extrapolation, logs = Extrapolation.of(MOMENTS, MASSES, limit), np.log([[0.001, 0.999]])
    np.testing.assert_array_equal(extrapolation.mixed(logs, V.max()[None, None]), logs)
    near = extrapolation.mixed(logs, V.max()[None, None] * (1 + 1e-9))
    np.testing.assert_allclose(near, logs, atol=1e-5)
    end = extrapolation.mixed(logs, np.array([[min(limit, 1e12)]]))
    np.testing.assert_allclose(end, np.log([[0.3, 0.7]]), atol=1e-6)
    v = np.linspace(V.max(), min(limit, 100.0), 50)[:, None]
    odds = np.diff(extrapolation.mixed(np.repeat(logs, 50, axis=0), v), axis=1)[:, 0]
    assert np.all(np.diff(odds) < 0)


def test_a_link_fitted_to_rows_like_no_others_is_kept():
    assert Extrapolation.of(MOMENTS, MASSES, float(V.max())) is None
    assert Extrapolation.of(MOMENTS._replace(v=0 * V), MASSES, np.inf) is None
    assert Extrapolation.of(MOMENTS, np.array([0.0, 1.0]), np.inf) is None


@pytest.mark.parametrize(("estimator", "classes"), [(BayesianLinearSVC, 3), (BayesianSVC, 2)])
def test_far_away_the_shares_of_the_classes(estimator, classes):
    X = RNG.standard_normal((150, 3))
    y = np.digitize(X[:, 0] + 0.5 * RNG.standard_normal(150), [-0.8, 0.8][: classes - 1])
    model = estimator(random_state=0).fit(X, y)
    far = 1e6 * np.array([[1.0, 1.0, -1.0], [-1.0, 1.0, 1.0]])
    share = np.bincount(y) / 150.0
    np.testing.assert_allclose(model.predict_proba(far), [share, share], atol=1e-3)
    assert np.all(model.predict(far) == share.argmax())
    score = model.decision_function(far)
    best = (score > 0).astype(int) if classes == 2 else score.argmax(axis=1)
    assert np.all(best == share.argmax())
    low, high = model.predict_interval(far)
    p = model.predict_proba(far)
    assert np.all((low <= p) & (p <= high))
    np.testing.assert_array_equal(model.novelty(far), 1.0)


@pytest.mark.parametrize("classes", [2, 3])
def test_nothing_is_more_certain_than_the_rows(classes):
    """Also where f is large and the classes are separated: no zeros, and no ends next to them."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 4))
    y = np.digitize(X[:, 0], [-0.5, 0.5][: classes - 1])
    model = BayesianLinearSVC().fit(X, y)
    new = np.array([1.0, 2.0, 3.0, 5.0])[:, None] * np.eye(4)[0] * [[-4.0]]
    P, (low, high) = model.predict_proba(new), model.predict_interval(new, level=0.9)
    floor, unseen = beta(0.5, 300.5).ppf([0.05, 0.95])
    assert min(P.min(), low.min(), 1.0 - high.max()) >= floor * (1 - 1e-9)
    assert high.min() >= unseen * (1 - 1e-9)
    assert low.max() <= 1.0 - unseen * (1 - 1e-9)
