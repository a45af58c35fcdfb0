"""Effects of groups integrated out by quadrature, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.special import expit, logsumexp
from tests.groups import grouped, make_grouped

from bayesvm import MixedSVC
from bayesvm.designs import Table
from bayesvm.inference import VB
from bayesvm.inference.group_quadrature import (
    GroupRows,
    _Posterior,
    find_mode,
    group_sums,
)
from bayesvm.likelihoods import Hinge, Logistic, Probit, SoftHinge
from bayesvm.priors import Fixed, Ridge


def simulate(seed=0, n=60, G=8, sd=1.5):
    rng = np.random.default_rng(seed)
    X, g = rng.standard_normal((n, 1)), np.arange(n) % G
    f = X[:, 0] + sd * rng.standard_normal(G)[g]
    return X, np.where(rng.random(n) < expit(f), 1.0, -1.0), g


def rows_of(likelihood, r=1, seed=0):
    """Eight groups with two shared coefficients and one to three effects, weights one and two."""
    X, y, g = simulate(seed)
    order, rng = np.argsort(g, kind="stable"), np.random.default_rng(1)
    A = np.hstack([np.ones_like(X), X])[order]
    Z = rng.uniform(0.5, 1.5, (g.size, r)) * np.where(rng.random((g.size, r)) < 0.5, 1, -1)
    c = rng.integers(1, 3, g.size).astype(float)
    return GroupRows(A, Z, y[order], c, np.searchsorted(g[order], np.arange(9)), likelihood)


BETA, PHI = np.array([0.3, 0.8]), {1: [0.5], 2: [0.4, 0.3, -0.2], 3: [0.2, 0.3, -0.2, 0.1, -0.4, 0]}


@pytest.mark.parametrize("likelihood", [Logistic(), Probit(), SoftHinge()], ids=repr)
def test_integrals_and_moments_are_those_of_adaptive_quadrature(likelihood):
    rows, variance = rows_of(likelihood), np.exp(1.0)
    found = group_sums(rows, BETA, np.array(PHI[1]), 20, np.zeros((8, 1)))
    total = 0.0
    for g in range(8):
        at = slice(*rows.ends[g : g + 2])
        A, z, y, c = rows.A[at], rows.Z[at, 0], rows.y[at], rows.c[at]

        def density(u, A=A, z=z, y=y, c=c):
            prior = np.exp(-0.5 * u * u / variance) / np.sqrt(2 * np.pi * variance)
            return prior * np.exp(c @ likelihood.log_prob(y, A @ BETA + z * u))

        ends = {"points": (-3, 0, 3), "epsabs": 0, "epsrel": 1e-9, "limit": 200}
        mass, first, second = (
            quad(lambda u, k=k, d=density: u**k * d(u), -15, 15, **ends)[0] for k in range(3)
        )
        total += np.log(mass)
        assert found.mean[g, 0] == pytest.approx(first / mass, abs=1e-4)
        assert found.cov[g, 0, 0] == pytest.approx(second / mass - (first / mass) ** 2, rel=1e-3)
    assert found.value == pytest.approx(total, abs=1e-4)


def test_two_effects_have_the_integrals_of_a_double_quadrature():
    rows, phi = rows_of(Logistic(), r=2), np.array(PHI[2])
    found = group_sums(rows, BETA, phi, 15, np.zeros((8, 2)))
    L = np.array([[np.exp(0.4), 0.0], [0.3, np.exp(-0.2)]])
    at = slice(*rows.ends[:2])
    one = rows._replace(**{k: getattr(rows, k)[at] for k in "AZyc"}, ends=rows.ends[:2])

    def density(b, a):
        u = L @ [a, b]
        f = one.A @ BETA + one.Z @ u
        fit = one.c @ one.likelihood.log_prob(one.y, f)
        return np.exp(fit - 0.5 * (a * a + b * b)) / (2 * np.pi)

    mass = dblquad(density, -8, 8, -8, 8, epsrel=1e-6)[0]
    alone = group_sums(one, BETA, phi, 15, np.zeros((1, 2)))
    assert alone.value == pytest.approx(np.log(mass), abs=1e-5)
    np.testing.assert_allclose(alone.mean[0], found.mean[0], rtol=1e-10)


@pytest.mark.parametrize("r", [1, 2, 3])
def test_derivatives_are_those_of_differences(r):
    """At the nodes of a rule whose own error is about a tenth of the tolerance."""
    rows, k, e = rows_of(Logistic(), r), {1: 20, 2: 15, 3: 12}[r], 1e-4
    theta, rtol = np.append(BETA, PHI[r]), {1: 1e-5, 2: 1e-4, 3: 1e-3}[r]
    found = group_sums(rows, theta[:2], theta[2:], k, np.zeros((8, r)))
    size = np.max(np.abs(found.hessian))
    for j in range(theta.size):
        d = e * np.eye(theta.size)[j]
        low, high = (group_sums(rows, x[:2], x[2:], k, found.mode) for x in (theta - d, theta + d))
        slope = (high.value - low.value) / (2 * e)
        assert found.scores.sum(axis=0)[j] == pytest.approx(slope, rel=rtol, abs=rtol)
        bend = (low.scores - high.scores).sum(axis=0) / (2 * e)
        np.testing.assert_allclose(found.hessian[j], bend, atol=rtol * size)
        np.testing.assert_allclose(found.slope[..., j], (high.mean - low.mean) / (2 * e), atol=rtol)


@pytest.mark.parametrize(("size", "variance"), [(3, 16.0), (10, 1.0), (50, 0.1)])
def test_nodes_are_doubled_until_more_would_not_move_the_mode(size, variance):
    """By a tenth of a standard error: a rule of 80 nodes predicts less than 0.005 nats of gain."""
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(300), rng.poisson(size - 1, 300) + 1)
    X, u = rng.standard_normal((g.size, 1)), np.sqrt(variance) * rng.standard_normal(300)
    y = np.where(rng.random(g.size) < expit(X[:, 0] - 0.5 + u[g]), 1.0, -1.0)
    own = (grouped(0, 300), Ridge(half_cauchy=1.0))
    posterior = _Posterior(
        make_grouped(Table(X, g[:, None]), y, groups=[own], likelihood=Logistic())
    )
    top = find_mode(posterior, posterior.start(None))
    assert top.k <= 20
    few = group_sums(top.rows, top.beta, top.phi, top.k, top.sums.mode)
    many = group_sums(top.rows, top.beta, top.phi, 80, top.sums.mode)
    off = (few.scores - many.scores).sum(axis=0)
    assert 0.5 * off @ np.linalg.solve(many.hessian, off) < 0.005
    sd = np.sqrt(many.cov[:, 0, 0])
    np.testing.assert_allclose(few.mean[:, 0] / sd, many.mean[:, 0] / sd, atol=0.01)
    np.testing.assert_allclose(few.cov, many.cov, rtol=0.03)


@pytest.mark.parametrize(
    ("likelihood", "rel"), [(Logistic(), 0.1), (SoftHinge(), 0.1), (Hinge(), 0.15)], ids=repr
)
def test_posterior_is_that_of_brute_force(likelihood, rel):
    """One column of known precision: sums over even grids of beta, t and each group's effect."""
    X, y, g = simulate(3, n=200)
    model = MixedSVC(Fixed(1.0), likelihood=likelihood, fit_intercept=False, standardize=False)
    model.fit(X, y, groups=g)
    machine = model.machines_[0]
    beta, t, u = np.linspace(-0.5, 3, 60), np.linspace(-6, 7, 40), np.linspace(-30, 30, 600)
    step = u[1] - u[0]
    log_lik = np.empty((beta.size, 8, u.size))
    for j, b in enumerate(beta):
        each = likelihood.log_prob(y[:, None], b * X + u)
        for k in range(8):
            log_lik[j, k] = each[g == k].sum(axis=0)
    logs, first = np.empty((t.size, beta.size)), np.empty((t.size, beta.size))
    second = np.empty_like(first)
    for i, s in enumerate(t):
        joint = log_lik - 0.5 * u * u * np.exp(-s) - 0.5 * (s + np.log(2 * np.pi)) + np.log(step)
        mass = logsumexp(joint, axis=2)
        w = np.exp(joint[:, 0] - mass[:, :1])
        first[i], second[i] = w @ u, w @ u**2
        prior = 0.5 * s - np.log1p(np.exp(s))  # half-Cauchy on sigma, as a density of t
        logs[i] = mass.sum(axis=1) - 0.5 * beta**2 + prior
    share = np.exp(logs - logs.max())
    share /= share.sum()
    mean = share.sum(axis=0) @ beta
    sd = np.sqrt(share.sum(axis=0) @ beta**2 - mean**2)
    assert machine.posterior.mean[0] == pytest.approx(mean, abs=0.15 * sd)
    assert np.sqrt(machine.posterior.variance()[0]) == pytest.approx(sd, rel=rel)
    effect = np.sum(share * first)
    spread = np.sqrt(np.sum(share * second) - effect**2)
    assert machine.posterior.mean[1] == pytest.approx(effect, abs=0.15 * spread)
    assert np.sqrt(machine.posterior.variance()[1]) == pytest.approx(spread, rel=0.15)
    at = share.sum(axis=1)
    middle = np.interp(0.5, np.cumsum(at) - 0.5 * at, t)
    (found,) = machine.variances.values()
    width = np.sqrt(at @ (t - middle) ** 2)
    assert np.log(np.median(found)) == pytest.approx(middle, abs=0.1 * width)


def test_groups_that_labels_do_not_tell_about_are_survived():
    """One row a group, then groups that are all of one label."""
    pytest.importorskip("pandas")
    X, y, g = simulate(6, n=40, G=40)
    for labels, groups in ((y, g), (np.where(g < 20, 1.0, -1.0), g // 4)):
        model = MixedSVC(random_prior=Ridge(a=1.0, b=1.0)).fit(X, labels, groups=groups)
        assert np.all(np.isfinite(model.predict_proba(X, groups=groups)))
        assert np.all(np.isfinite(model.variance_components_.iloc[:, :3].to_numpy(float)))


def with_slopes(n=500, G=40, seed=0):
    rng = np.random.default_rng(seed)
    X, g = rng.standard_normal((n, 2)), np.sort(rng.integers(0, G, n))
    u = rng.standard_normal((G, 2)) * [1.0, 0.7]
    f = X[:, 0] + u[g, 0] + u[g, 1] * X[:, 0]
    return X, np.where(rng.random(n) < expit(f), 1.0, -1.0), g


def test_slopes_and_their_notes():
    pytest.importorskip("pandas")
    X, y, g = with_slopes()
    whole, plain = (
        MixedSVC(inference=how, random=[0], covariance="model").fit(X, y, groups=g)
        for how in ("vb", VB(bound="tight"))
    )
    a, b = (m.variance_components_ for m in (whole, plain))
    assert "note" not in a
    assert "note" in b
    np.testing.assert_allclose(a["mean"].iloc[:2], b["mean"].iloc[:2], rtol=0.3)
    assert np.all(a["upper"] - a["lower"] > 1.2 * (b["upper"] - b["lower"]))
    draws = whole.machines_[0].variances["groups of group"]
    assert draws.shape[1:] == (2, 2)
    assert np.all(np.linalg.eigvalsh(draws) > 0)


def posed(**options):
    rng = np.random.default_rng(0)
    X, g = rng.standard_normal((6000, 2)), rng.integers(1500, size=6000)
    f = X[:, 0] - 0.5 + np.sqrt(2.0) * rng.standard_normal(1500)[g]
    return MixedSVC(**options).fit(X, rng.random(6000) < expit(f), groups=g)


def test_a_search_can_be_stopped_and_cut_short():
    seen = []
    stopped = posed(callbacks=[lambda progress: bool(seen.append(progress)) or len(seen) == 1])
    assert len(seen) == stopped.n_iter_ == 1
    assert np.all(np.isfinite(stopped.coef_))
    with pytest.warns(UserWarning, match="stopped after 1 iterations"):
        short = posed(max_iter=1)
    assert not short.converged_
