"""Displays of factor models."""

import numpy as np
import pytest

from bayesvm import FactorSVC
from bayesvm.plot import (
    FactorScoreDisplay,
    LoadingHeatDisplay,
    TopLoadingDisplay,
)

RNG = np.random.default_rng(0)
W = RNG.standard_normal((60, 3))
X = W @ RNG.laplace(size=(3, 12)) + 0.5 * RNG.standard_normal((60, 12))
Y = np.where(W[:, 0] > 0, "ill", "well")


@pytest.fixture(scope="module")
def model():
    return FactorSVC(3, "linear").fit(X, Y)


def test_heat_map_has_the_largest_loadings(model):
    display = LoadingHeatDisplay.from_estimator(model, n_columns=5)
    A = np.abs(model.loadings_ / model.scale_[:, None]).max(axis=1)
    assert set(display.names) == {f"x{j}" for j in np.argsort(-A)[:5]}
    assert display.ax_.images[0].get_array().shape == (5, 3)


def test_top_columns_with_intervals(model):
    display = TopLoadingDisplay.from_estimator(model, n_top=4)
    assert display.factors == list(np.argsort(-model.factor_relevance_))
    assert len(np.ravel(display.ax_)) == 3
    for mean, low, high in zip(display.loadings, display.lower, display.upper, strict=True):
        assert mean.shape == (4,)
        assert np.all((low < mean) & (mean < high))


def test_scores_over_the_band(model):
    display = FactorScoreDisplay.from_estimator(model, X, Y, factors=(0, 2))
    np.testing.assert_allclose(display.scores, model.transform(X)[:, [0, 2]])
    assert display.proba.min() < 0.3 < 0.7 < display.proba.max()
    assert display.ax_.get_xlabel() == "factor 0"
    three = FactorSVC(2).fit(X, np.arange(60) % 3)
    with pytest.raises(ValueError, match="got 3 classes and 2 factors"):
        FactorScoreDisplay.from_estimator(three, X, Y)
