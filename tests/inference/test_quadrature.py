"""Groups integrated out by quadrature, against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logsumexp

from bayesvm import MixedSVC
from bayesvm.inference import VB, group_integrals, quadrature
from bayesvm.inference.group_integrals import GroupRows, Reach
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


def simulated_rows(G, size, variance, seed=0):
    """Groups of about so many rows with a binary outcome, their coefficients and log variance."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(G), rng.poisson(size - 1, G) + 1)
    A = np.column_stack([np.ones(codes.size), rng.standard_normal(codes.size)])
    beta, u = np.array([-0.5, 1.0]), np.sqrt(variance) * rng.standard_normal(G)
    y = np.where(rng.random(codes.size) < expit(A @ beta + u[codes]), 1.0, -1.0)
    one = np.ones(codes.size)
    return GroupRows(A, one, y, one, codes, G, Logistic()), beta, np.log(variance)


@pytest.mark.parametrize("variance", [0.1, 1.0, 4.0, 16.0])
@pytest.mark.parametrize("size", [3, 10, 50])
def test_few_nodes_are_as_good_as_very_many(size, variance, monkeypatch):
    """The mode would move by less than a thousandth of a standard error."""
    rows, beta, t = simulated_rows(300, size, variance)
    reach = rows.modes(beta, t)
    for _ in range(2):
        few = rows.at(beta, t, reach)
        reach = few.reach
    monkeypatch.setattr(group_integrals, "TAIL", 20.0)
    wide = rows.at(beta, t, reach).reach
    many = rows.at(beta, t, rows.at(beta, t, wide, 201).reach, 201)
    cov = np.linalg.inv(many.bend)
    shift = cov @ (few.slope - many.slope) / np.sqrt(np.diag(cov))
    assert np.max(np.abs(shift)) < 1e-3
    assert few.value == pytest.approx(many.value, abs=1e-3)
    np.testing.assert_allclose(few.mean, many.mean, atol=2e-4)
    np.testing.assert_allclose(few.var, many.var, rtol=1e-3)
    # that of t is a small difference of large sums where groups tell little
    np.testing.assert_allclose(np.diag(few.bend), np.diag(many.bend), rtol=1e-3, atol=3e-3)


def test_samples_are_of_whole_groups_or_of_rows_of_large_ones():
    rows = simulated_rows(400, 10, 1.0)[0]
    some = rows.sample(1000)
    assert abs(some.y.size - 1000) < 250
    whole = {tuple(rows.y[rows.codes == g]) for g in range(rows.G)}
    assert all(tuple(some.y[some.codes == g]) in whole for g in range(some.G))
    large = simulated_rows(20, 500, 1.0)[0].sample(800)
    assert large.G == 20
    assert np.all(np.abs(np.bincount(large.codes) - 40) <= 10)


def posed(n=6000, G=1500, variance=2.0, **options):
    rng = np.random.default_rng(0)
    X, g = rng.standard_normal((n, 2)), rng.integers(G, size=n)
    f = X[:, 0] - 0.5 + np.sqrt(variance) * rng.standard_normal(G)[g]
    y = np.where(rng.random(n) < expit(f), 1, -1)
    return MixedSVC(**options).fit(X, y, groups=g)


def summarised(model):
    """Means and standard deviations of coefficients, groups and t; widths of the coefficients."""
    machine = model.machines_[0]
    post, (variances,) = machine.posterior, machine.variances.values()
    t, sd = np.log(variances[:, 0, 0]), np.sqrt(post.variance())
    return post.mean, sd, np.array([t.mean(), t.std(), *np.quantile(t, [0.05, 0.95])]), model


def test_a_search_from_samples_ends_where_one_from_a_variational_fit_does(monkeypatch):
    mean, sd, t, slow = summarised(posed())
    monkeypatch.setattr(quadrature, "MANY_ROWS", 1000)
    mean_, sd_, t_, fast = summarised(posed())
    assert fast.n_iter_ < 6
    assert fast.converged_
    np.testing.assert_allclose(mean_ / sd, mean / sd, atol=3e-3)
    np.testing.assert_allclose(sd_, sd, rtol=3e-3)
    np.testing.assert_allclose(t_ / t[1], t / t[1], atol=5e-3)
    np.testing.assert_allclose(fast.coef_std_, slow.coef_std_, rtol=3e-3)
    assert fast.elbo_ == pytest.approx(slow.elbo_, rel=1e-3)


def test_three_points_of_a_narrow_variance_do_what_a_grid_does(monkeypatch):
    mean, sd, t, _ = summarised(posed(variance=4.0))
    monkeypatch.setattr(quadrature, "NARROW", 1.0)
    mean_, sd_, t_, _ = summarised(posed(variance=4.0))
    assert t[1] > 0.05  # a wider one than would be taken for narrow
    np.testing.assert_allclose(mean_ / sd, mean / sd, atol=3e-3)
    np.testing.assert_allclose(sd_, sd, rtol=3e-3)
    np.testing.assert_allclose(t_ / t[1], t / t[1], atol=0.03)


def test_a_search_from_samples_can_be_stopped_and_cut_short(monkeypatch):
    monkeypatch.setattr(quadrature, "MANY_ROWS", 1000)
    seen = []
    stopped = posed(callbacks=[lambda progress: bool(seen.append(progress)) or len(seen) == 1])
    assert len(seen) == stopped.n_iter_ == 1
    assert np.all(np.isfinite(stopped.coef_))
    with pytest.warns(UserWarning, match="stopped after 1 iterations"):
        short = posed(max_iter=1)
    assert not short.converged_


@pytest.mark.slow
def test_variances_that_rows_tell_little_of_start_from_a_variational_fit(monkeypatch):
    plain = posed(variance=0.01)
    monkeypatch.setattr(quadrature, "MANY_ROWS", 1000)
    again = posed(variance=0.01)
    assert again.n_iter_ == plain.n_iter_
    np.testing.assert_array_equal(again.coef_, plain.coef_)
