"""Bars of inclusion probabilities, and chains with a point estimate drawn in."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from bayesvm import BayesianLinearSVC
from bayesvm.inference import Gibbs
from bayesvm.plot import InclusionDisplay
from bayesvm.priors import LaplaceZero, SpikeSlab

pytestmark = pytest.mark.filterwarnings("ignore:.*the chains do not agree")


@pytest.fixture(scope="module")
def data():
    """The first column speaks for class 1, the second against it, the others not at all."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    y = np.where(2.0 * X[:, 0] - 2.0 * X[:, 1] + rng.logistic(size=200) > 0, "yes", "no")
    return pd.DataFrame(X, columns=["for", "against", "a", "b", "c"]), y


@pytest.fixture(scope="module")
def vb(data):
    return BayesianLinearSVC(LaplaceZero(expected_size=2), random_state=0).fit(*data)


@pytest.fixture(scope="module")
def gibbs(data):
    scheme = Gibbs(60, 20, chains=2)
    return BayesianLinearSVC(SpikeSlab(expected_size=2), scheme, random_state=0).fit(*data)


@pytest.mark.parametrize("name", ["vb", "gibbs"])
def test_bars_are_the_probabilities(name, request):
    model = request.getfixturevalue(name)
    display = InclusionDisplay.from_estimator(model)
    assert display.names == ["for", "against", "a", "b", "c"]
    np.testing.assert_array_equal(display.inclusion[0], model.inclusion_proba_)
    np.testing.assert_allclose(display.positive[0], model.summary()["positive"].iloc[1:])
    widths = [bar.get_width() for bar in display.ax_.patches]
    np.testing.assert_array_equal(widths, model.inclusion_proba_)
    dark = [np.mean(bar.get_facecolor()[:3]) for bar in display.ax_.patches]
    assert dark[0] < 0.2 < 0.8 < dark[1]  # black: for, white: against
    assert display.figure_ is display.ax_.figure
    assert "yes" in display.figure_.axes[-1].get_ylabel()


def test_several_side_by_side(vb, gibbs):
    display = InclusionDisplay.from_estimators({"VB": vb, "Gibbs": gibbs}, top=2, sort=True)
    assert set(display.names) == {"for", "against"}
    assert display.inclusion.shape == (2, 2)
    assert [ax.get_title() for ax in display.ax_] == ["VB", "Gibbs"]
    labels = [[t.get_text() for t in ax.get_yticklabels()] for ax in display.ax_]
    assert labels == [display.names, ["", ""]]
    display = InclusionDisplay.from_estimators([vb, gibbs], names=list("vwxyz"))
    assert display.titles is None
    assert display.names == list("vwxyz")
    axes = plt.subplots(1, 2)[1]
    assert display.plot(axes, cmap="Blues", height=0.5) is display
    assert axes[0].patches[0].get_height() == 0.5
    with pytest.raises(ValueError, match="2 panels"):
        display.plot(plt.subplots()[1])


def test_inclusion_needs_a_selection_prior(data):
    with pytest.raises(ValueError, match="fit with a selection prior"):
        InclusionDisplay.from_estimator(BayesianLinearSVC().fit(*data))
