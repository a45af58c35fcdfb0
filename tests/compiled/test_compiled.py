"""Compiled loops equal what NumPy computes; they are used where numba is, and never needed."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import erfcx
from sklearn.cluster import kmeans_plusplus

from bayesvm import BayesianLinearSVC, BayesianSVC, compiled
from bayesvm.blocks import Blocks
from bayesvm.core.types import Block, Coef, Term
from bayesvm.designs import columns
from bayesvm.designs.columns import Assembled, Intercept, Standardised
from bayesvm.engines import Serial, Threads
from bayesvm.gaussian.covariances import FullCovariance, Point, RootCovariance
from bayesvm.kernels import RBF
from bayesvm.likelihoods import Hinge, Logistic, Probit, SoftHinge
from bayesvm.likelihoods.tight import Tight
from bayesvm.model.model import Model
from bayesvm.model.passes import contributions
from bayesvm.model.problem import Problem
from bayesvm.priors import Fixed
from bayesvm.processes import points
from bayesvm.processes.whitened import Whitened

RNG = np.random.default_rng(5)
N, P = 3000, 5
X = (2.0 + RNG.standard_normal((N, P))).astype(np.float32)
Y = np.where(X[:, 0] + RNG.standard_normal(N) > 2.0, 1.0, -1.0)
WEIGHTS = RNG.choice([0.5, 1.0, 3.0], N)
SCALED = Standardised(X.mean(axis=0, dtype=float), X.std(axis=0, dtype=float))


@pytest.fixture
def numba(monkeypatch):
    pytest.importorskip("numba")
    # both sides then sum the same hinges: the series of NumPy differs by 3e-9
    monkeypatch.setattr("bayesvm.likelihoods.logistic.NARROW", 0.0)
    return compiled.loops


def coef(K, size=200.0):
    A = RNG.standard_normal((2 * K, K))
    return Coef(RNG.standard_normal(K), FullCovariance(np.linalg.cholesky(size * (A.T @ A) / K)))


def problem(likelihood=None, held=False, **how):
    """Rows in three blocks, with columns made on each pass or ``held`` in float32."""
    terms = (Term("level", Intercept(), Fixed(1.0)), Term("coef", SCALED, Fixed(1.0)))
    if held:
        extra, rows = np.abs(RNG.standard_normal(N)), RNG.standard_normal((N, 60))
        blocks = Blocks(rows.astype(np.float32), Y, WEIGHTS, 1100, True, extra.astype(np.float32))
        terms = (Term("coef", Assembled(60), Fixed(1.0)),)
    else:
        blocks = Blocks(X, Y, WEIGHTS, 1100)
    model = Model(terms, Tight(likelihood or Logistic()), "float32" if held else "float64")
    return Problem(model, blocks, Serial(), **how)


def close(found, expected, rtol):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(b).max())


def test_exponential_and_tail(numba):
    loops = numba("passes")
    for x in (-708.0, -300.3, -20.0, -1.0, -0.3, -1e-9, 0.0):
        assert loops.exponential.py_func(x) == pytest.approx(np.exp(x), rel=1e-15)
    for x in (0.0, 1e-9, 0.1, 1.0, 3.75, 10.0, 27.0, 500.0, 1e8):
        assert loops.scaled_tail.py_func(x) == pytest.approx(erfcx(x), rel=1e-14)
    for x in (0.0, 1e-300, 1e-9, 0.1, 0.5, 0.9, 1.0):
        assert loops.log_of_sum.py_func(x) == pytest.approx(np.log1p(x), rel=1e-15)


def test_series_of_small_variances():
    """That of NumPy but for rounding, which shortens its series where variances are below 1e-4."""
    loops = pytest.importorskip("numba") and compiled.loops("passes")
    m, y = 5.0 * RNG.standard_normal(400), RNG.choice([-1.0, 1.0], 400)
    for most, tol in ((1e-5, 1e-9), (0.015, 1e-15)):
        v, (w, g, b) = most * RNG.random(400), np.empty((3, 400))
        loops.logistic_average(y, m, v, w, g, b)
        expected = Logistic().tight(y, m, v)
        for found, want in ((w, expected.w), (g, expected.g), (b, expected.bound)):
            np.testing.assert_allclose(found, want, atol=tol)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("narrow", [False, True])
def test_pulls_are_those_of_numpy(held, narrow):
    """Of any rank; ``narrow`` variances are those of the series."""
    pytest.importorskip("numba")
    plain = problem(held=held)
    if held:
        plain = replace(plain, blocks=replace(plain.blocks, extra=0.0))
    fast, K = replace(plain, fast=True, single=True), plain.model.width
    for rank in (0, 3, 4, 17):
        root = RNG.standard_normal((K, rank)) * (0.01 if narrow else 1.0) / np.sqrt(K)
        at = Coef(RNG.standard_normal(K) / np.sqrt(K), RootCovariance(root))
        assert fast._fast(at, False, False).pull(plain.blocks[0]) is not None
        a, b = fast.pull(at), plain.pull(at)
        # products in float32 where columns are; NumPy's series is 3e-9 off
        rtol = 2e-5 if held else 1e-8
        close((a.g, a.bound, a.used, a.most), (b.g, b.bound, b.used, b.most), rtol)


@pytest.mark.parametrize("likelihood", [Logistic(), SoftHinge(0.3), Hinge()], ids=str)
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("unit", [1.0, RNG.choice([0.3, 1.0, 2.0], N)], ids=["plain", "classes"])
def test_passes_are_those_of_numpy(likelihood, held, unit, numba):
    plain = problem(likelihood, held)
    plain = replace(plain, blocks=replace(plain.blocks, unit=unit))
    fast, q = replace(plain, fast=True), coef(plain.model.width)
    rtol = 2e-6 if held else 1e-13  # products in float32, or float64
    for at in (q, Coef(q.mean, Point(q.mean.size, 0.1))):
        assert fast._fast(at, True, False).stats(plain.blocks[0]) is not None
        a, b = fast.stats(at), plain.stats(at)
        close((a.S.M, a.g, a.bound), (b.S.M, b.g, b.bound), rtol)
    a, b = fast.slopes(q), plain.slopes(q)
    close((a.A.M, a.J.M, a.g), (b.A.M, b.J.M, b.g), rtol)
    for each in (fast, plain):
        close((each.stats(q, squares=True).J.M,), (b.J.M,), rtol)
    a, b = fast.slopes(q, bent=False), plain.slopes(q, bent=False)
    close((a.J.M,), (b.J.M,), rtol)


@pytest.mark.parametrize("likelihood", [Logistic(), SoftHinge(0.3), Hinge()], ids=str)
@pytest.mark.parametrize("held", [False, True])
def test_moments_and_contributions_are_those_of_numpy(likelihood, held, numba):
    plain = problem(likelihood, held)
    fast, q = replace(plain, fast=True), coef(plain.model.width)
    rtol = 2e-6 if held else 1e-13
    for at in (q, Coef(q.mean, Point(q.mean.size, 0.1))):
        assert fast._fast(at, True, False).moments(plain.blocks[0]) is not None
        m, v = fast.moments(at)
        close((m, v), plain.moments(at), rtol)
        given = (plain.model.likelihood, Y.astype(np.int8), m, v, Threads(2))
        found = contributions(*given, fast=True)
        close(found, contributions(*given), 1e-13)
        m.flags.writeable = False  # as rows of a file are
        close(contributions(*given, fast=True), found, 1e-15)


@pytest.mark.parametrize("likelihood", [SoftHinge(0.3), Hinge()], ids=str)
def test_rows_of_known_f(likelihood, numba):
    """No variance at any row: the series of the logistic likelihood is for that one only."""
    plain = problem(likelihood)
    fast, at = replace(plain, fast=True), Coef(RNG.standard_normal(P + 1), Point(P + 1))
    assert fast._fast(at, True, False).stats(plain.blocks[0]) is not None
    a, b = fast.stats(at), plain.stats(at)
    close((a.g, a.bound), (b.g, b.bound), 1e-13)
    given = (plain.model.likelihood, Y, *plain.moments(at), Serial())
    a, b = contributions(*given, fast=True), contributions(*given)
    close((a.g, a.bound), (b.g, b.bound), 1e-13)


def test_workers_change_nothing(numba):
    q = coef(P + 1)
    a, b = (replace(problem(fast=True), engine=Threads(k)).stats(q) for k in (1, 3))
    np.testing.assert_array_equal(a.S.M, b.S.M)
    np.testing.assert_array_equal(a.g, b.g)
    assert a.bound == b.bound


def test_rows_and_likelihoods_that_loops_do_not_know_are_left_to_numpy(numba):
    q, one = coef(P + 1), problem(fast=True)
    block, fast = one.blocks[0], one._fast(q, True, False)
    assert fast.stats(block._replace(X=np.asfortranarray(block.X))) is None
    far = block.X.copy()
    far[3, 2] = 1e30
    assert fast.stats(block._replace(X=far)) is None
    assert problem(Probit(), fast=True)._fast(q, True, False) is None
    assert replace(one, form="diagonal")._fast(q, True, False) is None
    for other in (replace(one, blocks=replace(one.blocks, X=np.asfortranarray(X))), one):
        close((other.stats(q).S.M,), (problem().stats(q).S.M,), 1e-13)


def test_rows_of_blocks(numba, monkeypatch):
    """Enough of wide rows that matrices are quick to add; as of NumPy where loops have no part."""
    sizes, total = [], Serial.sum
    monkeypatch.setattr(Serial, "sum", lambda *a: sizes.append(a[2].size) or total(*a))
    q, one = coef(P + 1), problem(fast=True)
    replace(one, blocks=replace(one.blocks, X=np.asfortranarray(X))).stats(q)
    assert sizes.pop() == one.blocks.size
    q, wide = coef(500), np.ones((N, 500), np.float32)
    model = Model((Term("coef", Assembled(500), Fixed(1.0)),), Tight(Logistic()), "float32")
    for sums in ("stats", "slopes", "pull"):
        blocks = Blocks(wide, Y, WEIGHTS, 1100, True)
        getattr(Problem(model, blocks, Serial(), fast=True), sums)(q)
    assert min(sizes[:2]) >= 250 > sizes[2]


def test_moments_of_columns(numba, monkeypatch):
    monkeypatch.setattr(numba("columns"), "READ", 500)  # a hundred rows
    some = np.where(np.arange(N) < 250, 0.0, WEIGHTS)  # rows without weight at first
    same = np.full(X.shape, 0.1)
    for rows in (X, X.astype(float), np.where(X > 4, np.nan, X), X * np.float32(1e30), same):
        block = Block(rows, Y, some)
        a, b = columns._fast_spread(block), columns._spread(block)
        close((a.n, a.mean, a.square, a.power), (b.n, b.mean, b.square, b.power), 1e-13)


@pytest.mark.parametrize("kernel", [RBF(2.0), 3.0 * RBF((1.0, 2.0, 3.0, 4.0, 5.0))], ids=str)
def test_whitened_columns(kernel, numba):
    design = Whitened(kernel, SCALED.columns(X[:60]), SCALED)
    found = np.empty((N, 61))[:, 1:]
    left = design.fast_columns(X, found)
    expected = design.columns(X)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(left, design.residual(X, expected), atol=1e-12)


def test_whole_fits(numba, monkeypatch):
    """As engines agree: the kernel machine has columns in float32, 1e-4 of probabilities."""
    monkeypatch.setattr("bayesvm.inputs.reading.MERGED_ROWS", 1000)
    how = {"random_state": 0, "engine": Threads(2)}
    models = BayesianLinearSVC(**how), BayesianSVC(3.0 * RBF(2.0), tune=False, n_inducing=30, **how)
    expected = [model.fit(X, Y).predict_proba(X[:50]) for model in models]
    monkeypatch.setattr(compiled, "MANY_ENTRIES", 0)
    assert compiled.pays(N, P)
    for model, p, tol in zip(models, expected, (1e-8, 1e-4), strict=True):
        np.testing.assert_allclose(model.fit(X, Y).predict_proba(X[:50]), p, atol=tol)


def test_without_numba(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(compiled, "import_module", missing)
    monkeypatch.setattr(compiled, "loops", compiled.loops.__wrapped__)
    assert compiled.loops("passes") is None
    assert not compiled.pays(10**6, 10**3)
    assert importlib.import_module("bayesvm.compiled").plain(X[:, ::2]) is None


def test_first_means_are_those_of_scikit_learn(numba, monkeypatch):
    monkeypatch.setattr(points, "MANY_PRODUCTS", 0)
    monkeypatch.setattr(points, "FEW_POINTS", 5)
    rows = np.concatenate([RNG.standard_normal((300, 4)) + 3.0, np.full((40, 4), 9.0)])
    for m in (2, 6, 40):
        expected = kmeans_plusplus(rows, m, random_state=m, n_local_trials=points.trials(m))[0]
        monkeypatch.setattr(points, "kmeans_plusplus", None)
        np.testing.assert_array_equal(points.first_means(rows, m, m), expected)
    huge = points.first_means(1e160 * rows, 6, 0)  # squared distances are infinite
    assert huge.shape == (6, 4)
