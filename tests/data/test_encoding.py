"""Columns of categories and missing cells as columns of numbers."""

import numpy as np
import pytest

from bayesvm.data.levels import Category, find_levels
from bayesvm.data.tables import Encoding

nan = np.nan


def learned(numbers, cells=None, weights=None, kept=(), names=None):
    numbers, cells = np.asarray(numbers, dtype=float), cells or {}
    cells = {j: np.array(values, dtype=object) for j, values in cells.items()}
    names = names or [f"x{j}" for j in range(numbers.shape[1] + len(cells))]
    weights = np.ones(len(numbers)) if weights is None else np.array(weights, dtype=float)
    code = Encoding.learn(numbers, cells, weights, names, kept)
    return code, code.codes(numbers, cells, names)


def test_levels_are_indicators_in_place():
    numbers = np.arange(6.0).reshape(3, 2)
    code, X = learned(numbers, {1: ["b", "c", "a"]})
    np.testing.assert_array_equal(
        X, [[0, 0, 1, 0, 1], [2, 0, 0, 1, 3], [4, 1, 0, 0, 5]]
    )  # numbers before and after
    assert code.names(["u", "v", "w"]) == ["u", "v_a", "v_b", "v_c", "w"]
    assert code.group_names(["u", "v", "w"]) == ["u", "v", "w"]
    assert code.groups == (0, 1, 1, 1, 2)
    assert code.made == ((0,), (1, 2, 3), (4,))
    assert X.shape[1] == 5


def test_two_levels_are_one_column():
    code, X = learned(np.empty((3, 0)), {0: ["m", "f", "m"]})
    np.testing.assert_array_equal(X, [[1], [0], [1]])
    assert code.names(["sex"]) == ["sex_m"]
    assert code.groups is None


def test_truth_values_keep_the_name():
    code, X = learned(np.empty((3, 0)), {0: [True, False, True]})
    np.testing.assert_array_equal(X, [[1], [0], [1]])
    assert code.names(["smoker"]) == ["smoker"]
    code, _ = learned(np.empty((3, 0)), {0: [True, False, None]})
    assert code.names(["smoker"]) == ["smoker_False", "smoker_True", "smoker_missing"]


def test_one_level_is_one_column():
    code, X = learned(np.empty((2, 0)), {0: ["a", "a"]})
    np.testing.assert_array_equal(X, [[1], [1]])
    assert code.names(["u"]) == ["u_a"]


@pytest.mark.parametrize("levels", [["a", "b"], ["a", "b", "c"], [1, 2, 3, 4], ["a", None, "b"]])
def test_levels_are_equally_far_apart_and_unknown_ones_half_as_far(levels):
    code, X = learned(np.empty((len(levels), 0)), {0: levels})
    new = np.array([*levels[:1], "new" if "a" in levels else 99], dtype=object)
    unknown = code.codes(np.empty((2, 0)), {0: new}, ["u"])[1:]
    X, unknown = X / code.scales, unknown / code.scales
    apart = np.square(X[:, None] - X).sum(axis=2)
    np.testing.assert_allclose(apart[~np.eye(len(X), dtype=bool)], 2.0)
    half = 2.0 / (4 if len(levels) == 2 else 2)  # in the middle of two, or as far from each
    np.testing.assert_allclose(np.square(X - unknown).sum(axis=1), half)


def test_a_missing_category_is_a_level_only_if_training_rows_have_it():
    code, X = learned(np.empty((4, 0)), {0: ["a", None, "b", nan]})
    assert code.categories == (Category(0, ("a", "b", None)),)
    np.testing.assert_array_equal(X.argmax(axis=1), [0, 2, 1, 2])
    code, _ = learned(np.empty((3, 0)), {0: ["a", "b", "c"]})
    none = code.codes(np.empty((1, 0)), {0: np.array([None])}, ["u"])
    np.testing.assert_array_equal(none, [[0, 0, 0]])


def test_text_is_not_looked_up_among_numbers():
    code, _ = learned(np.empty((3, 0)), {0: ["1", "2", "3"]})
    with pytest.raises(ValueError, match="'u' held text in the training data and holds no text"):
        code.codes(np.empty((1, 0)), {0: np.array([1])}, ["u"])
    code, _ = learned(np.empty((3, 0)), {0: [1, 2, 3]})
    with pytest.raises(ValueError, match="'u' held no text in the training data and holds text"):
        code.codes(np.empty((1, 0)), {0: np.array(["1"])}, ["u"])
    np.testing.assert_array_equal(
        code.codes(np.empty((1, 0)), {0: np.array([2.0])}, ["u"]).sum(), 1
    )


def test_missing_numbers_become_the_mean_and_are_flagged():
    code, X = learned([[1.0, 5.0], [nan, 7.0], [3.0, 6.0]])
    np.testing.assert_array_equal(X, [[1, 0, 5], [2, 1, 7], [3, 0, 6]])
    assert code.names(["a", "b"]) == ["a", "a_missing", "b"]
    assert code.groups is None
    new = code.codes(np.array([[nan, nan]]), {}, ["a", "b"])
    np.testing.assert_array_equal(new, [[2, 1, 6]])


def test_rare_missing_cells_are_not_flagged():
    numbers = np.ones((1000, 1))
    numbers[:5] = nan
    assert learned(numbers)[0].flagged == ()
    numbers[:10] = nan
    assert learned(numbers)[0].flagged == (0,)


def test_columns_that_are_missing_together_have_one_flag():
    numbers = np.array([[1, 2, nan, 4], [nan, nan, 3, 4], [5, 6, 7, 8]], dtype=float)
    code, X = learned(numbers)
    assert code.flagged == (0, 2)
    assert X.shape == (3, 6)


def test_a_column_without_any_value_is_zero():
    code, X = learned([[nan, 1.0], [nan, 2.0]])
    np.testing.assert_array_equal(X, [[0, 1], [0, 2]])
    assert code.is_plain


def test_cells_that_the_model_fills_in_stay_missing():
    numbers = [[nan, 1.0, nan], [1.0, nan, 2.0], [2.0, 3.0, 4.0]]
    code, X = learned(numbers, kept=None)
    np.testing.assert_array_equal(X, numbers)
    code, X = learned(numbers, kept=[0])
    np.testing.assert_array_equal(np.isnan(X).any(axis=0), [True, False, False, False, False])
    assert code.flagged == (1, 2)


def test_a_weight_of_two_is_the_row_twice_and_none_leaves_it_out():
    numbers, text = np.array([[1.0], [nan], [4.0], [9.0]]), ["a", "b", "c", "d"]
    weighted, _ = learned(numbers, {1: text}, weights=[2, 1, 1, 0])
    at = [0, 0, 1, 2]
    repeated, _ = learned(numbers[at], {1: [text[i] for i in at]})
    np.testing.assert_allclose(weighted.fill, repeated.fill)
    assert weighted.fill[0] == 2.0
    assert weighted.categories == repeated.categories
    assert weighted.flagged == repeated.flagged == (0,)


def test_only_the_most_frequent_levels_have_indicators():
    text = np.array(["a"] * 3 + ["b"] + ["c"] * 2 + ["d"] * 4)
    assert find_levels(text, np.ones(10), "u", most=2) == ("a", "d")


@pytest.mark.parametrize(
    "cells",
    [
        [f"{k % 190 * 1234.5:,.2f}" for k in range(1, 401)],
        [f"{k % 190} %" for k in range(400)],
        [f"{1 + k % 28:02d}.{1 + k % 12:02d}.{1900 + k % 190}" for k in range(400)],
        [f"2024-01-{1 + k % 28:02d} 10:{k % 60:02d}:00" for k in range(1000)],
        [f"row {k}" for k in range(400)],
    ],
    ids=["numbers", "units", "dates", "times", "names of rows"],
)
def test_columns_of_text_that_are_hardly_categories_are_told(cells):
    with pytest.warns(UserWarning, match=r"'u' has \d+ different values.*TableCleaner\(\).*leave"):
        learned(np.empty((len(cells), 0)), {0: cells}, names=["u"])


def test_numbers_alone_are_passed_on():
    numbers = np.random.default_rng(0).standard_normal((5, 3))
    code, X = learned(numbers)
    assert X is not None
    assert code.codes(numbers, {}, ["a", "b", "c"]) is numbers
    assert code.is_plain
    assert code.groups is None
    assert code.scales is None
    np.testing.assert_allclose(code.fill, numbers.mean(axis=0))


def test_means_of_huge_numbers_are_finite():
    code, _ = learned([[1.6e308], [1.7e308]])
    np.testing.assert_allclose(code.fill, 1.65e308)
    code, _ = learned([[1.6e308], [1.7e308], [nan]])
    np.testing.assert_allclose(code.fill, 1.65e308)
