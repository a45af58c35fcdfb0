"""Variational transcripts against known answers, quadrature and Monte Carlo."""

import numpy as np
import pytest
from scipy import stats

from . import convex, exact, luts, oracle, polson, svi
from .checks import assert_bound, assert_monotone, latent_ratio, problem

ONE, SLOPE = oracle.DESIGN[:, :1], oracle.DESIGN[:, 1:]
P_BETA = np.eye(1) / oracle.ALG2_INTERCEPT_VARIANCE
IG_BLOCK = luts.IG(SLOPE, oracle.ALG2_A, oracle.ALG2_B)


@pytest.mark.parametrize(("name", "c"), [("ALG1", None), ("ALG1_WEIGHTED", oracle.WEIGHTS)])
def test_algorithm1_known_answer(name, c):
    history = luts.algorithm1(oracle.DESIGN, oracle.Y, np.eye(2), c=c)
    last = history[-1]
    np.testing.assert_allclose(last.mu, getattr(oracle, name + "_MU"), atol=1e-8)
    upper = last.Sigma[[0, 0, 1], [0, 1, 1]]
    np.testing.assert_allclose(upper, getattr(oracle, name + "_SIGMA"), atol=1e-8)
    assert last.elbo == pytest.approx(getattr(oracle, name + "_ELBO"), abs=1e-8)
    evidence = exact.fixed_prior(oracle.X, oracle.Y, c=c).log_evidence
    assert evidence == pytest.approx(getattr(oracle, name + "_LOG_EVIDENCE"), abs=1e-5)
    assert last.elbo < evidence
    assert_monotone([sweep.elbo for sweep in history])


def test_algorithm2_known_answer():
    history = luts.algorithm2(ONE, [IG_BLOCK], oracle.Y, P_BETA)
    last = history[-1]
    np.testing.assert_allclose(last.mu, oracle.ALG2_MU, atol=1e-8)
    assert last.tau[0] == pytest.approx(oracle.ALG2_TAU, abs=1e-8)
    assert last.elbo == pytest.approx(oracle.ALG2_ELBO, abs=1e-8)
    assert_monotone([sweep.elbo for sweep in history])
    posterior = exact.variance_prior(oracle.X, oracle.Y, 4.0, A=3.0, B=2.0)
    assert last.elbo < posterior.log_evidence
    found = {
        "b0": posterior.mean(lambda b0, u: b0),
        "u": posterior.mean(lambda b0, u: u),
        "b0^2": posterior.mean(lambda b0, u: b0**2),
        "u^2": posterior.mean(lambda b0, u: u**2),
        "u>0": posterior.mean(lambda b0, u: u > 0),
        "1/sigma^2": posterior.mean(lambda b0, u: exact.precision_given_slope(u, 3.0, 2.0)),
    }
    assert found == pytest.approx(oracle.ALG2_EXACT_MOMENTS, abs=5.1e-5)  # four printed digits


def test_half_cauchy_bound_below_exact_and_monotone():
    block = luts.HalfCauchy(SLOPE, 1.5)
    history = luts.algorithm2(ONE, [block], oracle.Y, P_BETA, c=oracle.WEIGHTS)
    assert_monotone([sweep.elbo for sweep in history])
    posterior = exact.variance_prior(oracle.X, oracle.Y, 4.0, s0=1.5, c=oracle.WEIGHTS)
    assert posterior.log_evidence - 2 < history[-1].elbo < posterior.log_evidence


def test_prior_mean_and_correlated_prior():
    P, m0 = np.array([[2.0, 0.7], [0.7, 1.0]]), np.array([0.5, -1.0])
    history = luts.algorithm1(oracle.DESIGN, oracle.Y, P, m0=m0)
    assert_monotone([sweep.elbo for sweep in history])
    assert history[-1].elbo < exact.fixed_prior(oracle.X, oracle.Y, P, m0).log_evidence
    far = luts.algorithm1(oracle.DESIGN, oracle.Y, 1e8 * P, m0=m0)[-1]  # prior dominates
    np.testing.assert_allclose(far.mu, m0, atol=1e-6)
    loglik = -2 * np.maximum(0, 1 - oracle.Y * (oracle.DESIGN @ m0)).sum()
    assert far.elbo == pytest.approx(loglik, abs=1e-3)


def test_fixed_block_is_algorithm1():
    one = luts.algorithm1(oracle.DESIGN, oracle.Y, np.diag([0.25, 3.0]))
    two = luts.algorithm2(ONE, [luts.Fixed(SLOPE, 3.0)], oracle.Y, P_BETA, sweeps=200)
    # the first sweeps agree too: both start from w = 1 and the known precision
    for a, b in [(one[0], two[0]), (one[-1], two[-1])]:
        np.testing.assert_allclose(a.mu, b.mu, rtol=1e-12)
        assert a.elbo == pytest.approx(b.elbo, rel=1e-12)


def test_flat_intercept_is_limit_of_wide_prior():
    flat = luts.algorithm1(oracle.DESIGN, oracle.Y, np.diag([0.0, 1.0]))[-1]
    wide = luts.algorithm1(oracle.DESIGN, oracle.Y, np.diag([1e-8, 1.0]))[-1]
    np.testing.assert_allclose(flat.mu, wide.mu, atol=1e-6)
    density = -0.5 * np.log(2 * np.pi * 1e8)  # of the wide prior, where the flat one has 1
    assert wide.elbo - density == pytest.approx(flat.elbo, abs=1e-6)


def test_bound_by_monte_carlo():
    """At a point that is not yet the end: one comparison, |z| < 4."""
    rng = np.random.default_rng(3)
    X, y, c = problem(12, 4, 5)
    Z1, Z2, draws = X[:, 1:3], X[:, 3:], 20000
    A, B, s0 = 1.3, 0.8, 0.7
    blocks = [luts.IG(Z1, A, B), luts.HalfCauchy(Z2, s0)]
    q = luts.algorithm2(X[:, :1], blocks, y, P_BETA, c=c, sweeps=4)[-1]
    theta = rng.multivariate_normal(q.mu, q.Sigma, draws)
    s1 = stats.invgamma(A + 1, scale=(A + 1) / q.tau[0])
    s2 = stats.invgamma(1.5, scale=1.5 / q.tau[1])
    xi = stats.invgamma(1.0, scale=s0**-2 + q.tau[1])
    v1, v2, x = (law.rvs(draws, random_state=rng) for law in (s1, s2, xi))
    log_q = stats.multivariate_normal(q.mu, q.Sigma).logpdf(theta)
    log_q += s1.logpdf(v1) + s2.logpdf(v2) + xi.logpdf(x)
    log_p = stats.norm.logpdf(theta[:, 0], scale=2.0)
    log_p += stats.norm.logpdf(theta[:, 1:3], scale=np.sqrt(v1)[:, None]).sum(1)
    log_p += stats.norm.logpdf(theta[:, 3:], scale=np.sqrt(v2)[:, None]).sum(1)
    log_p += stats.invgamma.logpdf(v1, A, scale=B) + stats.invgamma.logpdf(v2, 0.5, scale=1 / x)
    log_p += stats.invgamma.logpdf(x, 0.5, scale=s0**-2)
    assert_bound(latent_ratio(theta @ X.T, y, c, q.w, rng) + log_p - log_q, q.elbo, 4)


def test_weight_two_is_a_row_repeated_and_weight_zero_a_row_dropped():
    c = np.array([1, 2, 1, 0, 2, 1])
    rows = np.repeat(np.arange(6), c)
    C, y = oracle.DESIGN, oracle.Y
    block = luts.IG(SLOPE[rows], 3.0, 2.0)
    weighted = luts.algorithm2(ONE, [IG_BLOCK], y, P_BETA, c=c)[-1]
    repeated = luts.algorithm2(ONE[rows], [block], y[rows], P_BETA)[-1]
    np.testing.assert_allclose(weighted.mu, repeated.mu, rtol=1e-11)
    np.testing.assert_allclose(weighted.Sigma, repeated.Sigma, rtol=1e-11)
    assert weighted.elbo == pytest.approx(repeated.elbo, rel=1e-12)
    log_p = [exact.fixed_prior(oracle.X, y, c=c), exact.fixed_prior(oracle.X[rows], y[rows])]
    assert log_p[0].log_evidence == pytest.approx(log_p[1].log_evidence, rel=1e-11)
    pi = np.array([0.1, 2.0])
    optimum = [convex.solve(C, y, pi, c), convex.solve(C[rows], y[rows], pi)]
    assert optimum[0].primal == pytest.approx(optimum[1].primal, rel=2e-11)
    em = [polson.em_history(C, y, pi, 0.1, c), polson.em_history(C[rows], y[rows], pi, 0.1)]
    np.testing.assert_allclose(em[0][-1].beta, em[1][-1].beta, rtol=1e-11)


def test_svi_full_batch_at_rate_one_is_algorithm1():
    C, y, c, P = oracle.DESIGN, oracle.Y, oracle.WEIGHTS, np.eye(2)
    vb = luts.algorithm1(C, y, P, c=c, sweeps=3)
    Lambda = np.linalg.inv(vb[0].Sigma)
    start = Lambda, Lambda @ vb[0].mu, []
    states = svi.history(C, y, P, [np.arange(6)] * 2, [1.0, 1.0], c=c, start=start)
    for state, sweep in zip(states, vb):
        np.testing.assert_allclose(state.mu, sweep.mu, rtol=1e-11)
        np.testing.assert_allclose(np.linalg.inv(state.Lambda), sweep.Sigma, rtol=1e-11)


def test_svi_unbiased_and_fixed_at_algorithm2():
    C, y, P = oracle.DESIGN, oracle.Y, np.diag([0.25, 0.0])
    variance = svi.Variance(np.array([1]), 3.0, 2.0)
    vb = luts.algorithm2(ONE, [IG_BLOCK], y, P_BETA)[-1]
    Lambda = np.linalg.inv(vb.Sigma)
    start = Lambda, Lambda @ vb.mu, variance.A_q / vb.tau
    still = svi.history(C, y, P, [np.arange(6)] * 5, [0.5] * 5, [variance], start=start)[-1]
    np.testing.assert_allclose(still.mu, vb.mu, atol=1e-10)
    np.testing.assert_allclose(still.B_q, start[2], atol=1e-10)
    # one step is linear in the rows: its mean over a partition is the full-batch step
    whole = svi.history(C, y, P, [np.arange(6)], [0.3], [variance])[-1]
    parts = [
        svi.history(C, y, P, [rows], [0.3], [variance])[-1]
        for rows in (np.array([0, 4]), np.array([3, 1]), np.array([2, 5]))
    ]
    np.testing.assert_allclose(np.mean([s.Lambda for s in parts], 0), whole.Lambda, rtol=1e-12)
    np.testing.assert_allclose(np.mean([s.eta for s in parts], 0), whole.eta, rtol=1e-12)
