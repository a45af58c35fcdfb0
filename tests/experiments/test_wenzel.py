"""Wenzel's first table and the methods that it compares, on small sets."""

import numpy as np
import pytest
from scipy.linalg import solve_triangular
from scipy.optimize import approx_fprime
from sklearn.datasets import make_moons
from tests.experiments.running import said, solved

from bayesvm import BayesianSVC
from bayesvm.gp.inducing import choose_points, kernel_factor
from bayesvm.inference import VB
from papers import (
    wenzel_linear,
    wenzel_methods,
    wenzel_moving,
    wenzel_passes,
    wenzel_svi,
    wenzel_table1,
)
from papers.wenzel_methods import KERNEL, AllRows, StochasticGPC


def moons(name="", n=80):
    X, y = make_moons(n, noise=0.3, random_state=len(name))
    return 3 * X, 2 * y - 1


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
    assert len({tuple(t.values()) for t in every}) == len(every) == 2 * 8 * 10
    few = [t for t in quick if t["set"] == "heart" and t["method"] != "SVC"]
    frame = solved(wenzel_table1, few)
    assert set(wenzel_table1.MEASURED) <= set(frame.columns)
    assert frame["error"].max() < 0.5
    assert frame["brier"].max() < 0.25
    text = said(wenzel_table1, frame)
    assert "(0.16)" in text
    assert "times the time of S-BSVM" in text


def test_moving(monkeypatch):
    monkeypatch.setattr(wenzel_moving, "load", moons)
    tasks = wenzel_moving.tasks(True, 0)
    frame = solved(wenzel_moving, tasks)
    by = wenzel_moving.bounds(frame)
    assert (by["moved"] >= by["k-means"]).all()
    assert f"of {len(by)}" in said(wenzel_moving, frame)


@pytest.mark.parametrize("module", [wenzel_linear, wenzel_passes])
def test_smaller_experiments(module, monkeypatch):
    monkeypatch.setattr(wenzel_table1, "load", moons)
    quick, full = module.tasks(True, 0), module.tasks(False, 0)
    assert {tuple(t) for t in full} == {tuple(t) for t in quick}
    frame = solved(module, quick)
    assert set(module.MEASURED) <= set(frame.columns)
    assert len(said(module, frame)) > 100


def test_inducing_points_lose_nothing_of_a_linear_kernel_that_they_span():
    """The bound of section 4.5 is above that of few points, and equal where they span."""
    X, y = moons()
    A = np.column_stack([np.ones(len(X)), X])
    exact = wenzel_linear.ascend(A, np.zeros(len(A)), y.astype(float))[2]
    bounds = []
    for m in (2, 8):
        C, _ = wenzel_linear.columns(A, A[:m])
        rest = np.maximum(np.sum(A**2, axis=1) - np.sum(C**2, axis=1), 0.0)
        bounds.append(wenzel_linear.ascend(C, rest, y.astype(float))[2])
    assert bounds[0] < exact - 1.0
    assert bounds[1] == pytest.approx(exact, abs=1e-2)


# ----- the methods


def test_appendix_a3_is_the_slope_of_equation_8():
    """Both kernel parameters, q and alpha held; alpha of line 7 is stationary."""
    rng = np.random.default_rng(0)
    X, Z, y = rng.standard_normal((20, 3)), rng.standard_normal((5, 3)), rng.choice([-1.0, 1.0], 20)
    W = rng.standard_normal((5, 5))
    mu, zeta, at = rng.standard_normal(5), W @ W.T / 5 + 0.1 * np.eye(5), np.array([0.4, 0.2])
    k = wenzel_svi.kernels(X, Z, *at)
    alpha = wenzel_svi.scales(k, y, mu, zeta)

    def bound(z, a=alpha):
        return wenzel_svi.bound(wenzel_svi.kernels(X, Z, *z), y, a, mu, zeta)

    numbers = approx_fprime(at, bound, 1e-6)
    np.testing.assert_allclose(wenzel_svi.slope(k, y, alpha, mu, zeta), numbers, rtol=1e-4)
    for a in (0.9 * alpha, 1.1 * alpha):
        assert bound(at, a) < bound(at)


def test_equation_12_climbs_towards_the_length_scale_of_the_bound():
    X, y = moons(n=200)
    Z, t = X[:20], y.astype(float)
    ends = [
        wenzel_svi.tune(X, t, Z, start, 150, 1.0, np.random.default_rng(0)).theta
        for start in (0.5, 12.0)
    ]
    assert 0.5 < ends[0] < ends[1] < 12.0
    assert ends[1] < 3.0 * ends[0]


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
