"""Wenzel's first table and the methods that it compares, on small sets."""

import io

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from scipy.linalg import solve_triangular
from sklearn.datasets import make_moons

from bayesvm import BayesianSVC
from bayesvm.inference import VB
from bayesvm.processes.points import choose_points
from bayesvm.processes.whitened import kernel_factor
from papers import wenzel_methods, wenzel_moving, wenzel_table1
from papers.wenzel_methods import KERNEL, AllRows, StochasticGPC


def moons(name="", n=80):
    X, y = make_moons(n, noise=0.3, random_state=len(name))
    return 3 * X, 2 * y - 1


def said(experiment, frame):
    out = io.StringIO()
    experiment.report(frame, Console(file=out, width=200))
    return out.getvalue()


def test_printed_numbers():
    """A few entries by eye; every set, method and measure."""
    printed = wenzel_table1.PRINTED
    assert printed["error"]["splice"]["GPC"] == 0.32
    assert printed["brier"]["waveform"]["ECM"] == 0.15
    assert printed["seconds"]["waveform"]["GPC"] == 8691
    assert wenzel_table1.ERROR_SD["heart"] == 0.06
    assert len(wenzel_table1.SIZES) == 7
    for sets in printed.values():
        assert all(set(row) == set(wenzel_table1.FIXED) for row in sets.values())


def test_table1(monkeypatch):
    monkeypatch.setattr(wenzel_table1, "load", moons)
    monkeypatch.setattr(wenzel_table1, "SIZES", {"heart": 80, "german": 80})
    every, quick = wenzel_table1.tasks(False, 3), wenzel_table1.tasks(True, 0)
    assert len({tuple(t.values()) for t in every}) == len(every) == 2 * 7 * 10
    few = [t for t in quick if t["set"] == "heart" and t["method"] != "SVC"]
    frame = pd.DataFrame([task | wenzel_table1.solve(task) for task in few])
    assert set(wenzel_table1.EXPERIMENT.measured) <= set(frame.columns)
    assert frame["error"].max() < 0.5
    assert frame["brier"].max() < 0.25
    text = said(wenzel_table1.EXPERIMENT, frame)
    assert "(0.16)" in text
    assert "times the time of S-BSVM" in text
    assert len(wenzel_table1.draw(frame).axes) == 2
    plt.close("all")


def test_moving(monkeypatch):
    monkeypatch.setattr(wenzel_moving, "load", moons)
    tasks = wenzel_moving.tasks(True, 0)
    frame = pd.DataFrame([task | wenzel_moving.solve(task) for task in tasks])
    by = wenzel_moving.bounds(frame)
    assert (by["moved"] > by["k-means"]).all()
    assert f"of {len(by)}" in said(wenzel_moving.EXPERIMENT, frame)
    assert wenzel_moving.draw(frame).axes
    plt.close("all")


# ----- the methods


def test_batch_is_vb_with_every_row_a_point():
    """Section 4.1 and the estimator reach the same posterior."""
    X, y = moons()
    ours = AllRows(max_iter=500, tol=1e-9).fit(X, y)
    how = {"inference": VB(2000, 1e-12, bound="augmented"), "intercept_scale": 1e-6}
    how |= {"likelihood": "hinge", "tune": False, "standardize": False, "probability": "probit"}
    package = BayesianSVC(KERNEL, None, **how).fit(X, y)
    new = np.random.default_rng(0).uniform(-4, 6, (50, 2))
    np.testing.assert_allclose(ours.predict_proba(new), package.predict_proba(new), atol=1e-4)


def test_ecm_ends_at_the_support_vector_machine():
    """Its mode: signs and values of f are those of libsvm without a level, to its tolerance."""
    X, y = moons()
    model = AllRows(point=True, max_iter=3000, tol=1e-7).fit(X, y)
    f = KERNEL(X, X) @ model.dual_

    def loss(f, a):
        return 0.5 * a @ f + 2.0 * np.maximum(0.0, 1.0 - y * f).sum()

    here = loss(f, model.dual_)
    for step in 1e-3 * np.random.default_rng(0).standard_normal((20, len(y))):
        assert loss(f + KERNEL(X, X) @ step, model.dual_ + step) > here - 1e-4


def test_gradient_of_stochastic_gpc():
    X, y = moons()
    Z = choose_points(X, 4, "kmeans", KERNEL, np.random.default_rng(0))
    C = solve_triangular(kernel_factor(KERNEL, Z)[0], KERNEL(Z, X), lower=True).T
    extra = np.maximum(1.0 - np.sum(C**2, axis=1), 0.0)
    rng, lower = np.random.default_rng(1), np.tri(4)
    L = lower * rng.standard_normal((4, 4)) * 0.3 + np.eye(4)
    place = np.concatenate([rng.standard_normal(4), L.ravel()])
    slope = wenzel_methods.gradient(place, C, extra, y, len(y), lower)
    for j in np.flatnonzero(np.concatenate([np.ones(4), lower.ravel()])):
        h = 1e-5 * np.eye(place.size)[j]
        up, down = (wenzel_methods.bound(place + s * h, C, extra, y) for s in (1, -1))
        assert slope[j] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-5)


def test_stochastic_gpc_comes_near_the_fit_by_full_passes():
    X, y = moons(n=200)
    model = StochasticGPC(10, 150, rate=0.02).fit(X, y)
    how = {"likelihood": "probit", "tune": False, "standardize": False, "probability": "probit"}
    full = BayesianSVC(KERNEL, inducing=model.Z_, intercept_scale=1e-6, **how).fit(X, y)
    new = np.random.default_rng(0).uniform(-4, 6, (50, 2))
    np.testing.assert_allclose(model.predict_proba(new), full.predict_proba(new), atol=0.05)
