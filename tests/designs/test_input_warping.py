"""Columns between their numbers and their ranks, and those of few values."""

import numpy as np
import pytest
from scipy.stats import norm

from bayesvm import BayesianSVC
from bayesvm.designs.columns import Standardised
from bayesvm.designs.input_warping import Warped, levelled, warped
from bayesvm.kernels import RBF, squared_distances

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
    want = z / np.sqrt(1 + z**2 / 9) + norm.ppf(0.03 + 0.94 * rank)
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
    assert design.warps[0][1].size <= 200
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


# ----- few values


def test_values_differ_by_their_difference_and_by_being_different():
    X = np.column_stack([RNG.integers(1, 5, 60), RNG.standard_normal(60), RNG.integers(0, 2, 60)])
    columns = levelled(Warped(X.mean(axis=0), X.std(axis=0)), X)
    assert [(j, values.tolist()) for j, values in columns.levels] == [(0, [1, 2, 3, 4])]
    rows = columns.columns(X)
    assert rows.shape == (60, 7)
    assert columns.groups(None) == (0, 1, 2, 0, 0, 0, 0)
    assert columns.groups((0, 1, 1)) == (0, 1, 1, 0, 0, 0, 0)
    plain = Standardised(X.mean(axis=0), X.std(axis=0)).columns(X)
    differ = X[:, None, 0] != X[:, 0]
    np.testing.assert_allclose(
        squared_distances(rows), squared_distances(plain) + 2 * differ, atol=1e-10
    )


def test_which_columns_have_few_values():
    n = 39
    X = np.column_stack([np.arange(n) % k for k in (2, 3, 9, 10, 11)])
    found = levelled(Warped(np.zeros(5), np.ones(5)), X)
    assert [j for j, _ in found.levels] == [1, 2]  # 39 points are too few for ten values
    assert levelled(Warped(np.zeros(1), np.ones(1)), X[:, :1]).levels == ()


def test_values_are_found_in_single_precision_and_other_numbers_have_no_level():
    X = np.tile([0.1, 0.2, 0.7], 5)[:, None]
    columns = levelled(Warped(np.zeros(1), np.ones(1)), X)
    new = np.array([[0.1], [0.7], [0.15]])
    want = [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    for kind in (np.float64, np.float32):
        np.testing.assert_array_equal(columns.columns(new.astype(kind))[:, 1:], want)


@pytest.fixture
def codes():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.integers(0, 4, (240, 3)), columns=list("abc")).astype(float)
    y = np.isin(X["a"], [0, 2]) ^ np.isin(X["b"], [1, 2])
    return X, y.astype(int)


def test_units_do_not_matter(codes):
    X, y = codes
    model = BayesianSVC(random_state=0).fit(X, y)
    assert model.machines_[0].model.terms[-1].design.inputs.levels
    other = BayesianSVC(random_state=0).fit(7.3 * X - 2.0, y)
    np.testing.assert_allclose(
        model.predict_proba(X), other.predict_proba(7.3 * X - 2.0), rtol=1e-4, atol=1e-6
    )
    assert model.inducing_points_.shape[1] == 3
    scales = model.summary().filter(like="length_scale", axis="index")
    assert len(scales) % 3 == 0 or len(scales) < 3


def test_a_kernel_that_is_given_is_taken_as_it_is(codes):
    X, y = codes
    model = BayesianSVC(RBF((1.0, 1.0, 2.0)), tune=False).fit(X, y)
    assert type(model.machines_[0].model.terms[-1].design.inputs) is Standardised
