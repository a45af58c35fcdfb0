"""Rows held out: every weight once, copies as weights, classes in every fold."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from bayesvm.sparse_kernel import folds
from bayesvm.sparse_kernel.folds import fold_count, held_out


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 60),
    count=st.integers(2, 6),
    kind=st.sampled_from(["ones", "whole", "real", "small"]),
)
def test_every_weight_is_held_out_once(seed, n, count, kind):
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], n)
    c = {
        "ones": np.ones(n),
        "whole": rng.integers(1, 9, n).astype(float),
        "real": rng.uniform(0.1, 5, n),
        "small": rng.uniform(1e-4, 1e-3, n),
    }[kind]
    count = fold_count(y, c, count)
    assume(count)
    H = held_out(y, c, count, rng)
    assert H.shape == (n, count)
    assert_allclose(H.sum(axis=1), c, rtol=1e-9)
    assert np.all(H >= 0)
    assert np.all(c[:, None] - H >= 0)
    if kind == "ones":
        assert_array_equal((H > 0).sum(axis=1), 1)  # a row is in one fold
        for label in np.unique(y):
            sizes = H[y == label].sum(axis=0)
            assert sizes.max() - sizes.min() <= 1


def test_other_labels_change_nothing():
    rng = np.random.default_rng(1)
    y, c = rng.choice([-1.0, 1.0], 50), rng.uniform(0.5, 3.0, 50)
    one, other = (held_out(s * y, c, 5, np.random.default_rng(0)) for s in (1.0, -1.0))
    assert_array_equal(one, other)


def test_copies_go_their_own_ways():
    """Weights of 10 among 5 folds: counts of a fold have the spread of chance, not of a deal."""
    y, c = np.ones(2000), np.full(2000, 10.0)
    H = held_out(y, c, 5, np.random.default_rng(0))
    assert set(np.unique(H)) <= set(range(11))
    # hypergeometric, all but binomial(10, 1/5): variance 1.6; its standard error is about 0.05
    assert H[:, 0].var() == pytest.approx(1.6, abs=0.25)


def test_very_many_copies(monkeypatch):
    monkeypatch.setattr(folds, "MOST_PIECES", 3000)
    y, c = np.array([1.0, -1.0, 1.0]), np.array([1e6, 3.0, 2.5])  # pieces of about 333 at most
    H = held_out(y, c, 3, np.random.default_rng(0))
    assert_allclose(H.sum(axis=1), c)
    assert_allclose(H[0], 1e6 / 3, rtol=0.01)


@pytest.mark.parametrize(
    ("y", "c", "count"),
    [
        ([1, -1], [1, 1], 0),
        ([1, -1], [5, 5], 5),
        ([1, 1, -1, -1], [1, 1, 1, 1], 2),
        ([1] * 9 + [-1] * 3, [1] * 12, 3),
        ([1, 1], [1, 1], 0),
        ([1, 1, -1, -1], [0.01] * 4, 2),
    ],
)
def test_how_many_folds(y, c, count):
    assert fold_count(np.array(y, float), np.array(c, float), 5) == count


def test_class_weights_do_not_cut_rows():
    """A row that counts nine times is in one fold; two such rows, given as one, may be in two."""
    y = np.r_[np.ones(10), np.zeros(50)]
    unit = np.where(y > 0, 9.0, 0.6)
    copies = np.ones(60)
    copies[3] = 2.0
    H = held_out(y, copies * unit, 5, np.random.default_rng(0), unit)
    np.testing.assert_allclose(H.sum(axis=1), copies * unit)
    parts = H / unit[:, None]
    np.testing.assert_allclose(parts, np.round(parts), atol=1e-12)
    plain = held_out(y, copies, 5, np.random.default_rng(0))
    np.testing.assert_allclose(parts, plain)
