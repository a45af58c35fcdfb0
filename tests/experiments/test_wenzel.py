"""The experiments of Wenzel et al. and the methods that they compare, on small sets."""

import gzip

import numpy as np
import pytest
from scipy.linalg import solve_triangular
from scipy.optimize import approx_fprime
from tests.experiments import running
from tests.experiments.running import said, solved

from bayesvm import BayesianSVC
from bayesvm.datasets import fetch_susy
from bayesvm.gp.inducing import choose_points, kernel_factor
from bayesvm.inference import VB
from papers import (
    find,
    wenzel_autotune,
    wenzel_inducing,
    wenzel_linear,
    wenzel_methods,
    wenzel_mixtures,
    wenzel_moving,
    wenzel_passes,
    wenzel_runtime,
    wenzel_sgpc,
    wenzel_svi,
    wenzel_table1,
)
from papers import wenzel_susy as susy
from papers.wenzel_methods import KERNEL, AllRows, StochasticGPC


def moons(name="", n=80):
    return running.moons(name, n, 3)


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


# ----- figures


@pytest.mark.parametrize(
    "module",
    [wenzel_runtime, wenzel_autotune, wenzel_inducing, wenzel_sgpc],
    ids=lambda m: m.__name__,
)
def test_figures(module, monkeypatch):
    monkeypatch.setattr(module, "load", lambda name: running.moons(n=150))
    frame = running.two_of_each_kind(module)
    assert set(module.MEASURED) <= set(frame.columns)
    assert frame["error"].max() < 0.5
    assert np.isfinite(frame["log_loss"]).all()
    assert "±" in said(module, frame)


def test_mixtures_end_with_an_error_where_a_covariance_is_singular(monkeypatch):
    """A column is constant: only a ridge makes covariances regular."""
    X, y = running.moons(n=150)
    X = np.column_stack([X, np.ones(len(X))])
    monkeypatch.setattr(wenzel_inducing, "load", lambda name: (X, y))
    tasks = wenzel_mixtures.tasks(True, 0)[:4]
    frame = solved(wenzel_mixtures, tasks)
    assert set(wenzel_mixtures.MEASURED) <= set(frame.columns)
    assert (frame["failed"] == (frame["ridge"] == 0)).all()
    assert (frame["error"].isna() == (frame["failed"] == 1)).all()
    assert "of 1 mixtures 1 end with an error" in said(wenzel_mixtures, frame)


# ----- SUSY in full is fetched once; without a network the sample takes its place


@pytest.fixture
def table(tmp_path):
    rows = np.random.default_rng(0).standard_normal((250, 19)).astype(np.float32)
    rows[:, 0] = rows[:, 1] > 0
    path = tmp_path / "table.csv.gz"
    with gzip.open(path, "wt") as out:
        np.savetxt(out, rows, delimiter=",", fmt="%.9g")
    return rows, path


def test_the_table_becomes_two_maps(table, tmp_path):
    rows, path = table
    held = fetch_susy(tmp_path, url=path.as_uri())
    np.testing.assert_allclose(held.data, rows[:, 1:], rtol=1e-6)
    np.testing.assert_array_equal(held.target, np.where(rows[:, 0] > 0, 1, -1))
    path.unlink()
    assert fetch_susy(tmp_path, url=path.as_uri()).data.shape == (250, 18)  # not fetched again


def test_a_folder_is_needed(monkeypatch):
    monkeypatch.delenv("BAYESVM_DATA", raising=False)
    with pytest.raises(ValueError, match="name a folder"):
        fetch_susy()


def test_without_all_rows_the_sample_is_used(monkeypatch, capsys):
    def no_network():
        raise OSError("no network")

    monkeypatch.setattr(susy, "fetch_susy", no_network)
    tasks = find("wenzel-susy").tasks(False, 0)
    assert {t["data"] for t in tasks} == {"sample", "drawn"}
    assert "no network" in capsys.readouterr().out
    assert len(susy.tasks(True, 0)) == 2 * len(susy.METHODS)


def test_rows_are_drawn_from_those_of_a_fold(monkeypatch):
    """Near the rows they come from, with their labels; tested on real ones."""
    X = np.random.default_rng(0).standard_normal((100, 3))
    bunch = type("Bunch", (), {"data": X, "target": np.where(X[:, 0] > 0, 1, -1)})
    monkeypatch.setattr(susy, "load_susy", lambda: bunch)
    monkeypatch.setattr(susy, "ROWS", 1000)
    new, y, test, y_test = susy.split({"data": "drawn", "fold": 0, "seed": 0})
    assert new.shape == (1000, 3)
    far = np.min(np.abs(new[:, None] - X[None]).max(axis=2), axis=1)
    assert 0.0 < far.max() < 0.6
    assert np.mean((new[:, 0] > 0) == (y > 0)) > 0.9
    assert len(test) == len(y_test) == 20
    assert all((row == X).all(axis=1).any() for row in test)


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
