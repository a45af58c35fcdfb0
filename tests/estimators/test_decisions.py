"""Sets, novelty and decisions of fitted estimators."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest
from sklearn.model_selection import FixedThresholdClassifier

from bayesvm import RVC, BayesianLinearSVC, BayesianSVC

RNG = np.random.default_rng(0)
N = 400
X = RNG.standard_normal((N, 3))
F = 2 * X[:, 0] - X[:, 1] ** 2 + 1
Y = np.where(RNG.random(N) < 1 / (1 + np.exp(-F)), "yes", "no")
THREE = np.digitize(F + RNG.logistic(size=N), [-1.0, 1.5])
TRAIN, TEST = slice(0, 150), slice(150, N)
ESTIMATORS = [BayesianLinearSVC(), BayesianSVC(random_state=0)]


def hits(inside, classes, y):
    return inside[np.arange(len(y)), np.searchsorted(classes, y)].mean()


@pytest.mark.parametrize("y", [Y, THREE], ids=["two", "three"])
@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda m: type(m).__name__)
def test_sets_hold_the_label_as_often_as_they_should(model, y):
    """Within three standard errors, of 150 training and 250 test rows."""
    model.fit(X[TRAIN], y[TRAIN])
    for coverage in (0.7, 0.9):
        inside = model.predict_set(X[TEST], coverage)
        error = np.sqrt(coverage * (1 - coverage) * (1 / 150 + 1 / 250))
        assert inside.dtype == bool
        assert abs(hits(inside, model.classes_, y[TEST]) - coverage) < 3 * error
    wider = model.predict_set(X[TEST], 0.95)
    assert np.all(wider >= model.predict_set(X[TEST], 0.9))
    filled = model.predict_set(X[TEST], 0.3, allow_empty=False)
    assert np.all(filled[np.arange(250), model.predict_proba(X[TEST]).argmax(axis=1)])


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda m: type(m).__name__)
def test_novelty_is_uniform_near_and_one_far_away(model):
    """By the test of Kolmogorov and Smirnov for two samples, at a level of one in a thousand."""
    model.fit(X[TRAIN], Y[TRAIN])
    near = model.novelty(X[TEST])
    assert kstest(near, "uniform").statistic < 1.95 * np.sqrt(1 / 150 + 1 / 250)
    assert np.all(model.novelty(X[TEST] + 20) == 1)


@pytest.mark.parametrize("kind", [BayesianLinearSVC, BayesianSVC])
def test_a_row_without_any_known_cell_is_novel(kind):
    """By the missing cells of training rows if there are some; else nothing is known of it."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.standard_normal((150, 3)), columns=list("abc"))
    rows["d"] = rng.choice(["u", "v"], 150)
    y, blank = rows["a"] + rng.logistic(size=150) > 0, rows[:2].copy()
    blank.iloc[0] = [np.nan, np.nan, np.nan, None]
    novel = kind().fit(rows, y).novelty(blank)
    assert novel[0] == 1.0
    assert novel[1] < 1.0
    some = rows.mask(rng.random(rows.shape) < 0.2)
    # coefficients of indicators, which are mostly zero, have a prior for entries of about one
    assert 0.6 < kind().fit(some, y).novelty(blank)[0] <= 1.0


def test_what_cannot_be_known_is_refused():
    assert not hasattr(RVC(), "novelty")  # its f is as certain far away
    point = BayesianLinearSVC(inference="em").fit(X[TRAIN], Y[TRAIN])
    assert point.predict_set(X[TEST]).shape == (250, 2)
    with pytest.raises(ValueError, match="point estimate"):
        point.novelty(X[TEST])
    with pytest.raises(ValueError, match="coverage must be between 0 and 1"):
        point.predict_set(X[TEST], 90)
    with pytest.raises(ValueError, match="takes no groups"):
        point.predict_set(X[TEST], groups=np.zeros(250))


def test_decisions_of_an_estimator():
    model = BayesianLinearSVC().fit(X[TRAIN], Y[TRAIN])
    P = model.predict_proba(X[TEST])
    costs = np.array([[0.0, 1.0], [9.0, 0.0]])  # a "yes" that is missed costs nine times as much
    by_cost = model.predict(X[TEST], costs=costs)
    np.testing.assert_array_equal(by_cost == "yes", P[:, 1] > 0.1)
    by_threshold = FixedThresholdClassifier(
        BayesianLinearSVC(), threshold=0.1, pos_label="yes", response_method="predict_proba"
    ).fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(by_threshold.predict(X[TEST]), by_cost)
    some = model.predict(X[TEST], abstain=0.2)
    np.testing.assert_array_equal(some.mask, P.max(axis=1) < 0.8)
    np.testing.assert_array_equal(some.data, model.predict(X[TEST]))
    rare = model.predict_proba(X[TEST], prevalence={"yes": 0.02, "no": 0.98})
    share = np.mean(Y[TRAIN] == "yes")
    odds = P[:, 1] / P[:, 0] * (0.02 / 0.98) * (1 - share) / share
    np.testing.assert_allclose(rare[:, 1] / rare[:, 0], odds, rtol=1e-9)


def test_dask_rows_are_decided_lazily():
    da = pytest.importorskip("dask.array")
    model, lazy = BayesianLinearSVC().fit(X[TRAIN], Y[TRAIN]), da.from_array(X[TEST], (100, 3))
    for method, how in (
        ("predict_set", {"coverage": 0.8}),
        ("novelty", {}),
        ("predict", {"costs": [[0, 1], [9, 0]]}),
        ("predict", {"abstain": 0.2}),
        ("predict_proba", {"prevalence": [0.9, 0.1]}),
    ):
        here, there = getattr(model, method)(X[TEST], **how), getattr(model, method)(lazy, **how)
        found = there.compute()
        np.testing.assert_array_equal(np.ma.getmaskarray(here), np.ma.getmaskarray(found))
        np.testing.assert_array_equal(here, found)
