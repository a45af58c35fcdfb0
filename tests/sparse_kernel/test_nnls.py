"""Signed least squares against SciPy's and against its optimality conditions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import nnls as reference

from bayesvm.sparse_kernel import nnls


def problem(seed, K, correlated):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((3 * K, K))
    if correlated:  # smooth columns, as kernels make them
        t = np.linspace(0, 1, 3 * K)[:, None]
        A = np.exp(-((t - rng.random(K)) ** 2) / 0.1)
    return A, A @ rng.standard_normal(K) + rng.standard_normal(3 * K)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), K=st.integers(1, 30), correlated=st.booleans())
def test_equals_scipy(seed, K, correlated):
    A, t = problem(seed, K, correlated)
    ridge = 1e-3 * np.eye(K)
    x = nnls(A.T @ A + ridge, A.T @ t, np.zeros(K, dtype=bool))
    wide = np.vstack([A, np.sqrt(ridge)])
    best = reference(wide, np.concatenate([t, np.zeros(K)]))[0]
    assert np.all(x >= 0)
    assert_allclose(wide @ x, wide @ best, atol=1e-6 * np.linalg.norm(t))


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), K=st.integers(2, 30), warm=st.booleans())
def test_optimality_with_free_columns(seed, K, warm):
    rng = np.random.default_rng(seed)
    A, t = problem(seed, K, True)
    G, r = A.T @ A + 1e-2 * np.eye(K), A.T @ t
    free = rng.random(K) < 0.2
    x = nnls(G, r, free, rng.random(K) < 0.5 if warm else None)
    slope = r - G @ x
    small = 1e-8 * np.abs(r).max()
    assert np.all(x[~free] >= 0)
    assert np.all(np.abs(slope[(x > 0) | free]) < small)
    assert np.all(slope[~free] < small)


@pytest.mark.parametrize("patience", [3, -1])
def test_ill_conditioned_and_by_single_moves(patience):
    """Whole blocks are exchanged while that helps; single moves alone end at the same place."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        L = np.tril(rng.standard_normal((8, 8)))
        G, r = L @ L.T + 1e-6 * np.eye(8), rng.standard_normal(8)
        x = nnls(G, r, np.zeros(8, dtype=bool), patience=patience)
        slope, size = r - G @ x, np.linalg.norm(G, 2) * np.linalg.norm(x) + np.linalg.norm(r)
        assert x.min() >= 0
        assert slope.max() < 1e-12 * size
        assert np.abs(slope[x > 0]).max(initial=0) < 1e-12 * size


def test_singular_and_empty():
    G = np.ones((2, 2))  # two equal columns
    x = nnls(G, np.array([1.0, 1.0]), np.zeros(2, dtype=bool))
    assert x.sum() == pytest.approx(1.0, rel=1e-6)
    assert nnls(np.empty((0, 0)), np.empty(0), np.empty(0, dtype=bool)).size == 0
