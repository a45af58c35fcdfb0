"""Groups integrated out by quadrature, against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logsumexp

from bayesvm import MixedSVC
from bayesvm.inference import VB
from bayesvm.inference.quadrature import GroupRows, Reach
from bayesvm.likelihoods import Hinge, Logistic, Probit, SoftHinge
from bayesvm.priors import Fixed, Ridge


def simulate(seed=0, n=60, G=8, sd=1.5):
    rng = np.random.default_rng(seed)
    X, g = rng.standard_normal((n, 1)), np.arange(n) % G
    f = X[:, 0] + sd * rng.standard_normal(G)[g]
    return X, np.where(rng.random(n) < expit(f), 1.0, -1.0), g


def rows_of(likelihood, seed=0, v=None):
    X, y, g = simulate(seed)
    order = np.argsort(g, kind="stable")
    A = np.hstack([np.ones_like(X), X])[order]
    c = np.random.default_rng(1).integers(1, 3, g.size).astype(float)
    z = np.random.default_rng(2).uniform(0.5, 1.5, g.size)
    return GroupRows(A, z, y[order], c, g[order], int(g.max()) + 1, likelihood, v)


def settled(rows, beta, t):
    """Sums with nodes that have found the integrands."""
    reach = Reach(np.full(rows.G, -5.0), np.zeros(rows.G), np.full(rows.G, 5.0))
    for _ in range(4):
        reach = rows.at(beta, t, reach).reach
    return rows.at(beta, t, reach), reach


@pytest.mark.parametrize("likelihood", [Logistic(), Probit(), SoftHinge()], ids=repr)
def test_integrals_and_moments_are_those_of_adaptive_quadrature(likelihood):
    rows, beta, t = rows_of(likelihood), np.array([0.3, 0.8]), np.log(3.0)
    found, _ = settled(rows, beta, t)
    total = 0.0
    for g in range(rows.G):
        at = rows.codes == g
        A, z, y, c = rows.A[at], rows.z[at], rows.y[at], rows.c[at]

        def density(u, A=A, z=z, y=y, c=c):
            prior = np.exp(-0.5 * u * u / 3.0) / np.sqrt(2 * np.pi * 3.0)
            return prior * np.exp(c @ likelihood.log_prob(y, A @ beta + z * u))

        ends = {"points": (-3, 0, 3), "epsabs": 0, "epsrel": 1e-9, "limit": 200}
        mass, first, second = (
            quad(lambda u, k=k, d=density: u**k * d(u), -15, 15, **ends)[0] for k in range(3)
        )
        total += np.log(mass)
        assert found.mean[g] == pytest.approx(first / mass, abs=1e-4)
        assert found.var[g] == pytest.approx(second / mass - (first / mass) ** 2, rel=1e-3)
    assert found.value == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("few", [False, True])
def test_derivatives_are_those_of_differences(few):
    rows, beta, t = rows_of(Logistic()), np.array([0.3, 0.8]), 0.7
    rows = replace(rows, v=np.linspace(0.1, 0.5, rows.y.size)) if few else rows
    found, reach = settled(rows, beta, t)
    e, p = 1e-4, beta.size
    for j in range(p + 1):
        d = e * np.eye(p + 1)[j]
        low, high = (rows.at(beta + s * d[:p], t + s * d[p], reach) for s in (-1, 1))
        assert found.slope[j] == pytest.approx((high.value - low.value) / (2 * e), rel=1e-5)
        bend = (low.slope - high.slope) / (2 * e)
        np.testing.assert_allclose(found.bend[j], bend, rtol=1e-5, atol=1e-6)
        if j < p:
            lean = (high.mean - low.mean) / (2 * e)
            np.testing.assert_allclose(found.lean[:, j], lean, rtol=1e-5, atol=1e-7)


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


def test_weights_are_repetitions_and_order_does_not_matter():
    X, y, g = simulate(4)
    c = np.random.default_rng(0).integers(1, 3, y.size)
    some = MixedSVC().fit(X, y, groups=g, sample_weight=c)
    again = np.random.default_rng(1).permutation(np.repeat(np.arange(y.size), c))
    many = MixedSVC().fit(X[again], y[again], groups=g[again])
    np.testing.assert_allclose(some.coef_, many.coef_, rtol=1e-5)
    a, b = (m.variance_components_.to_numpy(float) for m in (some, many))
    np.testing.assert_allclose(a, b, rtol=1e-4)


def test_a_bound_that_is_named_is_left_as_it_is():
    X, y, g = simulate(5)
    plain, whole = (
        MixedSVC(inference=how).fit(X, y, groups=g) for how in (VB(bound="tight"), "vb")
    )
    assert not plain.machines_[0].variances
    assert "note" in plain.variance_components_
    assert "note" not in whole.variance_components_
    low, high = (whole.variance_components_[k].iloc[0] for k in ("lower", "upper"))
    assert low < plain.variance_components_["lower"].iloc[0]
    assert high > plain.variance_components_["upper"].iloc[0]


def test_groups_that_labels_do_not_tell_about_are_survived():
    """One row a group, then groups that are all of one label."""
    X, y, g = simulate(6, n=40, G=40)
    for labels, groups in ((y, g), (np.where(g < 20, 1.0, -1.0), g // 4)):
        model = MixedSVC(random_prior=Ridge(a=1.0, b=1.0)).fit(X, labels, groups=groups)
        assert np.all(np.isfinite(model.predict_proba(X, groups=groups)))
        assert np.all(np.isfinite(model.variance_components_.iloc[:, :3].to_numpy(float)))
