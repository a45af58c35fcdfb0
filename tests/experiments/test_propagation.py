"""Processes seen through Gaussian targets, expectation propagation, ECM with pseudo-inputs."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import log_ndtr
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from tests.experiments import running

from papers import ep
from papers.henao_ecm import fit_ecm, fit_fitc
from papers.targets import Exact, Fitc

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
T, NOISE = RNG.standard_normal(30), RNG.uniform(0.1, 2.0, 30)
Y = np.where(X[:, 0] + 0.5 * RNG.standard_normal(30) > 0, 1.0, -1.0)


def moons(n=80):
    return running.moons(n=n, scale=3)


@pytest.mark.parametrize("process", [Exact(X), Fitc(X, X[:6] + 0.1)], ids=["exact", "fitc"])
def test_slope_of_the_marginal(process):
    at = process.start(2.0)
    at[0] = 0.3
    slope = process.given(at, T, NOISE).slope()
    numbers = approx_fprime(at, lambda z: process.given(z, T, NOISE).log_marginal, 1e-6)
    np.testing.assert_allclose(slope, numbers, atol=1e-4)


def test_moments_are_the_textbook_ones():
    process = Exact(X)
    at = np.array([0.3, np.log(2.0)])
    seen = process.given(at, T, NOISE)
    K = np.exp(0.3 - process.D / 4.0)
    gain = K @ np.linalg.inv(K + np.diag(NOISE))
    np.testing.assert_allclose(seen.mean, gain @ T, atol=1e-10)
    np.testing.assert_allclose(seen.variance, np.diag(K - gain @ K), atol=1e-10)
    mean, variance = seen.predict(X[:4])
    np.testing.assert_allclose(mean, seen.mean[:4], atol=1e-9)
    np.testing.assert_allclose(variance, seen.variance[:4], atol=1e-9)


def test_every_row_a_pseudo_input_is_the_exact_process():
    exact, fitc = Exact(X), Fitc(X, X.copy())
    one = exact.given(exact.start(2.0), T, NOISE)
    two = fitc.given(fitc.start(2.0), T, NOISE)
    assert two.log_marginal == pytest.approx(one.log_marginal, abs=1e-4)
    np.testing.assert_allclose(two.variance, one.variance, atol=1e-4)
    new = RNG.standard_normal((5, 3))
    np.testing.assert_allclose(two.predict(new), one.predict(new), atol=1e-3)


def test_propagation_has_the_evidence_and_moments_of_the_posterior(monkeypatch):
    """Against a million draws of the prior, weighted by the likelihood; variances by EP are
    a few per cent low.  The slope by differences."""
    monkeypatch.setattr(ep, "SETTLED", 1e-9)
    monkeypatch.setattr(ep, "SWEEPS", 300)
    process, at = Exact(X[:12]), np.array([1.0, np.log(2.0)])
    y = Y[:12]

    def at_rest(z):
        sites = ep.Sites(np.full(12, 0.1), np.zeros(12))
        return ep.propagate(process, z, y, sites)

    seen, log_z = at_rest(at)
    K = np.exp(1.0 - process.D / 4.0)
    root = np.linalg.cholesky(K + 1e-10 * np.eye(12))
    F = root @ np.random.default_rng(1).standard_normal((12, 1_000_000))
    weight = np.exp(log_ndtr(y[:, None] * F).sum(axis=0))
    assert log_z == pytest.approx(np.log(weight.mean()), abs=0.02)
    mean = F @ weight / weight.sum()
    np.testing.assert_allclose(seen.mean, mean, atol=0.03)
    np.testing.assert_allclose(seen.variance, F**2 @ weight / weight.sum() - mean**2, rtol=0.08)
    numbers = approx_fprime(at, lambda z: at_rest(z)[1], 1e-5)
    np.testing.assert_allclose(seen.slope(), numbers, atol=1e-4)


def test_propagation_is_near_laplace_and_learns_a_kernel():
    rows, labels = moons()
    theirs = GaussianProcessClassifier(RBF(2.0), optimizer=None).fit(rows, labels)
    ours = ep.fit_ep(rows, labels, 2.0 * np.sqrt(2.0), tune=False, standardize=False)
    hit = theirs.predict(rows) == np.where(ours.predict_proba(rows)[:, 1] > 0.5, 1, -1)
    assert hit.mean() > 0.97
    tuned = ep.fit_ep(rows, labels, 2.0 * np.sqrt(2.0), standardize=False)
    assert tuned.scores["log_z"] > ours.scores["log_z"] + 1.0


def test_ecm_with_every_row_a_pseudo_input(monkeypatch):
    """At the same length scale it is ECM without them."""
    monkeypatch.setattr("papers.henao_ecm.ROUNDS", 1)
    monkeypatch.setattr("papers.henao_ecm.EVERY", 100)
    rows, labels = moons()
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    one, two = fit_ecm(rows, labels, rounds=1), fit_fitc(rows, labels, scaled)
    assert two.scores["gamma"] == pytest.approx(one.gamma, rel=1e-2)
    new = np.random.default_rng(0).uniform(-4, 6, (50, 2))
    np.testing.assert_allclose(two.predict_proba(new), one.predict_proba(new), atol=0.02)
