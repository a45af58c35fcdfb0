"""The paper's prior: ascent, agreement of its two solvers, pruning, the kernel's width."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import approx_fprime, minimize
from scipy.stats import gamma, norm
from scipy.stats import t as student
from tests.papers import chen
from tests.papers.checks import assert_monotone

from bayesvm.kernels import RBF
from bayesvm.likelihoods import Probit
from bayesvm.sparse_kernel import pcvm as power
from bayesvm.sparse_kernel.data import MergedRows


def problem(n, seed, noise=0.4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.where(X[:, 0] ** 2 + X[:, 1] + noise * rng.standard_normal(n) > 0.7, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    A = np.column_stack([RBF(1.0)(X) * y, np.ones(n)])
    return X, y, A, np.append(rng.uniform(0.05, 0.5, n), 0.0)


def rows_of(X, y, candidates=None):
    """The rows of a table, or of kernel values."""
    n = np.arange(len(y))
    columns = n if candidates is None else np.array(candidates, dtype=int)
    data = MergedRows(X, n, np.ones(n.size), (y > 0).astype(int), [y], columns)
    return power.Rows(data, y, 1.0, n, np.arange(columns.size), np.ones(n.size))


def fit(A, y, x, shape, solver="newton", prior=None, watch=None, **options):
    """The machine of fixed signed columns, from signed weights."""
    settings = power.Settings(prior or power.Power(shape, solver), learn_width=False, **options)
    how = (settings, *([watch] if watch else []))
    return power.fit(None, rows_of(A[:, :-1] * y, y), x, *how)[1]


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
    h = Probit().augmented(y, z, 0.0).h
    kept = A[:, one.columns]
    alpha = np.diag(one.precision)[:-1] - h @ kept**2
    assert_allclose(alpha, (2 * shape + 1) / one.mean[:-1] ** 2, rtol=1e-6)


def test_em_is_that_of_the_transcript():
    """Exact M-step, c = 0 and d = 0, the first three iterations."""
    _, y, A, x = problem(15, 2)
    Phi, w, b = A[:, :-1] * y, y * x[:-1], 0.0
    for k in range(1, 4):
        held = np.where(np.abs(w) > 1e-6, w, 1e-6 * y)  # alpha of 1e12: pruned
        alpha = chen.precision(held, 0.0, 0.0)
        w, b = chen.m_step(Phi, y, chen.latent_mean(Phi @ w + b, y), alpha)
        got = fit(A, y, x, 0.0, solver="em", max_iter=k)
        full = np.zeros(15)
        full[got.columns] = got.mean[:-1]
        w = np.where(np.abs(w) > 1e-6, w, 0.0)
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


def test_a_width_step_is_that_of_gauss_and_newton():
    """Near the maximum the step is slope over curvature, the slope being that of the likelihood."""
    X, y, A, x = problem(40, 4)
    rows, columns = rows_of(X, y), np.arange(0, 40, 4)
    x, e = np.append(np.full(10, 0.7), 0.1), 1e-4

    def predictor(scale, step):
        return rows.signed(RBF(scale * np.exp(step)), columns) @ x

    for scale in (1.6, 2.5):
        z = predictor(scale, 0.0)
        row = Probit().augmented(y, z, 0.0)
        dz = (predictor(scale, e) - predictor(scale, -e)) / (2 * e)
        wanted = np.clip(row.g @ dz / (row.h @ dz**2), -0.3, 0.3)
        (step,) = power.width_step(RBF(scale), rows, columns, x)
        halvings = np.log2(wanted / step)
        assert halvings == pytest.approx(round(halvings), abs=1e-4)
        assert Probit().log_prob(y, predictor(scale, step)).sum() > Probit().log_prob(y, z).sum()


PROPER = power.Power(0.8, rate=0.3, bias_shape=0.6, bias_rate=0.5)


def test_prior_and_precisions_are_those_of_the_gamma_mixture():
    """Weights and bias given Gamma precisions, by quadrature; half a Student density."""
    c, d, e, f, w, b = 0.8, 0.3, 0.6, 0.5, 0.7, -0.4

    def mean(value, shape, rate):
        def joint(a):
            return norm.pdf(value, scale=a**-0.5) * gamma.pdf(a, shape, scale=1 / rate)

        return quad(lambda a: a * joint(a), 0, np.inf)[0] / quad(joint, 0, np.inf)[0]

    x = np.array([w, b])
    assert_allclose(PROPER.precision(x, 1e-8), [mean(w, c, d), mean(b, e, f)], rtol=1e-6)

    def log_density(w, b):
        half = student.logpdf(w, 2 * c, scale=np.sqrt(d / c))
        return half + student.logpdf(b, 2 * e, scale=np.sqrt(f / e))

    gap = PROPER.log_density(x, 0.0) - PROPER.log_density(np.array([1.3, 0.2]), 0.0)
    assert gap == pytest.approx(log_density(w, b) - log_density(1.3, 0.2), abs=1e-12)


@pytest.mark.parametrize("solver", ["newton", "em"])
def test_a_proper_prior_has_the_mode_that_a_grid_finds(solver):
    """Two vectors and the bias: no point of a grid, nor one found from its best, is higher."""
    X, y, A, _ = problem(25, 7)
    A = A[:, [3, 11, -1]]
    prior = power.Power(0.8, solver, rate=0.3, bias_shape=0.6, bias_rate=0.5)
    rows = rows_of(RBF(1.0)(X), y, [3, 11])

    def minus(x):  # (3,) or (3, points)
        density = student.logpdf(x[:2], 1.6, scale=np.sqrt(0.3 / 0.8)).sum(0)
        density = density + student.logpdf(x[2], 1.2, scale=np.sqrt(0.5 / 0.6))
        return -density - Probit().log_prob(y[:, None], A @ x.reshape(3, -1)).sum(0)

    axes = np.linspace(0.0, 4.0, 33), np.linspace(0.0, 4.0, 33), np.linspace(-2.0, 2.0, 33)
    points = np.stack(np.meshgrid(*axes)).reshape(3, -1)
    first = points[:, np.argmin(minus(points))]
    limits = [(0, None), (0, None), (None, None)]
    best = minimize(lambda x: minus(x).item(), first, bounds=limits, tol=1e-12).x
    start = np.array([0.5, 0.5, 0.0])
    how = power.Settings(prior, learn_width=False, tol=1e-9, max_iter=20000)
    _, sparse = power.fit(None, rows, start, how)
    full = np.zeros(3)
    full[np.append(sparse.columns, 2)] = sparse.mean
    assert minus(full).item() <= minus(best).item() + 1e-7
    assert_allclose(full, best, atol=1e-3)


@pytest.mark.parametrize("solver", ["newton", "em"])
def test_a_proper_prior_ascends_and_ends_where_no_slope_is_left(solver):
    """All weights stay in the model until the end: the log posterior never falls."""
    _, y, A, x = problem(40, 8)
    prior = power.Power(0.2, solver, rate=0.01, bias_shape=0.0, bias_rate=0.1)
    sparse = fit(A, y, x, None, prior=prior, tol=1e-9, max_iter=30000)
    assert_monotone(sparse.path)
    kept = A[:, np.append(sparse.columns, 40)]

    def log_posterior(x):
        density = -0.7 * np.log(x[:-1] ** 2 / 2 + 0.01).sum() - 0.5 * np.log(x[-1] ** 2 / 2 + 0.1)
        return Probit().log_prob(y, kept @ x).sum() + density

    assert_allclose(approx_fprime(sparse.mean, log_posterior, 1e-7), 0.0, atol=2e-4)
    out = np.setdiff1d(np.arange(40), sparse.columns)  # zero: no slope inwards either
    g = Probit().augmented(y, kept @ sparse.mean, 0.0).g
    assert out.size
    assert np.all(A[:, out].T @ g <= 1e-6)


@pytest.mark.parametrize(("positive", "kept"), [(33, False), (50, True)])
def test_the_printed_prior_of_the_bias_takes_a_small_bias_to_zero(positive, kept):
    """Of 60 rows: z-scores .8 and 5.4; the prior 1/|b| keeps a coefficient from 2 on."""
    y = np.repeat([1.0, -1.0], [positive, 60 - positive])
    how = power.Settings(power.Power(bias_shape=0.0), False, max_iter=300, tol=1e-8)
    b = power.fit(None, rows_of(np.eye(60), y, []), np.zeros(1), how)[1].mean[0]

    def log_posterior(b):
        return positive * norm.logcdf(b) + (60 - positive) * norm.logcdf(-b) - np.log(abs(b))

    grid = np.linspace(0.2, 3.0, 28001)
    best = grid[np.argmax(log_posterior(grid))]
    assert (best > 0.2) == kept
    assert b == pytest.approx(best if kept else 0.0, abs=2e-4)


def test_each_length_scale_moves_by_its_own_gradient():
    """Eq. 10 for every parameter: the first step is that of Gauss and Newton, by differences."""
    X, y, _, _ = problem(40, 4)
    rows, columns, scales = rows_of(X, y), np.arange(0, 40, 4), np.array([1.5, 2.5])
    x, e = np.append(np.full(10, 0.7), 0.1), 1e-5

    def predictor(step):
        return rows.signed(RBF(tuple(scales * np.exp(step))), columns) @ x

    J = np.stack([(predictor(d) - predictor(-d)) / (2 * e) for d in e * np.eye(2)])
    row = Probit().augmented(y, predictor(np.zeros(2)), 0.0)
    newton = np.linalg.solve((J * row.h) @ J.T, J @ row.g)
    wanted = newton * min(1.0, 0.3 / np.abs(newton).max())
    step = power.width_step(RBF(tuple(scales)), rows, columns, x, "each")
    assert_allclose(step / wanted, (step / wanted)[0], rtol=1e-4)
    halvings = -np.log2((step / wanted)[0])
    assert halvings == pytest.approx(round(halvings), abs=1e-3)
    together = power.width_step(RBF(tuple(scales)), rows, columns, x)
    assert together[0] == together[1]
    one = [power.width_step(RBF(2.0), rows, columns, x, how) for how in ("each", "together")]
    assert_allclose(*one)


def test_a_column_without_effect_gets_a_long_scale():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 2))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(80) > 0, 1.0, -1.0)
    how = (RBF((1.0, 1.0)), rows_of(X, y), power.Start("random", 0.0, 0))
    (kernel, each), (same, together) = (
        power.fit(*how, power.Settings(power.Power(widths=widths), max_iter=100))
        for widths in ("each", "together")
    )
    assert kernel.length_scale[1] > 2 * kernel.length_scale[0]
    assert same.length_scale[0] == pytest.approx(same.length_scale[1])
    assert each.value > together.value
