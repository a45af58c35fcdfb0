"""Candidates, folds of weighted rows, length scales by the evidence of a process."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from bayesvm.gp.sites import Distinct
from bayesvm.kernels import RBF, Function, Linear
from bayesvm.sparse_kernel.data import (
    MergedRows,
    choose_candidates,
    has_length_scale,
    stretched,
    tune_kernel,
)


def test_stretching_multiplies_every_length_scale():
    kernel = 2.0 * RBF((1.0, 3.0)) + RBF(0.5)
    wide = stretched(kernel, np.log(2.0))
    assert_allclose(np.exp(wide.theta - kernel.theta), [1, 2, 2, 2])
    assert has_length_scale(Linear(1.0))
    assert not has_length_scale(Function(lambda a, b: a @ b.T))
    assert not has_length_scale(None)


def test_the_evidence_finds_the_column_that_matters():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    y = np.where(np.sin(2 * X[:, 1]) > 0, 1.0, -1.0)
    rows = np.arange(150)
    data = MergedRows(X, rows, np.ones(150), (y > 0).astype(int), [y], rows)
    found, amplitude = tune_kernel(RBF(1.7), True, data, True)
    scale = np.array(found.length_scale)
    assert scale.argmin() == 1
    assert scale[1] < 0.2 * np.delete(scale, 1).min()
    assert amplitude > 0
    shared, _ = tune_kernel(RBF(1.7), False, data, True)
    assert isinstance(shared.length_scale, float)
    scaled, relative = tune_kernel(4.0 * RBF(1.7), True, data, True)
    assert scaled.weight == 4.0
    assert_allclose(scaled.kernel.theta, found.theta)
    assert_allclose(4.0 * relative, amplitude)


def test_candidates_of_every_class():
    at, codes = np.array([0, 0, 1, 2, 3, 4]), np.array([0, 1, 0, 0, 1, 1])
    data = Distinct(np.arange(5.0)[:, None], at, codes, np.ones(6), np.arange(6))
    rng = np.random.default_rng(0)
    assert_array_equal(choose_candidates(data, "auto", True, rng), np.arange(6))
    assert_array_equal(choose_candidates(data, "auto", False, rng), [0, 2, 3, 4, 5])
    few = choose_candidates(data, 2, True, rng)
    assert set(codes[few]) == {0, 1}


def test_folds_have_the_candidates_of_their_rows():
    """A point with two labels stays a candidate while one of them is fitted, unless by label."""
    at, codes = np.repeat(np.arange(10), 2), np.tile([0, 1], 10)
    y, c = np.where(codes, 1.0, -1.0), np.ones(20)
    for by_label, of in ((True, np.arange(20)), (False, np.arange(0, 20, 2))):
        data = MergedRows(np.arange(10.0)[:, None], at, c, codes, [y], of, by_label)
        folds = data.folds(5)
        assert len(folds) == 5
        assert_array_equal(np.sort(np.concatenate([f.out for f in folds])), np.arange(20))
        for f in folds:
            assert f.c.sum() + f.c_out.sum() == 20
            kept = set(f.rows) if by_label else set(at[f.rows])
            assert {of[k] if by_label else at[of[k]] for k in f.keep} == kept & set(
                of if by_label else at[of]
            )
    assert data.folds(0) == []


def held_out(y, c, most, unit=1.0):
    """Weights held out in each fold, ``(n, folds)``, before their effective number."""
    rows = np.arange(y.size)
    data = MergedRows(rows[:, None], rows, c, (y > 0).astype(int), [y], rows, True, unit)
    H = np.zeros((y.size, len(folds := data.folds(most))))
    for h, f in zip(H.T, folds, strict=True):
        h += c
        h[f.rows] -= f.c
        assert_array_equal(np.flatnonzero(h > 1e-12 * c), f.out)
    return H


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
    H = held_out(y, c, count)
    assume(H.shape[1])
    assert_allclose(H.sum(axis=1), c, rtol=1e-9)
    for label in np.unique(y):  # every class is left in every fold
        assert np.all((c[:, None] - H)[y == label].sum(axis=0) > 0)
        if kind == "ones":
            sizes = H[y == label].sum(axis=0)
            assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize(
    ("y", "c", "count"),
    [
        ([1, -1], [1, 1], 0),
        ([1, -1], [5, 5], 5),
        ([1] * 9 + [-1] * 3, [1] * 12, 3),
        ([1, 1], [1, 1], 0),
        ([1, 1, -1, -1], [0.01] * 4, 2),
    ],
)
def test_how_many_folds(y, c, count):
    assert held_out(np.array(y, float), np.array(c, float), 5).shape[1] == count


def test_class_weights_do_not_cut_rows():
    """A row that counts nine times is in one fold; two such rows, given as one, may be in two."""
    y = np.r_[np.ones(10), -np.ones(50)]
    unit = np.where(y > 0, 9.0, 0.6)
    copies = np.ones(60)
    copies[3] = 2.0
    parts = held_out(y, copies * unit, 5, unit) / unit[:, None]
    assert_allclose(parts, held_out(y, copies, 5), atol=1e-12)
    assert_allclose(parts, np.round(parts), atol=1e-12)
