"""The whitened process: exact with every row a point, never more certain than it should be."""

import numpy as np
import pytest
from tests.problems import frozen

from bayesvm.blocks import Blocks
from bayesvm.core.types import Term
from bayesvm.designs import Intercept, Standardised
from bayesvm.engines import Serial
from bayesvm.inference import VB
from bayesvm.inference.state import State
from bayesvm.inference.vb import sweep
from bayesvm.kernels import RBF, Constant, Function, White
from bayesvm.likelihoods import Hinge
from bayesvm.model.model import Model
from bayesvm.model.problem import Problem
from bayesvm.predictive.posterior import GaussianPosterior
from bayesvm.priors import Fixed
from bayesvm.processes.points import choose_points, pivots
from bayesvm.processes.whitened import Whitened, kernel_factor

PLAIN = Standardised(np.zeros(2), np.ones(2))
RNG = np.random.default_rng(0)
X = frozen(RNG.standard_normal((30, 2)))
y = frozen(np.where(X[:, 0] + X[:, 1] ** 2 > 0.7, 1.0, -1.0))


def make(kernel, Z, bias=None, size=30):
    terms = (Term("gp", Whitened(kernel, Z, PLAIN), Fixed(1.0)),)
    if bias is not None:
        terms = (Term("bias", Intercept(), Fixed(bias**-2)), *terms)
    return Problem.of(Model(terms, Hinge()), Blocks(X, size), Serial(), y, np.ones(30)).assembled()


def fitted(problem):
    return VB(tol=1e-12).fit(problem, np.random.default_rng(0))


def test_columns_reproduce_the_kernel_at_the_points():
    kernel = 2.0 * RBF(1.0)
    design = Whitened(kernel, X, PLAIN)
    C = design.columns(X)
    np.testing.assert_allclose(C @ C.T, kernel(X), atol=1e-5)
    np.testing.assert_allclose(design.residual(X, C), 0.0, atol=1e-5)


def test_residual_is_the_conditional_variance():
    kernel, Z = 2.0 * RBF(1.0), X[:7]
    design = Whitened(kernel, Z, PLAIN)
    C = design.columns(X)
    K = kernel(X, Z)
    propped = kernel(Z) + 2e-6 * np.eye(7)
    want = kernel.diag(X) - np.diag(K @ np.linalg.solve(propped, K.T))
    np.testing.assert_allclose(design.residual(X, C), np.maximum(want, 0), atol=1e-9)


def test_far_rows_are_left_to_the_prior():
    design = Whitened(2.0 * RBF(1.0), X, PLAIN)
    far = np.full((1, 2), 100.0)
    C = design.columns(far)
    np.testing.assert_allclose(C, 0.0, atol=1e-12)
    np.testing.assert_allclose(design.residual(far, C), 2.0)


def test_one_sweep_is_the_dense_update():
    """Z = X against the n x n scheme of the papers, sweep by sweep.

    Columns at the points leave a residual of up to twice the jitter, which both sides keep.
    """
    kernel = 2.0 * RBF(1.0)
    problem = make(kernel, X)
    C, extra = problem.blocks.X, problem.blocks.extra
    K = C @ C.T + 1e-9 * np.eye(30)
    state = State(problem.model.start(), problem.model.init())
    m, v = np.zeros(30), extra
    for _ in range(5):
        w = 1.0 / np.sqrt((1 - y * m) ** 2 + v)
        V = np.linalg.inv(np.linalg.inv(K) + np.diag(w))
        m, v = V @ (y * (1 + w)), np.diag(V) + extra
        state = sweep(problem, state).state
        got, var = problem.moments(state.coef)
        np.testing.assert_allclose(got, m, atol=1e-5)
        np.testing.assert_allclose(var, v, atol=1e-5)


@pytest.mark.parametrize("size", [1, 4, 30])
def test_block_size_changes_nothing(size):
    a, b = fitted(make(2.0 * RBF(1.0), X[:8])), fitted(make(2.0 * RBF(1.0), X[:8], size=size))
    assert a.bound == pytest.approx(b.bound, rel=1e-10)


def test_bound_grows_with_nested_points():
    bounds = [fitted(make(2.0 * RBF(1.0), X[:m])).bound for m in (3, 6, 12, 24, 30)]
    assert np.all(np.diff(bounds) > 0)


def test_a_bias_is_the_constant_kernel():
    one = fitted(make(2.0 * RBF(1.0), X, bias=1.5))
    two = fitted(make(2.0 * RBF(1.0) + Constant(1.5**2), X))
    assert one.bound == pytest.approx(two.bound, abs=1e-3)  # the jitter differs by its share


def test_white_noise_stays_outside_the_columns_of_new_rows():
    design = Whitened(RBF(1.0) + White(0.5), X, PLAIN)
    new = X[:3] + 1e-9
    assert np.all(design.residual(new, design.columns(new)) >= 0.5)


def test_jitter_gives_up_with_advice():
    bad = Function(lambda A, B: -np.ones((len(A), len(B))))
    with pytest.raises(np.linalg.LinAlgError, match="Drop duplicate or collinear"):
        kernel_factor(bad, X)
    with pytest.raises(ValueError, match="not finite"):
        kernel_factor(Function(lambda A, B: np.full((len(A), len(B)), np.nan)), X)
    kernel_factor(RBF(1.0), np.vstack([X[:3], X[:3]]))  # duplicates alone are propped up


def test_points_by_every_rule():
    rng = np.random.default_rng(1)
    assert choose_points(X, 40, "kmeans", RBF(1.0), rng) is X
    drawn = choose_points(X, 5, "random", RBF(1.0), rng)
    assert {tuple(z) for z in drawn} <= {tuple(x) for x in X}
    centres = choose_points(X, 5, "kmeans", RBF(1.0), rng)
    assert centres.shape == (5, 2)


def inertia(X, Z):
    return np.min(((X[:, None] - Z) ** 2).sum(axis=2), axis=1).sum()


def test_centres_are_near_the_rows_in_units_of_the_length_scales():
    rows = np.random.default_rng(0).standard_normal((300, 2))
    round_, flat = (
        choose_points(rows, 12, "kmeans", RBF(scale), np.random.default_rng(0))
        for scale in (1.0, (1.0, 100.0))
    )
    at_random = rows[:12]
    assert inertia(rows, round_) < inertia(rows, at_random)
    assert inertia(rows[:, :1], flat[:, :1]) < inertia(rows[:, :1], round_[:, :1])
    again = choose_points(rows, 12, "kmeans", RBF(1.0), np.random.default_rng(0))
    np.testing.assert_array_equal(again, round_)


@pytest.mark.parametrize("ready", [True, False], ids=["columns ready", "columns made"])
def test_a_row_left_out_takes_nothing_from_what_points_cannot_say(ready):
    """Five points, large amplitude: the variance that they leave is no row's doing.

    Explicit removal of the row from the sums, for fixed sites; with the residual counted as the
    row's own, one less its weight times its variance would be negative here.
    """
    problem = make(30.0 * RBF(0.7), X[:5], bias=2.0)
    coef = fitted(problem).state.coef
    rows = problem.rows(problem.blocks[0])
    if not ready:
        problem = problem.replaced(blocks=Blocks(X, 8))
    m, v = GaussianPosterior(coef).left_out(problem)
    at, var = rows.C @ coef.mean, coef.cov.quad(rows.C) + rows.extra
    local = Hinge().expected(y, at, var)
    assert np.max(local.w * var) > 1.0
    P = np.diag(problem.model.precision(problem.model.init()))
    Q = P + (rows.C * local.w[:, None]).T @ rows.C
    r = rows.C.T @ (local.g + local.w * at)
    for i in (0, 7, 23):
        c = rows.C[i]
        less = np.linalg.inv(Q - local.w[i] * np.outer(c, c))
        want = c @ less @ (r - (local.g[i] + local.w[i] * at[i]) * c)
        assert m[i] == pytest.approx(want, rel=1e-5, abs=1e-6)
        assert v[i] == pytest.approx(c @ less @ c + rows.extra[i], rel=1e-5)


def test_rows_chosen_by_kernel_values_leave_less_than_rows_at_random():
    rng, kernel = np.random.default_rng(3), 2.0 * RBF(1.0)
    rows = rng.standard_normal((300, 2))

    def left(Z):
        design = Whitened(kernel, Z, PLAIN)
        return design.residual(rows, design.columns(rows)).sum()

    ours = np.mean([left(pivots(kernel, rows, 20, rng)) for _ in range(10)])
    blind = np.mean([left(choose_points(rows, 20, "random", kernel, rng)) for _ in range(10)])
    assert ours < 0.8 * blind
    copies = np.repeat(rows[:5], 3, axis=0)
    assert pivots(kernel, copies, 12, rng).shape == (5, 2)  # copies say nothing
