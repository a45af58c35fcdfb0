"""Kernel values as columns."""

import numpy as np
from numpy.testing import assert_allclose

from bayesvm.designs import Basis, Chosen, Standardised
from bayesvm.kernels import RBF

RNG = np.random.default_rng(0)
X = RNG.standard_normal((7, 2))


def test_values_on_the_scale_of_the_inputs():
    inputs = Standardised(np.array([1.0, -1.0]), np.array([2.0, 0.5]))
    Z = inputs.columns(X[:3])
    basis = Basis(inputs, RBF(0.7), Z)
    assert basis.width == 3
    want = RBF(0.7)(inputs.columns(X), Z)
    assert_allclose(basis.columns(X), want)
    out = np.empty((7, 3))
    assert basis.columns(X, out=out) is out
    assert_allclose(out, want)


def test_no_vectors_no_columns():
    inputs = Standardised(np.zeros(2), np.ones(2))
    assert Basis(inputs, RBF(), np.empty((0, 2))).columns(X).shape == (7, 0)


def test_chosen_columns():
    chosen = Chosen(np.array([1]))
    assert chosen.width == 1
    assert_allclose(chosen.columns(X)[:, 0], X[:, 1])
    assert Chosen(np.empty(0, dtype=int)).columns(X).shape == (7, 0)
