"""As many points as pay, and scales from neighbourhoods of rows."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from tests.problems import frozen

from bayesvm import BayesianSVC
from bayesvm.inference import VB
from bayesvm.kernels import RBF, Scaled, column_scales
from bayesvm.likelihoods import Logistic, SoftHinge
from bayesvm.predictive.link_fitting import LogisticFamily, score_link
from bayesvm.processes import growth
from bayesvm.processes.evidence import Search
from bayesvm.processes.growth import (
    FEW_MORE,
    FIRST_FEW,
    LOST,
    MOST_FEW,
    better_kernel,
    few_points,
    grow,
    left_out_loss,
    look_closer,
)
from bayesvm.processes.labelled import LabelledPoints
from bayesvm.processes.points import choose_points
from bayesvm.processes.process import Prior
from bayesvm.processes.site_fit import fit_sites
from bayesvm.processes.sites import Labels
from bayesvm.processes.tune import tune

N = 1200
SITE = Logistic().tight


def problem(frequency, seed=0):
    """Two columns; log odds that bend as often as asked for."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.7, 1.7, (N, 2))
    f = 4.0 * np.sin(frequency * X[:, 0]) * np.cos(frequency * X[:, 1])
    y = np.where(rng.random(N) < 1 / (1 + np.exp(-f)), 1.0, -1.0)
    return frozen(X), frozen(y)


def seen_of(X, y):
    return LabelledPoints(X, (Labels(y, np.ones(N), np.arange(N), N),), 9.0, 2.0)


ROUGH, SMOOTH = problem(4.0), problem(0.8)


def grown(data, scale, first=10):
    X, y = data
    kernel, rng = Scaled(16.0, RBF(scale)), np.random.default_rng(0)

    def points(m):
        return choose_points(X, m, "kmeans", kernel, rng)

    return grow(Prior(kernel, 9.0, points(first)), seen_of(X, y), SITE, points, Search())


def test_a_rough_function_gets_more_points_than_a_smooth_one():
    rough, sites = grown(ROUGH, 0.4)
    smooth, _ = grown(SMOOTH, 1.5)
    assert len(rough) >= 80
    assert len(smooth) <= 40
    # the sites are those of the fit at these points
    labels = seen_of(*ROUGH).machines[0]
    process = Prior(Scaled(16.0, RBF(0.4)), 9.0, rough).at(ROUGH[0])
    again = fit_sites(process, labels, SITE, tol=1e-7)
    np.testing.assert_allclose(sites[0].w, again.sites.w, atol=0.02)


def test_points_of_several_classes_grow_too():
    X, y = ROUGH
    codes = np.where(X[:, 0] > 0.8, 2, y > 0)
    each = tuple(
        Labels(np.where(codes == k, 1.0, -1.0), np.ones(N), np.arange(N), N) for k in range(3)
    )
    kernel, rng = Scaled(16.0, RBF(0.4)), np.random.default_rng(0)

    def points(m):
        return choose_points(X, m, "kmeans", kernel, rng)

    seen = LabelledPoints(X, each, 9.0, 2.0)
    Z, sites = grow(Prior(kernel, 9.0, points(10)), seen, SITE, points, Search())
    assert len(Z) >= 40
    assert len(sites) == 3


def test_growth_ends_where_a_pass_would_cost_too_much(monkeypatch):
    monkeypatch.setattr(growth, "MOST_WORK", N * 20.0**2)
    assert len(grown(ROUGH, 0.4)[0]) == 20


def test_growth_stops_where_a_callback_says_so():
    X, y = ROUGH
    kernel, rng = Scaled(16.0, RBF(0.4)), np.random.default_rng(0)

    def points(m):
        return choose_points(X, m, "kmeans", kernel, rng)

    search = Search(lambda progress, state: True)
    Z, _ = grow(Prior(kernel, 9.0, points(10)), seen_of(X, y), SITE, points, search)
    assert len(Z) == 20
    assert search.stopped


def test_the_loss_is_that_of_the_machines_that_judge():
    X, y = ROUGH
    process = Prior(Scaled(16.0, RBF(0.4)), 9.0, X[:30])
    labels = seen_of(X, y).machines[0]
    fit = fit_sites(process.at(X), labels, SITE, tol=growth.SETTLED)
    expected = score_link(LogisticFamily(), y, *fit.left_out(labels, SITE), labels.c)
    assert left_out_loss(process, seen_of(X, y), SITE)[0] == pytest.approx(expected, rel=1e-12)


def test_neighbourhoods_are_points_and_the_nearest_to_them():
    X, y = ROUGH
    near = seen_of(X, y).neighbourhoods(60, 6, np.ones(2), np.random.default_rng(0))
    assert 10 < len(near.X) <= 60
    order = [int(np.flatnonzero((x == X).all(axis=1))[0]) for x in near.X]
    assert order == sorted(order)
    np.testing.assert_array_equal(near.machines[0].y, y[order])
    # by brute force: some ten points have all their five nearest among them
    gaps = np.linalg.norm(X[:, None] - X, axis=2)
    whole = sum(set(np.argsort(gaps[k])[:6]) <= set(order) for k in order)
    assert whole >= 10
    assert seen_of(X, y).neighbourhoods(N, 6, np.ones(2), np.random.default_rng(0)).X is X


def test_scales_are_as_short_as_neighbours_show(monkeypatch):
    """From a scale that is too long; the left-out loss agrees, and else the old one stays."""
    monkeypatch.setattr(growth, "POINTS", 300)
    X, y = ROUGH
    seen, long = seen_of(X, y), Scaled(16.0, RBF(1.5))
    found = look_closer(long, seen, SITE, 16.0, np.random.default_rng(0), Search())
    assert column_scales(found, 2)[0] < 0.7

    def points(kernel):
        return choose_points(X, 100, "kmeans", kernel, np.random.default_rng(0))

    how = (seen, SITE, 16.0, points, np.random.default_rng(0), Search())
    assert column_scales(better_kernel(long, *how), 2)[0] < 0.7
    monkeypatch.setattr(growth, "look_closer", lambda *given: Scaled(16.0, RBF(9.0)))
    assert better_kernel(long, *how) is long


def test_the_estimator_takes_more_points_where_they_pay(monkeypatch):
    monkeypatch.setattr(growth, "POINTS", 300)
    monkeypatch.setattr("bayesvm.estimators.kernel_fit.ALL_ROWS", 500)
    monkeypatch.setattr("bayesvm.processes.points.FIRST_INDUCING", 20)
    monkeypatch.setattr("bayesvm.processes.points.MOST_INDUCING", 40)
    rough, smooth = (BayesianSVC(random_state=0).fit(*data) for data in (ROUGH, SMOOTH))
    assert len(rough.inducing_points_) > len(smooth.inducing_points_)
    new, labels = problem(4.0, 1)
    best = np.mean(labels == np.sign(np.sin(4.0 * new[:, 0]) * np.cos(4.0 * new[:, 1])))
    assert rough.score(new, labels) > best - 0.03


# ---------------------------------------------------------------------------------------------
# Few points in the place of all


def few_of(data, scale, classes=1, seed=0, search=None):
    X, y = data
    kernel, rng = Scaled(4.0, RBF(scale)), np.random.default_rng(seed)

    def points(m, c=None):
        return choose_points(X, m, "kmeans", kernel, rng, c=c)

    seen = seen_of(X, y)
    if classes > 1:
        labels = seen.machines[0]
        codes = np.where(X[:, 0] > 0.8, 2, y > 0)
        each = (np.where(codes == k, 1.0, -1.0) for k in range(classes))
        machines = tuple(Labels(side, labels.c, labels.at, N) for side in each)
        seen = LabelledPoints(X, machines, 9.0, 2.0)
    process = Prior(kernel, 9.0)
    return process, seen, few_points(process, seen, SITE, points, search or Search())


@pytest.mark.parametrize("classes", [1, 3])
def test_few_points_take_the_place_of_all_where_they_lose_next_to_nothing(classes):
    process, seen, found = few_of(SMOOTH, 0.9, classes)
    assert found is not None
    (low, sites), Z = found, found[0].Z
    assert len(Z) == FIRST_FEW
    assert len(sites) == classes
    assert len(low.C) == len(seen.X)
    if classes > 1:
        return
    labels = seen.machines[0]
    exact = fit_sites(process.at(seen.X), labels, SITE, tol=1e-9)
    few = fit_sites(Prior(process.kernel, 9.0, Z).at(seen.X), labels, SITE, sites[0], tol=1e-9)
    assert 0.0 <= exact.bound - few.bound < 4.0 * LOST * N
    assert np.max(np.abs(exact.m - few.m)) < 0.1 * np.sqrt(exact.v.min())
    np.testing.assert_allclose(few.v, exact.v, rtol=0.05)


def test_more_points_are_taken_until_they_are_enough():
    process, seen, found = few_of(ROUGH, 0.9)
    assert len(found[0].Z) == FIRST_FEW
    process, seen, (low, sites) = few_of(ROUGH, 0.3)
    assert FIRST_FEW < len(low.Z) <= MOST_FEW
    assert len(low.Z) % FEW_MORE == 0
    assert 0.5 * sites[0].w @ low.rest <= LOST * N
    first = choose_points(seen.X, FIRST_FEW, "kmeans", process.kernel, np.random.default_rng(0))
    assert 0.5 * sites[0].w @ Prior(process.kernel, 9.0, first).at(seen.X).rest > LOST * N


def test_points_by_precision_leave_less_where_it_counts():
    """Rows with labels of a rough function: half of them have next to no precision."""
    X, kernel = np.random.default_rng(3).uniform(-1.0, 1.0, (1500, 2)), Scaled(4.0, RBF(0.3))
    w = np.where(X[:, 0] > 0.0, 1.0, 1e-3)
    left = []
    for c in (None, w):
        Z = choose_points(X, 60, "kmeans", kernel, np.random.default_rng(0), rows=480, c=c)
        left.append(w @ Prior(kernel, 9.0, Z).at(X).rest)
    assert left[1] < 0.5 * left[0]


def test_few_points_do_not_take_the_place_of_a_rough_process():
    assert few_of(ROUGH, 0.05)[2] is None


def test_a_callback_ends_the_search_for_few_points():
    search = Search(lambda progress, state: True)
    assert few_of(SMOOTH, 0.9, search=search)[2] is None
    assert search.stopped


def test_the_estimator_takes_few_points_for_a_smooth_function(monkeypatch):
    monkeypatch.setattr("bayesvm.estimators.kernel_fit.STARTED", 300)
    X, y = (each[:500] for each in SMOOTH)
    smooth = BayesianSVC("rbf", random_state=0).fit(X, y)
    assert len(smooth.inducing_points_) == FIRST_FEW
    exact = BayesianSVC("rbf", n_inducing=None, random_state=0).fit(X, y)
    new = problem(0.8, 1)[0][:100]
    p, q = smooth.predict_proba(new), exact.predict_proba(new)
    assert np.max(np.abs(p - q)) < 0.02
    # intervals are of the exact process of log odds, and nearly the same
    few, every = smooth.predict_interval(new[:50]), exact.predict_interval(new[:50])
    np.testing.assert_allclose(few, every, atol=0.03)


def test_only_fits_by_the_tight_bound_to_many_rows_take_few_points(monkeypatch):
    X, y = (each[:500] for each in SMOOTH)

    def count(scale=0.9, **how):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = BayesianSVC(RBF(scale), tune=False, random_state=0, **how).fit(X, y)
        return len(model.inducing_points_)

    assert count() == 500
    monkeypatch.setattr("bayesvm.estimators.kernel_fit.STARTED", 300)
    assert count() == FIRST_FEW
    assert count(approximation="fitc") == FIRST_FEW
    assert count(0.05) == 500
    assert count(n_inducing=None) == 500
    assert count(inference=VB(bound="augmented", max_iter=2)) == 500


def test_the_amplitude_of_a_smooth_kernel_is_judged_through_few_points():
    seen, start = seen_of(*SMOOTH).thinned(550, np.random.default_rng(0)), Scaled(1.0, RBF(1.0))
    X = seen.X

    def points(kernel, m, c=None):
        return choose_points(X, m, "kmeans", kernel, np.random.default_rng(0), c=c)

    how = (start, seen, SoftHinge())
    exact = tune("evidence", *how, np.random.default_rng(0))
    few = tune("evidence", *how, np.random.default_rng(0), points=points)
    assert exact.through is None
    assert len(few.through.Z) == FIRST_FEW
    assert len(few.sites) == 1
    assert few.kernel.kernel == exact.kernel.kernel
    assert few.kernel.weight == pytest.approx(exact.kernel.weight, rel=0.1)


def test_functions_of_users_are_given_rows_only():
    """Means of rows may mean nothing to them."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1100, 2))
    known = set(map(tuple, rows))

    def kernel(A, B):
        assert {tuple(a) for a in (*A, *B)} <= known
        return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=2))

    labels = rows[:, 0] * rows[:, 1] + 0.3 * rng.standard_normal(1100) > 0
    fit = BayesianSVC(kernel=kernel, standardize=False, random_state=0).fit(rows, labels)
    assert len(fit.inducing_points_) == 1100
