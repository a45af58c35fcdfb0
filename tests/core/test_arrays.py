"""One text for several array libraries: the same numbers from each."""

import numpy as np
import pytest
from scipy import sparse, special

from bayesvm.core import arrays
from bayesvm.kernels import RBF, Constant, Linear, Matern, Polynomial, White

array_api_strict = pytest.importorskip("array_api_strict")

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((7, 3)), RNG.standard_normal((4, 3))


def there(x, library):
    if library == "strict":
        return array_api_strict.asarray(x)
    return pytest.importorskip("torch").from_numpy(x)


libraries = pytest.mark.parametrize("library", ["strict", "torch"])


@libraries
@pytest.mark.parametrize("name", ["ndtr", "log_ndtr", "expit", "log_expit", "erfcx"])
def test_special_functions(library, name):
    x = np.linspace(-30.0, 20.0, 101)
    if name == "erfcx":
        x = np.abs(x)
    found = arrays.to_numpy(getattr(arrays, name)(there(x, library)))
    np.testing.assert_allclose(
        found, getattr(special, name)(x), rtol=1e-12, atol=1e-16 if name == "ndtr" else 1e-300
    )


@libraries
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
def test_kernels(library, kernel):
    a, b = there(A, library), there(B, library)
    np.testing.assert_allclose(arrays.to_numpy(kernel(a, b)), kernel(A, B), rtol=1e-10)
    np.testing.assert_allclose(arrays.to_numpy(kernel.diag(a)), kernel.diag(A), rtol=1e-12)
    G, g = RNG.standard_normal((7, 4)), RNG.standard_normal(7)
    for found, known in (
        (kernel.pull(there(G, library), a, b), kernel.pull(G, A, B)),
        (kernel.pull_diag(there(g, library), a), kernel.pull_diag(g, A)),
    ):
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, known, rtol=1e-10, atol=1e-12)


@libraries
def test_arrays_are_brought_to_the_rows(library):
    rows = there(A.astype(np.float32), library)
    small = arrays.like(B, rows)
    assert small.dtype == rows.dtype
    assert arrays.double(rows).dtype == there(A, library).dtype
    np.testing.assert_array_equal(
        arrays.to_numpy(arrays.pick(rows, np.array([5, 1]))), A[[5, 1]].astype(np.float32)
    )
    assert arrays.is_foreign(rows)
    assert isinstance(arrays.back(np.array(["a", "b"]), rows), np.ndarray)


def test_arrays_that_must_not_be_written_are_copied(monkeypatch):
    given, make = [], array_api_strict.asarray
    rows, fixed = make(A), B.copy()
    fixed.flags.writeable = False

    def recorded(x, **how):
        given.append(x)
        return make(x, **how)

    monkeypatch.setattr(array_api_strict, "asarray", recorded)
    np.testing.assert_array_equal(arrays.to_numpy(arrays.like(fixed, rows)), B)
    assert given[0].flags.writeable
    arrays.like(B, rows)
    assert given[1] is B


def test_numpy_and_sparse_rows_are_left_alone():
    S = sparse.csr_array(A)
    for x in (A, S):
        assert arrays.is_numpy(x)
        assert not arrays.is_foreign(x)
        assert arrays.to_numpy(x) is x
    assert arrays.double(A) is A
    assert arrays.like(B, A) is B
    assert arrays.like(B, A.astype(np.float32)).dtype == np.float32
