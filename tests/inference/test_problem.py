"""Products with a design matrix, and sums that do not depend on how rows are cut or stored."""

import itertools
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from tests.problems import frozen, simulate

from bayesvm.core.types import Coef, Rows
from bayesvm.data import Blocks, Serial, Threads
from bayesvm.inference.model import Model
from bayesvm.inference.problem import Problem, gather, moments
from bayesvm.likelihoods import Hinge, Logistic, Probit
from bayesvm.linalg.covariances import DiagonalCovariance, FullCovariance
from bayesvm.linalg.forms import Dense, Diagonal, Factored

FORMS = {"dense": Dense, "factored": Factored, "diagonal": Diagonal}

N, K = 23, 4
RNG = np.random.default_rng(0)
C, Y, WEIGHTS = simulate(N, K, seed=1, weighted=True)
MEAN = frozen(RNG.standard_normal(K))
ROOT = np.tril(0.3 * RNG.standard_normal((K, K)), -1) + np.diag([1.0, 2.0, 0.7, 1.4])
COEF = Coef(MEAN, FullCovariance(frozen(ROOT)))
SIGMA = np.linalg.inv(ROOT @ ROOT.T)
LIKELIHOODS = [Hinge(), Logistic(), Probit()]
every = pytest.mark.parametrize("lik", LIKELIHOODS, ids=lambda lik: type(lik).__name__)


def matrix(S):
    """S as a matrix; of the diagonal form only its diagonal is known."""
    if isinstance(S, Dense):
        return S.M
    return np.diag(S.d) if isinstance(S, Diagonal) else S.C.T @ np.diag(S.w) @ S.C


def assert_same(a, b, rtol=1e-13):
    np.testing.assert_allclose(matrix(a.S), matrix(b.S), rtol=rtol, atol=rtol)
    np.testing.assert_allclose(a.g, b.g, rtol=rtol, atol=rtol)
    assert a.bound == pytest.approx(b.bound, rel=rtol)


def whole(lik, form, rows=slice(None), c=WEIGHTS, columns=C, coef=COEF):
    block = Rows(columns[rows])
    return gather(block, lik.expected(Y[rows], *moments(block, coef)).times(c[rows]), form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("engine", [Serial(), Threads(2)])
@given(size=st.integers(1, N + 1), holes=st.booleans())
def test_the_four_products(form, engine, size, holes):
    """Any structure of the columns, any cut of the rows and any engine give the same products."""
    columns = np.where(np.abs(C) < 0.6, 0.0, C)
    rows = Blocks(sparse.csr_array(columns) if holes else columns, size, has_columns=True)
    D = Problem(Model((), Hinge()), rows, engine, Y, WEIGHTS, form=form)
    r, w = np.linspace(-1, 1, N), WEIGHTS
    np.testing.assert_allclose(D.matvec(MEAN), columns @ MEAN, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(D.rmatvec(r), columns.T @ r, rtol=1e-12, atol=1e-13)
    S = columns.T @ np.diag(w) @ columns
    expected = np.diag(np.diag(S)) if form == "diagonal" else S
    np.testing.assert_allclose(matrix(D.gram(w)), expected, rtol=1e-12, atol=1e-13)
    variance = np.diag(columns @ SIGMA @ columns.T)
    np.testing.assert_allclose(D.row_variance(COEF.cov), variance, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
@given(cuts=st.lists(st.integers(0, N), max_size=5))
def test_any_partition_of_rows_gives_the_same_sums(form, cuts):
    edges = sorted({0, N, *cuts})
    parts = [whole(Hinge(), form, slice(a, b)) for a, b in itertools.pairwise(edges)]
    assert_same(reduce(add, parts), whole(Hinge(), form))


@every
def test_sums_are_those_of_the_formulas(lik):
    """S = C' diag(w) C, g = C' g_i, bound = sum, with m = C mu and v = diag(C Sigma C')."""
    m, v = C @ MEAN, np.diag(C @ SIGMA @ C.T)
    local = lik.expected(Y, m, v)
    S = C.T @ np.diag(WEIGHTS * local.w) @ C
    for form in FORMS:
        stats = whole(lik, form)
        expected = np.diag(np.diag(S)) if form == "diagonal" else S
        np.testing.assert_allclose(matrix(stats.S), expected, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(stats.g, C.T @ (WEIGHTS * local.g), rtol=1e-12, atol=1e-13)
        assert stats.bound == pytest.approx(WEIGHTS @ local.bound, rel=1e-12)


@every
@pytest.mark.parametrize("form", FORMS)
@given(counts=st.lists(st.integers(0, 3), min_size=N, max_size=N))
def test_whole_weights_are_repetitions(lik, form, counts):
    rows = np.repeat(np.arange(N), counts)
    weighted = whole(lik, form, c=np.array(counts, float))
    if rows.size == 0:
        assert not matrix(weighted.S).any()
        assert weighted.bound == 0
        return
    repeated = whole(lik, form, rows, c=np.ones(N))
    np.testing.assert_allclose(matrix(weighted.S), matrix(repeated.S), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(weighted.g, repeated.g, rtol=1e-12, atol=1e-12)
    assert weighted.bound == pytest.approx(repeated.bound, rel=1e-12)


def test_moments_add_variance_from_outside_theta():
    extra = np.linspace(0, 1, N)
    m, v = moments(Rows(C, extra), COEF)
    np.testing.assert_allclose(m, C @ MEAN, rtol=1e-13)
    np.testing.assert_allclose(v, np.diag(C @ SIGMA @ C.T) + extra, rtol=1e-12)
    diagonal = Coef(MEAN, DiagonalCovariance(np.arange(1.0, K + 1)))
    np.testing.assert_allclose(moments(Rows(C), diagonal)[1], C**2 @ np.arange(1.0, K + 1))


def test_forms_of_s_answer_alike():
    """Rows, diagonal and products of S, multiplied out or not."""
    rng = np.random.default_rng(0)
    C, w = rng.standard_normal((6, 9)), rng.exponential(size=6)
    M = (C * w[:, None]).T @ C
    some, few, full = np.array([7, 2, 4]), np.zeros(9), rng.standard_normal(9)
    few[3] = 1.5
    for S in (Dense(M), Factored(C, w)):
        np.testing.assert_allclose(S.rows(some), M[some], atol=1e-13)
        np.testing.assert_allclose(S.diag(), np.diag(M), atol=1e-13)
        for x in (few, full):
            np.testing.assert_allclose(S @ x, M @ x, atol=1e-12)
