"""Draws of what was learned: they have the moments that are reported."""

import numpy as np
from tests.factor_models.test_kernel import make
from tests.problems import Z

from bayesvm.factor_models import kernel as km
from bayesvm.factor_models.fitted import KernelFit, Sample, places
from bayesvm.factor_models.observed_data import Sheet

DRAWS = 4000


def far(draws, mean, variance):
    """Largest z-score of means, and of variances as of Gaussians."""
    n = len(draws)
    means = (draws.mean(axis=0) - mean) / np.sqrt(variance / n)
    spreads = (draws.var(axis=0) / variance - 1.0) / np.sqrt(2.0 / n)
    return max(np.abs(means).max(), np.abs(spreads).max())


def test_loadings_and_noise_from_their_factors():
    problem, state = make(unit=False)
    q = problem.prior.update(state.loadings, problem.sheet.sums(km.Scores(state.W)))
    fit = KernelFit(problem, state._replace(loadings=q))
    found = fit.sample(DRAWS, np.random.default_rng(0))
    assert found.A.shape == (1, DRAWS, 6, 2)
    assert far(found.A[0], q.mean, np.diagonal(q.cov, axis1=1, axis2=2)) < Z
    cross = np.cov(found.A[0, :, 3].T)[0, 1] / np.sqrt(q.cov[3, 0, 0] * q.cov[3, 1, 1])
    known = q.cov[3, 0, 1] / np.sqrt(q.cov[3, 0, 0] * q.cov[3, 1, 1])
    assert abs(cross - known) < Z * (1 - known**2) / np.sqrt(DRAWS)
    assert far(found.psi[0], q.psi, q.shape / q.rate**2) < Z


def test_functions_have_the_moments_of_the_machine():
    problem, state = make(1, machines=2)
    new = state.W[:4] + 0.2
    function, rng = KernelFit(problem, state).function, np.random.default_rng(0)
    f = function.draws(new, DRAWS, rng)
    assert f.shape == (DRAWS, 4, 2)
    assert far(f, *function.moments(new)) < Z
    # the row itself, twice: one function
    twice = function.draws(new[[0, 0]], 50, rng)
    np.testing.assert_allclose(twice[:, 0], twice[:, 1], atol=1e-2)


def test_functions_of_a_fit_have_its_moments():
    problem, state = make(2, holes=0.2)
    fit = KernelFit(problem, state)
    X = np.random.default_rng(3).standard_normal((3, 6))
    X[0, 2] = np.nan
    m, v = fit.moments(Sheet.of(X))
    assert far(fit.functions(X, DRAWS, np.random.default_rng(4))[:, :, 0], m[:, 0], v[:, 0]) < Z


def test_parameters_of_factors_change_places_with_them():
    names = ("weight", "left.length_scale[0]", "left.length_scale[1]", "left.length_scale[2]")
    assert places(names, np.array([2, 0, 1])) == [0, 3, 1, 2]
    A = np.arange(6.0).reshape(1, 1, 2, 3)
    theta = np.array([[[9.0, 0.0, 1.0, 2.0]]])
    found = Sample(A, np.ones((1, 1)), np.ones((1, 1)), A[..., 0, :], theta, names)
    turned = found.turned(np.array([2, 0, 1]), np.array([1.0, -1.0, 1.0]))
    np.testing.assert_array_equal(turned.A[0, 0], [[2, -0.0, 1], [5, -3, 4]])
    np.testing.assert_array_equal(turned.coef[0, 0], [2, -0.0, 1])
    np.testing.assert_array_equal(turned.theta[0, 0], [9, 2, 0, 1])
