"""Models of formulas: cloned, validated and searched."""

import numpy as np
import pytest
from sklearn.base import clone

from bayesvm import MixedSVC

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
