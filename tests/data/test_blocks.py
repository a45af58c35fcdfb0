"""Cutting rows into blocks loses none and repeats none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from bayesvm.data import Blocks, balanced_rows, block_rows


def blocks(n, size, kind=np.asarray):
    X = kind(np.arange(2.0 * n).reshape(n, 2) + 1)
    return Blocks(X, size)


@given(n=st.integers(1, 40), size=st.integers(1, 50))
def test_blocks_are_all_rows_in_order(n, size):
    whole = blocks(n, size)
    parts = list(whole)
    assert len(parts) == len(whole) == -(-n // size)
    assert [b.number for b in parts] == list(range(len(whole)))
    np.testing.assert_array_equal(np.vstack([b.X for b in parts]), whole.X)
    np.testing.assert_array_equal(np.vstack([whole.X[b.at] for b in parts]), whole.X)
    assert max(len(b.X) for b in parts) <= size


@pytest.mark.parametrize("size", [3, 10, 100])
def test_sparse_blocks_are_the_same_rows(size):
    dense, thin = blocks(10, size), blocks(10, size, sparse.csr_array)
    for _ in range(2):  # the second time from memory
        for a, b in zip(dense, thin, strict=True):
            np.testing.assert_array_equal(a.X, b.X.toarray())
            assert a.at == b.at


def test_blocks_are_views():
    whole = blocks(10, 3)
    assert all(np.shares_memory(b.X, whole.X) for b in whole)


def test_assembled_columns_travel_as_rows():
    whole = blocks(5, 5)
    assert next(iter(whole)).rows is None
    ready = Blocks(whole.X, 5, has_columns=True)
    np.testing.assert_array_equal(next(iter(ready)).rows.C, whole.X)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_rows_are_taken_in_any_order(kind):
    some = blocks(10, 4, kind).take(np.array([7, 2]))
    assert some.n == 2
    X = some.X.toarray() if sparse.issparse(some.X) else some.X
    np.testing.assert_array_equal(X, [[15.0, 16.0], [5.0, 6.0]])


@given(n=st.integers(1, 40), size=st.integers(1, 15), seed=st.integers(0, 99))
def test_minibatches_visit_every_row_once(n, size, seed):
    whole = blocks(n, 7)
    seen = []
    for rows, batch in whole.minibatches(size, np.random.default_rng(seed)):
        seen += rows.tolist()
        assert n // -(-n // size) <= len(rows) <= size  # as few as can be, of equal size
        np.testing.assert_array_equal(batch.X, whole.X[rows])
    assert sorted(seen) == list(range(n))


def test_block_size_fits_the_cache_and_outgrows_the_matrix():
    for K in (1, 10, 300, 5000):
        rows = block_rows(K)
        assert rows >= 2 * K  # adding up S costs at most half of making it
        assert rows * K * 8 <= max(2**21, 16 * K * K, 64 * 8 * K)


@given(n=st.integers(2, 60), most=st.integers(2, 70), seed=st.integers(0, 9))
def test_balanced_rows_stand_for_all(n, most, seed):
    y = np.where(np.random.default_rng(seed).random(n) < 0.3, 1.0, -1.0)
    rows, share = balanced_rows(y, most, np.random.default_rng(0))
    assert np.all(np.diff(rows) > 0)
    for sign in (1, -1):
        side = y[rows] == sign
        has = (y == sign).sum()
        assert side.sum() == (has if n <= most else min(has, most // 2))
        np.testing.assert_allclose(share[side].sum(), (y == sign).sum() if side.any() else 0.0)
