"""The bound of a joint likelihood of several classes, and its sums."""

import itertools

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

from bayesvm.blocks import Blocks
from bayesvm.core.types import Coef, Term
from bayesvm.designs.columns import Assembled
from bayesvm.engines import Serial
from bayesvm.gaussian.covariances import FullCovariance
from bayesvm.inference import VB
from bayesvm.inference.joint import fit_together
from bayesvm.likelihoods import Logistic
from bayesvm.model.joint import Joint
from bayesvm.model.model import Model
from bayesvm.model.problem import Problem
from bayesvm.priors import Fixed, Ridge

TAU = 0.8


def tiny(n=25, K=3, seed=0, weights=None, prior=None, size=10, columns=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, columns))
    f = X @ np.linspace(-1.5, 1.5, K * columns).reshape(columns, K)
    y = (f + rng.gumbel(size=f.shape)).argmax(1).astype(float)
    c = np.ones(n) if weights is None else weights
    model = Model((Term("coef", Assembled(columns), prior or Fixed(TAU)),), Logistic())
    return Joint(Problem(model, Blocks(X, y, c, size, ready=True), Serial()), K)


def grid(joint, reach=7.0, points=141):
    """Log evidence, and moments of centred coefficients, of one column and three classes."""
    X, y = joint.problem.blocks.X[:, 0], joint.problem.blocks.y.astype(int)
    axis = np.linspace(-reach, reach, points)
    d1, d2 = np.meshgrid(axis, axis, indexing="ij")  # differences to the first class
    theta = np.stack([np.zeros_like(d1), d1, d2], axis=-1).reshape(-1, 3)
    logs = np.zeros(len(theta))
    for x, k in zip(X, y, strict=True):
        logs += log_softmax(x * theta, axis=1)[:, k]
    # differences of independent N(0, 1 / tau): covariance (I + 11') / tau
    P = TAU * np.linalg.inv(np.eye(2) + np.ones((2, 2)))
    d = theta[:, 1:]
    logs += -0.5 * np.einsum("ij,jk,ik->i", d, P, d) + 0.5 * np.linalg.slogdet(P)[1]
    logs -= np.log(2 * np.pi)
    evidence = logsumexp(logs) + 2 * np.log(axis[1] - axis[0])
    weight = np.exp(logs - logsumexp(logs))
    centred = theta - theta.mean(axis=1, keepdims=True)
    mean = weight @ centred
    return evidence, mean, (centred - mean).T @ (weight[:, None] * (centred - mean))


@pytest.mark.parametrize("seed", range(3))
def test_bound_and_posterior_against_a_grid(seed):
    joint = tiny(seed=seed)
    runs = fit_together(joint, VB(tol=1e-14))
    evidence, mean, cov = grid(joint)
    assert evidence - 0.15 < runs[0].bound < evidence
    found = np.array([run.state.coef.mean[0] for run in runs])
    np.testing.assert_allclose(found, mean, atol=0.12 * np.sqrt(cov.diagonal().max()))
    Sigma = np.diag([run.state.coef.cov.dense()[0, 0] for run in runs])
    J = np.eye(3) - 1.0 / 3.0
    contrasts = [np.array(e) for e in ([1, -1, 0], [0, 1, -1], [1, 0, -1])]
    ratio = [(e @ J @ Sigma @ J @ e) / (e @ cov @ e) for e in contrasts]
    assert 0.75 < min(ratio) <= max(ratio) < 1.2


def test_the_entropy_is_a_lower_bound():
    rng = np.random.default_rng(0)
    for K, p in itertools.product((2, 3, 5), (1, 4)):
        roots = rng.standard_normal((K, p, p))
        Sigmas = roots @ np.swapaxes(roots, 1, 2) + 0.1 * np.eye(p)
        Q, _ = np.linalg.qr(np.eye(K) - 1.0 / K)
        B = np.kron(Q[:, : K - 1], np.eye(p))  # a basis of the differences
        whole = np.zeros((K * p, K * p))
        for k, Sigma in enumerate(Sigmas):
            whole[k * p : (k + 1) * p, k * p : (k + 1) * p] = Sigma
        exact = np.linalg.slogdet(B.T @ whole @ B)[1]
        taken = (1 - 1 / K) * sum(np.linalg.slogdet(Sigma)[1] for Sigma in Sigmas)
        assert taken <= exact + 1e-10
        same = np.linalg.slogdet(B.T @ np.kron(np.eye(K), Sigmas[0]) @ B)[1]
        np.testing.assert_allclose((K - 1) * np.linalg.slogdet(Sigmas[0])[1], same, rtol=1e-9)


def bound_of(joint, coefs, priors):
    return joint.stats(coefs).bound + joint.bound(coefs, priors)


def test_no_small_move_raises_the_bound():
    joint = tiny(n=60, columns=2, prior=Ridge())
    runs = fit_together(joint, VB(tol=1e-16, max_iter=5000))
    coefs = [run.state.coef for run in runs]
    priors = [run.state.priors for run in runs]
    best = bound_of(joint, coefs, priors)
    np.testing.assert_allclose(best, runs[0].bound, rtol=1e-12)
    rng = np.random.default_rng(1)
    for _ in range(20):
        k, h = rng.integers(3), 0.02
        mean, L = coefs[k].mean, np.linalg.cholesky(np.linalg.inv(coefs[k].cov.dense()))
        moved = list(coefs)
        moved[k] = Coef(mean + h * rng.standard_normal(2), coefs[k].cov)
        assert bound_of(joint, moved, priors) < best + 1e-7
        moved[k] = Coef(mean, FullCovariance(L * np.exp(h * rng.standard_normal((2, 1)))))
        assert bound_of(joint, moved, priors) < best + 1e-7
    for factor in (0.97, 1.03):
        s = priors[0][0]
        other = [(s._replace(variance=factor * s.variance),)] * 3
        assert bound_of(joint, coefs, other) < best + 1e-7


def test_two_classes_are_the_binary_model():
    """The model of two classes together is the logistic one of their difference."""
    joint = tiny(n=80, K=2, columns=2)
    runs = fit_together(joint, VB(tol=1e-15))
    binary = Model((Term("coef", Assembled(2), Fixed(TAU / 2)),), Logistic())
    blocks = joint.problem.blocks
    y = np.where(blocks.y == 1, 1.0, -1.0)
    problem = Problem(binary, Blocks(blocks.X, y, blocks.c, 100, ready=True), Serial())
    alone = VB(bound="tight", tol=1e-12).fit(problem, np.random.default_rng(0))
    difference = runs[1].state.coef.mean - runs[0].state.coef.mean
    np.testing.assert_allclose(difference, alone.state.coef.mean, rtol=2e-2)
    Sigma = sum(run.state.coef.cov.dense() for run in runs)
    np.testing.assert_allclose(Sigma, alone.state.coef.cov.dense(), rtol=5e-2, atol=1e-3)
    assert runs[0].bound == pytest.approx(alone.bound, abs=0.1)


def test_sums_do_not_depend_on_the_cut_and_weights_are_copies():
    copies = np.random.default_rng(0).integers(1, 4, 40)
    joint = tiny(n=40, columns=2, weights=copies.astype(float), size=7)
    coefs = [Coef(np.array([0.3 * k, -0.2]), FullCovariance(np.eye(2))) for k in range(3)]
    sums = joint.stats(coefs)
    one = joint.problem.blocks
    at = np.repeat(np.arange(40), copies)
    again = Blocks(one.X[at], one.y[at], np.ones(at.size), 1000, ready=True)
    other = Joint(Problem(joint.problem.model, again, Serial()), 3).stats(coefs)
    np.testing.assert_allclose(sums.bound, other.bound, rtol=1e-12)
    np.testing.assert_allclose(sums.pace, other.pace, rtol=1e-12)
    for a, b in zip(sums.each, other.each, strict=True):
        np.testing.assert_allclose(a.S.M, b.S.M, rtol=1e-12)
        np.testing.assert_allclose(a.g, b.g, rtol=1e-12, atol=1e-12)
