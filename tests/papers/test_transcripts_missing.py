"""The transcript of Algorithm 4 and the exact answers beside it."""

import numpy as np
import pytest
from scipy.special import gammaln

from . import exact_missing, luts, missing, oracle
from .checks import assert_monotone, problem

ONE = np.ones((6, 1))
PRIORS = {
    "Psi": np.eye(1) * oracle.ALG4_PSI,
    "nu": oracle.ALG4_NU,
    "s_mu": oracle.ALG4_MEAN_VARIANCE,
}
P_BETA = np.eye(1) / oracle.ALG2_INTERCEPT_VARIANCE


def one_gone():
    D = oracle.X[:, None].copy()
    D[oracle.ALG4_GONE] = np.nan
    return D


def test_algorithm4_known_answer():
    history = missing.algorithm4(
        ONE, one_gone(), oracle.Y, P_BETA, oracle.ALG2_A, oracle.ALG2_B, **PRIORS, sweeps=200
    )
    last, i = history[-1], oracle.ALG4_GONE
    np.testing.assert_allclose(last.mu, oracle.ALG4_MU, atol=1e-8)
    assert last.D[i, 0] == pytest.approx(oracle.ALG4_CELL, abs=1e-8)
    assert last.V[i, 0, 0] == pytest.approx(oracle.ALG4_CELL_VARIANCE, abs=1e-8)
    assert last.mu_mu[0] == pytest.approx(oracle.ALG4_MU_MU, abs=1e-8)
    assert last.elbo == pytest.approx(oracle.ALG4_ELBO, abs=1e-8)
    assert_monotone([sweep.elbo for sweep in history])


def test_the_bound_is_below_the_evidence():
    found = exact_missing.one_column(
        oracle.X, oracle.Y, oracle.ALG4_GONE, 4.0, oracle.ALG2_A, oracle.ALG2_B, 1.0, 3.0, 4.0
    )
    assert oracle.ALG4_ELBO < found["log_evidence"] < oracle.ALG4_ELBO + 2
    for name, value in oracle.ALG4_EXACT.items():
        assert found[name] == pytest.approx(value, abs=3e-4)


def test_rows_of_one_column_without_a_missing_entry():
    """log p(x) against the conjugate answer in the limit of a known mean."""
    x = np.array([[0.3], [-0.8], [1.1]])
    found = exact_missing.log_rows(x, 1.0, 3.0, 1e-12)[0]
    # mean zero: a product of Student densities, sigma^2 ~ IG(3/2, 1/2)
    a, b, s = 1.5, 0.5, float((x**2).sum())
    exact = a * np.log(b) - gammaln(a) + gammaln(a + 1.5) - (a + 1.5) * np.log(b + s / 2)
    assert found == pytest.approx(exact - 1.5 * np.log(2 * np.pi), abs=1e-5)


def test_monotone_with_many_holes_and_weights():
    C, y, c = problem(25, 3, seed=1)
    rng = np.random.default_rng(2)
    D = np.where(rng.random((25, 3)) < 0.4, np.nan, C[:, 1:])
    k = rng.choice([1.0, 2.0], 25)
    history = missing.algorithm4(
        C[:, :1], D, y, np.eye(1), 2, 1, 0.5 * np.eye(3), 4.5, 3.0, c, k, sweeps=40
    )
    assert_monotone([sweep.elbo for sweep in history])


def test_nothing_missing_is_algorithm2():
    C, y, _ = problem(25, 2, seed=3)
    with_rows = missing.algorithm4(
        C[:, :1], C[:, 1:], y, np.eye(1), 2, 1, np.eye(2), 4.0, 3.0, sweeps=20
    )
    without = luts.algorithm2(C[:, :1], [luts.IG(C[:, 1:], 2, 1)], y, np.eye(1), sweeps=20)
    for a, b in zip(with_rows, without, strict=True):
        np.testing.assert_allclose(a.mu, b.mu, rtol=1e-10)
        assert a.tau == pytest.approx(b.tau[0], rel=1e-10)
