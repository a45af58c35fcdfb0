"""Displays of one value a column or a group hold what estimators report, and draw it."""

import builtins

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesvm import BayesianLinearSVC, BayesianSVC, FactorSVC, MixedSVC
from bayesvm.inference import Gibbs
from bayesvm.kernels import RBF
from bayesvm.plot import (
    CoefficientDisplay,
    EffectsDisplay,
    GroupDisplay,
    InclusionDisplay,
    LoadingHeatDisplay,
    RelevanceDisplay,
    TopLoadingDisplay,
)
from bayesvm.priors import LaplaceZero, SpikeSlab

pytestmark = pytest.mark.filterwarnings("ignore:.*the chains do not agree")


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X.iloc[:, :6], np.array(["malignant", "benign"])[y]


@pytest.fixture(scope="module")
def vb(data):
    return BayesianLinearSVC().fit(*data)


def test_coefficients_are_sorted_and_scaled(vb, data):
    display = CoefficientDisplay.from_estimator(vb, top=3, level=0.8)
    mean = vb.summary()["mean"].to_numpy()[1:]
    order = np.argsort(-np.abs(mean) / vb.coef_std_[0])[:3]
    assert display.names == list(data[0].columns[order])
    scale = np.asarray(data[0].std(ddof=0))[order]
    np.testing.assert_allclose(display.mean, mean[order] * scale)
    np.testing.assert_allclose(display.lower, vb.coef_interval(0.8)[0][0, order] * scale)
    assert "80% interval" in display.ax_.get_xlabel()


def test_point_estimate_has_no_bars(data):
    display = CoefficientDisplay.from_estimator(BayesianLinearSVC(inference="em").fit(*data))
    assert display.lower is None
    assert "interval" not in display.ax_.get_xlabel()
    assert not display.ax_.containers[0].has_xerr


def test_coefficients_of_one_class():
    three = BayesianLinearSVC().fit(*load_iris(return_X_y=True))
    display = CoefficientDisplay.from_estimator(three, label=1, standardized=False, sort=False)
    np.testing.assert_allclose(display.mean, three.coef_[1])
    with pytest.raises(ValueError, match="label must be one of the classes"):
        CoefficientDisplay.from_estimator(three, label=7)


def test_what_to_install(vb, monkeypatch):
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ImportError, match=r"pip install 'bayesvm\[plot\]'"):
        CoefficientDisplay.from_estimator(vb)


def test_effects_are_drawn_by_size():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((200, 3)), columns=list("abc"))
    y, g = X["a"] * 0.3 - 2 * X["c"] + rng.logistic(size=200) > 0, rng.integers(0, 9, 200)
    model = MixedSVC().fit(X, y, groups=g)
    frame = model.average_effects(X, change="unit", level=0.8, groups=g)
    display = EffectsDisplay.from_estimator(model, X, change="unit", level=0.8, groups=g, top=2)
    assert display.names == ["c, +1", "a, +1"]
    np.testing.assert_array_equal(display.lower, frame["lower"].iloc[[2, 0]])
    assert display.ax_.get_xlabel() == "average change of P(True) (80% interval)"
    pipe = make_pipeline(StandardScaler(), BayesianLinearSVC(inference="em")).fit(X, y)
    display = EffectsDisplay.from_estimator(pipe, X)
    assert display.lower is None
    assert display.names[0] == "c, +1 sd"


# ----- groups


@pytest.fixture(scope="module")
def grouped():
    rng = np.random.default_rng(0)
    X, g = rng.standard_normal((500, 2)), rng.integers(0, 50, 500)
    f = X[:, 0] * (1 + rng.standard_normal(50)[g]) + rng.standard_normal(50)[g]
    return X, f, g


def test_effects_are_drawn_in_order(grouped):
    X, f, g = grouped
    model = MixedSVC(random=[0]).fit(X, f > 0, groups=np.column_stack([g, g % 7]))
    frame = model.random_effects_.assign(upper=model.random_effects_interval(0.8)[1])
    frame = frame.xs("x0", level="effect").loc["group0"].sort_values("mean")
    display = GroupDisplay.from_estimator(model, effect="x0", level=0.8, color="C1")
    np.testing.assert_array_equal(display.mean, frame["mean"])
    np.testing.assert_array_equal(display.upper, frame["upper"])
    assert display.names == [str(k) for k in frame.index]
    assert "50 groups" in display.ax_.get_ylabel()  # too many to name
    assert display.ax_.get_xlabel() == "x0 of group0 for True (80% interval)"
    second = GroupDisplay.from_estimator(model, factor="group1")
    assert [t.get_text() for t in second.ax_.get_yticklabels()] == second.names
    with pytest.raises(ValueError, match="factor must be one of"):
        GroupDisplay.from_estimator(model, factor="site")
    with pytest.raises(ValueError, match="effect must be one of"):
        GroupDisplay.from_estimator(model, effect="x1")


def test_classes_and_point_estimates(grouped):
    X, f, g = grouped
    y = np.digitize(f, [-0.7, 0.7])
    model = MixedSVC(inference="em").fit(X, y, groups=g)
    display = GroupDisplay.from_estimator(model, label=0)
    assert display.lower is None
    expected = model.random_effects_.loc[0]["mean"].sort_values()
    np.testing.assert_array_equal(display.mean, expected)
    with pytest.raises(ValueError, match="factor must be one of"):
        GroupDisplay.from_estimator(MixedSVC().fit(X, y))


# ----- selection


@pytest.fixture(scope="module")
def selected():
    """The first column speaks for class 1, the second against it, the others not at all."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    y = np.where(2.0 * X[:, 0] - 2.0 * X[:, 1] + rng.logistic(size=200) > 0, "yes", "no")
    return pd.DataFrame(X, columns=["for", "against", "a", "b", "c"]), y


@pytest.fixture(scope="module")
def laplace(selected):
    return BayesianLinearSVC(LaplaceZero(expected_size=2), random_state=0).fit(*selected)


@pytest.fixture(scope="module")
def gibbs(selected):
    scheme = Gibbs(60, 20, chains=2)
    return BayesianLinearSVC(SpikeSlab(expected_size=2), scheme, random_state=0).fit(*selected)


@pytest.mark.parametrize("name", ["laplace", "gibbs"])
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


def test_several_side_by_side(laplace, gibbs):
    display = InclusionDisplay.from_estimators({"VB": laplace, "Gibbs": gibbs}, top=2, sort=True)
    assert set(display.names) == {"for", "against"}
    assert display.inclusion.shape == (2, 2)
    assert [ax.get_title() for ax in display.ax_] == ["VB", "Gibbs"]
    labels = [[t.get_text() for t in ax.get_yticklabels()] for ax in display.ax_]
    assert labels == [display.names, ["", ""]]
    display = InclusionDisplay.from_estimators([laplace, gibbs], names=list("vwxyz"))
    assert display.titles is None
    assert display.names == list("vwxyz")
    axes = plt.subplots(1, 2)[1]
    assert display.plot(axes, cmap="Blues", height=0.5) is display
    assert axes[0].patches[0].get_height() == 0.5
    with pytest.raises(ValueError, match="2 panels"):
        display.plot(plt.subplots()[1])


def test_inclusion_needs_a_selection_prior(selected):
    with pytest.raises(ValueError, match="fit with a selection prior"):
        InclusionDisplay.from_estimator(BayesianLinearSVC().fit(*selected))


# ----- kernels and factors


def test_relevance_is_one_over_the_length_scale():
    moons = make_moons(60, noise=0.2, random_state=0)
    bent = BayesianSVC(2.0 * RBF((0.6, 0.9)), tune=False).fit(*moons)
    display = RelevanceDisplay.from_estimator(bent)
    assert display.names == ["x0", "x1"]
    np.testing.assert_allclose(display.relevance, [1 / 0.6, 1 / 0.9])
    assert RelevanceDisplay.from_estimator(bent, top=1).names == ["x0"]
    alike = BayesianSVC(2.0 * RBF(0.5), tune=False).fit(*moons)
    assert display.ax_.get_title() == ""
    common = RelevanceDisplay.from_estimator(alike)
    np.testing.assert_allclose(common.relevance, [2.0, 2.0])
    assert common.ax_.get_title() == "one common length scale; see average_effects"
    two = BayesianSVC(RBF(1.0) + RBF(3.0), tune=False).fit(*moons)
    with pytest.raises(ValueError, match="length scales"):
        RelevanceDisplay.from_estimator(two)


def test_loadings():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((60, 3))
    X = W @ rng.laplace(size=(3, 12)) + 0.5 * rng.standard_normal((60, 12))
    model = FactorSVC(3, "linear").fit(X, np.where(W[:, 0] > 0, "ill", "well"))
    heat = LoadingHeatDisplay.from_estimator(model, n_columns=5)
    A = np.abs(model.loadings_ / model.scale_[:, None]).max(axis=1)
    assert set(heat.names) == {f"x{j}" for j in np.argsort(-A)[:5]}
    assert heat.ax_.images[0].get_array().shape == (5, 3)
    top = TopLoadingDisplay.from_estimator(model, n_top=4)
    assert top.factors == list(np.argsort(-model.factor_relevance_))
    assert len(np.ravel(top.ax_)) == 3
    for mean, low, high in zip(top.loadings, top.lower, top.upper, strict=True):
        assert mean.shape == (4,)
        assert np.all((low < mean) & (mean < high))
