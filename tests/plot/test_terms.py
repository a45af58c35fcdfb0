"""Displays of terms hold what the model reports of them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtri
from sklearn.datasets import load_iris

from bayesvm import AdditiveSVC, BayesianLinearSVC
from bayesvm.plot import TermDisplay
from bayesvm.terms import Columns, Groups, Intercept, Process

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.standard_normal((150, 3)), columns=["a", "b", "c"])
X["d"] = np.array(["u", "v", "w"])[RNG.integers(0, 3, 150)]
X["g"] = RNG.integers(0, 6, 150)
Y = np.sin(2 * X["a"]) + X["c"] + RNG.logistic(size=150) > 0
TERMS = [
    ("level", Intercept()),
    ("line", Columns(["c", "d"])),
    ("curve", Process(["a"], n_inducing=8)),
    ("plane", Process(["a", "b"], n_inducing=8)),
    ("kind", Process(["d"], n_inducing=3)),
    ("all", Process(["a", "b", "d"], n_inducing=8)),
    ("who", Groups("g")),
]


def test_panels_are_what_the_model_reports():
    model = AdditiveSVC(TERMS, covariance="model", random_state=0).fit(X, Y)
    shown = TermDisplay.from_estimator(model, X, points=20, level=0.8)
    panels = {panel.term: panel for panel in shown.panels}
    kinds = {name: panel.kind for name, panel in panels.items()}
    assert kinds == {
        "line": "coefficients",
        "curve": "curve",
        "plane": "surface",
        "kind": "levels",
        "all": "rows",
        "who": "groups",
    }
    curve = panels["curve"]
    rows = X.iloc[:20].assign(a=np.linspace(X["a"].min(), X["a"].max(), 20))
    level = model.partial(X)["curve"].mean()
    assert_allclose(curve.x, rows["a"])
    assert_allclose(curve.mean, model.partial(rows)["curve"] - level)
    both = pd.concat([rows, X])
    f = model.to_arviz(both, n=1000)["posterior"]["smooth_curve"].values[0]
    f = f[:, :20] - f[:, 20:].mean(axis=1, keepdims=True)
    assert_allclose((curve.upper - curve.mean) / ndtri(0.9), f.std(axis=0), rtol=5 / np.sqrt(2000))
    line = model.summary(0.8).loc["line"]
    assert panels["line"].x == list(line.index)
    assert_allclose(panels["line"].lower, line["lower"])
    who = model.random_effects_["mean"].to_numpy()
    assert_allclose(panels["who"].mean, np.sort(who))
    a, b = panels["plane"].x
    rows = X.iloc[:1].assign(a=a[3], b=b[7])
    level = model.partial(X)["plane"].mean()
    assert_allclose(panels["plane"].mean[7, 3], model.partial(rows)["plane"][0] - level)
    assert panels["kind"].x == ["u", "v", "w"]
    every = np.sort(model.partial(X)["all"])
    assert_allclose(panels["all"].mean, every - every.mean(), atol=1e-12)
    assert [ax.get_title() for ax in shown.ax_] == [panel.term for panel in shown.panels]


def test_classes_points_and_refusals():
    Z, y = load_iris(return_X_y=True)
    terms = [("level", Intercept()), ("f", Process([2], n_inducing=8)), ("x", Columns([0, 1]))]
    model = AdditiveSVC(terms, random_state=0).fit(Z, y)
    shown = TermDisplay.from_estimator(model, Z, terms=["f"], label=1, points=5)
    rows = np.tile(Z[:1], (5, 1))
    rows[:, 2] = shown.panels[0].x
    f = model.partial(rows)["f"][:, 1] - model.partial(Z)["f"][:, 1].mean()
    assert_allclose(shown.panels[0].mean, f)
    point = AdditiveSVC(inference="em").fit(Z, y)
    assert TermDisplay.from_estimator(point, Z).panels[0].lower is None
    with pytest.raises(ValueError, match="no term is called"):
        TermDisplay.from_estimator(model, Z, terms=["g"])
    with pytest.raises(ValueError, match="has partial"):
        TermDisplay.from_estimator(BayesianLinearSVC().fit(Z, y), Z)
