"""Posteriors given sites, against dense formulas; bounds, gradients and leave-one-out."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from bayesvm.gp.evidence import Evidence, LogNormal, parameter_prior
from bayesvm.gp.posterior import ExactProcess, InducingProcess, Process
from bayesvm.gp.sites import Distinct, Labels, Sites, TrainingData, fit_sites, target_sites
from bayesvm.kernels import RBF, Matern, Scaled
from bayesvm.likelihoods import Hinge, Logistic, SoftHinge

RNG = np.random.default_rng(0)
N = 30
X = RNG.standard_normal((N, 3))
Z = RNG.standard_normal((8, 3))
Y = np.where(RNG.random(N) < 1.0 / (1.0 + np.exp(-3.0 * np.sin(X[:, 0]))), 1.0, -1.0)
C = RNG.integers(1, 3, N).astype(float)
KERNEL = Scaled(3.0, RBF((1.0, 2.0, 0.7)))
LEVEL = 4.0


def labels(y=Y, c=C):
    return Labels(y, c, np.arange(N), N)


def dense(process):
    """Covariance of f that rows inform."""
    if isinstance(process, ExactProcess):
        return process.K
    return process.C @ process.C.T + np.diag(process.d)


PROCESSES = {
    "exact": Process(KERNEL, LEVEL),
    "variational": Process(KERNEL, LEVEL, Z),
    "fitc": Process(KERNEL, LEVEL, Z, True),
}


@pytest.mark.parametrize("name", PROCESSES)
def test_moments_and_divergence_are_those_of_dense_matrices(name):
    process, w = PROCESSES[name].at(X), RNG.gamma(1.0, size=N)
    w[:3] = 1e-12
    b = RNG.standard_normal((N, 2))
    q, K = process.given(w), dense(process)
    V = K - K @ np.linalg.solve(K + np.diag(1.0 / w), K)
    A = q.solve(b)[0]
    M = q.means(A)
    np.testing.assert_allclose(M, V @ b, rtol=1e-6, atol=1e-8)
    informed = np.diag(V)
    np.testing.assert_allclose(q.v, informed + process.residual, rtol=1e-6)
    S = np.eye(N) + K * w
    mean = np.linalg.solve(S.T, b)
    expected = [
        0.5 * (np.linalg.slogdet(S)[1] - w @ informed + mean[:, k] @ K @ mean[:, k]) for k in (0, 1)
    ]
    np.testing.assert_allclose(q.kl(A, M), expected, rtol=1e-6)


def test_predictions_at_other_points_are_conditional_moments():
    process, w, new = PROCESSES["exact"].at(X), RNG.gamma(1.0, size=N), RNG.standard_normal((5, 3))
    cross, own = KERNEL(new, X) + LEVEL, KERNEL.diag(new) + LEVEL
    v = process.given(w).predict(cross, own)
    expected = own - np.diag(cross @ np.linalg.solve(process.K + np.diag(1.0 / w), cross.T))
    np.testing.assert_allclose(v, expected, rtol=1e-8)


@pytest.mark.parametrize("likelihood", [Logistic(), SoftHinge(), Hinge()])
@pytest.mark.parametrize("name", PROCESSES)
def test_the_bound_rises_to_a_fixed_point(name, likelihood):
    process = PROCESSES[name].at(X)
    fit = fit_sites(process, labels(), likelihood.tight, tol=1e-12, max_iter=500)
    path = np.array([x[0] for x in fit.path])
    assert np.all(np.diff(path) >= -1e-9 * np.abs(path[1:]))
    touching = target_sites(fit.M[:, 0], fit.v, labels(), likelihood.tight)
    np.testing.assert_allclose(fit.w, touching.w, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(fit.A[:, 0], touching.b - touching.w * fit.M[:, 0], atol=1e-3)


def test_every_point_inducing_is_the_exact_process():
    exact = fit_sites(Process(KERNEL, LEVEL).at(X), labels(), Logistic().tight, tol=1e-10)
    through = fit_sites(Process(KERNEL, LEVEL, X).at(X), labels(), Logistic().tight, tol=1e-10)
    assert through.bound == pytest.approx(exact.bound, rel=1e-4)
    np.testing.assert_allclose(through.M, exact.M, atol=1e-3)
    few = fit_sites(Process(KERNEL, LEVEL, Z).at(X), labels(), Logistic().tight, tol=1e-10)
    assert few.bound < exact.bound


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("kernel", [KERNEL, Scaled(2.0, Matern(1.5, nu=1.5))])
def test_gradients_of_the_evidence_are_differences(name, kernel):
    codes = (Y > 0).astype(int)
    data = TrainingData(X, labels(), codes, LEVEL, 3.0)
    process = Process(kernel, LEVEL, PROCESSES[name].Z, PROCESSES[name].fitc)
    score = Evidence(process, data, Logistic().tight, parameter_prior(kernel, 3.0), tol=1e-13)
    slope = score(kernel.theta)[1]
    num = approx_fprime(kernel.theta, lambda theta: score(theta)[0], 1e-5)
    np.testing.assert_allclose(slope, num, rtol=2e-3, atol=2e-3)


def test_gradients_in_inducing_points_are_differences():
    def bound(z):
        at = Process(KERNEL, LEVEL, z.reshape(Z.shape)).at(X)
        return fit_sites(at, labels(), Logistic().tight, tol=1e-13, max_iter=500).bound

    process = Process(KERNEL, LEVEL, Z).at(X)
    assert isinstance(process, InducingProcess)
    fit = fit_sites(process, labels(), Logistic().tight, tol=1e-13, max_iter=500)
    num = approx_fprime(Z.ravel(), bound, 1e-5)
    slope = process.gradient(fit, True)[KERNEL.theta.size :]
    np.testing.assert_allclose(slope, num, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("name", PROCESSES)
def test_leave_one_out_moments_are_those_without_the_site(name):
    process, likelihood = PROCESSES[name].at(X), Logistic()
    one = labels(c=np.ones(N))
    fit = fit_sites(process, one, likelihood.tight, tol=1e-13, max_iter=500)
    m, v = fit.leave_one_out(one, likelihood.tight)
    for i in (0, 7, 19):
        w, b = fit.w.copy(), fit.sites.b.copy()
        w[i], b[i] = 1e-14, 0.0
        q = process.given(w)
        assert m[i, 0] == pytest.approx(q.solve(b)[1][i, 0], abs=2e-3)
        assert v[i, 0] == pytest.approx(q.v[i], rel=1e-3)


def test_classes_share_a_covariance():
    codes = np.digitize(X[:, 0], [-0.5, 0.5])
    Y3 = np.where(codes[:, None] == np.arange(3), 1.0, -1.0)
    process = Process(KERNEL, LEVEL).at(X)
    fit = fit_sites(process, labels(Y3), SoftHinge().tight, tol=1e-8)
    assert fit.M.shape == (N, 3)
    alone = [fit_sites(process, labels(y), SoftHinge().tight, tol=1e-8) for y in Y3.T]
    assert np.all(fit.bounds <= [f.bound + 1e-6 for f in alone])
    assert fit.bound > sum(f.bound for f in alone) - 0.1 * N
    assert np.corrcoef(fit.M[:, 1], alone[1].M[:, 0])[0, 1] > 0.99


def test_a_start_at_the_end_takes_one_pass_more():
    process = Process(KERNEL, LEVEL).at(X)
    fit = fit_sites(process, labels(), Logistic().tight, tol=1e-8)
    again = fit_sites(process, labels(), Logistic().tight, Sites(*fit.sites), tol=1e-6)
    assert again.passes <= 2
    assert again.bound == pytest.approx(fit.bound, rel=1e-6)


def test_prior_of_scales_is_that_of_a_dense_covariance():
    prior = LogNormal(np.zeros(4), np.array([2.0, 0.5, 0.5, 0.5]), (np.array([1, 2, 3]),))
    S = np.diag(prior.variance)
    S[1:, 1:] += 1.0
    theta = RNG.standard_normal(4)
    value, slope = prior(theta)
    assert value == pytest.approx(-0.5 * theta @ np.linalg.solve(S, theta))
    np.testing.assert_allclose(slope, -np.linalg.solve(S, theta))
    root = np.stack([prior.step(e) for e in np.eye(4)])
    np.testing.assert_allclose(root @ root, S)


def test_copies_are_rows_that_chance_does_not_explain():
    def copies(A, codes, c):
        rows = np.arange(len(A))
        return Distinct(A, rows, codes, c, rows).copies

    codes = (Y > 0).astype(int)
    assert np.all(copies(X, codes, np.ones(N)) == 1.0)
    assert np.all(copies(X, codes, np.full(N, 2.0)) == 2.0)
    few = np.where(np.arange(N) < 5, 2.0, 1.0)  # most rows occur once: new rows repeat them, too
    assert np.all(copies(X, codes, few) == 1.0)
    levels = np.array([[i, j] for i in range(3) for j in range(3)], float)
    assert np.all(copies(levels, np.zeros(9, int), np.full(9, 4.0)) == 1.0)


def test_sites_of_a_bound_that_is_nan_are_refused():
    def site(y, m, v):
        local = Hinge().tight(y, m, v)
        return local._replace(bound=np.nan * local.bound)

    with pytest.raises(ValueError, match=r"bound \(ELBO\) is nan"):
        fit_sites(Process(KERNEL, LEVEL).at(X), labels(), site)
