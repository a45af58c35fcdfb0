"""Moves of indicators on the pseudo-likelihood, against enumeration of all models."""

import numpy as np
import pytest
from tests.papers import oracle
from tests.problems import Z, make_problem, simulate

from bayesvm.inference.inclusion_moves import Guide, move_indicators
from bayesvm.predictive.diagnostics import ess
from bayesvm.priors import Fixed, SpikeSlab

X, Y = oracle.SELECTION_X, oracle.SELECTION_Y


def z_of(x, exact):
    """Standardised distance of a mean of draws ``(draws,)`` from its expectation."""
    return (x.mean() - exact) / (x.std() / np.sqrt(ess(x[None, :, None])[0]))


def moved(problem, sweeps, seed):
    """Draws by these moves alone."""
    rng, priors = np.random.default_rng(seed), problem.model.init()
    guide = Guide.learn(problem, np.empty((0, problem.model.width)))
    theta, out = np.zeros(problem.model.width), np.empty((sweeps, problem.model.width))
    for t in range(sweeps):
        theta = out[t] = move_indicators(problem, guide, theta, priors, rng)
    return out


@pytest.mark.parametrize("form", ["dense", "factored"])
def test_the_moves_alone_visit_models_as_often_as_enumeration_has_them(form):
    problem = make_problem(X, Y, prior=SpikeSlab(oracle.SELECTION_PI, nu=1.0), form=form)
    draws = moved(problem, 600, 0)
    for j in range(3):
        assert abs(z_of((draws[:, j] != 0) * 1.0, oracle.SELECTION_INCLUSION[j])) < Z
        assert abs(z_of(draws[:, j], oracle.SELECTION_BETA[j])) < Z


def test_columns_are_tried_and_paired_as_stated():
    X, y, _ = simulate(80, 4, seed=1)
    X = np.column_stack([X[:, :3], X[:, 2] + 0.1 * X[:, 3]])
    problem = make_problem(X, y, prior=SpikeSlab(0.3), intercept=Fixed(0.1))
    early = np.array([[1.0, 0.5, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0, 1.0]])
    guide = Guide.learn(problem, early)
    np.testing.assert_allclose(guide.chance, [0.0, 0.625, 0.125, 0.125, 0.125])
    rng = np.random.default_rng(0)
    partners = [guide.partner(3, rng) for _ in range(200)]
    assert np.mean(np.array(partners) == 4) > 0.8  # its near copy
    assert not {0, 3} & set(partners)  # neither the intercept nor itself
