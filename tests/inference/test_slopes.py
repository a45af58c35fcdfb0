"""Groups with slopes integrated out, against one-dimensional integrals and differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from bayesvm import MixedSVC
from bayesvm.core.types import Own
from bayesvm.inference import VB
from bayesvm.inference.group_integrals import GroupRows, Reach
from bayesvm.inference.slopes import About, SlopeRows, _Fit
from bayesvm.likelihoods import Logistic, SoftHinge
from bayesvm.priors import InverseWishart


def simulate(n=500, G=40, seed=0):
    rng = np.random.default_rng(seed)
    X, g = rng.standard_normal((n, 2)), np.sort(rng.integers(0, G, n))
    u = rng.standard_normal((G, 2)) * [1.0, 0.7]
    f = X[:, 0] + u[g, 0] + u[g, 1] * X[:, 0]
    return X, np.where(rng.random(n) < expit(f), 1.0, -1.0), g


def rows_of(likelihood, Z):
    X, y, g = simulate(60, 8)
    A = np.column_stack([np.ones(60), X])
    return SlopeRows(A, Z, y, np.ones(60), g, 8, likelihood)


def settled(rows, beta, Sigma):
    about = About(np.zeros((8, 2)), np.tile(np.linalg.cholesky(Sigma), (8, 1, 1)))
    for _ in range(5):
        about = rows.at(beta, Sigma, about).about
    return rows.at(beta, Sigma, about), about


@pytest.mark.parametrize("likelihood", [Logistic(), SoftHinge()], ids=repr)
def test_effects_without_columns_leave_integrals_of_one_dimension(likelihood):
    beta, Sigma = np.array([0.2, 0.8, -0.3]), np.diag([1.5, 0.7])
    rows = rows_of(likelihood, np.column_stack([np.ones(60), np.zeros(60)]))
    found, _ = settled(rows, beta, Sigma)
    flat = GroupRows(rows.A, np.ones(60), rows.y, rows.c, rows.codes, 8, likelihood)
    reach = Reach(np.full(8, -5.0), np.zeros(8), np.full(8, 5.0))
    for _ in range(4):
        reach = flat.at(beta, np.log(1.5), reach).reach
    other = flat.at(beta, np.log(1.5), reach)
    assert found.value == pytest.approx(other.value, abs=0.02)
    np.testing.assert_allclose(found.mean[:, 0], other.mean, atol=0.01)
    np.testing.assert_allclose(found.cov[:, 0, 0], other.var, rtol=0.03)
    np.testing.assert_allclose(found.cov[:, 1, 1], 0.7, rtol=1e-6)
    np.testing.assert_allclose(found.slope, other.slope[:3], atol=0.05)
    np.testing.assert_allclose(found.bend, other.bend[:3, :3], atol=0.1)


def test_derivatives_are_those_of_differences():
    beta, Sigma = np.array([0.2, 0.8, -0.3]), np.array([[1.5, 0.4], [0.4, 0.7]])
    rows = rows_of(Logistic(), np.column_stack([np.ones(60), simulate(60, 8)[0][:, 0]]))
    found, about = settled(rows, beta, Sigma)
    for j in range(3):
        e = 1e-4 * np.eye(3)[j]
        low, high = (rows.at(beta + s * e, Sigma, about) for s in (-1, 1))
        assert found.slope[j] == pytest.approx((high.value - low.value) / 2e-4, rel=1e-5)
        np.testing.assert_allclose(found.bend[j], (low.slope - high.slope) / 2e-4, rtol=1e-5)
        np.testing.assert_allclose(found.lean[..., j], (high.mean - low.mean) / 2e-4, atol=1e-6)


def test_slopes_and_their_notes():
    X, y, g = simulate()
    whole, plain = (
        MixedSVC(inference=how, random=[0], width="model").fit(X, y, groups=g)
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


def test_the_density_of_factors_has_the_jacobian_of_differences():
    prior, low = InverseWishart(2), np.tril_indices(2)
    fit = object.__new__(_Fit)
    fit.prior, fit.r = prior, 2
    found = []
    for phi in ([0.3, -0.2, -0.6], [-0.5, 0.9, 0.4]):
        state = prior.restore(prior.init(2), np.array(phi))
        J = [
            (b - a)[low] / 2e-5
            for e in 1e-5 * np.eye(3)
            for a, b in [
                [prior.matrix(prior.restore(state, np.array(phi) + s * e)) for s in (-1, 1)]
            ]
        ]
        none = Own(np.empty(0), np.empty(0))
        density = prior.log_prob(state, none) + np.linalg.slogdet(J)[1]
        found.append(fit._log_prior(state) - density)
    assert found[0] == pytest.approx(found[1], abs=1e-6)  # but for a constant
