"""The paper's prior: ascent, agreement of its two solvers, pruning, the kernel's width."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.papers import chen
from tests.papers.checks import assert_monotone

from bayesvm.kernels import RBF
from bayesvm.likelihoods import Probit
from bayesvm.vectors import pcvm_power as power


def problem(n, seed, noise=0.4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.where(X[:, 0] ** 2 + X[:, 1] + noise * rng.standard_normal(n) > 0.7, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    A = np.column_stack([RBF(1.0)(X) * y, np.ones(n)])
    return X, y, A, np.append(rng.uniform(0.05, 0.5, n), 0.0)


def rows_of(X, y, K=None):
    return power.Rows(X, X, K, y, np.ones(len(y)), y)


def fit(A, y, x, shape, solver="newton", **options):
    """The machine of fixed signed columns, from signed weights."""
    rows = rows_of(np.empty((len(y), 0)), y, A[:, :-1] * y)
    return power.fit(None, rows, x, power.Power(shape, solver), **options)[1]


@pytest.mark.parametrize("shape", [-0.25, 0.0])
@pytest.mark.parametrize("solver", ["em", "newton"])
def test_ascends_between_deaths(shape, solver):
    """A death changes the prior's constant; between deaths the log posterior never falls."""
    _, y, A, x = problem(60, 0)
    sizes = []

    def watch(progress, x):
        sizes.append(x.size - 1)
        return False

    sparse = fit(A, y, x, shape, solver=solver, max_iter=300, watch=watch)
    values = sparse.path[: len(sizes)]
    for size in set(sizes):
        part = [v for v, s in zip(values, sizes, strict=True) if s == size]
        if len(part) > 1:
            assert_monotone(part)
    assert 0 < sparse.columns.size < 20


@pytest.mark.parametrize("shape", [-0.25, 0.0])
def test_both_solvers_reach_the_same_maximum(shape):
    """From the survivors of one the other stays: the same local maximum."""
    _, y, A, x = problem(50, 1)
    one = fit(A, y, x, shape, solver="newton", tol=1e-10)
    start = np.zeros(51)
    start[np.append(one.columns, 50)] = one.mean
    start[one.columns] *= 1.02
    other = fit(A, y, start, shape, solver="em", tol=1e-12, max_iter=50000)
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
        got = fit(A, y, x, 0.0, solver="em", max_iter=k)
        full = np.zeros(15)
        full[got.columns] = got.mean[:-1]
        w = np.where(np.abs(w) > power.SMALL, w, 0.0)
        assert_allclose(y * full, w, atol=1e-5)
        assert got.mean[-1] == pytest.approx(b, abs=1e-5)


def test_small_starts_die():
    """The density is infinite at zero: from 0.01 everything is pruned, the bias is kept."""
    _, y, A, x = problem(40, 3)
    sparse = fit(A, y, np.append(np.full(40, 0.01), 0.0), 0.0)
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

    def log_lik(step):
        z = rows.signed(RBF(2.5 * np.exp(step)), columns) @ x
        return Probit().log_prob(y, z).sum()

    step = power.width_step(kernel, rows, columns, x)
    slope = (log_lik(1e-5) - log_lik(-1e-5)) / 2e-5
    assert 0 < abs(step) <= power.WIDTH_STEP
    assert np.sign(step) == np.sign(slope)
    assert log_lik(step) > log_lik(0.0)


def test_a_width_step_is_that_of_gauss_and_newton():
    """Near the maximum the step is slope over curvature, the slope being that of the likelihood."""
    X, y, A, x = problem(40, 4)
    rows, columns = rows_of(X, y), np.arange(0, 40, 4)
    x, e = np.append(np.full(10, 0.7), 0.1), 1e-4

    def predictor(scale, step):
        return rows.signed(RBF(scale * np.exp(step)), columns) @ x

    for scale in (1.6, 2.5):
        z = predictor(scale, 0.0)
        row = Probit().expected(y, z, 0.0)
        dz = (predictor(scale, e) - predictor(scale, -e)) / (2 * e)
        wanted = np.clip(row.g @ dz / (row.h @ dz**2), -power.WIDTH_STEP, power.WIDTH_STEP)
        step = power.width_step(RBF(scale), rows, columns, x)
        halvings = np.log2(wanted / step)
        assert halvings == pytest.approx(round(halvings), abs=1e-4)


def test_the_kernel_moves_and_the_likelihood_gains():
    X, y, _, _ = problem(60, 5)
    how = (power.Start("random", 0.0, 0), power.Power())
    fixed, one = power.fit(RBF(4.0), rows_of(X, y, RBF(4.0)(X)), *how, max_iter=200)
    moved, two = power.fit(RBF(4.0), rows_of(X, y), *how, max_iter=200)
    assert fixed.length_scale == 4.0
    assert moved.length_scale < 3.0
    assert two.value > one.value


@pytest.mark.parametrize("kind", ["random", "svm", "rvm"])
def test_starts_are_positive(kind):
    X, y, A, _ = problem(40, 6)
    x = power.Start(kind).weights(A, rows_of(X, y))
    assert x.shape == (40,)
    assert np.all(x >= power.RAISED)
