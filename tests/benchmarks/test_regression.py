"""The benchmark of regression: one job, and the page that quotes it."""

import numpy as np
import pandas as pd
import pytest

import pages
import regression


def test_noise_has_mean_zero_and_variance_one():
    for law in regression.NOISE.values():
        assert law.mean() == pytest.approx(0.0, abs=1e-12)
        assert law.var() == pytest.approx(1.0)


def test_one_job():
    row = regression.work("uniform", 100, "vb", 0)
    assert list(row) == regression.FIELDS
    assert 0.7 < float(row["coverage"]) <= 1.0
    again = regression.simulated("uniform", 100, 0)
    for a, b in zip(again, regression.simulated("uniform", 100, 0), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_page_quotes_the_newest_results():
    rows = pd.read_csv(pages.latest("regression.csv"))
    text = regression.PAGE.read_text(encoding="utf-8")
    assert regression.filled(text, rows) == text


def test_intervals_hold():
    """What the page claims: 90 % intervals of new numbers, at all sizes and kinds of noise."""
    rows = pd.read_csv(pages.latest("regression.csv"))
    found = rows.groupby(["inference", "noise", "n"])["coverage"].mean()
    assert len(found) == 2 * len(regression.NOISE) * len(regression.ROWS)
    assert found.between(0.88, 0.92).all()
    assert found["vb"].between(0.899 - 5e-4, 0.910 + 5e-4).all()
    coefficients = rows[rows["inference"] == "vb"].groupby(["noise", "n"])["coef_data"].mean()
    assert coefficients.between(0.845, 0.905).all()
