"""Gibbs sampling against quadrature, with standard errors from the effective number of draws."""

import numpy as np
import pytest
from scipy import stats
from tests.papers import exact, oracle
from tests.problems import Z, frozen, make_problem, simulate

from bayesvm.data import Serial, Threads
from bayesvm.inference import Gibbs
from bayesvm.inference.draws import Position
from bayesvm.inference.progress import Monitor, silent
from bayesvm.likelihoods import Hinge, Logistic, Probit
from bayesvm.predictive.diagnostics import ess, r_hat
from bayesvm.priors import Fixed, Ridge, SpikeSlab

SLOPE = frozen(oracle.X[:, None].copy())
IG = Ridge(a=oracle.ALG2_A, b=oracle.ALG2_B)
B0 = Fixed(1 / oracle.ALG2_INTERCEPT_VARIANCE)


def sample(problem, seed=0, n_jobs=None, **options):
    options = {"draws": 1000, "burn_in": 60, "chains": 4, **options}
    return Gibbs(**options).fit(problem, np.random.default_rng(seed), n_jobs=n_jobs)


def assert_moment(draws, expected):
    """The mean of draws (chains, draws) within 4.5 standard errors, sd / sqrt(ess).

    ess is estimated, to about ten per cent here, so 4.5 stands for a level near 1e-5.
    """
    error = draws.std() / np.sqrt(float(ess(draws)))
    assert abs(draws.mean() - expected) < Z * error


def assert_moments(theta, mean):
    """First and second moments and one bounded function; ``mean`` averages g(b0, u)."""
    b0, u = theta[..., 0], theta[..., 1]
    functions = [
        lambda b0, u: b0,
        lambda b0, u: u,
        lambda b0, u: b0**2,
        lambda b0, u: u**2,
        lambda b0, u: b0 * u,
        lambda b0, u: np.tanh(2 * (u - 1)),
    ]
    for g in functions:
        assert_moment(g(b0, u), mean(g))


# ----- the hinge against quadrature


@pytest.mark.parametrize(("c", "scale_move"), [(None, False), (oracle.WEIGHTS, True)])
@pytest.mark.parametrize("prior", [Fixed(1.0), IG, Ridge(half_cauchy=1.5)], ids=str)
def test_hinge(prior, c, scale_move):
    """6 settings x 6 to 8 moments, those of the scale among them, |z| < 4.5."""
    problem = make_problem(SLOPE, oracle.Y, c, prior=prior, intercept=B0)
    draws = sample(problem, seed=2, scale_move=scale_move)
    assert (r_hat(draws.theta) < 1.05).all()
    if not prior.is_learned:
        P = np.diag([0.25, 1.0])
        assert_moments(draws.theta, exact.fixed_prior(oracle.X, oracle.Y, P, c=c).mean)
        return
    variance, s0 = draws.hyper["coef"][..., 0], prior.half_cauchy
    scale = {"s0": s0} if s0 else {"A": prior.a, "B": prior.b}
    mean = exact.variance_prior(oracle.X, oracle.Y, 4.0, **scale, c=c).mean
    assert_moments(draws.theta, mean)
    if s0:  # the scale by its shrinkage 1 / (1 + sigma^2 / s0^2)
        shrinkage = mean(lambda b0, u: exact.shrinkage_given_slope(u, s0))
        assert_moment(1 / (1 + variance / s0**2), shrinkage)
    else:
        precision = mean(lambda b0, u: exact.precision_given_slope(u, prior.a, prior.b))
        assert_moment(1 / variance, precision)
        log_variance = mean(lambda b0, u: exact.log_variance_given_slope(u, prior.a, prior.b))
        assert_moment(np.log(variance), log_variance)


# ----- true likelihoods against quadrature


def smooth_posterior(lik, x, y, c, log_prior):
    """Average of g(b0, u) under the posterior, on a grid (exponentially accurate: all smooth)."""
    grid = np.linspace(-12, 12, 801)
    b0, u = (a.ravel() for a in np.meshgrid(grid, grid))
    log_p = log_prior(b0, u)
    for xi, yi, ci in zip(x, y, c):
        log_p = log_p + ci * lik.log_prob(np.full_like(b0, yi), b0 + u * xi)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    return lambda g: float(p @ g(b0, u))


@pytest.mark.parametrize(
    ("c", "scale_move"), [(np.ones(6), False), (np.array([1.0, 2, 1, 3, 1, 2]), True)]
)
@pytest.mark.parametrize("lik", [Logistic(), Probit()], ids=str)
def test_true_likelihoods(lik, c, scale_move):
    """4 settings x 6 moments, fixed prior, whole weights, |z| < 4.5."""

    def log_prior(b0, u):
        return stats.norm.logpdf(b0, scale=2.0) + stats.norm.logpdf(u)

    problem = make_problem(SLOPE, oracle.Y, c, prior=Fixed(1.0), intercept=B0, likelihood=lik)
    draws = sample(problem, seed=5, scale_move=scale_move)
    assert_moments(draws.theta, smooth_posterior(lik, oracle.X, oracle.Y, c, log_prior))


# ----- the sweep


@pytest.mark.parametrize("lik", [Hinge(), Logistic(), Probit()], ids=str)
def test_engine_and_workers_do_not_change_a_draw(lik):
    X, y, c = simulate(50, 4, seed=15)
    rng_state, ends = 16, []
    for engine in (Serial(), Threads(1), Threads(3)):
        problem = make_problem(
            X,
            y,
            c,
            prior=Ridge(half_cauchy=1.0),
            intercept=Fixed(0.1),
            likelihood=lik,
            engine=engine,
            size=8,
        )
        link = Position(np.zeros(5), problem.model.init())
        rng = np.random.default_rng(rng_state)
        for t in range(5):
            link = Gibbs().sweep(problem, link, rng, (1, 2, t))
        ends.append(link)
    np.testing.assert_allclose(ends[1].theta, ends[2].theta, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ends[0].theta, ends[1].theta, rtol=1e-9)


# ----- seeds, processes, checkpoints of the chain


def test_same_seed_same_draws_and_other_chains_differ():
    problem = make_problem(SLOPE, oracle.Y, prior=IG, intercept=B0)
    options = {"draws": 20, "burn_in": 5, "chains": 3}
    a, b, other = (sample(problem, seed, **options) for seed in (17, 17, 18))
    np.testing.assert_allclose(a.theta, b.theta, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(a.hyper["coef"], b.hyper["coef"], rtol=1e-6, atol=1e-9)
    assert not np.array_equal(a.theta, other.theta)
    assert len({chain.tobytes() for chain in a.theta}) == 3


def test_chains_in_processes_are_the_chains_in_turn():
    X, y, c = simulate(40, 3, seed=20, weighted=True)
    problem = make_problem(X, y, c, prior=Ridge(half_cauchy=1.0), intercept=Fixed(0.1))
    options = {"draws": 20, "burn_in": 5, "chains": 3}
    apart, in_turn = sample(problem, 21, n_jobs=2, **options), sample(problem, 21, **options)
    np.testing.assert_allclose(apart.theta, in_turn.theta, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(apart.hyper["coef"], in_turn.hyper["coef"], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(apart.log_prob, in_turn.log_prob, rtol=1e-6, atol=1e-9)


def test_kept_log_probabilities_are_those_of_the_kept_draws():
    X, y, c = simulate(15, 2, seed=22, weighted=True)
    problem = make_problem(X, y, c, prior=IG, intercept=B0)
    draws = sample(problem, 23, draws=30, burn_in=5, chains=2)
    f = draws.theta @ np.column_stack([np.ones(15), X]).T
    expected = (c * Hinge().log_prob(y, f)).sum(axis=-1)
    np.testing.assert_allclose(draws.log_prob, expected, rtol=1e-10)


@pytest.mark.parametrize(("stop_at", "leaps", "kept"), [(12, 0, 7), (12, 4, 100), (3, 0, 1)])
def test_a_callback_stops_the_chains_where_it_says(stop_at, leaps, kept):
    """It is called after every sweep and after every run of leaps, which ends a cycle; no other
    chain is begun.  In the burn-in nothing was kept yet, and the last state is returned."""
    problem = make_problem(SLOPE, oracle.Y, prior=IG, intercept=B0)
    scheme = Gibbs(draws=150, burn_in=5, chains=2, leaps=leaps)

    seen = []

    def watch(progress, link):
        seen.append(link.theta)
        return progress.iteration >= stop_at

    draws = scheme.fit(problem, np.random.default_rng(0), watch=watch)
    whole = scheme.fit(problem, np.random.default_rng(0))
    assert draws.theta.shape == (1, kept, 2)
    expected = [[seen[-1]]] if kept == 1 else whole.theta[:1, :kept]
    np.testing.assert_allclose(draws.theta, expected, rtol=1e-6, atol=1e-9)
    assert all(np.isfinite(x).all() for x in (draws.log_prob, draws.hyper["coef"]))


class Memory:
    """A checkpoint without a file: what was put under a key, copied."""

    def __init__(self):
        self.held = {}

    def get(self, key):
        return self.held.get(key, {})

    def put(self, key, make, now=False):
        self.held[key] = {name: np.array(value) for name, value in make().items()}


@pytest.mark.parametrize(
    ("stop_at", "prior"),
    [(k, Ridge(half_cauchy=1.0)) for k in (3, 6, 12, 110)] + [(12, SpikeSlab(0.5))],
)
def test_chains_resume_where_they_were_stopped(stop_at, prior):
    """In burn-in, between sweep and leaps, or later: as if they had never been stopped."""
    X, y, _ = simulate(15, 2, seed=25)
    problem = make_problem(X, y, prior=prior, intercept=B0)
    scheme = Gibbs(draws=100, burn_in=5, chains=2, thin=2)
    whole = scheme.fit(problem, np.random.default_rng(26))
    store = Memory()

    def watch(progress, link):
        return progress.iteration >= stop_at

    scheme.fit(problem, np.random.default_rng(26), watch=Monitor(watch, store))
    resumed = scheme.fit(problem, np.random.default_rng(26), watch=Monitor(silent, store))
    np.testing.assert_allclose(resumed.theta, whole.theta, rtol=1e-6, atol=1e-9)
    for name, kept in whole.hyper.items():
        np.testing.assert_allclose(resumed.hyper[name], kept, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(resumed.log_prob, whole.log_prob, rtol=1e-6, atol=1e-9)
    if prior.has_gates:
        np.testing.assert_allclose(resumed.inclusion, whole.inclusion, rtol=1e-10)
