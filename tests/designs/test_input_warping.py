"""Columns between their numbers and their ranks."""

import numpy as np
import pytest
from scipy.stats import norm

from bayesvm import BayesianSVC
from bayesvm.designs.columns import Standardised
from bayesvm.designs.input_warping import KNOTS, LEAST, Warped, warped

RNG = np.random.default_rng(0)
X = np.column_stack([np.exp(2 * RNG.standard_normal(90)), RNG.integers(0, 3, 90), np.ones(90)])
ONES = np.ones(90)


def columns(X, c):
    center = c @ X / c.sum()
    scale = np.sqrt(c @ np.square(X - center) / c.sum())
    return warped(Standardised(center, np.where(scale > 0, scale, 1.0)), X, c)


def test_the_curve_is_the_sum_of_number_and_rank():
    design = columns(X, ONES)
    z = (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()
    rank = (np.argsort(np.argsort(z)) + 0.5) / 90
    want = z / np.sqrt(1 + z**2 / 9) + norm.ppf(LEAST + (1 - 2 * LEAST) * rank)
    want = (want - want.mean()) / want.std()
    got = design.columns(X)
    np.testing.assert_allclose(got[:, 0], want, atol=1e-12)
    plain = Standardised(design.center, design.scale).columns(X)
    np.testing.assert_allclose(got[:, 1:], plain[:, 1:], atol=1e-12)  # few values


def test_weights_units_and_signs():
    c = RNG.integers(1, 4, 90).astype(float)
    design, twice = (
        columns(X, c),
        columns(np.repeat(X, c.astype(int), axis=0), np.ones(int(c.sum()))),
    )
    want = design.columns(X)
    np.testing.assert_allclose(twice.columns(X), want, atol=1e-10)
    np.testing.assert_allclose(columns(3.0 * X - 8.0, c).columns(3.0 * X - 8.0), want, atol=1e-9)
    np.testing.assert_allclose(columns(-X, c).columns(-X), -want, atol=1e-10)


def test_gaussian_and_uniform_columns_stay_as_they_are():
    x = np.column_stack([RNG.standard_normal(300), RNG.random(300), np.exp(RNG.random(300))])
    design = columns(x, np.ones(300))
    plain = Standardised(design.center, design.scale).columns(x)
    np.testing.assert_allclose(design.columns(x), plain, atol=1e-12)


@pytest.mark.parametrize("n", [40, 1000])
def test_the_curve_rises_everywhere_and_leads_back(n):
    x = RNG.standard_t(2, (n, 1))
    design = columns(x, np.ones(n))
    assert design.warps[0][1].size <= KNOTS
    new = np.sort(np.concatenate([x[:, 0], 30 * RNG.standard_t(2, 200)]))[:, None]
    bent = design.columns(new)
    assert np.all(np.diff(bent[:, 0]) > 0)
    np.testing.assert_allclose(design.to_input(bent), new, rtol=1e-8, atol=1e-8)
    out = np.empty_like(new)
    assert design.columns(new, out) is out
    np.testing.assert_array_equal(out, bent)


def test_a_fit_reports_its_points_on_the_scale_of_the_input():
    y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    model = BayesianSVC(random_state=0).fit(X[:, :2], y)
    assert isinstance(model.machines_[0].model.terms[-1].design.inputs, Warped)
    rows = model.inducing_points_
    np.testing.assert_allclose(np.unique(rows, axis=0), np.unique(X[:, :2], axis=0), rtol=1e-8)
