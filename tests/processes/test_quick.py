"""Fits of a search: the same optimum as fits by full passes, in fewer of them."""

from dataclasses import replace

import numpy as np
import pytest

from bayesvm.kernels import RBF, Scaled
from bayesvm.likelihoods import Hinge, Logistic, Probit, SoftHinge
from bayesvm.likelihoods.base import averaged_hinges
from bayesvm.likelihoods.logistic import FEWER
from bayesvm.processes.process import Gram, LowRank
from bayesvm.processes.quick import (
    best_coefficients,
    fit_classes,
    fit_quickly,
    fit_through,
    mean_square,
    newton_step,
)
from bayesvm.processes.shared import ClassLabels, fit_shared
from bayesvm.processes.site_fit import fit_sites
from bayesvm.processes.sites import Labels, Sites

KERNEL = Scaled(6.0, RBF(1.2))


def rows(n, seed, copies=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    at = np.concatenate([np.arange(n), rng.integers(n, size=copies)])
    f = 3.0 * np.sin(2.0 * X[at, 0]) + X[at, 1]
    y = np.where(rng.random(at.size) < 1.0 / (1.0 + np.exp(-f)), 1.0, -1.0)
    return X, Labels(y, rng.uniform(0.5, 2.0, at.size), at, n)


def exact(X, weight=6.0):
    K = Scaled(weight, RBF(1.2))(X) + 4.0
    K[np.diag_indices_from(K)] += 1e-6
    return Gram(K)


@pytest.mark.parametrize("copies", [0, 30])
@pytest.mark.parametrize("likelihood", [Logistic(), SoftHinge()], ids=repr)
@pytest.mark.parametrize("n", [80, 400])  # matrices in double and in single precision
def test_quick_fits_are_those_by_passes(n, likelihood, copies):
    X, labels = rows(n, 0, copies)
    process = exact(X)
    want = fit_sites(process, labels, likelihood.tight, tol=1e-12, max_iter=400)
    found = fit_quickly(process.light, labels, likelihood.tight, tol=1e-8)
    assert found.converged
    assert found.passes < want.passes
    assert found.bound == pytest.approx(want.bound, abs=1e-6 * n)
    np.testing.assert_allclose(found.m, want.m, atol=2e-3 * np.sqrt(want.v.max()))
    np.testing.assert_allclose(found.v, want.v, rtol=5e-3)
    # the bound is that of its own sites
    own = process.moments(found.sites)
    np.testing.assert_allclose(own.m, found.m, atol=1e-3)


@pytest.mark.parametrize("amplitude", [6.0, 300.0, 3000.0])
@pytest.mark.parametrize("n", [30, 120])
@pytest.mark.parametrize("likelihood", [Logistic(), Probit()], ids=repr)
def test_what_is_left_is_no_evidence_where_weights_are_large(n, amplitude, likelihood):
    """A few passes do not settle such fits; a search would climb what they promise."""
    X, labels = rows(n, 0)
    labels = replace(labels, y=np.where(X[:, 0] > 1.6, 1.0, -1.0), c=np.full(n, 100.0))
    process = exact(X, amplitude)
    best = fit_sites(process, labels, likelihood.tight, tol=1e-12, max_iter=3000).bound
    found = fit_quickly(process, labels, likelihood.tight, tol=1e-4)
    assert found.converged
    assert found.bound + found.left < best + 0.3


@pytest.mark.parametrize("seed", range(5))
def test_one_pass_foretells_the_bound_of_the_best_sites(seed):
    """From a fit at another amplitude: the bound misses more than ten times what is left of it."""
    X, labels = rows(200, seed)
    near = fit_quickly(exact(X, 4.0), labels, Logistic().tight, tol=1e-9)
    here = fit_quickly(exact(X), labels, Logistic().tight, near.sites, tol=1.0)
    best = fit_quickly(exact(X), labels, Logistic().tight, tol=1e-9)
    assert here.passes == 1
    gap = best.bound - here.bound
    assert gap > 0.01
    assert abs(gap - here.left) < 0.1 * gap


def test_a_fit_from_a_near_one_takes_two_passes():
    X, labels = rows(400, 1)
    near = fit_quickly(exact(X, 4.0).light, labels, Logistic().tight, tol=1e-6)
    found = fit_quickly(exact(X).light, labels, Logistic().tight, near.sites, tol=2.5e-5)
    assert found.passes <= 2
    assert found.left <= 2.5e-5 * labels.c.sum()


def test_points_without_precision_are_fitted_by_passes():
    X, labels = rows(150, 2)
    want = fit_sites(exact(X, 300.0), labels, Hinge().tight, tol=1e-8)
    found = fit_quickly(exact(X, 300.0), labels, Hinge().tight, tol=1e-8)
    assert found.bound == pytest.approx(want.bound, abs=1e-5)


@pytest.mark.parametrize("likelihood", [Logistic(), SoftHinge()], ids=repr)
@pytest.mark.parametrize("copies", [0, 30])
def test_quick_fits_through_points_are_those_by_passes(likelihood, copies):
    X, labels = rows(300, 3, copies)
    process = LowRank.of(KERNEL, X[:25], X, 4.0, False)
    want = fit_sites(process, labels, likelihood.tight, tol=1e-12, max_iter=400)
    found = fit_through(process, labels, likelihood.tight, tol=1e-12)
    assert found.converged
    assert found.bound == pytest.approx(want.bound, abs=1e-5)
    np.testing.assert_allclose(found.m, want.m, atol=2e-4)
    np.testing.assert_allclose(found.v, want.v, rtol=1e-3)
    np.testing.assert_allclose(process.C @ found.coef, found.m, atol=1e-10)


def test_steps_of_coefficients_are_newtons():
    X, labels = rows(120, 4)
    process = LowRank.of(KERNEL, X[:15], X, 4.0, False)
    C, h, r = process.C, np.linspace(0.1, 0.3, 120), np.linspace(-1.0, 1.0, 16)
    R = np.linalg.inv(np.linalg.cholesky(np.eye(16) + C.T @ (0.2 * C)))
    want = np.linalg.solve(np.eye(16) + C.T @ (h[:, None] * C), r)
    np.testing.assert_allclose(newton_step(r, h, C, R), want, atol=0.05 * np.abs(want).max())
    v = np.ones(120)
    a, here, m, local = best_coefficients(
        process, R, v, labels, Logistic().tight, np.zeros(16), 1e-12, share=0.0
    )
    np.testing.assert_allclose(C.T @ labels.total(local.g), a, atol=1e-5)
    np.testing.assert_allclose(m, C @ a)
    assert here == pytest.approx(local.bound.sum() - 0.5 * a @ a)


def test_squared_forms_through_points_are_estimated():
    """The mean over columns of signs: twenty draws of T, each within four standard deviations."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        T, dw = rng.standard_normal((12, 60)) / 8.0, rng.standard_normal(60)
        M = (T * dw) @ T.T
        sd = np.sqrt(2.0 * np.square(M @ M - np.diag(np.diag(M @ M))).sum() / 8.0)
        assert abs(mean_square(T, dw) - dw @ np.square(T.T @ T) @ dw) < 4.0 * sd


def test_one_class_and_several_are_fitted_alike():
    X, labels = rows(120, 5)
    each = ClassLabels.of((labels,))
    for process in (exact(X), LowRank.of(KERNEL, X[:20], X, 4.0, False)):
        one = fit_classes(process, each, SoftHinge().tight, None, 1e-8)[0]
        want = fit_shared(process, each, SoftHinge().tight, None, 1e-10)[0]
        np.testing.assert_allclose(one.m, want.m, atol=2e-3)
        start = Sites(one.sites.w, one.sites.b)
        assert fit_quickly(exact(X), labels, SoftHinge().tight, start, 1.0).passes == 1


def test_the_rough_logistic_site_has_four_digits():
    m = np.linspace(-12.0, 12.0, 400)[:, None] * np.ones((1, 8))
    v = np.array([1e-4, 0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0]) * np.ones((400, 1))
    y = np.ones_like(m)
    for found, want in zip(Logistic().roughly(y, m, v), Logistic().tight(y, m, v), strict=True):
        np.testing.assert_allclose(found, want, atol=2e-5)
    assert FEWER.k.sum() == pytest.approx(1.0)
    assert averaged_hinges(y, m, v, FEWER).bound.max() <= 0.0
