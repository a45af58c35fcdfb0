"""What the posterior says of a row left out."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.groups import grouped, make_grouped, simulate_groups
from tests.problems import Z, simulate, site

from bayesvm.inference import VB
from bayesvm.likelihoods import Hinge, Logistic, Probit
from bayesvm.predictive.fitting import binary_model
from bayesvm.predictive.leave_one_out import leave_one_out, leave_one_out_draws
from bayesvm.priors import Fixed, InverseWishart


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
    removed = np.minimum(c, 1.0)
    found = leave_one_out(m, v, site(w, b - w * m), removed)
    for i in range(len(m)):
        rest = c.copy()
        rest[i] -= removed[i]
        mean, var = gaussian(C, rest * w, rest * b, P)
        assert found[0][i] == pytest.approx(mean[i], rel=1e-10)
        assert found[1][i] == pytest.approx(var[i], rel=1e-10)
    one = np.ones(1)
    alone = leave_one_out(one, one, site(one, one), one)  # w v = 1: nothing would be left
    assert np.isfinite(alone).all()


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


@pytest.mark.parametrize("lik", [Hinge(), Logistic()], ids=str)
@pytest.mark.parametrize("slopes", [(), (0,)], ids=["intercepts", "slopes"])
def test_left_out_means_are_those_of_fits_without_the_row(lik, slopes):
    """Held variances; 60 rows in 10 groups: nearer than by the covariance alone."""
    X, y, c = simulate_groups(60, 2, (10,), seed=1)
    design = grouped(0, 10, slopes)
    prior = Fixed(0.5) if not slopes else InverseWishart(2, freedom=1e6, scale=2e6)
    problem = make_grouped(X, y, c, groups=[(design, prior)], prior=Fixed(1.0), likelihood=lik)
    scheme, rng = VB(tol=1e-9, warm_rows=0), np.random.default_rng(0)
    post = binary_model(problem, scheme.fit(problem, rng)).posterior
    m = problem.moments(post.coef)[0]
    left = post.left_out(problem)[0]
    by_covariance = replace(post, response=None).left_out(problem)[0]
    rows = np.arange(0, 60, 3)
    truth = []
    for i in rows:
        rest = np.delete(np.arange(60), i)
        fewer = problem.take(rest)
        coef = scheme.fit(fewer, rng).state.coef
        truth.append(problem.model.rows(X[i : i + 1]).C @ coef.mean)
    gap = np.concatenate(truth) - m[rows]
    error = np.abs(left[rows] - m[rows] - gap).mean()
    plain = np.abs(by_covariance[rows] - m[rows] - gap).mean()
    # one Newton step: near exact where the loss is smooth, a third of the gap across a kink
    share = 0.1 if isinstance(lik, Logistic) else 0.4
    assert error < share * np.abs(gap).mean()
    assert error < 0.75 * plain
