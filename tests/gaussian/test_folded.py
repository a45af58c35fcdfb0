"""Columns whose centre and scale are applied to sums, against columns that are written out."""

import numpy as np
import pytest
from scipy import sparse
from tests.problems import frozen

from bayesvm.gaussian.columns import Folded, squared
from bayesvm.gaussian.covariances import FullCovariance, RootCovariance
from bayesvm.gaussian.forms import finished, sandwich

RNG = np.random.default_rng(0)
N, P = 300, 70  # columns in more than one panel
CENTRE, FACTOR = frozen(RNG.uniform(-8.0, 8.0, P) * 3.0, RNG.uniform(0.2, 0.5, P))
X = frozen(RNG.standard_normal((N, P)) / FACTOR + CENTRE)
W = frozen(RNG.uniform(0.0, 4.0, N))


def pair(ones: int, dtype: type = float) -> tuple[Folded, np.ndarray]:
    """Folded columns, and the same written out."""
    C = np.hstack([np.ones((N, ones)), (X - CENTRE) * FACTOR])
    return Folded(X.astype(dtype), CENTRE, FACTOR, ones), C


@pytest.mark.parametrize("ones", [0, 1])
def test_products_and_sums_are_those_of_written_columns(ones):
    folded, C = pair(ones)
    F = RNG.standard_normal((C.shape[1], 5))
    assert folded.shape == C.shape
    np.testing.assert_allclose(folded.toarray(), C, atol=1e-13)
    np.testing.assert_allclose(folded @ F, C @ F, atol=1e-11)
    np.testing.assert_allclose(folded @ F[:, 0], C @ F[:, 0], atol=1e-11)
    np.testing.assert_allclose(folded.T @ W, C.T @ W, atol=1e-10)
    halves = [folded.mapped(lambda A, at=at: A[at]) for at in (slice(0, 90), slice(90, None))]
    each = sandwich(halves[0], W[:90], "dense") + sandwich(halves[1], W[90:], "dense")
    np.testing.assert_allclose(finished(each).M, C.T @ (W[:, None] * C), atol=1e-9)


@pytest.mark.parametrize("ones", [0, 1])
def test_variances_are_those_of_written_columns(ones):
    folded, C = pair(ones)
    L = np.linalg.cholesky(C.T @ C)
    full = FullCovariance(L)
    for cov in (full, RootCovariance(full.root[:, ::3])):
        np.testing.assert_allclose(cov.quad(folded), cov.quad(C), rtol=1e-9)


def test_in_float32_few_digits_are_lost():
    folded, C = pair(1, np.float32)
    exact = C.T @ (W[:, None] * C)
    found = finished(sandwich(folded, W, "dense")).M
    own = np.sqrt(np.diag(exact))
    assert np.max(np.abs(found - exact) / np.outer(own, own)) < 1e-4
    full = FullCovariance(np.linalg.cholesky(C.T @ C))
    np.testing.assert_allclose(full.quad(folded), full.quad(C), rtol=1e-3)


@pytest.mark.parametrize("ones", [0, 1])
def test_sparse_rows_are_neither_copied_nor_centred(ones):
    thin = sparse.csr_array(np.where(np.abs(X - CENTRE) * FACTOR < 1.0, 0.0, X))
    folded = Folded(thin, np.zeros(P), FACTOR, ones)
    C, x = np.hstack([np.ones((N, ones)), thin.toarray() * FACTOR]), RNG.standard_normal(P + ones)
    np.testing.assert_allclose(folded.toarray(), C, atol=1e-13)
    np.testing.assert_allclose(folded @ x, C @ x, atol=1e-11)
    np.testing.assert_allclose(folded.T @ W, C.T @ W, atol=1e-10)
    np.testing.assert_allclose(squared(folded) @ x, C**2 @ x, atol=1e-9)
    np.testing.assert_allclose(sandwich(folded, W, "diagonal").d, W @ C**2, rtol=1e-12)
    assert squared(folded) is squared(folded)
    np.testing.assert_allclose(folded[90:200].toarray(), C[90:200], atol=1e-13)
