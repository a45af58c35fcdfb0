"""Cutting rows into blocks loses none and repeats none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from bayesvm.blocks import Blocks, balanced_rows, block_rows
from bayesvm.engines import Threads


def blocks(n, size, kind=np.asarray):
    X = kind(np.arange(2.0 * n).reshape(n, 2) + 1)
    return Blocks(X, np.arange(float(n)), np.linspace(1, 2, n), size)


@given(n=st.integers(1, 40), size=st.integers(1, 50))
def test_blocks_are_all_rows_in_order(n, size):
    whole = blocks(n, size)
    parts = list(whole)
    assert len(parts) == len(whole) == -(-n // size)
    assert [b.number for b in parts] == list(range(len(whole)))
    np.testing.assert_array_equal(np.concatenate([b.y for b in parts]), whole.y)
    np.testing.assert_array_equal(np.concatenate([b.c for b in parts]), whole.c)
    np.testing.assert_array_equal(np.vstack([b.X for b in parts]), whole.X)
    assert max(len(b.y) for b in parts) <= size


@pytest.mark.parametrize("size", [3, 10, 100])
def test_equal_weights_are_one_number(size):
    """Blocks have arrays of them, as of others, and chosen rows again one number."""
    many = blocks(10, size)
    one = Blocks(many.X, many.y, np.broadcast_to(2.5, 10), size)
    full = Blocks(many.X, many.y, np.full(10, 2.5), size)
    assert one.weight == full.weight == 25.0
    for a, b in zip(one, full, strict=True):
        np.testing.assert_array_equal(a.c, b.c)
        assert a.c.flags.c_contiguous
        assert a.c.flags.writeable
    rows = np.array([7, 1, 4])
    for scale in (1.0, 3.0):
        np.testing.assert_array_equal(one.take(rows, scale).c, full.take(rows, scale).c)
    assert one.take(rows).c.strides == (0,)


@pytest.mark.parametrize("size", [3, 10, 100])
def test_sparse_blocks_are_the_same_rows(size):
    dense, thin = blocks(10, size), blocks(10, size, sparse.csr_array)
    for _ in range(2):  # the second time from memory
        for a, b in zip(dense, thin, strict=True):
            np.testing.assert_array_equal(a.X, b.X.toarray())
            np.testing.assert_array_equal(a.y, b.y)


def test_blocks_are_views():
    whole = blocks(10, 3)
    assert all(np.shares_memory(b.X, whole.X) for b in whole)


@pytest.mark.parametrize("k", [-1, 4, 100])
def test_no_block_outside(k):
    with pytest.raises(IndexError):
        blocks(10, 3)[k]


def test_assembled_columns_travel_as_rows():
    whole = blocks(5, 5)
    assert whole[0].rows is None
    ready = Blocks(whole.X, whole.y, whole.c, 5, ready=True)
    np.testing.assert_array_equal(ready[0].rows.C, whole.X)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_take_scales_weights(kind):
    whole = blocks(10, 4, kind)
    some = whole.take(np.array([7, 2]), 5.0)
    assert some.n == 2
    np.testing.assert_array_equal(some.y, [7.0, 2.0])
    np.testing.assert_allclose(some.c, 5 * whole.c[[7, 2]])
    X = some.X.toarray() if sparse.issparse(some.X) else some.X
    np.testing.assert_array_equal(X, [[15.0, 16.0], [5.0, 6.0]])


@given(n=st.integers(1, 40), size=st.integers(1, 15), seed=st.integers(0, 99))
def test_minibatches_visit_every_row_once_and_speak_for_all(n, size, seed):
    whole = blocks(n, 7)
    seen = []
    for batch in whole.minibatches(size, np.random.default_rng(seed)):
        rows = batch.y.astype(int)
        seen += rows.tolist()
        assert n // -(-n // size) <= len(rows) <= size  # as few as can be, of equal size
        np.testing.assert_allclose(batch.c, whole.c[rows] * n / len(rows))
    assert sorted(seen) == list(range(n))


def test_block_size_fits_the_cache_and_outgrows_the_matrix():
    for K in (1, 10, 300, 5000):
        rows = block_rows(K)
        assert rows >= 2 * K  # adding up S costs at most half of making it
        assert rows * K * 8 <= max(2**21, 16 * K * K, 64 * 8 * K)


@given(
    n=st.integers(2, 60), most=st.integers(2, 70), piece=st.integers(1, 20), seed=st.integers(0, 9)
)
def test_balanced_rows_do_not_depend_on_how_labels_are_looked_through(n, most, piece, seed):
    y = np.where(np.random.default_rng(seed).random(n) < 0.3, 1.0, -1.0)
    rows, share = balanced_rows(y, most, np.random.default_rng(0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayesvm.blocks.arrays.PIECE", piece)
        again, _ = balanced_rows(y.astype(np.int8), most, np.random.default_rng(0))
        shared, _ = balanced_rows(y, most, np.random.default_rng(0), Threads(2).over)
    np.testing.assert_array_equal(rows, shared)
    np.testing.assert_array_equal(rows, again)
    assert np.all(np.diff(rows) > 0)
    for sign in (1, -1):
        side = y[rows] == sign
        has = (y == sign).sum()
        assert side.sum() == (has if n <= most else min(has, most // 2))
        np.testing.assert_allclose(share[side].sum(), (y == sign).sum() if side.any() else 0.0)
