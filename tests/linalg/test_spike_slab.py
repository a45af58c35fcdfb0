"""Gates: their moments, their statistics, and subsets decided with coefficients integrated out."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import logit
from tests.papers import chains
from tests.problems import Z

from bayesvm.core.types import Coef, Stats
from bayesvm.linalg.covariances import FullCovariance, GatedCovariance
from bayesvm.linalg.forms import Dense, Factored
from bayesvm.linalg.spike_slab import (
    Subset,
    best_subset,
    draw_subset,
    through_gates,
    update_gates,
)
from bayesvm.predictive.diagnostics import ess


def gaussian(K, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((K, K)) + 2 * np.eye(K)
    return FullCovariance(np.linalg.cholesky(A @ A.T)), rng.standard_normal(K), rng


def enumerate_gates(gate):
    for on in itertools.product([0.0, 1.0], repeat=gate.size):
        on = np.array(on)
        yield np.prod(np.where(on > 0, gate, 1 - gate)), on


def test_gated_covariance_is_that_of_the_product():
    """Against the sum over all 2^4 settings of the gates."""
    base, mean, rng = gaussian(4, 0)
    gate = np.array([1.0, 0.3, 0.0, 0.8])
    Sigma = base.dense()
    first = sum(p * on * mean for p, on in enumerate_gates(gate))
    second = sum(
        p * np.outer(on, on) * (Sigma + np.outer(mean, mean)) for p, on in enumerate_gates(gate)
    )
    want = second - np.outer(first, first)
    cov = GatedCovariance(base, gate, mean)
    C = rng.standard_normal((6, 4))
    np.testing.assert_allclose(cov.dense(), want, atol=1e-14)
    np.testing.assert_allclose(cov.diag(), np.diag(want), atol=1e-14)
    np.testing.assert_allclose(cov.quad(C), np.einsum("ij,jk,ik->i", C, want, C), rtol=1e-12)
    np.testing.assert_allclose(cov.quad(sparse.csr_array(C)), cov.quad(C), rtol=1e-12)
    x = rng.standard_normal(4)
    np.testing.assert_allclose(cov.solve(x), want @ x, atol=1e-13)
    draws = cov.sample(40_000, rng)
    error = draws.std(axis=0) / 200
    assert np.all(np.abs(draws.mean(axis=0)) <= Z * error)
    np.testing.assert_allclose(np.cov(draws.T), want, atol=0.05)


def test_statistics_through_gates_are_the_expected_quadratic():
    """b'(gamma v) - (gamma v)'M(gamma v)/2 averaged over gates, its slope and curvature in v."""
    base, mean, rng = gaussian(4, 2)
    gate, g = np.array([1.0, 0.3, 0.1, 0.8]), rng.standard_normal(4)
    M = base.dense()
    h = g + M @ (gate * mean)  # the slope g is that at the seen mean
    curve = sum(p * np.outer(on, on) * M for p, on in enumerate_gates(gate))
    want = gate * h - curve @ mean
    got = through_gates(Stats(Dense(M), g, 0.0), gate, mean)
    np.testing.assert_allclose(got.S.M, curve, rtol=1e-12)
    np.testing.assert_allclose(got.g, want, atol=1e-13)


def test_reopened_gates_are_each_optimal_in_turn():
    """eta_k is the difference of the averaged quadratic between gate k open and shut."""
    base, mean, rng = gaussian(4, 3)
    odds = np.array([np.inf, 0.4, -1.0, 0.2])
    gate, old = np.array([1.0, 0.5, 0.7, 0.2]), rng.standard_normal(4)
    M, g = gaussian(4, 4)[0].dense(), rng.standard_normal(4)
    h, second = g + M @ old, base.dense() + np.outer(mean, mean)

    def value(gate):
        return sum(
            p * (h @ (on * mean) - 0.5 * np.sum(np.outer(on, on) * M * second))
            for p, on in enumerate_gates(gate)
        )

    eta, now = update_gates(Stats(Dense(M), g, 0.0), old, Coef(mean, base), odds, gate), gate.copy()
    assert eta[0] == np.inf
    for k in (1, 2, 3):
        on, off = now.copy(), now.copy()
        on[k], off[k] = 1.0, 0.0
        assert eta[k] == pytest.approx(odds[k] + value(on) - value(off), abs=1e-12)
        now[k] = 1 / (1 + np.exp(-eta[k]))


# ----- subsets


def statistics(n, K, seed, form="dense"):
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((n, K)) + 0.7 * rng.standard_normal((n, 1))
    w = rng.exponential(size=n) + 0.1
    g = rng.standard_normal(K) * np.sqrt(n)
    S = Factored(C, w) if form == "factored" else Dense((C * w[:, None]).T @ C)
    return Stats(S, g, 0.0), (C * w[:, None]).T @ C


@given(
    seed=st.integers(0, 10_000),
    form=st.sampled_from(["dense", "factored"]),
    flips=st.lists(st.integers(0, 6), max_size=30),
)
@settings(max_examples=150, deadline=None)
def test_a_subset_stays_exact_as_columns_come_and_go(seed, form, flips):
    """Every log Bayes factor against one from scratch, after any sequence of flips."""
    stats, G = statistics(5 if form == "factored" else 12, 7, seed, form)
    rng = np.random.default_rng(seed + 1)
    P = rng.exponential(size=7) + 0.1
    theta = rng.standard_normal(7) * (rng.random(7) < 0.5)
    subset = Subset(stats, P, theta)
    for k in flips:
        subset.flip(k)
    h = stats.g + G @ theta
    got = subset.evidence(np.arange(7))
    for j in range(7):
        want = chains.flip_log_odds(G[None], h[None], P[None], subset.active[None], j, 0.0)[0]
        assert got[j] == pytest.approx(want, rel=1e-7, abs=1e-7)
    np.testing.assert_array_equal(np.sort(subset.columns), np.flatnonzero(subset.active))


def model_probabilities(G, h, P, odds):
    """Of all models, the first column always in."""
    free = np.flatnonzero(np.isfinite(odds))
    out = {}
    for on in itertools.product([False, True], repeat=free.size):
        gamma = np.ones((1, P.size), bool)
        gamma[0, free] = on
        value = chains.log_model_evidence(G[None], h[None], P[None], gamma)[0]
        out[on] = value + odds[free] @ np.array(on, float)
    total = np.logaddexp.reduce(list(out.values()))
    return {on: np.exp(v - total) for on, v in out.items()}


@pytest.mark.parametrize("form", ["dense", "factored"])
def test_drawn_subsets_follow_the_model_probabilities(form):
    """At fixed statistics, three free columns, two of them near copies: 8 models, 5,000 sweeps.

    Each indicator of a model against its probability, by the effective number of draws.
    """
    rng = np.random.default_rng(5)
    C = rng.standard_normal((20, 4))
    C[:, 3] = C[:, 2] + 0.2 * rng.standard_normal(20)
    w = rng.exponential(size=20) + 0.2
    G = (C * w[:, None]).T @ C
    S = Factored(C, w) if form == "factored" else Dense(G)
    h = G @ np.array([0.3, 0.0, 0.4, 0.1])
    P, odds = np.array([0.1, 1.0, 2.0, 1.5]), np.array([np.inf, -0.5, 0.2, 0.1])
    want = model_probabilities(G, h, P, odds)
    theta, n = np.zeros(4), 5_000
    seen_models, means, chance = np.empty((n, 3), bool), np.empty((n, 4)), np.empty((n, 4))
    for t in range(n):
        theta, chance[t] = draw_subset(Stats(S, h - G @ theta, 0.0), P, odds, theta, rng)
        seen_models[t], means[t] = theta[1:] != 0, theta
    for on, p in want.items():
        x = (seen_models == np.array(on)).all(axis=1).astype(float)
        error = np.sqrt(max(p * (1 - p), 1e-6) / ess(x[None, :, None])[0])
        assert abs(x.mean() - p) < Z * error
    inclusion = [sum(p for on, p in want.items() if on[j]) for j in range(3)]
    spread = chance[:, 1:].std(axis=0) / np.sqrt(ess(chance[None, :, 1:]))
    assert np.all(np.abs(chance[:, 1:].mean(axis=0) - inclusion) < Z * spread)
    assert (chance[:, 0] == 1).all()
    # coefficients, averaged over models
    exact = np.zeros(4)
    for on, p in want.items():
        A = np.flatnonzero([True, *on])
        exact[A] += p * np.linalg.solve(G[np.ix_(A, A)] + np.diag(P[A]), h[A])
    spread = means.std(axis=0) / np.sqrt(ess(means[None]))
    assert np.all(np.abs(means.mean(axis=0) - exact) < Z * spread)


def test_the_best_subset_cannot_be_bettered_by_one_flip():
    for seed in range(20):
        stats, G = statistics(30, 6, seed)
        rng = np.random.default_rng(seed)
        P, odds = np.ones(6), np.array([np.inf, *rng.normal(-1, 1, 5)])
        active = best_subset(stats, P, odds, np.zeros(6), np.zeros(6))
        assert active[0]
        gains = [
            chains.flip_log_odds(G[None], stats.g[None], P[None], active[None], j, odds[j])[0]
            for j in range(1, 6)
        ]
        assert all((gain > 0) == on for gain, on in zip(gains, active[1:], strict=True))


def test_no_columns_at_all_draws_nothing():
    stats, _ = statistics(10, 2, 0)
    odds = np.full(2, logit(1e-12))
    small = Stats(stats.S, 1e-3 * stats.g, 0.0)
    theta, chance = draw_subset(small, np.ones(2), odds, np.zeros(2), np.random.default_rng(0))
    assert (theta == 0).all()
    assert (chance < 1e-6).all()
