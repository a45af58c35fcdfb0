"""What the posterior says of a row left out."""

import numpy as np
import pytest
from scipy import stats
from tests.problems import Z, simulate, site

from bayesvm.likelihoods import Hinge, Logistic, Probit
from bayesvm.predictive.leave_one_out import leave_one_out, leave_one_out_draws


def sites(n=14, K=4, seed=2):
    """A Gaussian model with given sites: rows, weights w and potentials b, prior precision."""
    rng = np.random.default_rng(seed)
    C, y, c = simulate(n, K, seed, weighted=True)
    return C, rng.uniform(0.1, 1.5, n), rng.standard_normal(n), c, np.eye(K) * 0.7


def gaussian(C, w, b, P):
    Sigma = np.linalg.inv((C.T * w) @ C + P)
    return C @ Sigma @ (C.T @ b), np.diag(C @ Sigma @ C.T)


@pytest.mark.parametrize("weights", ["one", "mixed"])
def test_leave_one_out_is_explicit_removal(weights):
    """At fixed sites: a part of row i leaves, and with it that part of what it says."""
    C, w, b, c, P = sites()
    c = np.ones_like(c) if weights == "one" else c
    assert weights == "one" or set(c) == {0.5, 1.0, 2.0}
    m, v = gaussian(C, c * w, c * b, P)
    gone = np.minimum(c, 1.0)
    found = leave_one_out(m, v, site(w, b - w * m), gone)
    for i in range(len(m)):
        rest = c.copy()
        rest[i] -= gone[i]
        mean, var = gaussian(C, rest * w, rest * b, P)
        assert found[0][i] == pytest.approx(mean[i], rel=1e-10)
        assert found[1][i] == pytest.approx(var[i], rel=1e-10)


def test_leave_one_out_treats_a_double_row_as_two():
    """Weight two, or the same row twice: the copy that stays speaks in both."""
    C, w, b, _, P = sites()
    twice = np.r_[0, np.arange(14)]
    c = np.ones(14)
    c[0] = 2.0
    m, v = gaussian(C, c * w, c * b, P)
    gone = np.minimum(c, 1.0)
    weighted = leave_one_out(m, v, site(w, b - w * m), gone)
    m, v = gaussian(C[twice], w[twice], b[twice], P)
    repeated = leave_one_out(m, v, site(w[twice], b[twice] - w[twice] * m), np.ones(15))
    for a, b_ in zip(weighted, repeated):
        np.testing.assert_allclose(a, b_[1:], rtol=1e-11)
        assert b_[0] == pytest.approx(b_[1])


def test_leave_one_out_of_a_row_that_is_all_there_is_stays_finite():
    one = np.ones(1)
    m, v = leave_one_out(one, one, site(one, one), one)  # w v = 1: nothing would be left
    assert np.isfinite(m).all()
    assert (v > 0).all()


@pytest.mark.parametrize("lik", [Logistic(), Probit()], ids=str)
def test_importance_weights_leave_out_the_likelihood(lik):
    """Draws of f from N(m, v), tilted by 1 / p(y | f), against quadrature, and with weights.

    The importance weights of these two likelihoods are bounded for f on the side of y and grow
    like exp(|f|) or exp(f^2 / 2) on the other, so v is kept below 1/4.  With 100 000 draws the
    standard error is that of a ratio of means (delta method); 2 labels x 3 weights, |z| < 4.5.
    """
    rng, n = np.random.default_rng(3), 100_000
    m, v = 0.4, 0.2
    f = m + np.sqrt(v) * rng.standard_normal((1, n))
    grid = np.linspace(m - 9 * np.sqrt(v), m + 9 * np.sqrt(v), 4001)
    for y in (-1.0, 1.0):
        for share in (0.25, 0.5, 1.0):
            log_lik = lik.log_prob(np.full((1, n), y), f)
            mean, var = leave_one_out_draws(f, log_lik, np.array([share]))
            density = stats.norm.pdf(grid, m, np.sqrt(v))
            density *= np.exp(-share * lik.log_prob(np.full_like(grid, y), grid))
            density /= density.sum()
            exact_mean = density @ grid
            exact_var = density @ (grid - exact_mean) ** 2
            weight = np.exp(-share * log_lik[0])
            weight /= weight.mean()
            for h, found, exact in (
                (f[0], mean[0], exact_mean),
                ((f[0] - exact_mean) ** 2, var[0], exact_var),
            ):
                error = np.std(weight * (h - exact)) / np.sqrt(n)
                assert abs(found - exact) < Z * error


@pytest.mark.parametrize("lik", [Logistic(), Probit()], ids=str)
def test_draws_and_gaussian_agree_on_a_gaussian_posterior(lik):
    """Where the likelihood of a row is nearly Gaussian in f, both ways leave out the same.

    The site is the row's own quadratic at the posterior mean, so with v = 0.01 the two differ by
    a third derivative times v^2, below 2e-4; the Monte Carlo error, by the delta method, is added
    at 4.5 standard errors (5 rows, 2 moments).
    """
    rng, n = np.random.default_rng(4), 200_000
    y, m, v = np.array([1.0, -1.0, 1.0, -1.0, 1.0]), np.array([-1.0, -0.3, 0.2, 0.9, 2.0]), 0.01
    h = 1e-3
    up, mid, down = (lik.log_prob(y, m + d) for d in (h, 0.0, -h))
    slope, curvature = (up - down) / (2 * h), (up - 2 * mid + down) / h**2
    mean, var = leave_one_out(m, np.full(5, v), site(-curvature, slope), np.ones(5))
    f = m[:, None] + np.sqrt(v) * rng.standard_normal((5, n))
    log_lik = lik.log_prob(y[:, None], f)
    drawn = leave_one_out_draws(f, log_lik, np.ones(5))
    weight = np.exp(-log_lik)
    weight /= weight.mean(axis=1, keepdims=True)
    centred = f - drawn[0][:, None]
    error = np.std(weight * centred, axis=1) / np.sqrt(n)
    assert (np.abs(drawn[0] - mean) < Z * error + 2e-4).all()
    error = np.std(weight * (centred**2 - drawn[1][:, None]), axis=1) / np.sqrt(n)
    assert (np.abs(drawn[1] - var) < Z * error + 2e-4).all()
    assert (np.abs(mean - m) > 10 * 2e-4).any()  # something was left out


def test_importance_weights_do_not_overflow():
    f = np.array([[-2000.0, 0.0, 3.0]])
    mean, var = leave_one_out_draws(f, Hinge().log_prob(np.ones((1, 3)), f), np.ones(1))
    assert mean[0] == pytest.approx(-2000.0)  # nearly all weight on the draw the row forbade
    assert var[0] == pytest.approx(0.0, abs=1e-6)
