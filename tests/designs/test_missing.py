"""Missing entries, and the two distributions they are filled in from."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.incomplete import missing_problem, with_holes
from tests.problems import frozen

from bayesvm.core.types import Cells, Coef, Contribution, Rows, TermCells
from bayesvm.data import Blocks, Serial
from bayesvm.designs import Factors, Unstructured, fit_columns
from bayesvm.designs.imputation import FactorCovariance, RowSums, Wishart
from bayesvm.inference import VB
from bayesvm.inference.latent import predict_rows, start_latents
from bayesvm.inference.problem import TermLatents, cells_of_block, filled, gather, latent_variance
from bayesvm.linalg.covariances import (
    FullCovariance,
    Point,
)
from bayesvm.priors import Ridge

RNG = np.random.default_rng(0)


def rows_with_cells(n=9, K=5, where=slice(1, 5)):
    """Columns, and two kinds of incomplete rows, with V spelled out."""
    C = RNG.standard_normal((n, K))
    one = RNG.random((2, 1, 1)) + 0.2
    A = RNG.standard_normal((3, 2, 4))
    two = A @ A.swapaxes(1, 2)
    cells = (
        Cells(np.array([1, 6]), np.array([[0], [3]]), RNG.standard_normal((2, 1)), one),
        Cells(
            np.array([0, 2, 8]),
            np.array([[0, 2], [1, 3], [0, 1]]),
            RNG.standard_normal((3, 2)),
            two,
        ),
    )
    rows = filled(Rows(frozen(C)), (TermCells(where, cells),))
    V = np.zeros((n, K, K))
    for part in cells:
        for i, columns, mean, cov in zip(*part, strict=True):
            at = where.start + columns
            np.testing.assert_array_equal(rows.C[i, at], mean)
            V[i][np.ix_(at, at)] = cov
    return rows, V


def test_sums_are_those_of_expected_squares():
    rows, V = rows_with_cells()
    A = RNG.standard_normal((4, 5))
    cov = FullCovariance(np.linalg.cholesky(A.T @ A + np.eye(5)))
    coef = Coef(RNG.standard_normal(5), cov)
    K = coef.cov.dense() + np.outer(coef.mean, coef.mean)
    expected = np.einsum("jk,ijk->i", K, V)
    np.testing.assert_allclose(latent_variance(rows, coef), expected, rtol=1e-12)
    w, g = RNG.random(9), RNG.standard_normal(9)
    stats_ = gather(rows, Contribution(w, g, np.zeros(9), w), "dense", coef.mean)
    S = np.einsum("i,ij,ik->jk", w, rows.C, rows.C) + np.einsum("i,ijk->jk", w, V)
    np.testing.assert_allclose(stats_.S.M, S, rtol=1e-12, atol=1e-13)
    # the slope of sum_i E[b f - w f^2 / 2] in the mean of theta, b = g + w m
    slope = rows.C.T @ g - np.einsum("i,ijk->jk", w, V) @ coef.mean
    np.testing.assert_allclose(stats_.g, slope, rtol=1e-12, atol=1e-13)


def test_cells_of_any_rows():
    X, y, c = with_holes(20, 3, seed=1, share=0.5)
    problem = missing_problem(X, y, c)
    latents = start_latents(problem)
    bound = replace(problem, latents=latents)
    whole = bound.rows(next(iter(bound.blocks)))
    assert np.isfinite(whole.C).all()
    np.testing.assert_array_equal(whole.C[:, 1:][~np.isnan(X)], X[~np.isnan(X)])
    some = np.array([0, 3, 4, 11, 19])
    part = bound.take(some)
    few = part.rows(next(iter(part.blocks)))
    np.testing.assert_allclose(few.C, whole.C[some], rtol=1e-6, atol=1e-9)
    coef = Coef(RNG.standard_normal(4), Point(4))
    np.testing.assert_allclose(
        latent_variance(few, coef), latent_variance(whole, coef)[some], rtol=1e-6, atol=1e-9
    )
    (h,) = cells_of_block(bound.model, bound.latents, slice(5, 9))
    found = {int(r) + 5 for cells in h.cells for r in cells.rows}
    assert found == {i for i in range(5, 9) if np.isnan(X[i]).any()}
    assert isinstance(latents[1], TermLatents)
    assert latents[0] is None


# ----- distributions of rows


def random_moments(n=40, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) / np.sqrt(d) + 0.3
    return X, RowSums(float(n), X.sum(axis=0), X.T @ X)


@pytest.mark.parametrize("imputer", [Unstructured(), Factors(2), Factors(9)], ids=str)
def test_updates_never_lower_the_bound(imputer):
    _, sums = random_moments()
    params = imputer.begin(sums)
    path = [imputer.bound(params, sums)]
    for _ in range(60):
        params = imputer.update(params, sums)
        path.append(imputer.bound(params, sums))
    assert np.diff(path).min() > -1e-9
    assert path[-1] - path[-2] < 1e-2


def test_bound_of_factors_is_the_log_density():
    X, sums = random_moments()
    imputer = Factors(2, a=1.5, b=0.2, mean_variance=3.0)
    q = imputer.begin(sums)
    Sigma = q.L @ q.L.T + np.diag(q.psi)
    value = stats.multivariate_normal(q.mean, Sigma).logpdf(X).sum()
    value += stats.norm.logpdf(q.L).sum() + stats.norm.logpdf(q.mean, scale=np.sqrt(3.0)).sum()
    value += stats.invgamma.logpdf(q.psi, 1.5, scale=0.2).sum()
    assert imputer.bound(q, sums) == pytest.approx(value, rel=1e-12)


def test_factors_and_any_covariance_agree_where_they_are_the_same():
    """Conditionals of the low-rank form against its dense matrix."""
    rng = np.random.default_rng(2)
    d, r = 30, 4
    q = FactorCovariance(rng.standard_normal(d), rng.standard_normal((d, r)), rng.random(d) + 0.1)
    Sigma = q.L @ q.L.T + np.diag(q.psi)
    dense = Wishart(q.mean, 0.0, Sigma, 1.0)
    X = rng.standard_normal((12, d))
    X[rng.random(X.shape) < 0.3] = np.nan
    problem = missing_problem(X, np.ones(12))
    a, b = (predict_rows(problem.model, X, (None, params)) for params in (q, dense))
    np.testing.assert_allclose(a.C, b.C, rtol=1e-8, atol=1e-8)
    for x, z in zip(a.V[0].cells, b.V[0].cells, strict=True):
        np.testing.assert_allclose(x.cov, z.cov, rtol=1e-8, atol=1e-8)


def test_prediction_is_the_gaussian_conditional():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((3, 3))
    q = Wishart(np.array([0.5, -1.0, 2.0]), 0.0, A @ A.T + np.eye(3), 1.0)
    X = np.array([[0.3, np.nan, 1.0], [np.nan, 0.2, np.nan], [np.nan] * 3, [1.0, 2.0, 3.0]])
    level, spread = np.array([1.0, 0.0, -1.0]), np.array([2.0, 1.0, 0.5])
    problem = missing_problem(X, np.ones(4), level=level, spread=spread)
    rows = predict_rows(problem.model, X, (None, q))
    mean, cov = q.mean, q.scale  # wherever entries begin
    found = {
        int(i): v for part in rows.V[0].cells for i, v in zip(part.rows, part.cov, strict=True)
    }
    for i in range(3):
        M, seen = np.isnan(X[i]), ~np.isnan(X[i])
        B = cov[np.ix_(M, seen)] @ np.linalg.inv(cov[np.ix_(seen, seen)])
        at = mean[M] + B @ (X[i, seen] - mean[seen])
        np.testing.assert_allclose(rows.C[i, 1:][M], at, rtol=1e-10, atol=1e-14)
        left = cov[np.ix_(M, M)] - B @ cov[np.ix_(seen, M)]
        np.testing.assert_allclose(found[i], left, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(rows.C[3, 1:], X[3])


def test_unit_free():
    """A column in other units gives the same fit, if the priors go with it."""
    X, y, _ = with_holes(40, 2, seed=7)
    base = VB(tol=1e-12).fit(missing_problem(X, y), np.random.default_rng(0))
    scale = np.array([2.0, 2.0])
    moved = missing_problem(
        X * scale,
        y,
        spread=scale,
        prior=Ridge(a=3.0, b=2.0 / 4),
        imputer=Unstructured(psi=0.04, mean_variance=4e4),
    )
    other = VB(tol=1e-12).fit(moved, np.random.default_rng(0))
    np.testing.assert_allclose(
        other.state.coef.mean[1:] * scale, base.state.coef.mean[1:], rtol=1e-4
    )
    cells = [run.state.latents[1].cells[0] for run in (base, other)]
    np.testing.assert_allclose(cells[1].mean, 2.0 * cells[0].mean, rtol=1e-3, atol=1e-4)


def test_factors_learn_what_any_covariance_does():
    rng = np.random.default_rng(5)
    L = rng.standard_normal((8, 2))
    X = rng.standard_normal((400, 2)) @ L.T + 0.5 * rng.standard_normal((400, 8))
    y = np.where(X[:, 0] + rng.standard_normal(400) > 0, 1.0, -1.0)
    holes = np.where(rng.random(X.shape) < 0.15, np.nan, X)
    runs = [
        VB().fit(missing_problem(holes, y, imputer=k), np.random.default_rng(0)).state
        for k in (Unstructured(), Factors(2))
    ]
    np.testing.assert_allclose(runs[0].coef.mean, runs[1].coef.mean, atol=0.05)
    errors = []
    for state in runs:
        total = [
            np.sum((X[cells.rows[:, None], cells.columns] - cells.mean) ** 2)
            for cells in state.latents[1].cells
        ]
        errors.append(np.sqrt(np.sum(total) / np.isnan(holes).sum()))
    assert errors[1] < 1.05 * errors[0] < 0.75


def test_scaling_passes_over_missing_entries():
    rng = np.random.default_rng(0)
    X = 5.0 + 3.0 * rng.standard_normal((50, 3))
    X[rng.random(X.shape) < 0.3] = np.nan
    X[:, 2] = np.where(np.isnan(X[:, 2]), np.nan, 4.0)  # constant where observed
    c = rng.random(50)
    found = fit_columns(Blocks(X, 7), c, Serial(), standardize=True)
    for j in range(2):
        some = ~np.isnan(X[:, j])
        mean = np.average(X[some, j], weights=c[some])
        sd = np.sqrt(np.average((X[some, j] - mean) ** 2, weights=c[some]))
        assert found.center[j] == pytest.approx(mean, rel=1e-12)
        assert found.scale[j] == pytest.approx(sd, rel=1e-12)
    assert (found.center[2], found.scale[2]) == (4.0, 1.0)
