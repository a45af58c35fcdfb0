"""Labels and weights as they come."""

import numpy as np
import pytest

from bayesvm.reading import check_two_sided, check_weights, encode


@pytest.mark.parametrize(
    "y",
    [
        np.array([0, 1, 1, 0], dtype=np.int8),
        np.array([True, False, True]),
        np.array([0, 2, 1, 2], dtype=np.uint8),
        np.array([3, 0, 3]),
        np.array([0, 40_000, 0]),
        np.array([-1, 1, -1]),
        np.array([9, 9, 8, 700]),
        np.array(["b", "a", "b"]),
        np.array([0.5, 0.0]),
    ],
    ids=lambda y: f"{y.dtype} {y[0]} {y[1]}",
)
def test_codes_are_places_among_the_classes(y):
    classes, codes = encode(y)
    known, places = np.unique(y, return_inverse=True)
    np.testing.assert_array_equal(classes, known)
    assert classes.dtype == y.dtype
    np.testing.assert_array_equal(codes, places)


def test_weights_by_default_are_one():
    y = np.array([0, 1, 1])
    np.testing.assert_array_equal(check_weights(None, None, y, [0, 1]), np.ones(3))
    np.testing.assert_allclose(check_weights(None, "balanced", y, [0, 1]), [1.5, 0.75, 0.75])


@pytest.mark.parametrize("classes", [2, 3, 9])
def test_every_class_needs_weight(classes):
    y, c = np.arange(2 * classes) % classes, np.ones(2 * classes)
    check_two_sided(y, c, np.arange(classes))
    c[y == classes - 1] = 0.0
    with pytest.raises(ValueError, match=f"class {classes - 1} has no row"):
        check_two_sided(y, c, np.arange(classes))
