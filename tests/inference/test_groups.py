"""Schemes with groups: transcripts, dense forms, limits, Monte Carlo and quadrature."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.groups import grouped, make_grouped, simulate_groups
from tests.inference.test_gibbs import assert_moment, sample
from tests.inference.test_vb import assert_follows, assert_never_falls, iterates
from tests.papers import luts
from tests.problems import frozen

from bayesvm.core.types import Term
from bayesvm.data import Blocks, Serial
from bayesvm.designs import Intercept, Table
from bayesvm.inference import EM, SVI, VB, Gibbs
from bayesvm.inference.em import objective
from bayesvm.inference.model import Model, State
from bayesvm.inference.problem import Problem
from bayesvm.inference.svi import given_shared
from bayesvm.likelihoods import Hinge, Logistic
from bayesvm.priors import Fixed, InverseWishart, LaplaceZero, Lasso, Ridge

SPECS = {
    "intercepts": [(0, 6, (), True)],
    "slopes": [(0, 6, (0,), True)],
    "two slopes": [(0, 6, (0, 1), True)],
    "crossed": [(0, 6, (), True), (1, 3, (), True)],
    "crossed slopes": [(0, 6, (1,), True), (1, 3, (0,), True)],
}
SIZES = (6, 3)


def prior_of(design):
    return InverseWishart(design.r, scale=0.7) if design.r > 1 else Ridge(half_cauchy=1.0)


def problem(name, n=40, seed=0, weighted=False, form="arrow", **options):
    X, y, c = simulate_groups(n, 2, SIZES, seed=seed, weighted=weighted, slopes=True)
    designs = [grouped(*spec) for spec in SPECS[name]]
    groups = [(d, prior_of(d)) for d in designs]
    return make_grouped(X, y, c, groups=groups, form=form, **options)


def one_hot(codes, G):
    return np.eye(G)[codes]


# ----- the printed algorithm


@pytest.mark.parametrize("form", ["arrow", "dense"])
def test_sweeps_are_those_of_algorithm2_with_crossed_factors(form):
    X, y, _ = simulate_groups(40, 2, (3, 7), seed=3)
    own = [Ridge(1.3, 0.8), Ridge(half_cauchy=0.7)]
    groups = [(grouped(0, 3), own[0]), (grouped(1, 7), own[1])]
    found = make_grouped(X, y, groups=groups, prior=Ridge(2.0, 1.0), form=form)
    blocks = [
        luts.IG(X.numbers, 2.0, 1.0),
        luts.IG(one_hot(X.codes[:, 0], 3), 1.3, 0.8),
        luts.HalfCauchy(one_hot(X.codes[:, 1], 7), 0.7),
    ]
    assert_follows(found, luts.algorithm2(np.ones((40, 1)), blocks, y, np.eye(1) / 4, sweeps=25))


# ----- the arrow is the dense matrix


@pytest.mark.parametrize("name", SPECS)
def test_whole_fits_are_those_of_the_dense_form(name):
    """Sweep by sweep to 1e-10, cut into blocks or not."""
    dense = iterates(problem(name, form="dense", weighted=True), 15)
    for size in (None, 11):
        arrow = iterates(problem(name, weighted=True, size=size), 15)
        for (a, bound), (b, expected) in zip(arrow, dense, strict=True):
            np.testing.assert_allclose(a.coef.mean, b.coef.mean, rtol=0, atol=1e-10)
            np.testing.assert_allclose(a.coef.cov.dense(), b.coef.cov.dense(), rtol=0, atol=1e-10)
            assert bound == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(
    ("name", "prior"),
    [("slopes", Ridge(1.0, 1.0)), ("crossed", Ridge()), ("crossed", LaplaceZero(inclusion=0.5))],
    ids=["slopes", "crossed", "selection"],
)
def test_accelerated_fits_end_at_the_same_place(name, prior):
    runs = [
        VB(tol=1e-12).fit(problem(name, form=form, prior=prior), np.random.default_rng(0))
        for form in ("arrow", "dense")
    ]
    assert runs[0].bound == pytest.approx(runs[1].bound, rel=1e-9)
    np.testing.assert_allclose(runs[0].state.coef.mean, runs[1].state.coef.mean, atol=1e-4)


# ----- the bound


PRIORS = [Ridge(), Ridge(half_cauchy=1.0), LaplaceZero(inclusion=0.4), Lasso()]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 20),
    n=st.integers(8, 30),
    name=st.sampled_from(sorted(SPECS)),
    weighted=st.booleans(),
    accelerate=st.booleans(),
    prior=st.sampled_from(PRIORS),
    lik=st.sampled_from([Hinge(), Logistic()]),
)
def test_bound_never_falls(seed, n, name, weighted, accelerate, prior, lik):
    """Intercepts, slopes, crossed factors, weights, selection: every combination."""
    for k in range(2):
        found = problem(name, n, seed + k, weighted, prior=prior, likelihood=lik)
        path = []
        VB(max_iter=40, tol=0, accelerate=accelerate).fit(
            found,
            np.random.default_rng(0),
            start=None if not hasattr(prior, "gates") else _open(found),
            watch=lambda progress, _, path=path: path.append(progress.bound),
        )
        assert_never_falls(path)


def _open(found):
    return State(found.model.start(), found.model.init())


# ----- EM


@pytest.mark.parametrize("prior", [Ridge(1.0, 1.0), Lasso()], ids=["ridge", "lasso"])
@pytest.mark.parametrize("name", ["intercepts", "slopes", "crossed slopes"])
def test_em_ends_at_the_certified_optimum(name, prior):
    found = problem(name, prior=prior)
    run = EM().fit(found, np.random.default_rng(0))
    assert run.converged
    assert run.certificate.kkt < 1e-5
    assert not run.certificate.gap > 1e-7
    rng, state = np.random.default_rng(1), run.state
    for _ in range(50):
        near = state.coef.mean + 1e-3 * rng.standard_normal(state.coef.mean.size)
        moved = state._replace(coef=state.coef._replace(mean=near))
        assert objective(found, moved) <= run.bound + 1e-9


# ----- Gibbs against quadrature


def test_random_slopes_against_quadrature():
    """One group, intercept and slope with an IW covariance integrated out: 2-D grid, |z| < 4.5."""
    rng = np.random.default_rng(3)
    x, n, nu, psi = rng.standard_normal(9), 9, 8.0, 3.0
    y = np.where(x + 0.5 * rng.standard_normal(n) > 0.2, 1.0, -1.0)
    X = Table(x[:, None], np.zeros((n, 1), dtype=int))
    terms = (
        Term("intercept", Intercept(), Fixed(1e10)),
        Term("g", grouped(0, 1, (0,)), InverseWishart(2, nu, psi)),
    )
    lik = Logistic()
    data = frozen(y, np.ones(n))
    found = Problem(Model(terms, lik), Blocks(X, n), Serial(), *data, form="arrow")
    draws = sample(found, seed=9, draws=600)
    grid = np.linspace(-30, 30, 901)
    u, v = (a.ravel() for a in np.meshgrid(grid, grid))
    log_p = -0.5 * (nu + 1) * np.log(psi + u**2 + v**2)
    for xi, yi in zip(x, y):
        log_p = log_p + lik.log_prob(np.full_like(u, yi), u + v * xi)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    theta = draws.theta[..., 1:]
    for g in (lambda u, v: u, lambda u, v: v, lambda u, v: u * v, lambda u, v: np.tanh(v)):
        assert_moment(g(theta[..., 0], theta[..., 1]), float(p @ g(u, v)))
    # E[Sigma_00 | u] = (psi + u^2) / (nu + 1 - 3)
    expected = float(p @ ((psi + u**2) / (nu - 2)))
    assert_moment(draws.hyper["g"][..., 0], expected)


def test_chains_remember_the_covariance_of_effects():
    found = problem("slopes")
    draws = Gibbs(draws=5, burn_in=2, chains=1).fit(found, np.random.default_rng(0))
    assert draws.hyper["g0"].shape == (1, 5, 4)


# ----- SVI, groups local


@pytest.mark.parametrize("name", ["intercepts", "slopes", "crossed slopes"])
def test_svi_comes_close_to_the_batch_optimum(name):
    found = problem(name, n=300, seed=2)
    best = VB(tol=1e-10).fit(found, np.random.default_rng(0))
    run = SVI(batch_size=100, max_iter=20).fit(found, np.random.default_rng(1))
    assert best.bound - 0.02 * abs(best.bound) < run.bound <= best.bound + 1e-6
    assert np.corrcoef(run.state.coef.mean, best.state.coef.mean)[0, 1] > 0.95


def test_the_batch_optimum_is_a_fixed_point_of_svi(monkeypatch):
    """A minibatch of everything, effects settled to the last digit: nothing moves."""
    settled = partial(given_shared, sweeps=400, still=1e-12)
    monkeypatch.setattr("bayesvm.inference.svi.given_shared", settled)
    found = problem("slopes", n=120, seed=3)
    best = VB(tol=1e-14, max_iter=5000).fit(found, np.random.default_rng(0))
    run = SVI(batch_size=120, max_iter=3, delay=1.0).fit(
        found, np.random.default_rng(1), start=best.state
    )
    assert run.bound == pytest.approx(best.bound, rel=1e-9)
    np.testing.assert_allclose(run.state.coef.mean, best.state.coef.mean, atol=1e-4)
