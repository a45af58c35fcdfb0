"""Inducing points: against dense formulas, central differences, and each other."""

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.stats import multivariate_normal
from tests.problems import differences, frozen

from bayesvm.kernels import RBF, Linear, Matern, Polynomial, Scaled
from bayesvm.likelihoods import Hinge, Logistic, SkewedLaplace, SoftHinge
from bayesvm.processes.matrices import covariance_of
from bayesvm.processes.process import Gram, LowRank
from bayesvm.processes.site_fit import fit_sites
from bayesvm.processes.sites import Labels
from bayesvm.processes.whitened import jitter

RNG = np.random.default_rng(0)
X = frozen(RNG.standard_normal((25, 2)))
y = frozen(np.where(X[:, 0] + X[:, 1] ** 2 + 0.5 * RNG.standard_normal(25) > 0.7, 1.0, -1.0))
Z = frozen(X[:6] + 0.1 * RNG.standard_normal((6, 2)))
LABELS = Labels(y, np.ones(25), np.arange(25), 25)
BIAS = 4.0
both = pytest.mark.parametrize("fitc", [False, True], ids=["variational", "fitc"])
SITES = {
    "augmented": Hinge().expected,
    "tight": Hinge().tight,
    "logistic": Logistic().tight,
    "skewed": SkewedLaplace(0.7, 0.4).tight,
}
every_site = pytest.mark.parametrize("site", SITES.values(), ids=SITES)


def process(kernel, fitc, Z=Z):
    return LowRank.of(kernel, Z, X, BIAS, fitc)


def best(kernel, fitc, site, Z=Z, tol=1e-16):
    return fit_sites(process(kernel, fitc, Z), LABELS, site, tol=tol, max_iter=3000)


def dense_prior(kernel, fitc):
    """Covariance of f at the rows by explicit inverses, and what is outside it."""
    Kmm = kernel(Z)
    Kmm = Kmm + jitter(Kmm) * np.eye(len(Z))
    cross = kernel(X, Z)
    Q = cross @ np.linalg.solve(Kmm, cross.T)
    rest = kernel.diag(X) - np.diag(Q)
    return Q + BIAS + (np.diag(rest) if fitc else 0.0), 0.0 if fitc else rest


@both
def test_moments_and_divergence_are_those_of_dense_matrices(fitc):
    kernel = 2.0 * RBF(0.9)
    fit = best(kernel, fitc, SITES["augmented"], tol=1e-3)  # sites of any kind will do
    prior, rest = dense_prior(kernel, fitc)
    w, b = fit.sites
    V = prior - prior @ np.linalg.solve(prior + np.diag(1 / w), prior)
    np.testing.assert_allclose(fit.m, V @ b, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(fit.v, np.diag(V) + rest, rtol=1e-7)
    # 2 KL = log|prior| - log|V| + tr(prior^-1 V) - n + m' prior^-1 m, by the sites
    logdet = np.linalg.slogdet(np.eye(25) + np.sqrt(np.outer(w, w)) * prior)[1]
    kl = 0.5 * (logdet - w @ np.diag(V) + fit.m @ (b - w * fit.m))
    rows = float(SITES["augmented"](y, fit.m, fit.v).bound.sum())
    assert fit.bound == pytest.approx(rows - kl, rel=1e-10)


def test_the_fitc_bound_is_the_printed_one():
    """At fixed sites: log N(t; 0, prior + R), Henao eq. 10, and the augmented rows' constants.

    With w = 1/a and t = y (1 + a), sum log N(t; 0, prior + R) + log(2 pi R) / 2.
    """
    kernel = 2.0 * RBF(0.9)
    fit = best(kernel, True, SITES["augmented"])
    R, t = 1 / fit.sites.w, y * (1 + 1 / fit.sites.w)
    np.testing.assert_allclose(fit.sites.b, t / R, rtol=1e-6)
    prior, _ = dense_prior(kernel, True)
    value = multivariate_normal.logpdf(t, np.zeros(25), prior + np.diag(R))
    value += 0.5 * np.log(2 * np.pi * R).sum()
    assert fit.bound == pytest.approx(value, rel=1e-7)


@both
@every_site
@pytest.mark.parametrize(
    "kernel",
    [
        Scaled(2.0, RBF(0.9)),
        Scaled(1.5, RBF((0.7, 1.4))),
        Scaled(2.0, Matern((0.9, 1.2), nu=2.5)),
        Scaled(2.0, Matern(1.1, nu=1.5)) + Scaled(0.3, Linear(1.3)),
        Scaled(0.2, Polynomial(2, 1.2, 0.7)),
    ],
    ids=["rbf", "rbf per column", "matern 5/2", "sum", "polynomial"],
)
def test_gradient_by_central_differences(kernel, site, fitc, monkeypatch):
    """Of the bound fitted anew, for at its optimum the sites' own vanish.

    Value and slopes of the logistic site are separate averages: here with nodes enough to agree.
    """
    nodes, weights = hermegauss(80)
    monkeypatch.setattr("bayesvm.likelihoods.base.NODES", nodes)
    monkeypatch.setattr("bayesvm.likelihoods.base.WEIGHTS", weights / weights.sum())
    fit = best(kernel, fitc, site)
    slope = process(kernel, fitc).slope([fit])

    def bound(theta):
        low = process(kernel.with_theta(theta), fitc)
        return fit_sites(low, LABELS, site, fit.sites, tol=1e-14, max_iter=3000).bound

    numeric = differences(bound, kernel.theta, 1e-4)
    np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-6 * np.abs(numeric).max())


@both
@every_site
@pytest.mark.parametrize(
    "kernel",
    [
        Scaled(1.5, RBF((0.7, 1.4))),
        Scaled(2.0, Matern(1.1, nu=1.5)) + Scaled(0.3, Linear(1.3)),
        Scaled(0.2, Polynomial(2, 1.2, 0.7)),
    ],
    ids=["rbf per column", "sum", "polynomial"],
)
def test_gradient_in_the_points_by_central_differences(kernel, site, fitc, monkeypatch):
    nodes, weights = hermegauss(80)
    monkeypatch.setattr("bayesvm.likelihoods.base.NODES", nodes)
    monkeypatch.setattr("bayesvm.likelihoods.base.WEIGHTS", weights / weights.sum())
    fit = best(kernel, fitc, site)
    theta, slope = process(kernel, fitc).slopes([fit])
    np.testing.assert_allclose(theta, process(kernel, fitc).slope([fit]), rtol=1e-6, atol=1e-9)

    def bound(Z):
        low = process(kernel, fitc, Z)
        return fit_sites(low, LABELS, site, fit.sites, tol=1e-14, max_iter=3000).bound

    numeric = differences(bound, Z, 1e-4)
    np.testing.assert_allclose(slope, numeric, rtol=2e-6, atol=2e-6 * np.abs(numeric).max())


@both
@every_site
def test_every_row_a_point_is_the_process_itself(fitc, site):
    kernel = 2.0 * RBF(0.9)
    K = kernel(X)
    full = fit_sites(Gram(covariance_of(K, BIAS)), LABELS, site, tol=1e-12, max_iter=3000)
    low = best(kernel, fitc, site, X)
    assert low.bound == pytest.approx(full.bound, abs=2e-4)
    np.testing.assert_allclose(low.m, full.m, atol=2e-3)


def test_variational_is_below_the_process_and_grows_with_points_and_fitc_need_not():
    kernel, site = 2.0 * RBF(0.9), SITES["augmented"]
    K = kernel(X)
    full = fit_sites(Gram(covariance_of(K, BIAS)), LABELS, site, tol=1e-10).bound
    grown = [best(kernel, False, site, X[:m], tol=1e-10).bound for m in (2, 4, 8, 16, 25)]
    assert np.all(np.diff(grown) > 0)
    assert grown[-1] <= full + 1e-6
    assert best(kernel, True, site, X[:2], tol=1e-10).bound > grown[0]


@both
def test_the_bound_never_falls(fitc):
    for site in SITES.values():
        path = np.array(best(4.0 * RBF(0.3), fitc, site, tol=1e-9).path)
        assert np.all(np.diff(path) >= -1e-9 * np.abs(path[1:]))


@both
def test_moments_without_a_row_by_its_removal(fitc):
    """With sites held: the same as leaving the row's site out of the dense posterior."""
    kernel, site = 2.0 * RBF(0.9), SITES["augmented"]
    fit = best(kernel, fitc, site)
    m, v = fit.left_out(LABELS, site)
    prior, rest = dense_prior(kernel, fitc)
    rest = np.broadcast_to(rest, 25)
    for i in (0, 7, 24):
        w, b = fit.sites.w.copy(), fit.sites.b.copy()
        w[i], b[i] = 1e-13, 0.0
        V = prior - prior @ np.linalg.solve(prior + np.diag(1 / w), prior)
        assert m[i] == pytest.approx((V @ b)[i], rel=1e-4, abs=1e-6)
        assert v[i] == pytest.approx(V[i, i] + rest[i], rel=1e-4)


def test_a_final_fit_of_many_rows_foretells_what_is_left(monkeypatch):
    """From its end it takes one pass; from elsewhere no more is left than was asked for."""
    monkeypatch.setattr("bayesvm.processes.site_fit.MANY", 100)
    rng = np.random.default_rng(4)
    A = rng.standard_normal((300, 2))
    y = np.where(A[:, 0] + 0.5 * rng.standard_normal(300) > 0.0, 1.0, -1.0)
    labels = Labels(y, np.ones(300), np.arange(300), 300)
    process, site = LowRank.of(4.0 * RBF(1.0), A[:20], A, 4.0, False), SoftHinge().tight
    end = fit_sites(process, labels, site, tol=1e-12, max_iter=500)
    again = fit_sites(process, labels, site, end.sites, tol=1e-6, final=True)
    assert again.passes == 1
    assert again.converged
    for tol in (1e-3, 1e-5):
        begun = fit_sites(process, labels, site, tol=tol, final=True)
        assert -1e-9 < end.bound - begun.bound < tol * abs(end.bound)
