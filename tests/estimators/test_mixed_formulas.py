"""Models of formulas: cloned, validated and searched."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

from bayesvm import MixedSVC
from bayesvm.priors import Fixed

RNG = np.random.default_rng(0)
GROUP = np.repeat(np.arange(10), 6)
X = RNG.standard_normal((60, 2))
Y = (X[:, 0] + RNG.standard_normal(10)[GROUP] > 0).astype(int)


@pytest.fixture(scope="module")
def frame():
    pytest.importorskip("formulae")
    pd = pytest.importorskip("pandas")
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "g": GROUP, "ill": Y})


def test_a_model_of_a_formula_can_be_cloned_and_fitted_again(frame):
    first = MixedSVC.from_formula("ill ~ a * b + (1 + a | g)", frame)
    again = clone(first)
    assert again.formula == first.formula == "ill ~ a * b + (1 + a | g)"
    for y in (None, frame["ill"], Y):
        again.fit(frame, y)
        np.testing.assert_allclose(
            again.predict_proba(frame), first.predict_proba(frame), rtol=1e-6, atol=1e-9
        )
        assert again.factors_ == ["g"]
    unlabelled = clone(first).fit(frame.drop(columns="ill"), Y)
    np.testing.assert_allclose(unlabelled.coef_, first.coef_, rtol=1e-6, atol=1e-9)
    weights = np.where(np.arange(60) % 3, 1.0, 2.0)
    weighted = MixedSVC.from_formula("ill ~ a + (1 | g)", frame, sample_weight=weights)
    same = clone(weighted).fit(frame, Y, weights)
    np.testing.assert_allclose(same.coef_, weighted.coef_, rtol=1e-6, atol=1e-9)


def test_a_model_of_a_formula_can_be_cross_validated(frame):
    model = MixedSVC.from_formula("ill ~ a + b + (1 | g)", frame)
    scores = cross_val_score(model, frame, frame["ill"], cv=3)
    plain = MixedSVC()
    halves = [(slice(0, None, 2), slice(1, None, 2)), (slice(1, None, 2), slice(0, None, 2))]
    folds = [(np.arange(60)[a], np.arange(60)[b]) for a, b in halves]
    own = cross_val_score(model, frame, frame["ill"], cv=folds)
    for found, (train, test) in zip(own, folds, strict=True):
        plain.fit(X[train], Y[train], groups=GROUP[train])
        assert found == plain.score(X[test], Y[test], groups=GROUP[test])
    assert np.all(np.isfinite(scores))


def test_a_model_of_a_formula_can_be_searched_over_a_grid(frame):
    model = MixedSVC.from_formula("ill ~ 0 + a + b + (1 | g)", frame, prior=Fixed(1.0))
    grid = {"prior__precision": [1e-2, 1e4], "formula": ["ill ~ 0 + a", "ill ~ 0 + b + (1 | g)"]}
    search = GridSearchCV(model, grid, cv=GroupKFold(3)).fit(frame, frame["ill"], groups=GROUP)
    # of one column the link has the slope, so that its prior precision decides about little
    assert search.best_params_["formula"] == "ill ~ 0 + a"
    assert len(search.cv_results_["params"]) == 4
    assert search.predict(frame).shape == (60,)


def test_what_a_formula_says_is_not_said_twice(frame):
    with pytest.raises(ValueError, match="set fit_intercept=False"):
        MixedSVC(formula="ill ~ 0 + a").fit(frame)
    with pytest.raises(ValueError, match="effects of groups; got random='slope'"):
        MixedSVC(formula="ill ~ a", random="slope").fit(frame)
    with pytest.raises(ValueError, match="reads groups from the data frame alone"):
        MixedSVC(formula="ill ~ a").fit(frame, groups=GROUP)
    with pytest.raises(ValueError, match="reads a pandas data frame; got ndarray"):
        MixedSVC(formula="ill ~ a").fit(X, Y)
    without = MixedSVC(formula="ill ~ 0 + a", fit_intercept=False).fit(frame)
    assert without.intercept_ == 0.0
