"""The convex solver certifies itself; EM and ECME against it."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from . import convex, oracle, polson
from .checks import assert_monotone, problem


@pytest.mark.parametrize(
    ("n", "p", "noise"),
    [(200, 10, 1), (100, 50, 1), (50, 200, 1), (60, 30, 0), (300, 20, 0), (600, 200, 1)],
)
@pytest.mark.parametrize("intercept", [1.0, 1e-8, 0.0])
def test_convex_duality_gap(n, p, noise, intercept):
    X, y, c = problem(n, p, seed=n + p, noise=noise)
    P = np.concatenate([[intercept], np.full(p, 0.4)])
    found = convex.solve(X, y, P, c)
    assert -1e-13 * found.primal <= found.gap < 1e-8 * found.primal
    assert (found.phi >= 0).all()
    assert (found.phi <= 2 * c).all()
    assert found.primal == pytest.approx(polson.objective(found.theta, X, y, c, P), rel=1e-13)


@pytest.mark.parametrize(("n", "p"), [(80, 4), (30, 60)])
def test_em_converges_to_the_convex_minimum(n, p):
    """J* <= J(beta_eps) <= J* + eps sum c, beta_eps the minimiser of J_eps.

    The upper bound follows from J <= J_eps <= J + eps sum c; 5% is left for EM stopping
    short of beta_eps.
    """
    X, y, c = problem(n, p, seed=7)
    pi = np.concatenate([[1e-6], np.full(p, 2.0)])
    best = convex.solve(X, y, pi, c)
    beta = None
    for eps in (1e-1, 1e-2, 1e-3):
        history = polson.em_history(X, y, pi, eps, c, beta, steps=400)
        assert_monotone([-step.objective for step in history])
        beta = history[-1].beta
        excess = polson.objective(beta, X, y, c, pi) - best.dual
        assert 0 <= excess <= 1.05 * eps * c.sum()
        assert history[-1].objective - best.dual <= 1.05 * eps * c.sum()


def test_em_ridge_known_answer():
    pi = polson.ridge_precision(oracle.EM_RIDGE_NU, [1, 1], np.array([False, True]))
    best = convex.solve(oracle.DESIGN, oracle.Y, pi)
    assert best.primal == pytest.approx(oracle.EM_RIDGE_OBJECTIVE, abs=1e-9)
    assert best.theta[1] == pytest.approx(oracle.EM_RIDGE_SLOPE, abs=1e-6)
    beta = polson.em_history(oracle.DESIGN, oracle.Y, pi, 1e-6, steps=400)[-1].beta
    value = polson.objective(beta, oracle.DESIGN, oracle.Y, np.ones(6), pi)
    assert value == pytest.approx(oracle.EM_RIDGE_OBJECTIVE, abs=6e-6)  # eps sum c
    assert beta[1] == pytest.approx(oracle.EM_RIDGE_SLOPE, abs=np.sqrt(6e-6))  # J curves by 2


def test_ecme():
    X, y, c = problem(80, 4, seed=9)
    penalised = np.arange(5) > 0
    A, B, eps = 1.0, 0.5, 1e-2
    history = polson.ecme_history(X, y, penalised, A, B, eps, c)
    assert_monotone([-step.objective for step in history])
    last = history[-1]
    best = minimize_scalar(
        lambda t: polson.ecme_objective(last.beta, np.exp(t), X, y, c, penalised, eps, A, B)
    )
    assert last.tau == pytest.approx(np.exp(best.x), rel=1e-6)
    step = polson.em_step(last.beta, X, y, c, last.tau * penalised, eps)
    np.testing.assert_allclose(step, last.beta, atol=1e-6)
