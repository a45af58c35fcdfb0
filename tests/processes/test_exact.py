"""Inference from a Gram matrix, against quadrature, plain formulas and explicit removal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from sklearn.datasets import make_moons
from tests.papers import exact

from bayesvm import BayesianSVC
from bayesvm.inference import VB
from bayesvm.kernels import RBF
from bayesvm.likelihoods import Hinge, Logistic, Probit
from bayesvm.processes.matrices import PROBES, invert
from bayesvm.processes.process import Gram
from bayesvm.processes.site_fit import best_mean, fit_sites
from bayesvm.processes.sites import Labels, Sites, target_sites

SITES = {
    "augmented": Hinge().expected,
    "tight": Hinge().tight,
    "logistic": Logistic().tight,
    "probit": Probit().tight,
}


def labels(y, c=None, at=None):
    y = np.asarray(y, float)
    at = np.arange(y.size) if at is None else np.asarray(at)
    return Labels(y, np.ones(y.size) if c is None else np.asarray(c, float), at, at.max() + 1)


def problem(n=40, seed=0, scale=3.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.where(X[:, 0] * X[:, 1] + 0.4 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return X, labels(y), scale * RBF(1.0)(X) + 1.0


def dense_bound(K, y, m, V, site):
    """The bound by the textbook: expected log likelihood less KL(N(m, V) || N(0, K))."""
    L, C = np.linalg.cholesky(K), np.linalg.cholesky(V)
    A = np.linalg.solve(L, C)
    z = np.linalg.solve(L, m)
    kl = 0.5 * (np.sum(A**2) + z @ z - len(y)) + np.log(np.diag(L) / np.diag(C)).sum()
    return site(y, m, np.diag(V)).bound.sum() - kl


@pytest.mark.parametrize("name", SITES)
def test_moments_and_bound_are_the_textbook_ones(name):
    X, lab, K = problem()
    fit = fit_sites(Gram(K), lab, SITES[name], max_iter=3)
    V = np.linalg.inv(np.linalg.inv(K) + np.diag(fit.sites.w))
    np.testing.assert_allclose(fit.m, V @ fit.sites.b, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(fit.v, np.diag(V), rtol=1e-6)
    np.testing.assert_allclose(fit.alpha, np.linalg.solve(K, fit.m), rtol=1e-5, atol=1e-6)
    V = 0.5 * (V + V.T)
    assert fit.bound == pytest.approx(dense_bound(K, lab.y, fit.m, V, SITES[name]), rel=1e-7)


@pytest.mark.parametrize("variance", [0.5, 3.0])
@pytest.mark.parametrize("n", [1, 2])
def test_bounds_lie_in_order_below_the_evidence(n, variance):
    """Augmented <= tight <= log Z, by quadrature; values as published with the derivation."""
    y = np.array([1.0, 1.0])[:n]
    K = variance * (np.eye(n) + 0.0) if n == 1 else variance * np.array([[1, 0.5], [0.5, 1.0]])
    r = 8 * np.sqrt(variance)
    f, weight = exact.panels(np.unique(np.append(np.linspace(-r, r, 33), 1.0)), 8)  # kink at 1
    grid = np.stack(np.meshgrid(*[f] * n), axis=-1)
    mass = np.prod(np.stack(np.meshgrid(*[weight] * n), axis=-1), axis=-1)
    density = multivariate_normal(np.zeros(n), K).pdf(grid).reshape(mass.shape)
    total = np.sum(mass * density * np.exp(Hinge().log_prob(1.0, grid).sum(axis=-1)))
    loose = fit_sites(Gram(K), labels(y), Hinge().expected, tol=1e-12, max_iter=500).bound
    tight = fit_sites(Gram(K), labels(y), Hinge().tight, tol=1e-12, max_iter=500).bound
    assert loose < tight < np.log(total)
    if n == 1:
        want = {0.5: (-1.4666, -1.3462, -1.3372), 3.0: (-1.1932, -0.9799, -0.9465)}[variance]
        np.testing.assert_allclose([loose, tight, np.log(total)], want, atol=1e-4)


@pytest.mark.parametrize("name", SITES)
def test_the_answer_is_the_maximum_over_all_gaussians(name):
    """Against a general optimiser over mean and Cholesky factor."""
    n = 3
    X, lab, _ = problem(n, seed=4)
    K = 2.0 * RBF(1.0)(X) + 0.5
    where = np.tril_indices(n)

    def minus(x):
        C = np.zeros((n, n))
        C[where] = x[n:]
        return -dense_bound(K, lab.y, x[:n], C @ C.T + 1e-12 * np.eye(n), SITES[name])

    start = np.concatenate([np.zeros(n), np.linalg.cholesky(K)[where]])
    best = minimize(minus, start, method="BFGS", options={"gtol": 1e-7})
    fit = fit_sites(Gram(K), lab, SITES[name], tol=1e-13, max_iter=2000)
    assert fit.bound == pytest.approx(-best.fun, abs=1e-6)
    np.testing.assert_allclose(fit.m, best.x[:n], atol=2e-3)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 12),
    amplitude=st.floats(-3, 6),
    scale=st.floats(-2, 2),
    name=st.sampled_from(sorted(SITES)),
)
def test_more_passes_never_lower_the_bound(seed, n, amplitude, scale, name):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    lab = labels(np.where(rng.random(n) < 0.5, 1.0, -1.0), rng.choice([0.5, 1.0, 3.0], n))
    K = np.exp(amplitude) * RBF(np.exp(scale))(X) + 1.0
    bounds = [fit_sites(Gram(K), lab, SITES[name], tol=0.0, max_iter=k).bound for k in (1, 3, 12)]
    assert np.all(np.diff(bounds) >= -1e-8 * np.maximum(1.0, np.abs(bounds[1:])))


def test_gradient_in_the_gram_matrix():
    X, lab, K = problem(12)
    rng = np.random.default_rng(0)
    for name in ("logistic", "tight", "augmented"):

        def best(A, site=SITES[name]):
            return fit_sites(Gram(A), lab, site, tol=1e-14, max_iter=3000)

        G = Gram(K).gradient([best(K)])
        for _ in range(3):
            D = rng.standard_normal(K.shape) * 1e-4
            D = D + D.T
            change = best(K + D).bound - best(K - D).bound
            assert change == pytest.approx(2 * np.sum(G * D), rel=1e-4)


def test_idle_points_change_nothing():
    """A point whose site has no precision is left out of the factor, not out of the answer."""
    X, lab, K = problem()
    fit = fit_sites(Gram(K), lab, Hinge().tight)
    w = fit.sites.w.copy()
    w[::3] = 1e-14
    sites = Sites(w, fit.sites.b)
    with_idle = fit_sites(Gram(K), lab, Hinge().tight, sites, max_iter=1)
    V = np.linalg.inv(np.linalg.inv(K) + np.diag(w))
    assert with_idle.on.size < w.size
    np.testing.assert_allclose(with_idle.v, np.diag(V), rtol=1e-6)
    np.testing.assert_allclose(with_idle.m, V @ sites.b, rtol=1e-6, atol=1e-8)


def test_new_rows():
    X, lab, K = problem()
    fit = fit_sites(Gram(K), lab, Hinge().tight)
    m, v = fit.predictor(K[:5], np.diag(K)[:5])
    np.testing.assert_allclose(m, fit.m[:5], rtol=1e-9)
    np.testing.assert_allclose(v, fit.v[:5], rtol=1e-7)


def test_weights_are_repetitions_and_two_rows_may_share_a_point():
    X, lab, K = problem(20)
    c = np.arange(20) % 3 + 1.0
    merged = fit_sites(Gram(K), labels(lab.y, c), Hinge().tight, tol=1e-12, max_iter=500)
    at = np.repeat(np.arange(20), c.astype(int))
    shared = fit_sites(Gram(K), labels(lab.y[at], at=at), Hinge().tight, tol=1e-12, max_iter=500)
    assert merged.bound == pytest.approx(shared.bound, rel=1e-12)
    np.testing.assert_allclose(merged.m, shared.m, rtol=1e-9)
    rows = K[np.ix_(at, at)] + 1e-10 * np.eye(at.size)
    spread = fit_sites(Gram(rows), labels(lab.y[at]), Hinge().tight, tol=1e-12, max_iter=500)
    assert spread.bound == pytest.approx(merged.bound, rel=1e-6)


def test_left_out_moments_are_those_of_explicit_removal():
    """Removal of a site: exact.  Refit without the row: close (correlation above 0.99)."""
    X, lab, K = problem(60)
    site = Hinge().tight
    fit = fit_sites(Gram(K), lab, site, tol=1e-12, max_iter=1000)
    m, v = fit.left_out(lab, site)
    again = []
    for i in range(60):
        keep = np.delete(np.arange(60), i)
        w = fit.sites.w.copy()
        w[i] = 0.0
        V = np.linalg.inv(np.linalg.inv(K) + np.diag(w))
        b = np.where(w > 0, fit.sites.b, 0.0)
        assert m[i] == pytest.approx((V @ b)[i], rel=1e-4, abs=1e-5)
        assert v[i] == pytest.approx(V[i, i], rel=1e-4)
        part, _ = lab.take(keep)
        refit = fit_sites(Gram(K[np.ix_(keep, keep)]), part, site)
        again.append(refit.predictor(K[[i]][:, keep], K[[i], [i]])[0][0])
    assert np.corrcoef(m, again)[0, 1] > 0.99


@pytest.mark.parametrize("likelihood", [Logistic(), Hinge()], ids=str)
@pytest.mark.parametrize("passes", [1, 2, 5])
def test_left_out_moments_of_an_unfinished_fit(likelihood, passes):
    """The precision taken out of the posterior is what is in it: none leaves more than the prior.

    Rows have weights, two of them at one point, and leverages near one.
    """
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), np.where(rng.random(60) < 0.5, 1.0, -1.0)
    K = 100.0 * RBF(0.3)(X) + 1e-8 * np.eye(60)
    c = rng.exponential(size=61)
    lab = Labels(np.append(y, -y[0]), c, np.append(np.arange(60), 0), 60)
    fit = fit_sites(Gram(K), lab, likelihood.tight, max_iter=passes)
    m, v = fit.left_out(lab, likelihood.tight)
    g = likelihood.tight(y, fit.m, fit.v).g
    for i in range(1, 60):
        w = fit.sites.w.copy()
        w[i] *= max(1.0 - 1.0 / c[i], 0.0)
        own = np.linalg.inv(np.linalg.inv(K) + np.diag(w))[i, i]
        assert v[i] == pytest.approx(own, rel=1e-5)
        assert m[i] == pytest.approx(fit.m[i] - own * min(c[i], 1.0) * g[i], rel=1e-5, abs=1e-5)
    assert np.all(v[[0, 60]] <= K[0, 0])


def test_no_point_with_precision_is_no_matter_for_lapack(capfd):
    """All rows beyond the margin: the prior's variance, and nothing is printed."""
    K = 4.0 * np.eye(3)
    m, v, alpha, R, on, kl, *_ = Gram(K).moments(Sites(np.zeros(3), np.zeros(3)))
    np.testing.assert_array_equal(v, np.diag(K))
    assert R.shape == (0, 0)
    assert on.size == kl == 0
    assert not m.any()
    assert not alpha.any()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", SITES)
def test_mean_at_fixed_variances_is_that_of_a_generic_optimiser(name):
    """Rows of weights and points of two rows among them; BFGS over alpha from zero."""
    X, _, K = problem(25, seed=4, scale=20.0)
    rng = np.random.default_rng(4)
    at = np.concatenate([np.arange(25), rng.integers(25, size=10)])
    lab = labels(np.where(rng.random(35) < 0.5, 1.0, -1.0), rng.uniform(0.5, 3.0, 35), at)
    site, process = SITES[name], Gram(K)
    start = target_sites(np.zeros(25), np.ones(25), lab, site)
    now = process.moments(start)

    def minus(alpha):
        m = K @ alpha
        local = site(lab.y, m[at], now.v[at]).times(lab.c)
        return 0.5 * alpha @ m - local.bound.sum(), K @ (alpha - lab.total(local.g))

    found = minimize(minus, np.zeros(25), jac=True, method="BFGS", options={"maxiter": 5000})
    m, alpha, local = best_mean(process, now, lab, site, share=0.0)
    np.testing.assert_allclose(K @ alpha, m, atol=1e-9)
    assert minus(alpha)[0] <= found.fun + 1e-6
    assert minus(alpha)[0] == pytest.approx(found.fun, abs=1e-4)


def test_few_passes_converge():
    """From the signs of the labels to a hundredth of the tolerance of a natural-gradient climb."""
    _, lab, K = problem(120, seed=1, scale=100.0)
    top = fit_sites(Gram(K), lab, Hinge().tight, tol=1e-13, max_iter=500).bound
    fit = fit_sites(Gram(K), lab, Hinge().tight, max_iter=6)
    assert top - fit.bound < 0.01


@pytest.mark.parametrize("scale", [5.0, 500.0])
def test_passes_in_single_precision_end_where_those_in_double_do(scale, monkeypatch):
    """The last is in double: numbers of the same sites, and sites that are as good."""
    _, lab, K = problem(90, seed=2, scale=scale)
    how = {"tol": 1e-6, "final": True}
    double = fit_sites(Gram(K), lab, Hinge().tight, **how)
    monkeypatch.setattr("bayesvm.processes.process.MANY", 50)
    monkeypatch.setattr("bayesvm.processes.site_fit.MANY", 50)
    gram = Gram(K)
    assert gram.rough.single.dtype == np.float32
    single = fit_sites(gram, lab, Hinge().tight, **how)
    assert single.R.dtype == np.float64
    assert single.bound == pytest.approx(double.bound, rel=3e-6)
    np.testing.assert_allclose(single.m, double.m, atol=0.02 * np.sqrt(double.v.max()))
    np.testing.assert_allclose(single.v, double.v, rtol=0.02)
    again = gram.moments(single.sites)
    np.testing.assert_allclose(again.m, single.m, rtol=1e-6, atol=1e-9)
    rough = gram.rough.moments(single.sites)
    np.testing.assert_allclose(rough.m, single.m, atol=1e-5 * np.abs(single.m).max())
    np.testing.assert_allclose(rough.v, single.v, rtol=5e-3)
    assert rough.kl == pytest.approx(single.local.bound.sum() - single.bound, rel=1e-4)


@pytest.mark.parametrize("known", [False, True])
def test_squares_of_a_covariance_from_few_products(known):
    """The standard deviation of the estimate is that of a quadratic form of signs.

    Of z'Az, with A symmetric: the root of twice the squares off its diagonal, over that of the
    number of columns.  Four of them is one in 16,000.
    """
    _, lab, K = problem(120)
    now = Gram(K).moments(target_sites(np.zeros(120), np.ones(120), lab, Logistic().tight))
    V = np.linalg.inv(np.linalg.inv(K + 1e-9 * np.eye(120)) + np.diag(site_precisions(lab)))
    if known:
        now.solve(np.ones(120))  # products are then with V itself
    for x in (np.ones(120), np.linspace(-1.0, 1.0, 120)):
        A = V @ np.diag(x) @ V @ np.diag(x)
        A = 0.5 * (A + A.T)
        sd = np.sqrt(2.0 * (np.sum(A**2) - np.sum(np.diag(A) ** 2)) / PROBES)
        assert abs(now.squared_forms(x)[0] - x @ V**2 @ x) < 4.0 * sd


def site_precisions(lab):
    return target_sites(np.zeros(lab.y.size), np.ones(lab.y.size), lab, Logistic().tight).w


@pytest.mark.parametrize("name", ["tight", "logistic", "probit"])
def test_what_is_left_to_gain_is_foretold(name):
    """To second order, so near the top; signs drawn for the estimate leave a third of its part."""
    _, lab, K = problem(150, seed=3)
    site = SITES[name]
    top = fit_sites(Gram(K), lab, site, tol=1e-13, max_iter=500)
    rng = np.random.default_rng(0)
    for size, to in ((0.1, top.sites), (0.03, top.sites)):
        w = to.w * np.exp(size * rng.standard_normal(150))
        b = (to.b - to.w * top.m) + w * top.m + 0.3 * size * np.sqrt(w) * rng.standard_normal(150)
        now = Gram(K).moments(Sites(w, b))
        local = site(lab.y, now.m, now.v)
        gap = top.bound - (local.bound.sum() - now.kl)
        assert now.left(local.g - now.alpha, local.w - w) == pytest.approx(gap, rel=0.35)


def test_many_points_are_left_where_little_is_to_gain(monkeypatch):
    """A fit that starts near the top is one pass; what it leaves is below the tolerance."""
    monkeypatch.setattr("bayesvm.processes.process.MANY", 50)
    monkeypatch.setattr("bayesvm.processes.site_fit.MANY", 50)
    _, lab, K = problem(150, seed=3)
    site, how = SITES["tight"], {"tol": 1e-5, "final": True}
    top = fit_sites(Gram(K), lab, site, tol=1e-12, final=True)
    near = Sites(top.sites.w * 1.01, top.sites.b + 0.01 * top.sites.w * top.m)
    fit = fit_sites(Gram(K), lab, site, near, **how)
    assert fit.passes == 1
    assert fit.converged
    assert 0.0 <= top.bound - fit.bound < 1e-5 * abs(top.bound)
    far = fit_sites(Gram(K), lab, site, **how)
    assert far.passes > 1
    assert 0.0 <= top.bound - far.bound < 1e-5 * abs(top.bound)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("none", [0, 3])
def test_other_potentials_have_the_mean_of_the_same_covariance(single, none):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 2))
    K = 30.0 * np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)) + 1e-6 * np.eye(40) + 4.0
    w = np.exp(rng.normal(size=40) * 2.0)
    w[:none] = 0.0  # such points are not in B
    w[none] = 1e-9  # and a weak site is, where the covariance is rounded towards zero
    process = Gram(K, single=K.astype(np.float32) if single else None)
    b = rng.normal(size=(40, 5))
    b[none] = 0.0
    alpha, m = process.moments(Sites(w, np.zeros(40))).solve(b)
    V = np.linalg.inv(np.linalg.inv(K) + np.diag(w))
    strong = np.arange(40) != none
    np.testing.assert_allclose(m[strong], (V @ b)[strong], atol=5e-3 if single else 1e-6)
    np.testing.assert_allclose(alpha, b - w[:, None] * (V @ b), atol=2e-2 if single else 1e-5)


def test_a_search_of_the_bound_may_pass_kernels_close_to_zero():
    """Products of such a kernel are zero, and so is the curvature along a step."""
    X, y = make_moons(400, noise=0.2, random_state=0)
    augmented = VB(bound="augmented")
    model = BayesianSVC(tune="bound", inference=augmented, n_inducing=20, random_state=0)
    assert model.fit(X, y).score(X, y) > 0.95


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 96, 97, 250, 1000, 1500])
def test_inverses_of_factors_of_any_size(n, dtype):
    rng = np.random.default_rng(n)
    L = np.tril(rng.standard_normal((n, n))) / np.sqrt(n + 1.0) + 2.0 * np.eye(n)
    R = invert(L.astype(dtype, order="F"))
    assert R.dtype == dtype
    assert not np.triu(R, 1).any()
    np.testing.assert_allclose(R @ L, np.eye(n), atol=100 * np.finfo(dtype).eps)
