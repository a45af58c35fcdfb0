"""Columns that share a unit."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from tests.problems import frozen

from bayesvm import BayesianSVC
from bayesvm.blocks import Blocks
from bayesvm.designs import Standardised, fit_columns
from bayesvm.designs.common import COLUMNS, RANGES, in_one_unit
from bayesvm.designs.input_warping import Warped
from bayesvm.engines import Serial

RNG = np.random.default_rng(0)
X = frozen(RNG.uniform(0.0, 1.0, (60, 10)) * np.linspace(1.0, 8.0, 10))


def columns_of(X):
    return fit_columns(Blocks(X, 100), np.ones(len(X)), Serial(), True)


def test_one_scale_for_all_columns_that_of_their_mean_variance():
    given = columns_of(X)
    other = in_one_unit(given, X)
    assert np.ptp(other.scale) == 0.0
    assert other.columns(X).var(axis=0).sum() == pytest.approx(X.shape[1])
    np.testing.assert_allclose(other.to_input(other.columns(X)), X)


def test_the_same_factor_for_all_columns_changes_nothing():
    for factor in (1e-6, 1e6):
        same = in_one_unit(columns_of(factor * X), factor * X).columns(factor * X)
        np.testing.assert_allclose(same, in_one_unit(columns_of(X), X).columns(X))


def test_columns_of_different_units_and_few_columns_are_left_alone():
    other = X * np.where(np.arange(X.shape[1]) == 3, 2.0 * RANGES, 1.0)
    assert in_one_unit(columns_of(other), other) is None
    few = X[:, : COLUMNS - 1]
    assert in_one_unit(columns_of(few), few) is None


def test_constant_columns_have_no_part():
    still = np.column_stack([X, np.full(len(X), 1e9)])
    other = in_one_unit(columns_of(still), still)
    np.testing.assert_allclose(
        other.columns(still)[:, :-1], in_one_unit(columns_of(X), X).columns(X)
    )
    assert not other.columns(still)[:, -1].any()


def test_pixels_keep_their_unit_and_other_tables_their_scales():
    digits, y = load_digits(n_class=3, return_X_y=True)
    digits, y = digits[:200], y[:200]
    assert (
        type(BayesianSVC().fit(digits, y).machines_[0].model.terms[1].design.inputs) is Standardised
    )
    # the same pixels in units of their own
    own = digits * np.exp(3.0 * np.random.default_rng(1).standard_normal(digits.shape[1]))
    model = BayesianSVC(random_state=0).fit(own, y)
    assert isinstance(model.machines_[0].model.terms[1].design.inputs, Warped)
