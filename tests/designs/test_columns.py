"""Columns on a common scale: their mean and spread, joined over blocks."""

import itertools
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from tests.problems import frozen

from bayesvm.core.types import Block
from bayesvm.data import Blocks, Serial, Threads
from bayesvm.designs import Basis, Chosen, Intercept, Standardised, fit_columns
from bayesvm.designs.columns import spread
from bayesvm.kernels import RBF

N, P = 24, 3
RNG = np.random.default_rng(0)
X, C = frozen(
    RNG.standard_normal((N, P)) * [1.0, 30.0, 1e-3] + [0.0, 5.0, 2.0], RNG.uniform(0.2, 3, N)
)


def cut(X, c, edges):
    return [(Block(X[a:b], slice(a, b)), c[a:b]) for a, b in itertools.pairwise(edges)]


def exact_moments(x, c):
    """Weighted mean and variance of one column, in rational numbers."""
    x, c = [Fraction(v) for v in x], [Fraction(v) for v in c]
    total = sum(c)
    mean = sum(a * b for a, b in zip(x, c)) / total
    return float(mean), float(sum(b * (a - mean) ** 2 for a, b in zip(x, c)) / total)


@given(cuts=st.lists(st.integers(0, N), max_size=6), offset=st.sampled_from([0.0, 10.0, 1e8]))
def test_spread_of_any_partition_is_the_weighted_moments(cuts, offset):
    """Against rational arithmetic on the stored numbers.

    At an offset of 1e8 a column with unit spread is stored in steps of 1.5e-8 and centred with an
    error of that size, so its variance is known to about 1e-8; a formula that subtracts squares
    would lose all its digits.
    """
    shifted = X / [1.0, 30.0, 1e-3] + offset
    edges = sorted({0, N, *cuts})
    total = reduce(add, (spread(*b) for b in cut(shifted, C, edges)))
    assert total.n == pytest.approx(C.sum(), rel=1e-14)
    for j in range(P):
        mean, variance = exact_moments(shifted[:, j], C)
        assert total.mean[j] == pytest.approx(mean, rel=1e-14, abs=1e-14)
        rtol = 1e-12 if offset < 1e8 else 1e-7
        assert total.square[j] / total.n == pytest.approx(variance, rel=rtol)


def test_blocks_without_weight_are_neutral():
    nothing = spread(Block(X[:4], slice(4)), np.zeros(4))
    some = spread(Block(X, slice(N)), C)
    for total in (nothing + some, some + nothing):
        assert total.n == some.n
        np.testing.assert_allclose(total.mean, some.mean, rtol=1e-15)
        np.testing.assert_allclose(total.square, some.square, rtol=1e-15)
    assert (nothing + nothing).n == 0


def fitted(X, c=None, size=7, standardize=True, engine=None, **options):
    n = X.shape[0]
    c = np.ones(n) if c is None else c
    return fit_columns(Blocks(X, size), c, engine or Serial(), standardize, **options)


@pytest.mark.parametrize("engine", [Serial(), Threads(2)], ids=str)
def test_columns_get_mean_zero_and_variance_one(engine):
    design = fitted(X, C, engine=engine)
    columns = design.columns(X)
    np.testing.assert_allclose(C @ columns, 0.0, atol=1e-11)
    np.testing.assert_allclose(C @ columns**2 / C.sum(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("level", [0.1, 1 / 3, -3.7])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_constant_column_of_many_rows_has_scale_one(level, kind):
    """The mean of n equal numbers is off by up to n eps, which is not a spread."""
    for n in (20_000, 200_000):
        constant = kind(np.column_stack([np.full(n, level), np.linspace(-1, 1, n)]))
        for c in (np.ones(n), np.linspace(0.2, 3, n)):
            for size in (500, n):
                assert fitted(constant, c, size=size).scale[0] == 1.0


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("value", [2.0, 1e30, 1e300])
def test_a_column_that_does_not_vary_is_left_out_of_other_rows(kind, value):
    design = fitted(kind(np.column_stack([np.zeros(N), X[:, 0]])), C)
    new = np.column_stack([np.full(N, value), X[:, 0]])
    new[0, 0] = -1e300
    found, same = (design.columns(kind(rows)) for rows in (new, new * [0.0, 1.0]))
    np.testing.assert_array_equal(
        *(x.toarray() if sparse.issparse(x) else x for x in (found, same))
    )


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_faint_column_is_not_a_constant_one(kind):
    """A spread of 1e-7 of the level is stored to nine digits, and counts."""
    faint = 5.0 * (1 + 1e-7 * X[:, :1])
    design = fitted(kind(faint), C)
    assert design.scale[0] == pytest.approx(np.sqrt(exact_moments(faint[:, 0], C)[1]), rel=1e-7)


@pytest.mark.parametrize("offset", [0.0, 10.0, 1e4, 1e8])
def test_sparse_columns_are_scaled_by_the_size_of_entries_and_not_centred(offset):
    """The scale is that of the same numbers stored densely: sd over the root of their share."""
    full = X / [1.0, 30.0, 1e-3] + offset
    full[::4] = 0.0
    full[:, 1] = X[:, 1] / 30 + offset  # a column without a hole
    dense, thin = fitted(full, C), fitted(sparse.csr_array(full), C)
    plain = fitted(full, C, distances=True)
    share = C @ (full != 0) / C.sum()
    assert share[1] == pytest.approx(1.0)
    np.testing.assert_allclose(thin.scale, plain.scale / np.sqrt(share), rtol=1e-6)
    np.testing.assert_allclose(thin.scale, dense.scale, rtol=1e-6)
    holes = np.where(np.arange(N)[:, None] % 5 == 1, np.nan, full)
    share = C @ (np.nan_to_num(holes) != 0) / (C @ ~np.isnan(holes))
    missing = fitted(holes, C, distances=True).scale / np.sqrt(share)
    np.testing.assert_allclose(fitted(holes, C).scale, missing, rtol=1e-12)
    assert not thin.center.any()
    columns = thin.columns(sparse.csr_array(full))
    assert sparse.issparse(columns)
    assert columns.nnz == np.count_nonzero(full)
    np.testing.assert_allclose(columns.toarray(), full / thin.scale, rtol=1e-14)


def test_rare_indicators_and_words_have_the_scale_of_their_entries():
    """Whatever their share, and whether zeros are stored or not."""
    rows = np.zeros((1000, 3))
    rows[:2, 0], rows[:50, 1], rows[:5, 2] = 1.0, 1.0, [2.0, 4.0, 2.0, 4.0, 3.0]
    thin = sparse.csr_array(rows)
    scale = fitted(thin, np.ones(1000)).scale
    np.testing.assert_allclose(scale, [1.0, 1.0, np.sqrt(9.8)], rtol=0.03)
    stored = sparse.csr_array(thin + sparse.csr_array(np.eye(1000, 3)[::-1]))
    stored.data[stored.indptr[-4] :] = 0.0
    assert stored.nnz == thin.nnz + 3
    np.testing.assert_allclose(fitted(stored, np.ones(1000)).scale, scale)


def test_scales_may_be_left_alone():
    design = fitted(X, C, standardize=False)
    np.testing.assert_array_equal(design.columns(X), X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_are_written_where_asked(dtype):
    design = fitted(X, C)
    data = frozen(X.astype(dtype))
    out = np.full((N, P + 1), np.nan)
    design.columns(data, out=out[:, 1:])
    expected = (data.astype(float) - design.center) / design.scale
    np.testing.assert_allclose(out[:, 1:], expected, rtol=1e-12, atol=1e-12)
    assert np.isnan(out[:, 0]).all()
    Intercept().columns(data, out=out[:, :1])
    np.testing.assert_array_equal(out[:, 0], 1.0)
    dense = design.columns(sparse.csr_array(data), out=np.empty((N, P)))
    # sparse rows are centred as the rows of the fit were; their centre is beside them, so that a
    # difference of numbers that are both as large as the level over the scale is left
    np.testing.assert_allclose(dense, expected, atol=1e-6)


def test_intercept_of_sparse_input_is_a_sparse_column():
    column = Intercept().columns(sparse.csr_array(X))
    assert sparse.issparse(column)
    np.testing.assert_array_equal(column.toarray(), np.ones((N, 1)))


def test_coefficients_return_to_the_scale_of_the_input():
    design = fitted(X, C)
    theta = RNG.standard_normal((5, P))
    beta, shift = design.to_user(theta)
    f = design.columns(X) @ theta.T
    np.testing.assert_allclose(X @ beta.T + shift, f, rtol=1e-9, atol=1e-9)


def test_kernel_values_on_the_scale_of_the_inputs():
    inputs = Standardised(np.array([1.0, -1.0, 0.0]), np.array([2.0, 0.5, 1.0]))
    Z = inputs.columns(X[:3])
    basis, want = Basis(inputs, RBF(0.7), Z), RBF(0.7)(inputs.columns(X), Z)
    out = np.empty((N, 3))
    assert basis.width == 3
    assert basis.columns(X, out=out) is out
    for found in (out, basis.columns(X)):
        np.testing.assert_allclose(found, want)
    assert Basis(inputs, RBF(), np.empty((0, 3))).columns(X).shape == (N, 0)


def test_chosen_columns():
    np.testing.assert_array_equal(Chosen(np.array([1])).columns(X)[:, 0], X[:, 1])
    assert Chosen(np.empty(0, dtype=int)).columns(X).shape == (N, 0)
