"""The paper's prior: ascent, agreement of its two solvers, pruning, the kernel's width."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.papers import chen
from tests.papers.checks import assert_monotone

from bayesvm.kernels import RBF
from bayesvm.likelihoods import Probit
from bayesvm.vectors import learn, power
from bayesvm.vectors.newton import local


def problem(n, seed, noise=0.4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.where(X[:, 0] ** 2 + X[:, 1] + noise * rng.standard_normal(n) > 0.7, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    A = np.column_stack([RBF(1.0)(X) * y, np.ones(n)])
    return X, y, A, np.append(rng.uniform(0.05, 0.5, n), 0.0)


def rows_of(X, y):
    return learn.Rows(X, X, None, y, np.ones(len(y)), y)


@pytest.mark.parametrize("shape", [-0.25, 0.0])
@pytest.mark.parametrize("solver", ["em", "newton"])
def test_ascends_between_deaths(shape, solver):
    """A death changes the prior's constant; between deaths the log posterior never falls."""
    _, y, A, x = problem(60, 0)
    values, sizes = [], []

    def watch(columns, x):
        sizes.append(columns.size)
        return None

    c = np.ones(60)
    sparse = power.fit(A, y, c, x, shape, solver=solver, max_iter=300, move=watch)
    values = sparse.path[power.WIDTH_AFTER :]
    for size in set(sizes):
        part = [v for v, s in zip(values, sizes, strict=True) if s == size]
        if len(part) > 1:
            assert_monotone(part)
    assert 0 < sparse.columns.size < 20


@pytest.mark.parametrize("shape", [-0.25, 0.0])
def test_both_solvers_reach_the_same_maximum(shape):
    """From the survivors of one the other stays: the same local maximum."""
    _, y, A, x = problem(50, 1)
    c = np.ones(50)
    one = power.fit(A, y, c, x, shape, solver="newton", tol=1e-10)
    start = np.zeros(51)
    start[np.append(one.columns, 50)] = one.mean
    start[one.columns] *= 1.02
    other = power.fit(A, y, c, start, shape, solver="em", tol=1e-12, max_iter=50000)
    assert_allclose(other.columns, one.columns)
    assert_allclose(other.mean, one.mean, rtol=1e-4)
    assert other.value == pytest.approx(one.value, abs=1e-7)
    z = A[:, np.append(one.columns, 50)] @ one.mean
    h = Probit().expected(y, z, 0.0).h
    kept = A[:, one.columns]
    alpha = np.diag(one.precision)[:-1] - h @ kept**2
    assert_allclose(alpha, (2 * shape + 1) / one.mean[:-1] ** 2, rtol=1e-6)


def test_em_is_that_of_the_transcript():
    """Exact M-step, c = 0 and d = 0, the first three iterations."""
    _, y, A, x = problem(15, 2)
    Phi, w, b = A[:, :-1] * y, y * x[:-1], 0.0
    for k in range(1, 4):
        held = np.where(np.abs(w) > power.SMALL, w, power.SMALL * y)  # alpha of 1e12: pruned
        alpha = chen.precision(held, 0.0, 0.0)
        w, b = chen.m_step(Phi, y, chen.latent_mean(Phi @ w + b, y), alpha)
        got = power.fit(A, y, np.ones(15), x, 0.0, solver="em", max_iter=k)
        full = np.zeros(15)
        full[got.columns] = got.mean[:-1]
        w = np.where(np.abs(w) > power.SMALL, w, 0.0)
        assert_allclose(y * full, w, atol=1e-5)
        assert got.mean[-1] == pytest.approx(b, abs=1e-5)


def test_small_starts_die():
    """The density is infinite at zero: from 0.01 everything is pruned, the bias is kept."""
    _, y, A, x = problem(40, 3)
    sparse = power.fit(A, y, np.ones(40), np.append(np.full(40, 0.01), 0.0), 0.0)
    assert sparse.columns.size == 0
    assert sparse.mean.shape == (1,)
    m, v = sparse.moments(A[:, :-1])
    assert np.all(np.isfinite(m))
    assert np.all(v > 0)


def test_width_step_raises_the_likelihood():
    X, y, A, x = problem(40, 4)
    rows = rows_of(X, y)
    columns = np.arange(0, 40, 4)
    x = np.append(np.full(10, 0.7), 0.1)
    kernel = RBF(2.5)
    g = local(rows.signed(kernel, columns), y, rows.c, x).g
    w = x[:-1] * y[columns]
    slope = kernel.pull(np.outer(g, w), X, X[columns])[0]

    def at(step):
        return rows.signed(RBF(2.5 * np.exp(step)), columns)

    def fit(step):
        return local(at(step), y, rows.c, x).bound.sum()

    assert slope == pytest.approx((fit(1e-5) - fit(-1e-5)) / 2e-5, rel=1e-6)
    step = power.width_step(at, y, rows.c, x, float(slope))
    assert 0 < abs(step) <= power.WIDTH_STEP
    assert fit(step) > fit(0.0)


def test_the_kernel_moves_and_the_likelihood_gains():
    X, y, _, _ = problem(60, 5)
    options = {"shape": -0.25, "solver": "newton", "tol": 1e-5, "max_iter": 200}
    start = learn.Start("random", 0.0, 0)
    fixed, one = learn.run(RBF(4.0), rows_of(X, y), start, learn_width=False, **options)
    moved, two = learn.run(RBF(4.0), rows_of(X, y), start, learn_width=True, **options)
    assert fixed.length_scale == 4.0
    assert moved.length_scale < 3.0
    assert two.value > one.value


@pytest.mark.parametrize("kind", ["random", "svm", "rvm"])
def test_starts_are_positive(kind):
    X, y, A, _ = problem(40, 6)
    x = learn.Start(kind).weights(A, rows_of(X, y))
    assert x.shape == (40,)
    assert np.all(x >= learn.RAISED)
