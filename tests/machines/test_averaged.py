"""The averaged softmax: its limits, its derivatives and its fit."""

import numpy as np
import pytest
from scipy.special import softmax

from bayesvm.machines.averaged import PRIOR_MEAN, Averaged, fit_averaged, loss_of

RNG = np.random.default_rng(0)
M, V = 2.0 * RNG.standard_normal((200, 4)), RNG.uniform(0.1, 3.0, (200, 4))
CODES = (1.5 * M + RNG.gumbel(size=M.shape)).argmax(axis=1)


def test_without_variance_it_is_the_softmax():
    none, little = np.zeros_like(M), np.full_like(M, 1e-14)
    np.testing.assert_allclose(Averaged(4).proba(M, none), softmax(M, axis=1), rtol=1e-12)
    np.testing.assert_allclose(Averaged(4).proba(M, little), softmax(M, axis=1), rtol=1e-9)
    np.testing.assert_allclose(Averaged(4, 2.0).proba(M, none), softmax(2 * M, axis=1), rtol=1e-12)


def test_it_is_close_to_the_average():
    noise = np.sqrt(V) * RNG.standard_normal((4000, *M.shape))
    exact = softmax(M + noise, axis=2).mean(axis=0)
    assert np.abs(Averaged(4).proba(M, V) - exact).max() < 0.08
    plain = np.abs(softmax(M, axis=1) - exact).mean()
    assert np.abs(Averaged(4).proba(M, V) - exact).mean() < 0.5 * plain


def test_probabilities_and_odds_agree_in_any_shape():
    link = Averaged(4, 1.3, 0.2)
    p = link.proba(M, V)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(link.odds(M, V), np.log(p) - np.log1p(-p), rtol=1e-8)
    deep = link.proba(M.reshape(20, 10, 4), V.reshape(20, 10, 4))
    np.testing.assert_allclose(deep.reshape(-1, 4), p)
    turn = [2, 0, 3, 1]
    np.testing.assert_allclose(link.proba(M[:, turn], V[:, turn]), p[:, turn])


@pytest.mark.parametrize("x", [(0.0, 0.0), (0.4, -1.5), (-0.7, 1.0)])
def test_derivatives(x):
    x, c, h = np.array(x), RNG.uniform(0.5, 2.0, 200), 1e-6
    _, slope = loss_of(x, CODES, M, V, c)
    for j in range(2):
        e = h * np.eye(2)[j]
        up, down = (loss_of(x + s * e, CODES, M, V, c)[0] for s in (1, -1))
        assert slope[j] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-5)


def test_the_fit_is_a_minimum_and_weights_are_copies():
    copies = RNG.integers(1, 4, 200)
    link = fit_averaged(CODES, M, V, copies.astype(float))
    x = np.log([link.a, link.c])
    best, slope = loss_of(x, CODES, M, V, copies.astype(float))
    np.testing.assert_allclose(slope, 0.0, atol=0.05)
    assert best <= loss_of(PRIOR_MEAN, CODES, M, V, copies.astype(float))[0]
    at = np.repeat(np.arange(200), copies)
    again = fit_averaged(CODES[at], M[at], V[at], np.ones(at.size))
    assert (again.a, again.c) == pytest.approx((link.a, link.c), rel=1e-4)
