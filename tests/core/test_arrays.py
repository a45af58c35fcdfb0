"""One text for NumPy and torch: the same numbers from each."""

import numpy as np
import pytest
from scipy import sparse, special

from bayesvm import BayesianLinearSVC
from bayesvm.core import arrays
from bayesvm.kernels import RBF, Constant, Linear, Matern, Polynomial, White

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((7, 3)), RNG.standard_normal((4, 3))


def tensor(x):
    return pytest.importorskip("torch").from_numpy(x)


@pytest.mark.parametrize("name", ["ndtr", "log_ndtr", "erfcx"])
def test_special_functions(name):
    x = np.linspace(-30.0, 20.0, 101)
    if name == "erfcx":
        x = np.abs(x)
    y = tensor(x)
    found = arrays.to_numpy(getattr(arrays.special(arrays.of(y)), name)(y))
    np.testing.assert_allclose(
        found, getattr(special, name)(x), rtol=1e-12, atol=1e-16 if name == "ndtr" else 1e-300
    )


@pytest.mark.parametrize(
    "kernel",
    [
        3.0 * RBF((1.0, 2.0, 3.0)),
        Matern(2.0, nu=0.5) + Matern(1.0, nu=2.5),
        Linear(2.0) * RBF(),
        Polynomial(2),
        Constant(2.0) + White(0.5),
    ],
    ids=str,
)
def test_kernels(kernel):
    a, b = tensor(A), tensor(B)
    np.testing.assert_allclose(arrays.to_numpy(kernel(a, b)), kernel(A, B), rtol=1e-10)
    np.testing.assert_allclose(arrays.to_numpy(kernel.diag(a)), kernel.diag(A), rtol=1e-12)


def test_arrays_are_brought_to_the_rows():
    rows = tensor(A.astype(np.float32))
    fixed = B.copy()
    fixed.flags.writeable = False  # torch would warn
    assert arrays.like(fixed, rows).dtype == rows.dtype
    assert arrays.double(rows).dtype == tensor(A).dtype
    assert isinstance(arrays.back(np.array(["a", "b"]), rows), np.ndarray)


def test_numpy_and_sparse_rows_are_left_alone():
    for x in (A, sparse.csr_array(A)):
        assert not arrays.is_foreign(x)
        assert arrays.to_numpy(x) is arrays.adopted(x) is x
    assert arrays.double(A) is A
    assert arrays.like(B, A) is B
    assert arrays.like(B, A.astype(np.float32)).dtype == np.float32


def test_rows_of_other_libraries_become_numpy_arrays():
    other = pytest.importorskip("array_api_strict").asarray
    y = (A[:, 0] > 0).astype(int)
    have, want = BayesianLinearSVC().fit(other(A), other(y)), BayesianLinearSVC().fit(A, y)
    np.testing.assert_array_equal(have.predict_proba(other(B)), want.predict_proba(B))
