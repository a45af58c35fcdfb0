"""Rows that are no longer at hand: exact where they were seen, to second order elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
from tests.problems import make_problem, simulate

from bayesvm.core.types import Coef
from bayesvm.inference import VB
from bayesvm.inference.state import bound_of
from bayesvm.linalg.covariances import FullCovariance
from bayesvm.model.past import Past
from bayesvm.priors import Fixed

X, Y, WEIGHTS = simulate(400, 3, seed=1, weighted=True)


@pytest.fixture
def split():
    """All rows, their posterior, and the problem of the last 100 with the others gone."""
    whole = make_problem(X, Y, WEIGHTS, prior=Fixed(0.8), intercept=Fixed(0.25))
    state = VB(tol=1e-14).fit(whole, np.random.default_rng(0)).state
    gone, here = whole.some(np.arange(300)), whole.some(np.arange(300, 400))
    past = Past.of(gone.stats(state.coef, curved=True), state.coef, gone.weight)
    return whole, state, replace(here, past=past)


def test_sums_and_bound_are_those_of_all_rows_where_they_were_seen(split):
    whole, state, rest = split
    have, want = rest.stats(state.coef, curved=True), whole.stats(state.coef, curved=True)
    for a, b in ((have.S.M, want.S.M), (have.g, want.g)):
        np.testing.assert_allclose(a, b, atol=1e-10 * np.abs(want.S.M).max())
    # rows of little curvature, 5 % of w at most, enter H as a share of their own set's S
    np.testing.assert_allclose(have.H.M, want.H.M, atol=0.05 * np.abs(want.H.M).max())
    assert bound_of(rest, state) == pytest.approx(bound_of(whole, state), rel=1e-12)
    assert rest.weight == pytest.approx(WEIGHTS.sum())


def test_elsewhere_the_bound_has_the_slopes_that_the_sums_say(split):
    """Differences of the bound of the rows gone, in a random direction of mean and of spread."""
    _, state, rest = split
    past, coef = rest.past, state.coef
    rng, h = np.random.default_rng(2), 1e-5
    mean = coef.mean + 0.1 * rng.standard_normal(coef.mean.size)
    e = rng.standard_normal(mean.size)
    up, down = (past.stats(Coef(mean + d * e, coef.cov), False).bound for d in (h, -h))
    here = past.stats(Coef(mean, coef.cov), True)
    assert (up - down) / (2 * h) == pytest.approx(here.g @ e, rel=1e-6)
    wide = past.stats(
        Coef(mean, FullCovariance(coef.cov.L / np.sqrt(2.0))), False
    ).bound  # twice the covariance
    assert wide - here.bound == pytest.approx(-0.5 * np.vdot(past.S, coef.cov.dense()), rel=1e-9)


def test_the_posterior_of_all_rows_is_a_fixed_point(split):
    _, state, rest = split
    again = VB(tol=1e-14).fit(rest, np.random.default_rng(0), start=state)
    np.testing.assert_allclose(again.state.coef.mean, state.coef.mean, atol=1e-6)


def test_two_pasts_are_one(split):
    whole, state, rest = split
    a, b = (whole.some(rows) for rows in (np.arange(100), np.arange(100, 300)))
    parts = [Past.of(k.stats(state.coef, curved=True), state.coef, k.weight) for k in (a, b)]
    joined = parts[0] + parts[1]
    have, want = (past.stats(state.coef, True) for past in (joined, rest.past))
    np.testing.assert_allclose(have.S.M, want.S.M, rtol=1e-9)
    np.testing.assert_allclose(have.g, want.g, atol=1e-9 * np.abs(want.S.M).max())
    np.testing.assert_allclose(have.H.M, want.H.M, atol=0.05 * np.abs(want.H.M).max())  # as above
    assert have.bound == pytest.approx(want.bound, rel=1e-12)
    assert joined.weight == pytest.approx(rest.past.weight)
