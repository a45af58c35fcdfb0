"""Columns of few values in distances."""

import numpy as np
import pytest

from bayesvm import BayesianSVC
from bayesvm.designs.columns import Standardised
from bayesvm.designs.discrete_features import Levelled, levelled
from bayesvm.kernels import RBF, squared_distances

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)


def test_values_differ_by_their_difference_and_by_being_different():
    X = np.column_stack([RNG.integers(1, 5, 60), RNG.standard_normal(60), RNG.integers(0, 2, 60)])
    columns = levelled(Standardised(X.mean(axis=0), X.std(axis=0)), X)
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
    found = levelled(Standardised(np.zeros(5), np.ones(5)), X)
    assert [j for j, _ in found.levels] == [1, 2]  # 39 points are too few for ten values
    assert type(levelled(Standardised(np.zeros(1), np.ones(1)), X[:, :1])) is Standardised


def test_values_are_found_in_single_precision_and_other_numbers_have_no_level():
    X = np.tile([0.1, 0.2, 0.7], 5)[:, None]
    columns = levelled(Standardised(np.zeros(1), np.ones(1)), X)
    new = np.array([[0.1], [0.7], [0.15]])
    want = [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
    for kind in (np.float64, np.float32):
        np.testing.assert_array_equal(columns.columns(new.astype(kind))[:, 1:], want)


@pytest.fixture
def codes():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.integers(0, 4, (240, 3)), columns=list("abc")).astype(float)
    y = np.isin(X["a"], [0, 2]) ^ np.isin(X["b"], [1, 2])
    return X, y.astype(int)


def test_units_do_not_matter(codes):
    X, y = codes
    model = BayesianSVC(random_state=0).fit(X, y)
    assert isinstance(model.machines_[0].model.terms[-1].design.inputs, Levelled)
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
