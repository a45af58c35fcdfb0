"""Scores of prediction sets, and MAPIE's from given probabilities."""

import numpy as np
import pytest

import prediction_sets

CODES = np.repeat([0, 1, 2], [12, 12, 2])


def test_scores():
    inside = np.zeros((26, 3), dtype=bool)
    inside[:12, 0] = inside[12:18, 1] = inside[:6, 2] = True
    found = prediction_sets.scores(inside, CODES)
    assert found["coverage"] == pytest.approx(18 / 26)
    assert found["size"] == pytest.approx(24 / 26)
    assert found["empty"] == pytest.approx(8 / 26)
    assert found["worst"] == pytest.approx(0.5)  # the third class has too few rows


def test_a_classifier_of_given_probabilities():
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=26)
    given = prediction_sets.Given().fit(P, CODES)
    np.testing.assert_array_equal(given.predict_proba(P), P)
    np.testing.assert_array_equal(given.predict(P), P.argmax(axis=1))
