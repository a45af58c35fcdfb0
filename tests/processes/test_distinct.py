"""Copies of a row merged into weights."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bayesvm.processes.points import merge


@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), p=st.integers(1, 3))
def test_merged_rows_are_the_distinct_ones_with_their_weights(seed, n, p):
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, (n, p)) * 0.5
    codes, c = rng.integers(0, 3, n), rng.uniform(0.1, 2.0, n)
    got = merge(X, codes, c)
    want: dict = {}
    for x, k, w in zip(X, codes, c):
        key = (*(x + 0.0), k)
        want[key] = want.get(key, 0.0) + w
    assert len(got.c) == len(want)
    assert len(got.X) == len({key[:-1] for key in want})
    for a, k, w in zip(got.at, got.codes, got.c):
        np.testing.assert_allclose(want[(*got.X[a], k)], w)
    np.testing.assert_array_equal(got.X[got.at[got.back]], X)
    np.testing.assert_array_equal(got.codes[got.back], codes)


def test_order_depends_on_values_alone():
    rng = np.random.default_rng(0)
    X, codes = rng.integers(0, 3, (30, 2)).astype(float), rng.integers(0, 2, 30)
    c = rng.integers(1, 4, 30)
    one = merge(X, codes, c.astype(float))
    rows = rng.permutation(np.repeat(np.arange(30), c))
    two = merge(X[rows], codes[rows], np.ones(rows.size))
    for a, b in zip(one[:4], two[:4]):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_minus_zero_is_zero():
    got = merge(np.array([[0.0], [-0.0]]), np.array([0, 0]), np.ones(2))
    assert got.X.shape == (1, 1)
    assert got.c.tolist() == [2.0]


def test_equal_neighbours_are_found_in_float32_too():
    X = np.array([[0.1], [0.2], [0.1]], dtype=np.float32)
    assert merge(X, np.zeros(3, int), np.ones(3)).X.shape == (2, 1)


@given(seed=st.integers(0, 10**6), n=st.integers(2, 40), p=st.integers(1, 4))
def test_order_survives_other_units_and_rounding(seed, n, p):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random(p) < 0.5, rng.normal(size=(n, p)), rng.integers(0, 3, (n, p)))
    X[:, 0] = rng.permutation(n)  # no two rows alike, or noise would part copies
    codes, c = rng.integers(0, 2, n), np.ones(n)
    there = merge(X, codes, c).back
    units = 10.0 ** rng.uniform(-3, 3, p)
    np.testing.assert_array_equal(merge(X * units + rng.normal(size=p), codes, c).back, there)
    noise = 1.0 + 1e-15 * rng.choice([-1.0, 0.0, 1.0], (n, p))
    np.testing.assert_array_equal(merge(X * noise, codes, c).back, there)


def test_copies_parted_by_rounding_stay_neighbours():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 3, (60, 3)).astype(float)
    X[:, 1] = 4.0  # constant, but for the noise
    codes = np.zeros(60, dtype=int)
    whole = merge(X, codes, np.ones(60))
    apart = merge(X * (1.0 + 1e-15 * rng.normal(size=X.shape)), codes, np.ones(60))
    assert len(apart.c) > len(whole.c)
    copies = [np.repeat(np.rint(d.X), d.c.astype(int), axis=0) for d in (whole, apart)]
    np.testing.assert_array_equal(*copies)


def test_huge_columns_have_an_order():
    X = np.array([[-1.7e308], [1.7e308], [0.1e308]])
    small = merge(X / 1e308, np.zeros(3, int), np.ones(3)).X
    np.testing.assert_allclose(merge(X, np.zeros(3, int), np.ones(3)).X / 1e308, small)
