"""Variational Bayes: against its transcripts, quadrature and Monte Carlo, and its one promise."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from tests.papers import luts, oracle
from tests.problems import (
    Z,
    frozen,
    make_problem,
    pack,
    ridge_log_ratio,
    simulate,
    unpack,
)

from bayesvm.core.distributions import inverse_gaussian, polya_gamma
from bayesvm.core.types import Coef
from bayesvm.gp.posterior import ExactProcess
from bayesvm.gp.sites import Labels, fit_sites
from bayesvm.inference import VB
from bayesvm.inference.cavi import BoundFell, bound_of
from bayesvm.inference.model import State
from bayesvm.likelihoods import Hinge, Logistic, Probit, SkewedLaplace
from bayesvm.linalg.covariances import FullCovariance
from bayesvm.priors import Fixed, Ridge

SLOPE = frozen(oracle.X[:, None].copy())
VARIANCE = oracle.ALG2_INTERCEPT_VARIANCE
RNG = np.random.default_rng(0)  # only thinned starts draw from it


def fit(problem, **options):
    return VB(**{"tol": 1e-13, "warm_rows": 0, **options}).fit(problem, RNG)


def iterates(problem, count, start=None):
    """States and bounds after each plain sweep, as the printed algorithms make them."""
    seen = []

    def watch(progress, state):
        seen.append((state, progress.bound))
        return len(seen) == count

    VB(tol=0, accelerate=False, warm_rows=0).fit(problem, RNG, start=start, watch=watch)
    return seen


def toy(c=None, prior=None, intercept=None, **options):
    intercept = Fixed(1.0) if intercept is None else intercept
    return make_problem(SLOPE, oracle.Y, c, prior=prior, intercept=intercept, **options)


# ----- known answers


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize(("name", "c"), [("ALG1", None), ("ALG1_WEIGHTED", oracle.WEIGHTS)])
def test_algorithm1_known_answer(name, c, accelerate):
    found = fit(toy(c), accelerate=accelerate, tol=0, max_iter=400)
    mean, Sigma = found.state.coef.mean, found.state.coef.cov.dense()
    np.testing.assert_allclose(mean, getattr(oracle, name + "_MU"), atol=1e-8)
    np.testing.assert_allclose(
        Sigma[[0, 0, 1], [0, 1, 1]], getattr(oracle, name + "_SIGMA"), atol=1e-8
    )
    assert found.bound == pytest.approx(getattr(oracle, name + "_ELBO"), abs=1e-8)
    assert found.bound < getattr(oracle, name + "_LOG_EVIDENCE")


@pytest.mark.parametrize("accelerate", [False, True])
def test_algorithm2_known_answer(accelerate):
    problem = toy(prior=Ridge(a=oracle.ALG2_A, b=oracle.ALG2_B), intercept=Fixed(1 / VARIANCE))
    found = fit(problem, accelerate=accelerate, tol=0, max_iter=600)
    np.testing.assert_allclose(found.state.coef.mean, oracle.ALG2_MU, atol=1e-8)
    assert 1 / found.state.priors[1].variance == pytest.approx(oracle.ALG2_TAU, abs=1e-8)
    assert found.bound == pytest.approx(oracle.ALG2_ELBO, abs=1e-8)


# ----- iterate by iterate


def state_of(problem, sweep, priors):
    """A state of the package from a sweep of a transcript."""
    L = np.linalg.cholesky(np.linalg.inv(sweep.Sigma))
    return State(Coef(sweep.mu, FullCovariance(L)), priors)


def assert_follows(problem, history, start=None):
    """Means, covariances, learned precisions and bounds, to 1e-10."""
    pairs = zip(iterates(problem, len(history), start), history, strict=True)
    for (state, bound), sweep in pairs:
        scale = max(1.0, np.abs(sweep.mu).max())
        np.testing.assert_allclose(state.coef.mean, sweep.mu, rtol=0, atol=1e-10 * scale)
        np.testing.assert_allclose(
            state.coef.cov.dense(), sweep.Sigma, rtol=0, atol=1e-10 * np.abs(sweep.Sigma).max()
        )
        tau = [1 / s.variance for s in state.priors if s]
        np.testing.assert_allclose(tau, sweep.tau, rtol=1e-10)
        assert bound == pytest.approx(sweep.elbo, rel=1e-10)


@pytest.mark.parametrize("form", ["dense", "factored"])
@pytest.mark.parametrize(("n", "p", "noise"), [(40, 3, 1), (25, 6, 0), (12, 20, 1)])
def test_sweeps_are_those_of_algorithm1(n, p, noise, form):
    X, y, _ = simulate(n, p, seed=n, noise=noise)
    problem = make_problem(X, y, prior=Fixed(0.8), intercept=Fixed(0.05), form=form)
    C = np.column_stack([np.ones(n), X])
    history = luts.algorithm1(C, y, np.diag([0.05, *[0.8] * p]), sweeps=25)
    assert_follows(problem, history)


@pytest.mark.parametrize("form", ["dense", "factored"])
@pytest.mark.parametrize("prior", [Ridge(a=1.3, b=0.8), Ridge(half_cauchy=0.7), Ridge()], ids=str)
@pytest.mark.parametrize(("n", "p"), [(40, 3), (12, 20)])
def test_sweeps_are_those_of_algorithm2(n, p, prior, form):
    X, y, _ = simulate(n, p, seed=n)
    problem = make_problem(X, y, prior=prior, intercept=Fixed(0.25), form=form)
    if prior.half_cauchy is None:
        block = luts.IG(X, prior.a, prior.b)
    else:
        block = luts.HalfCauchy(X, prior.half_cauchy)
    history = luts.algorithm2(np.ones((n, 1)), [block], y, np.eye(1) / 4, sweeps=25)
    assert_follows(problem, history)


@pytest.mark.parametrize("prior", [Ridge(a=1.3, b=0.8), Ridge(half_cauchy=0.7)], ids=str)
def test_weighted_sweeps_are_those_of_algorithm2(prior):
    """The transcript starts all rows at w = 1, the package at w = c: it joins after one sweep."""
    X, y, c = simulate(30, 4, seed=5, weighted=True)
    problem = make_problem(X, y, c, prior=prior, intercept=Fixed(0.25))
    if prior.half_cauchy is None:
        block = luts.IG(X, prior.a, prior.b)
    else:
        block = luts.HalfCauchy(X, prior.half_cauchy)
    first, *rest = luts.algorithm2(np.ones((30, 1)), [block], y, np.eye(1) / 4, c=c, sweeps=25)
    tau = first.tau[0]
    xi = 1.0 if prior.half_cauchy is None else 1 / (prior.half_cauchy**-2 + tau)
    ridge = prior.init(4)._replace(variance=1 / tau, xi=xi)
    assert_follows(problem, rest, start=state_of(problem, first, ((), ridge)))


# ----- the bound against the evidence


def mixture(lik, y, c, f, m, v, rng):
    """Draws of sum_i log p(y_i, latent_i | f_i) - log q(latent_i), q optimal for N(m, v)."""
    if isinstance(lik, Hinge):
        u, chi = 1 - y * f, (1 - y * m) ** 2 + v
        a = 1 / inverse_gaussian(np.broadcast_to(np.sqrt(chi) / c, f.shape).copy(), c**2, rng)
        log_p = np.log(c) - 0.5 * np.log(2 * np.pi * a) - (u + c * a) ** 2 / (2 * a)
        root = np.sqrt(chi)
        log_q = stats.geninvgauss.logpdf(a, 0.5, c * root, scale=root / c)
    elif isinstance(lik, Logistic):  # PG(1, xi) over PG(1, 0) is cosh(xi/2) exp(-xi^2 x / 2)
        xi = np.sqrt(m**2 + v)
        x = polya_gamma(np.broadcast_to(xi, f.shape).ravel(), rng).reshape(f.shape)
        log_p = y * f / 2 - x * f**2 / 2 - np.log(2)
        log_q = np.log(np.cosh(xi / 2)) - xi**2 * x / 2
    else:  # z ~ N(m, 1) of sign y
        z = y * stats.truncnorm.rvs(-y * m, np.inf, loc=y * m, size=f.shape, random_state=rng)
        log_p = stats.norm.logpdf(z, f)
        log_q = stats.norm.logpdf(z, m) - stats.norm.logcdf(y * m)
    return (log_p - log_q).sum(axis=1)


@pytest.mark.parametrize("sweeps", [2, 40])
@pytest.mark.parametrize(
    "prior", [Fixed(0.7), Ridge(a=1.3, b=0.8), Ridge(half_cauchy=0.7)], ids=str
)
@pytest.mark.parametrize("lik", [Hinge(), Logistic(), Probit()], ids=str)
def test_bound_by_monte_carlo(lik, prior, sweeps):
    """ELBO = E_q[log p - log q] from the densities, mid-way and at the end: 18 z-scores < 4.5."""
    rng, n = np.random.default_rng(11), 4000
    X, y, c = simulate(10, 3, 4, weighted=True)
    if not isinstance(lik, Hinge):
        c = np.ones(10)
    problem = make_problem(X, y, c, prior=prior, intercept=Fixed(0.25), likelihood=lik)
    state, bound = iterates(problem, sweeps)[-1]
    mean, Sigma = state.coef.mean, state.coef.cov.dense()
    law = stats.multivariate_normal(mean, Sigma)
    theta = law.rvs(n, random_state=rng)
    C = np.column_stack([np.ones(10), X])
    value = mixture(lik, y, c, theta @ C.T, C @ mean, np.diag(C @ Sigma @ C.T), rng)
    value += stats.norm.logpdf(theta[:, 0], scale=2.0) - law.logpdf(theta)
    if isinstance(prior, Fixed):
        value += stats.norm.logpdf(theta[:, 1:], scale=0.7**-0.5).sum(1)
    else:
        value += ridge_log_ratio(prior, state.priors[1], theta[:, 1:], rng)
    assert abs(value.mean() - bound) < Z * value.std() / np.sqrt(n)


# ----- the bound never falls


PRIORS = [Fixed(1e-3), Fixed(1.0), Ridge(), Ridge(a=2.0, b=1.0), Ridge(half_cauchy=1.0)]
LIKELIHOODS = [Hinge(), Logistic(), Probit()]


def assert_never_falls(path):
    """Beyond rounding, 1e-11 of the size of the bound."""
    path = np.array(path)
    assert np.isfinite(path).all()
    if path.size > 1:
        assert np.diff(path).min() >= -1e-11 * max(1.0, np.abs(path).max())


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 20),
    n=st.integers(2, 14),
    p=st.integers(1, 9),
    scale=st.sampled_from([1e-2, 1.0, 30.0]),
    noise=st.sampled_from([0.0, 1.0, 10.0]),
    weighted=st.booleans(),
    accelerate=st.booleans(),
    bound=st.sampled_from(["augmented", "tight"]),
    form=st.sampled_from(["dense", "factored", "diagonal", "sparse"]),
    lik=st.sampled_from(LIKELIHOODS),
    prior=st.sampled_from(PRIORS),
)
def test_bound_never_falls(seed, n, p, scale, noise, weighted, accelerate, bound, form, lik, prior):
    """40 settings x 5 data sets: separable, wide, sparse, weighted and badly scaled ones."""
    for k in range(5):
        X, y, c = simulate(n, p, seed + k, noise, weighted)
        X = scale * X
        if form == "sparse":
            X = sparse.csr_array(np.where(np.abs(X) < scale, 0.0, X))
        problem = make_problem(
            X,
            y,
            c,
            prior=prior,
            intercept=Fixed(1e-2),
            likelihood=lik,
            form="dense" if form == "sparse" else form,
        )
        found = fit(problem, max_iter=15, accelerate=accelerate, bound=bound)
        assert_never_falls(found.path)
        assert found.bound == pytest.approx(max(found.path), rel=1e-11, abs=1e-11)


def test_a_step_that_lowers_its_bound_is_an_error():
    """The loop refuses a component whose update contradicts its bound."""

    class Liar(Hinge):
        def augmented(self, y, m, v):
            row = super().augmented(y, m, v)
            return row._replace(bound=-2 * row.bound)

    with pytest.raises(BoundFell, match=r"the bound fell from .* to .*"):
        fit(toy(likelihood=Liar()), accelerate=False)


# ----- the optimum


@pytest.mark.parametrize("form", ["dense", "factored", "diagonal"])
@pytest.mark.parametrize(
    ("prior", "lik"),
    [
        (Fixed(0.5), Logistic()),
        (Ridge(), Hinge()),
        (Ridge(), Probit()),
        (Ridge(half_cauchy=1.0), Hinge()),
    ],
    ids=str,
)
def test_no_small_move_raises_the_bound(form, prior, lik):
    """60 random moves of the whole state, of length 1e-3 and 0.1, at the optimum."""
    X, y, c = simulate(14, 3, 7, weighted=True)
    problem = make_problem(X, y, c, prior=prior, intercept=Fixed(0.1), likelihood=lik, form=form)
    found = fit(problem, tol=1e-14, max_iter=20_000)
    assert found.converged
    x, rng = pack(found.state), np.random.default_rng(1)
    moving = np.ones_like(x)
    if isinstance(prior, Ridge) and prior.half_cauchy is None:
        moving[4 + 1] = 0  # xi has no part in the inverse gamma
    for length in (1e-3, 1e-1):
        for _ in range(30):
            move = rng.standard_normal(x.size) * moving
            move *= length / np.linalg.norm(move)
            value = bound_of(problem, unpack(found.state, x + move))
            assert value <= found.bound + 1e-11 * abs(found.bound)
            if length == 0.1:
                assert value < found.bound - 1e-7


SHAPES = [(200, 10, 1.0), (100, 50, 1.0), (50, 200, 1.0), (60, 30, 0.0)]


@pytest.mark.parametrize(("n", "p", "noise"), SHAPES)
def test_acceleration_reaches_the_same_optimum_sooner(n, p, noise):
    X, y, _ = simulate(n, p, seed=n + p, noise=noise)
    form = "factored" if p > n else "dense"
    problem = make_problem(X, y, prior=Ridge(), intercept=Fixed(1e-4), form=form)
    plain = fit(problem, accelerate=False, tol=1e-10, max_iter=20_000)
    quick = fit(problem, tol=1e-10)
    assert plain.converged
    assert quick.converged
    assert quick.n_iter < 0.7 * plain.n_iter
    # a plain sweep that gains tol at rate 0.99 has 100 tol to go
    assert quick.bound == pytest.approx(plain.bound, rel=1e-7)
    sd = np.sqrt(plain.state.coef.cov.diag())
    assert (np.abs(quick.state.coef.mean - plain.state.coef.mean) < 0.02 * sd).all()


@pytest.mark.parametrize("prior", [Fixed(1.0), Ridge()], ids=str)
def test_a_start_on_some_rows_changes_nothing(prior):
    X, y, c = simulate(20_000, 3, 9, weighted=True)
    problem = make_problem(X, y, c, prior=prior, intercept=Fixed(0.01), size=500)
    seen = []

    def watch(progress, state):
        seen.append(state)

    cold = VB(tol=1e-12, warm_rows=0).fit(problem, np.random.default_rng(0))
    for seed in range(2):
        warm = VB(tol=1e-12).fit(problem, np.random.default_rng(seed), watch=watch)
        assert warm.bound == pytest.approx(cold.bound, rel=1e-10)
        sd = np.sqrt(cold.state.coef.cov.diag())
        assert (np.abs(warm.state.coef.mean - cold.state.coef.mean) < 1e-4 * sd).all()
    assert len(seen) > 0


@pytest.mark.parametrize("lik", LIKELIHOODS, ids=str)
def test_flat_priors_are_no_cause_for_warnings(lik, recwarn):
    """Plenty of rows determine the coefficients; density one in the flat directions."""
    X, y, c = simulate(100, 3, 15, weighted=True)
    problem = make_problem(X, y, c, prior=Fixed(0.0), intercept=Fixed(0.0), likelihood=lik)
    found, plain_fit = fit(problem), fit(problem, accelerate=False)
    assert found.bound == pytest.approx(plain_fit.bound, rel=1e-9)
    wide = make_problem(X, y, c, prior=Fixed(1e-9), intercept=Fixed(1e-9), likelihood=lik)
    density = 4 * 0.5 * np.log(1e-9 / (2 * np.pi))
    assert fit(wide).bound - density == pytest.approx(found.bound, abs=1e-5)
    assert not [str(w.message) for w in recwarn]


# ----- the tight bound


@pytest.mark.parametrize("form", ["dense", "factored"])
@pytest.mark.parametrize(
    "lik",
    [Hinge(), Logistic(), Probit(), SkewedLaplace(0.7, 0.4)],
    ids=lambda k: type(k).__name__,
)
def test_tight_fits_by_columns_agree_with_the_gram_matrix(lik, form):
    """f = X theta with unit prior is a process of kernel X X'."""
    X, y, c = simulate(20, 25 if form == "factored" else 5, 1, weighted=True)
    problem = make_problem(X, y, c, likelihood=lik.tightened(), form=form)
    run = fit(problem, bound="tight")
    K = X @ X.T + 1e-10 * np.eye(20)
    labels = Labels(y, c, np.arange(20), 20)
    gram = fit_sites(ExactProcess(K), labels, lik.tight, tol=1e-14, max_iter=2000)
    assert run.bound == pytest.approx(gram.bound, rel=1e-6)
    np.testing.assert_allclose(X @ run.state.coef.mean, gram.M[:, 0], atol=1e-3)


# ----- the diagonal form


@pytest.mark.parametrize("prior", [Fixed(1.0), Ridge()], ids=str)
@pytest.mark.parametrize(("n", "p"), [(40, 5), (15, 30)])
def test_factorised_posterior(n, p, prior):
    """Bound below the full one, precisions from the diagonal of S + P, mean of the full solve."""
    X, y, c = simulate(n, p, 12, weighted=True)
    options = {"prior": prior, "intercept": Fixed(0.1)}
    full = fit(make_problem(X, y, c, **options), tol=1e-12)
    problem = make_problem(X, y, c, form="diagonal", **options)
    found = fit(problem, tol=1e-12, max_iter=20_000)
    assert_never_falls(found.path)
    assert found.converged
    assert found.bound < full.bound
    coef, priors, _ = found.state
    dense = make_problem(X, y, c, **options)
    sums = dense.expectations(coef, gram=True)
    Q = sums.S.M + np.diag(dense.model.precision(priors))
    np.testing.assert_allclose(coef.cov.diag(), 1 / np.diag(Q), rtol=1e-4)
    slope = sums.g - dense.model.precision(priors) * coef.mean
    step = np.linalg.solve(Q, slope)  # what a full solve would still move the mean by
    assert (np.abs(step) < 1e-3 * np.sqrt(coef.cov.diag())).all()


# ----- stopping and telling


def test_a_callback_stops_the_fit_at_the_state_it_was_shown():
    seen = []

    def watch(progress, state):
        seen.append((progress, state))
        return len(seen) == 3

    found = VB(warm_rows=0).fit(toy(), RNG, watch=watch)
    assert len(seen) == found.n_iter == 3
    assert found.state is seen[-1][1]
    assert found.bound == seen[-1][0].bound
    assert not found.converged


@pytest.mark.parametrize("accelerate", [False, True])
def test_collinear_columns_without_a_prior_are_not_blamed_on_a_component(accelerate):
    """A flat direction: a warning and perhaps the factorisation's advice, but not BoundFell."""
    X, y, _ = simulate(10, 2, 1)
    twice = np.column_stack([X, X]) * [1.0, 1.0, 1.0, -1.0]
    problem = make_problem(twice, y, prior=Fixed(0.0), intercept=Fixed(0.0))
    with (
        pytest.warns(RuntimeWarning, match="numerically singular"),
        contextlib.suppress(np.linalg.LinAlgError),
    ):
        fit(problem, accelerate=accelerate, max_iter=50)
