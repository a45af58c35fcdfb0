"""Labels of groups of every kind, and their codes."""

import numpy as np
import pandas as pd
import pytest

from bayesvm.data.levels import Levels, Placed, some_of

LABELS = {
    "numbers": np.array([3, 1, 3, 2]),
    "text": np.array(["c", "a", "c", "b"]),
    "objects": np.array(["c", "a", "c", "b"], dtype=object),
    "dates": np.datetime64("2020-01-01") + np.array([3, 1, 3, 2]),
    "mixed numbers": np.array([3, 1.0, 3.0, 2], dtype=object),
}


@pytest.mark.parametrize("kind", LABELS)
def test_codes_are_positions_among_sorted_labels(kind):
    labels = LABELS[kind]
    levels, codes = Levels.learn(labels, 4)
    assert levels.names == ("group",)
    np.testing.assert_array_equal(codes[:, 0], [2, 0, 2, 1])
    np.testing.assert_array_equal(levels.codes(labels, 4), codes)
    np.testing.assert_array_equal(levels.codes(None, 2), [[-1], [-1]])
    np.testing.assert_array_equal(levels.codes(labels[1:3], 2)[:, 0], [0, 2])


def test_every_training_row_has_one_label_of_one_kind():
    with pytest.raises(ValueError, match="2 of 4 rows have no value in 'group'"):
        Levels.learn(np.array(["a", None, "b", np.nan], dtype=object), 4)
    with pytest.raises(ValueError, match="of several kinds"):
        Levels.learn(np.array(["a", 1], dtype=object), 2)


def test_unknown_and_missing_labels_have_no_code():
    levels, _ = Levels.learn(LABELS["text"], 4)
    new = np.array(["a", "z", None, np.nan, pd.NA], dtype=object)
    np.testing.assert_array_equal(levels.codes(new, 5)[:, 0], [0, -1, -1, -1, -1])
    with pytest.raises(ValueError, match="none could match"):
        levels.codes(np.arange(3), 3)


def test_columns_are_matched_by_name_if_they_have_one():
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    levels, _ = Levels.learn(frame, 2)
    wanted = [[0, 0], [1, 1]]
    np.testing.assert_array_equal(levels.codes(frame[["b", "a"]], 2), wanted)
    np.testing.assert_array_equal(levels.codes(frame.to_numpy(), 2), wanted)
    placed = some_of(frame.to_numpy(), slice(None), 2)
    assert isinstance(placed, Placed)
    np.testing.assert_array_equal(levels.codes(placed, 2), wanted)
    with pytest.raises(ValueError, match="was fitted with"):
        levels.codes(frame.rename(columns={"a": "c"}), 2)
