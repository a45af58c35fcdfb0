"""Regression by every scheme: against LinearSVR, a linear programme, quadrature and a grid."""

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.svm import LinearSVR
from tests.problems import Z, frozen, make_problem

from bayesvm.inference import EM, VB, Gibbs
from bayesvm.inference.vb import learn_scale
from bayesvm.likelihoods import EpsilonInsensitive
from bayesvm.predictive.diagnostics import ess
from bayesvm.priors import Fixed

RNG = np.random.default_rng(0)


def numbers(n, p, seed, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    y = 0.4 + X @ rng.standard_normal(p) + noise * rng.laplace(size=n)
    return frozen(X, y, rng.choice([0.5, 1.0, 2.0], n))


# ----- the mode


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("n", "p", "C"), [(60, 3, 0.5), (200, 8, 30.0), (20, 30, 0.02)])
@pytest.mark.parametrize("epsilon", [0.0, 0.4])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_mode_is_that_of_linear_svr(n, p, C, epsilon, intercept):
    """Its objective, 1/2 |b|^2 + C sum max(|r| - epsilon, 0): gamma = C / 2 at precision one.

    LinearSVR penalises its intercept b0 as (b0 / scaling)^2 / 2, here with scaling 2, a precision
    of 1/4.  The certificate bounds the distance to the optimum without it; at C = 30 LinearSVR
    itself does not converge, and is no lower.
    """
    X, y, c = numbers(n, p, seed=n)
    lik = EpsilonInsensitive(C / 2, epsilon)
    prior = {"prior": Fixed(1.0), "intercept": Fixed(0.25) if intercept else None}
    problem = make_problem(X, y, c, likelihood=lik, **prior)
    run = EM().fit(problem, RNG)
    assert run.converged
    assert run.certificate.kkt < 1e-7
    assert abs(run.certificate.gap) < 1e-7

    def cost(theta):
        b0, b = (theta[0], theta[1:]) if intercept else (0.0, theta)
        loss = np.maximum(np.abs(y - b0 - X @ b) - epsilon, 0.0)
        return 0.5 * b @ b + 0.125 * b0**2 + C * c @ loss

    settings = {"loss": "epsilon_insensitive", "dual": True, "tol": 1e-10, "max_iter": 20_000}
    other = LinearSVR(
        C=C, epsilon=epsilon, fit_intercept=intercept, intercept_scaling=2.0, **settings
    )
    other.fit(X, y, sample_weight=c)
    theirs = np.append(other.intercept_, other.coef_) if intercept else other.coef_
    mine = cost(run.state.coef.mean)
    assert mine <= cost(theirs) * (1 + 1e-9)
    if C < 1:
        assert mine == pytest.approx(cost(theirs), rel=1e-6)


# ----- two coefficients: a grid


X2, Y2, C2 = numbers(14, 1, seed=11)
LIK = EpsilonInsensitive(0.9, 0.35)
P2 = np.array([0.3, 1.2])  # of intercept and slope


def small(likelihood=LIK):
    return make_problem(
        X2, Y2, C2, likelihood=likelihood, prior=Fixed(P2[1]), intercept=Fixed(P2[0])
    )


def grid():
    """Log posterior density on a grid of a spacing of 0.008, and the log evidence."""
    a, b = np.linspace(-3, 4, 876), np.linspace(-4, 4, 1001)
    A, B = (x.ravel() for x in np.meshgrid(a, b, indexing="ij"))
    logp = 0.5 * np.log(P2 / (2 * np.pi)).sum() - 0.5 * (P2[0] * A**2 + P2[1] * B**2)
    for x, y, c in zip(X2[:, 0], Y2, C2, strict=True):
        logp += c * LIK.log_prob(np.full_like(A, y), A + B * x)
    evidence = logsumexp(logp) + np.log((a[1] - a[0]) * (b[1] - b[0]))
    return A, B, np.exp(logp - logsumexp(logp)), evidence


def elbo(problem, mean, cov):
    """The bound at a Gaussian, from the definition: rows by the likelihood, KL in closed form."""
    A = np.column_stack([np.ones(len(Y2)), X2])
    m, v = A @ mean, np.einsum("ij,jk,ik->i", A, cov, A)
    rows = C2 @ problem.model.likelihood.expected(Y2, m, v).bound
    kl = 0.5 * (P2 @ (mean**2 + np.diag(cov)) - 2 - np.linalg.slogdet(cov * P2)[1])
    return float(rows - kl)


@pytest.mark.parametrize("tight", [False, True])
def test_the_bound_is_below_the_evidence_and_stationary(tight):
    likelihood = LIK.tightened(tight)
    problem = small(likelihood)
    run = VB(tol=1e-12).fit(problem, RNG)
    mean, cov = run.state.coef.mean, run.state.coef.cov.dense()
    _, _, _, evidence = grid()
    assert run.bound == pytest.approx(elbo(problem, mean, cov), abs=1e-7)
    assert run.bound < evidence
    assert run.bound > evidence - (0.1 if tight else 1.0)
    assert np.all(np.diff(run.path) > -1e-9)
    L = np.linalg.cholesky(cov)
    rng = np.random.default_rng(1)
    for _ in range(60):
        h = 10.0 ** rng.uniform(-3, -1)
        root = L @ (np.eye(2) + h * np.tril(rng.standard_normal((2, 2))))
        moved = elbo(problem, mean + h * L @ rng.standard_normal(2), root @ root.T)
        assert moved <= run.bound + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("leaps", [0, 4])
def test_gibbs_agrees_with_the_grid(leaps):
    """Means and variances of both coefficients: four comparisons, |z| < 4.5."""
    scheme, (A, B, share, _) = Gibbs(draws=2500, burn_in=200, leaps=leaps), grid()
    draws = scheme.fit(small(), np.random.default_rng(4))
    for j, values in enumerate((A, B)):
        mean = share @ values
        variance = share @ (values - mean) ** 2
        theta = draws.theta[..., j]
        for x, expected in ((theta, mean), ((theta - mean) ** 2, variance)):
            error = x.std() / np.sqrt(float(ess(x[..., None])[0]))
            assert abs(x.mean() - expected) < Z * error


# ----- the scale


@pytest.mark.parametrize("tight", [False, True])
def test_the_learned_scale_is_a_maximum_of_the_bound(tight):
    X, y, c = numbers(80, 3, seed=7)

    def best(gamma):
        lik = EpsilonInsensitive(gamma, 0.2)
        lik = lik.tightened(tight)
        return VB(tol=1e-11).fit(make_problem(X, y, c, likelihood=lik), RNG).bound

    lik = EpsilonInsensitive(None, 0.2)
    problem = make_problem(X, y, c, likelihood=lik.tightened(tight))
    found = learn_scale(problem, VB(tol=1e-10), RNG)[0].model.likelihood.scale
    top = best(found)
    assert top > best(found * 1.05)
    assert top > best(found / 1.05)


def test_the_scale_is_drawn_with_the_coefficients():
    """Simulated with scale 0.25, gamma 2: the posterior of gamma holds it."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 2))
    lik = EpsilonInsensitive(2.0, 0.5)
    inside = rng.random(300) < 1.0 / 1.5  # mass of the tube: 2 epsilon / (2 epsilon + 1 / gamma)
    tail = rng.choice([-1.0, 1.0], 300) * (0.5 + rng.exponential(0.25, 300))
    y = X @ [1.0, -1.0] + np.where(inside, rng.uniform(-0.5, 0.5, 300), tail)
    problem = make_problem(X, y, likelihood=EpsilonInsensitive(None, 0.5))
    draws = Gibbs(draws=120, burn_in=30, chains=2).fit(problem, np.random.default_rng(0))
    low, high = np.quantile(draws.hyper["likelihood"], [0.005, 0.995])
    assert low < lik.gamma < high
    assert draws.typical(problem).model.likelihood.epsilon == 0.5
