"""Lasso, bridge, Laplace-zero and spike-and-slab under VB, EM and Gibbs."""

import numpy as np
import pytest
from tests.papers import bridge, exact_selection, laplace_zero, lasso_lp, oracle
from tests.problems import Z, make_problem, simulate

from bayesvm.core.types import Coef
from bayesvm.inference import EM, VB, Gibbs
from bayesvm.inference.cavi import bound_of, searched, sweep
from bayesvm.inference.model import State
from bayesvm.likelihoods import Logistic, Probit
from bayesvm.linalg.covariances import Point
from bayesvm.predictive.diagnostics import ess
from bayesvm.priors import Bridge, Fixed, LaplaceZero, Lasso, SpikeSlab

SLOPE = oracle.X[:, None]
ALG3 = LaplaceZero(oracle.ALG3_RHO, a=oracle.ALG2_A, b=oracle.ALG2_B)
B0 = Fixed(1 / oracle.ALG2_INTERCEPT_VARIANCE)


def iterates(problem, count):
    """States and bounds of plain sweeps from the start."""
    state, out = State(problem.model.start(), problem.model.init()), []
    for _ in range(count):
        step = sweep(problem, state)
        state = step.state
        out.append(state)
    return out


# ----- VB


def test_laplace_zero_known_answer():
    problem = make_problem(SLOPE, oracle.Y, prior=ALG3, intercept=B0)
    state = iterates(problem, 500)[-1]
    coef, (_, s), _ = state
    np.testing.assert_allclose(coef.mean, oracle.ALG3_MU, atol=1e-8)
    assert ALG3.gates(s, 1)[0] == pytest.approx(oracle.ALG3_INCLUSION, abs=1e-8)
    assert 1 / s.variance == pytest.approx(oracle.ALG3_TAU, abs=1e-8)
    assert bound_of(problem, state) == pytest.approx(oracle.ALG3_ELBO, abs=1e-8)
    run = VB().fit(problem, np.random.default_rng(0))
    assert run.bound == pytest.approx(oracle.ALG3_ELBO, abs=1e-6)
    answer = exact_selection.laplace_zero(oracle.X, oracle.Y, 4.0, 0.4, 3.0, 2.0)
    assert run.bound < answer.log_evidence


def test_laplace_zero_equals_its_transcript():
    X, y, c = simulate(40, 4, seed=7)
    prior = LaplaceZero(0.3, a=2.0, b=1.5)
    problem = make_problem(X, y, c, prior=prior, intercept=Fixed(0.2))
    history = laplace_zero.algorithm3(
        np.ones((40, 1)), X, y, np.array([[0.2]]), 0.3, 2.0, 1.5, c=c, sweeps=25
    )
    for ours, theirs in zip(iterates(problem, 25), history, strict=True):
        np.testing.assert_allclose(ours.coef.mean, theirs.mu, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(ours.coef.cov.dense(), theirs.Sigma, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(ours.priors[1].mixing, theirs.mu_b, rtol=1e-10)
        np.testing.assert_allclose(ours.priors[1].eta, theirs.eta, rtol=1e-8, atol=1e-9)
        assert 1 / ours.priors[1].variance == pytest.approx(theirs.tau, rel=1e-10)
        assert bound_of(problem, ours) == pytest.approx(theirs.elbo, rel=1e-10)


@pytest.mark.parametrize(
    ("alpha", "nu"), [(1.0, None), (0.5, None), (1.6, None), (1.0, 1.0), (0.7, 1.0)]
)
def test_bridge_equals_its_transcript(alpha, nu):
    X, y, c = simulate(40, 3, seed=8)
    prior = Bridge(alpha, nu=nu, a=3.0, b=2.0)
    problem = make_problem(X, y, c, prior=prior, intercept=Fixed(0.2))
    penalised = np.array([False, True, True, True])
    known = {"nu": nu} if nu is not None else {"a": 3.0, "b": 2.0}
    history = bridge.vb_history(
        np.column_stack([np.ones(40), X]), y, penalised, alpha, pi0=0.2, c=c, sweeps=25, **known
    )
    for ours, theirs in zip(iterates(problem, 25), history, strict=True):
        np.testing.assert_allclose(ours.coef.mean, theirs.mu, rtol=1e-9, atol=1e-10)
        assert ours.priors[1].rate == pytest.approx(theirs.vartheta, rel=1e-9)
        assert bound_of(problem, ours) == pytest.approx(theirs.elbo, rel=1e-10)


def test_a_search_from_a_poor_model_finds_a_better_one():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6))
    y = np.sign(2 * X[:, 0] - 2 * X[:, 1] + 0.5 * rng.logistic(size=200))
    problem = make_problem(X, y, prior=SpikeSlab(0.2), intercept=Fixed(0.01))
    prior = problem.model.terms[1].prior
    shut = State(problem.model.start(), ((), prior.init(6)._replace(eta=np.full(6, -40.0))))
    poor = VB().fit(problem, rng, start=shut)
    found = searched(problem, poor.state)
    gates = problem.model.gates(found.priors)
    assert gates[1] > 0.5
    assert gates[2] > 0.5
    assert VB().fit(problem, rng, start=found).bound > poor.bound + 10


# ----- EM


LASSO_PROBLEMS = [
    (60, 5, 1.0, 0.3), (200, 10, 1.0, 0.1), (100, 50, 1.0, 0.1), (100, 50, 0.0, 1.0),
    (50, 200, 1.0, 0.1), (50, 200, 1.0, 1.0), (80, 6, 0.0, 5.0), (300, 20, 1.0, 10.0),
    (40, 700, 1.0, 0.5),
]  # fmt: skip


@pytest.mark.parametrize(("n", "p", "noise", "nu"), LASSO_PROBLEMS)
def test_em_reaches_the_linear_programme(n, p, noise, nu):
    """Within 1e-6 (relative) of a certified solution, weights and all; and says so."""
    X, y, c = simulate(n, p, seed=n + p, noise=noise, weighted=True)
    form = "factored" if p > 500 else "dense"
    problem = make_problem(X, y, c, prior=Lasso(nu=nu), intercept=Fixed(1e-12), form=form)
    run = EM().fit(problem, np.random.default_rng(0))
    design = np.column_stack([np.ones(n), X])
    lam = np.array([0.0, *np.full(p, 1 / nu)])
    best = lasso_lp.solve(design, y, lam, c)
    value = lasso_lp.objective(run.state.coef.mean, y[:, None] * design, c, lam)
    assert value - best.dual <= 1e-6 * max(1.0, best.primal)
    assert value - best.dual >= -1e-8 * max(1.0, best.primal)
    assert run.converged
    assert run.certificate.kkt < 1e-6
    assert abs(run.certificate.gap) < 1e-6
    assert (run.dual >= -1e-9).all()
    assert (run.dual <= 2 * c + 1e-9).all()


def test_scales_of_columns_do_not_matter():
    """Columns with scales from 0.1 to 1e9, against the same programme in columns of equal scale.

    The force on the largest column is a sum over rows of terms of 1e9 that must come out within 1.
    """
    X, y, c = simulate(1000, 8, seed=0, weighted=True)
    scale = np.geomspace(0.1, 1e9, 8)
    grown = make_problem(X * scale, y, c, prior=Lasso(nu=1.0), intercept=Fixed(1e-6))
    run = EM().fit(grown, np.random.default_rng(0))
    assert run.converged
    assert abs(run.certificate.gap) < 1e-8  # sums of terms of 1e9 round at 1e-7 of one
    best = lasso_lp.solve(np.column_stack([np.ones(1000), X]), y, np.append(0.0, 1.0 / scale), c)
    coef = run.state.coef.mean * np.append(1.0, scale)
    np.testing.assert_allclose(coef, best.theta, atol=1e-8)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5])
def test_em_steps_equal_the_transcript(alpha):
    """At nu = 1 both smooth alike."""
    X, y, c = simulate(40, 3, seed=9, weighted=True)
    problem = make_problem(X, y, c, prior=Bridge(alpha, nu=1.0), intercept=Fixed(0.3))
    design, eps = np.column_stack([np.ones(40), X]), 0.05
    penalised = np.array([False, True, True, True])
    history = bridge.em_history(design, y, penalised, 1.0, alpha, eps, pi0=0.3, c=c, steps=15)

    seen = []

    def watch(progress, state):
        seen.append(state.coef.mean)

    start = State(Coef(history[0].beta, Point(4)), problem.model.init())
    scheme = EM(accelerate=False, eps_min=eps, tol=0.0, max_iter=15)
    scheme.fit(problem, np.random.default_rng(0), start, watch)
    assert len(seen) == 15
    for mean, step in zip(seen, history[1:], strict=True):
        np.testing.assert_allclose(mean, step.beta, rtol=1e-9, atol=1e-11)


def bimodal():
    rng = np.random.default_rng(12)
    z = rng.standard_normal((60, 1))
    X = np.hstack([z + 0.3 * rng.standard_normal((60, 4)), rng.standard_normal((60, 4))])
    y = np.sign(z[:, 0] + X[:, 4] + 0.5 * rng.logistic(size=60))
    return X, y


def test_bridge_has_zeros():
    X, y = bimodal()
    problem = make_problem(X, y, prior=Bridge(0.4, nu=0.2), intercept=Fixed(0.01))
    run = EM().fit(problem, np.random.default_rng(0))
    assert 0 < np.count_nonzero(run.state.coef.mean[1:]) < 8
    assert run.certificate.kkt < 1e-7
    assert run.converged


@pytest.mark.parametrize("likelihood", [Logistic(), Probit()], ids=str)
def test_lasso_with_another_likelihood_is_stationary(likelihood):
    """No exact finish there: slopes of the likelihood against the corner, to the smoothing."""
    X, y, c = simulate(80, 6, seed=4, weighted=True)
    problem = make_problem(
        X, y, c, prior=Lasso(nu=0.15), intercept=Fixed(0.1), likelihood=likelihood
    )
    run = EM().fit(problem, np.random.default_rng(0))
    mean = run.state.coef.mean

    def loglik(theta):
        return float(c @ likelihood.log_prob(y, np.column_stack([np.ones(80), X]) @ theta))

    slope = np.array(
        [(loglik(mean + 1e-5 * e) - loglik(mean - 1e-5 * e)) / 2e-5 for e in np.eye(7)]
    )[1:]
    on = mean[1:] != 0
    np.testing.assert_allclose(slope[on], np.sign(mean[1:][on]) / 0.15, rtol=2e-3)
    assert (np.abs(slope[~on]) <= 1 / 0.15 + 1e-2).all()
    assert on.any()


# ----- Gibbs


def z_of(draws, want):
    """z-score of the mean of chains ``(chains, draws)`` by their effective size."""
    error = draws.std() / np.sqrt(ess(draws[..., None])[0])
    return (draws.mean() - want) / error


def test_lasso_gibbs_known_moments():
    """Both coefficients penalised, scales (1, 0.7) by scaling the columns; five moments."""
    X = oracle.DESIGN * oracle.LASSO_SCALES
    prior = Lasso(a=oracle.LASSO_A, b=oracle.LASSO_B)
    problem = make_problem(X, oracle.Y, prior=prior)
    draws = Gibbs(3000, 200, 2).fit(problem, np.random.default_rng(1))
    b0, u = np.moveaxis(draws.theta * oracle.LASSO_SCALES, -1, 0)
    found = {"b0": b0, "u": u, "b0^2": b0**2, "u^2": u**2, "1/nu": draws.hyper["coef"][..., 0]}
    for name, x in found.items():
        assert abs(z_of(x, oracle.LASSO_EXACT[name])) < Z, name


def test_bridge_gibbs_with_unknown_power():
    problem = make_problem(oracle.DESIGN, oracle.Y, prior=Bridge(None, nu=oracle.BRIDGE_NU))
    draws = Gibbs(3000, 200, 2).fit(problem, np.random.default_rng(2))
    b0, u = np.moveaxis(draws.theta, -1, 0)
    found = {"alpha": draws.hyper["coef"][..., 1], "b0": b0, "u": u}
    for name, x in found.items():
        assert abs(z_of(x, oracle.BRIDGE_EXACT[name])) < Z, name


def test_spike_slab_gibbs_against_enumeration():
    X, y = oracle.SELECTION_X, oracle.SELECTION_Y
    problem = make_problem(X, y, prior=SpikeSlab(oracle.SELECTION_PI, nu=1.0))
    draws = Gibbs(1500, 200, 2).fit(problem, np.random.default_rng(3))
    on = draws.theta != 0
    for j in range(3):
        assert abs(z_of(on[..., j].astype(float), oracle.SELECTION_INCLUSION[j])) < Z
        assert abs(z_of(draws.theta[..., j], oracle.SELECTION_BETA[j])) < Z
    np.testing.assert_allclose(draws.inclusion.mean(0), oracle.SELECTION_INCLUSION, atol=0.05)


def test_laplace_zero_gibbs_known_inclusion():
    problem = make_problem(SLOPE, oracle.Y, prior=ALG3, intercept=B0)
    draws = Gibbs(2000, 200, 2).fit(problem, np.random.default_rng(4))
    assert abs(z_of((draws.theta[..., 1] != 0) * 1.0, oracle.ALG3_EXACT["inclusion"])) < Z
    assert abs(z_of(draws.theta[..., 1], oracle.ALG3_EXACT["slope"])) < Z
    assert abs(z_of(draws.theta[..., 0], oracle.ALG3_EXACT["b0"])) < Z
