"""Classes whose posteriors share a covariance."""

import copy
import pickle

import numpy as np
import pytest

from bayesvm import BayesianSVC
from bayesvm.core.arrays import one_against_rest
from bayesvm.inference.progress import Progress
from bayesvm.kernels import RBF, Scaled
from bayesvm.likelihoods import Hinge, Logistic, SoftHinge
from bayesvm.processes import newton, shared
from bayesvm.processes.evidence import Evidence, WarmFits, parameter_prior
from bayesvm.processes.labelled import LabelledPoints
from bayesvm.processes.newton import ascend_mean
from bayesvm.processes.process import Prior
from bayesvm.processes.shared import (
    ClassLabels,
    Coordinates,
    FixedPoint,
    SharedFits,
    SharedSites,
    ascend_means,
    fit_shared,
    sites_of,
    together,
)
from bayesvm.processes.site_fit import fit_sites
from bayesvm.processes.sites import Labels, Sites

KERNEL = Scaled(6.0, RBF(1.2))


def problem(n=60, classes=4, seed=0, copies=False):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, classes, n)
    X = rng.normal(size=(n, 2)) + np.column_stack([codes, codes % 2])
    at = np.arange(n)
    if copies:  # points of two rows, of one class or two
        at = np.sort(np.concatenate([at[: n // 2], at[: n // 2]]))
        X = X[: n // 2]
    c = rng.uniform(0.5, 2.0, n)
    return X, tuple(Labels(y, c, at, len(X)) for y in one_against_rest(codes, classes))


PROCESSES = {
    "exact": lambda X: Prior(KERNEL, 4.0).at(X),
    "points": lambda X: Prior(KERNEL, 4.0, X[:12]).at(X),
    "fitc": lambda X: Prior(KERNEL, 4.0, X[:12], True).at(X),
}


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("lik", [Hinge(), SoftHinge(), Logistic()], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("kind", PROCESSES)
def test_means_and_precisions_are_stationary(kind, lik, copies):
    """Every mean has the weights that its rows ask for; precisions are the classes' together."""
    X, machines = problem(copies=copies)
    process, site = PROCESSES[kind](X), lik.tight
    fits = fit_shared(process, ClassLabels.of(machines), site, tol=1e-12, final=True)
    assert fits[0].converged
    W = []
    for fit, labels in zip(fits, machines, strict=True):
        local = site(labels.y, fit.m[labels.at], fit.v[labels.at]).times(labels.c)
        np.testing.assert_allclose(labels.total(local.g), fit.alpha, atol=2e-4)
        np.testing.assert_allclose(process.times(fit.alpha), fit.m, atol=1e-8)
        W.append(labels.total(local.w))
        now = process.moments(fit.sites)
        np.testing.assert_allclose(now.m, fit.m, atol=2e-4)
        np.testing.assert_allclose(now.v, fit.v, rtol=1e-9)
        assert fit.bound == pytest.approx(float(local.bound.sum() - now.kl), abs=1e-5)
    rms = np.sqrt(np.mean(np.square(W), axis=0))
    np.testing.assert_allclose(fits[0].sites.w, rms, rtol=1e-3, atol=1e-6)
    assert all(fit.sites.w is fits[0].sites.w for fit in fits)


def test_equal_labels_give_the_fit_of_one_machine():
    """Machines with the same labels share what each would choose."""
    X, machines = problem()
    process, site = PROCESSES["exact"](X), SoftHinge().tight
    alone = fit_sites(process, machines[1], site, tol=1e-10, final=True)
    for fit in fit_shared(process, ClassLabels.of([machines[1]] * 3), site, tol=1e-10, final=True):
        np.testing.assert_allclose(fit.m, alone.m, atol=1e-3)
        np.testing.assert_allclose(fit.v, alone.v, rtol=1e-3)
        assert fit.bound == pytest.approx(alone.bound, abs=1e-5)
        own, others = (x.left_out(machines[1], site) for x in (fit, alone))
        np.testing.assert_allclose(own, others, rtol=2e-2, atol=2e-2)


def test_bounds_are_below_those_of_separate_fits():
    X, machines = problem()
    process, site = PROCESSES["exact"](X), SoftHinge().tight
    for fit, labels in zip(fit_shared(process, ClassLabels.of(machines), site), machines):
        assert fit.bound < fit_sites(process, labels, site, tol=1e-9, final=True).bound


def test_left_out_moments_are_those_of_a_fit_without_the_row():
    """For fixed other sites, by the posterior whose site of the row is taken away."""
    X, machines = problem(30, 3)
    process, site = PROCESSES["exact"](X), SoftHinge().tight
    machines = tuple(Labels(k.y, np.ones(30), k.at, 30) for k in machines)
    fits = fit_shared(process, ClassLabels.of(machines), site, tol=1e-12, final=True)
    for fit, labels in zip(fits, machines, strict=True):
        m, v = fit.left_out(labels, site)
        for i in (0, 7, 19):
            w, b = (x.copy() for x in fit.sites)
            w[i] = b[i] = 0.0
            now = process.moments(Sites(w, b))
            assert m[i] == pytest.approx(now.m[i], abs=1e-3)
            assert v[i] == pytest.approx(now.v[i], rel=1e-6)


@pytest.mark.parametrize("kind", PROCESSES)
def test_means_of_several_machines_are_those_of_each(kind, monkeypatch):
    for name in ("CG_STEPS", "CG_TOL", "SHARE_LEFT"):  # those of single machines
        monkeypatch.setattr(shared, name, getattr(newton, name))
    X, machines = problem()
    process, site, each = PROCESSES[kind](X), SoftHinge().tight, ClassLabels.of(machines)
    w, B = each.start(site)
    now = process.moments(Sites(w, B[:, 0]))
    A = now.solve(B)[0]
    M = process.times(A)
    space = Coordinates.of(process, now)

    def rows(M, which):
        local = each.local(site, M, now.v, which)
        return local.bound.sum(axis=0), each.group @ local.g, each.group @ local.h

    M_new, U_new = ascend_means(rows, space, M, space.pull(A))
    for k, labels in enumerate(machines):
        np.testing.assert_allclose(now.solve(B[:, k])[0], A[:, k], atol=1e-10)

        def one(m, labels=labels):
            local = site(labels.y, m[labels.at], now.v[labels.at]).times(labels.c)
            return float(local.bound.sum()), labels.total(local.g), labels.total(local.h)

        m, alpha = ascend_mean(one, process.times, now.solve, M[:, k], A[:, k])
        np.testing.assert_allclose(M_new[:, k], m, atol=1e-8)
        np.testing.assert_allclose(U_new[:, k], space.pull(alpha), atol=1e-8)


def test_a_start_changes_how_long_it_takes_only():
    X, machines = problem()
    process, each, site = PROCESSES["exact"](X), ClassLabels.of(machines), SoftHinge().tight
    fits = fit_shared(process, each, site, tol=1e-11, final=True)
    again = fit_shared(process, each, site, sites_of(fits), tol=1e-11, final=True)
    assert again[0].passes < fits[0].passes
    np.testing.assert_allclose(again[2].m, fits[2].m, atol=1e-4)


ABSURD = {
    "far means": lambda w, B: SharedSites(w, 1e13 * B),
    "other labels": lambda w, B: SharedSites(w, -30.0 * B),
    "no precision": lambda w, B: SharedSites(0.0 * w, B),
    "strong": lambda w, B: SharedSites(1e10 * w, B),
    "not finite": lambda w, B: SharedSites(w, np.full_like(B, np.nan)),
}


@pytest.mark.parametrize("how", ABSURD)
@pytest.mark.parametrize("kind", PROCESSES)
def test_an_absurd_start_leads_to_the_same_place(kind, how):
    X, machines = problem()
    process, each, site = PROCESSES[kind](X), ClassLabels.of(machines), SoftHinge().tight
    cold = fit_shared(process, each, site, tol=1e-9, final=True)
    start = ABSURD[how](*sites_of(cold))
    fits = fit_shared(process, each, site, start, tol=1e-9, final=True)
    for fit, other in zip(fits, cold, strict=True):
        assert fit.converged
        assert fit.bound <= 0.0
        assert fit.bound == pytest.approx(other.bound, rel=1e-5)
        np.testing.assert_allclose(fit.m, other.m, atol=2e-2)


def test_weights_stay_small_where_few_points_carry_many_rows():
    """Directions of the weights that no mean depends on do not add up; others may start there."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 9, 900)
    X = 0.6 * rng.normal(size=(900, 2)) + np.column_stack([codes // 3, codes % 3])
    machines = tuple(
        Labels(y, np.ones(900), np.arange(900), 900) for y in one_against_rest(codes, 9)
    )
    each, site = ClassLabels.of(machines), SoftHinge().tight
    few, more = (Prior(Scaled(30.0, RBF(0.4)), 9.0, X[:m]).at(X) for m in (15, 60))
    fits = fit_shared(few, each, site, tol=1e-4)
    for fit, labels in zip(fits, machines, strict=True):
        local = site(labels.y, fit.m, fit.v)
        np.testing.assert_allclose(fit.alpha, local.g, atol=0.2)
        np.testing.assert_allclose(few.times(fit.alpha), fit.m, atol=1e-6)
    warm, cold = (fit_shared(more, each, site, x, tol=1e-4) for x in (sites_of(fits), None))
    bounds = [sum(fit.bound for fit in x) for x in (warm, cold)]
    assert bounds[0] == pytest.approx(bounds[1], rel=2e-3)


def test_a_callback_ends_it():
    X, machines = problem()
    seen: list[Progress] = []

    def watch(progress, state):
        seen.append(progress)
        return len(seen) == 2

    how = {"tol": 1e-12, "watch": watch, "final": True}
    fits = fit_shared(PROCESSES["exact"](X), ClassLabels.of(machines), Hinge().tight, **how)
    assert len(seen) == fits[0].passes == 2
    assert not fits[0].converged


def test_shared_precision():
    np.testing.assert_allclose(together(np.array([[3.0, 4.0], [0.0, 0.0]])), [12.5**0.5, 0.0])
    assert isinstance(ClassLabels.of(problem()[1]).start(Hinge().tight), SharedSites)


# ---------------------------------------------------------------------------------------------
# The estimator


@pytest.mark.parametrize("options", [{}, {"n_inducing": 15}])
def test_variances_of_all_classes_are_one(options):
    X, machines = problem(80)
    y = np.argmax([k.y for k in machines], axis=0)
    model = BayesianSVC(tune=False, random_state=0, **options).fit(X, y)
    m, v = model._moments(X[:9])
    np.testing.assert_allclose(v, v[:, :1] * np.ones(4), rtol=1e-12)
    rows = [machine.moments(X[:9]) for machine in model.machines_]  # each by itself
    np.testing.assert_allclose([a for a, _ in rows], m.T, rtol=1e-9)
    np.testing.assert_allclose([b for _, b in rows], v.T, rtol=1e-9)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), atol=1e-9)
    # whitened coefficients have the same moments
    for j, machine in enumerate(model.machines_):
        draws = model.sample_posterior(4000, X[:9], random_state=0)[:, j]
        np.testing.assert_allclose(draws.mean(axis=0), m[:, j], atol=6 * np.sqrt(v.max() / 4000))
        assert machine.posterior.coef.cov is model.machines_[0].posterior.coef.cov


def test_a_file_holds_no_factor():
    X, machines = problem(300)
    y = np.argmax([k.y for k in machines], axis=0)
    model = BayesianSVC(tune=False, n_inducing=None, random_state=0).fit(X, y)
    assert len(pickle.dumps(model)) < 8 * 300 * 300


def test_a_row_of_weight_two_is_two_rows():
    X, machines = problem(50)
    y = np.argmax([k.y for k in machines], axis=0)
    some = np.arange(50) % 3 == 0
    c = np.where(some, 2.0, 1.0)
    model = BayesianSVC(random_state=0).fit(X, y, sample_weight=c)
    twice = BayesianSVC(random_state=0).fit(np.vstack([X, X[some]]), np.append(y, y[some]))
    np.testing.assert_allclose(twice.predict_proba(X), model.predict_proba(X), atol=1e-8)


def test_single_precision_leads_to_the_same_place(monkeypatch):
    X, machines = problem()
    each, site = ClassLabels.of(machines), SoftHinge().tight
    how = {"tol": 1e-7, "final": True}
    double = fit_shared(PROCESSES["exact"](X), each, site, **how)
    monkeypatch.setattr("bayesvm.processes.process.MANY", 10)
    process = PROCESSES["exact"](X)
    assert process.rough is not process
    fits = fit_shared(process, each, site, **how)
    assert fits[0].converged
    assert fits[0].R.dtype == np.float64
    for fit, other in zip(fits, double, strict=True):
        np.testing.assert_allclose(fit.m, other.m, atol=2e-3)
        np.testing.assert_allclose(fit.v, other.v, rtol=2e-3)
        assert fit.bound == pytest.approx(other.bound, rel=1e-5)


@pytest.mark.parametrize("copies", [False, True])
def test_gradient_of_shared_evidence_by_central_differences(copies):
    """The average precision is the best shared one, so nothing of the gradient is missing."""
    X, machines = problem(40, 5, copies=copies)
    seen = LabelledPoints(X, machines, 4.0, 2.0).by_digits()
    assert len(seen.machines) == 3
    prior = parameter_prior(KERNEL, 2.0, 16.0)
    score = Evidence(Prior(KERNEL, 4.0), seen, Logistic().tight, prior)
    score.fits.tol = 1e-12
    theta, h = KERNEL.theta + 0.1, 1e-4
    slope = score(theta)[1]
    for j, e in enumerate(np.eye(theta.size)):
        difference = (score(theta + h * e)[0] - score(theta - h * e)[0]) / (2 * h)
        assert slope[j] == pytest.approx(difference, rel=1e-3, abs=1e-4)


def test_evidence_of_one_machine_is_not_shared():
    X, machines = problem()
    seen = LabelledPoints(X, machines[:1], 4.0, 2.0)
    score = Evidence(Prior(KERNEL, 4.0), seen, Logistic().tight, parameter_prior(KERNEL, 2.0, 1.0))
    assert isinstance(score.fits, WarmFits)
    assert isinstance(SharedFits(machines, Hinge().tight, 1e-4)(PROCESSES["exact"](X)), list)


def test_fixed_point_of_a_slow_map():
    rng = np.random.default_rng(0)
    top, rate = np.exp(0.3 * rng.normal(size=30)), np.repeat([0.9, 0.5], 15)
    w, point = np.ones(30), FixedPoint()
    for _ in range(5):
        w = point.next(w, top * (w / top) ** rate, np.ones(30))
    np.testing.assert_allclose(w, top, rtol=1e-6)  # two rates take two steps more
