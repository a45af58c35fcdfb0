"""Moves of indicators on the pseudo-likelihood, against enumeration of all models."""

import numpy as np
import pytest
from scipy.integrate import trapezoid
from tests.papers import oracle
from tests.problems import Z, make_problem, simulate

from bayesvm.inference.inclusion_moves import Guide, Mover, move_indicators
from bayesvm.predictive.diagnostics import ess
from bayesvm.priors import Fixed, SpikeSlab

X, Y = oracle.SELECTION_X, oracle.SELECTION_Y
UNEQUAL = (0.0005, 0.6)


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


def test_proposals_follow_the_density_of_the_line():
    """The acceptance ratio hardly depends on the coefficient, and is the odds of the model."""
    X, y, _ = simulate(60, 3, seed=2)
    problem = make_problem(X, y, prior=SpikeSlab(0.3, nu=2.0), intercept=Fixed(0.1))
    guide = Guide.learn(problem, np.empty((0, 4)))
    theta = np.array([0.1, 0.4, 0.0, 0.0])
    mover = Mover(problem, guide, theta, problem.model.init())
    t, d = mover.direction(2, np.array([0, 1]))
    line = mover.line(2, t, d, theta, mover.f)
    rng = np.random.default_rng(0)
    draws = np.array([line.propose(rng) for _ in range(4000)])
    mean = line.mass @ (line.knots[1:] + line.knots[:-1]) / 2
    assert abs(draws.mean() - mean) < Z * draws.std() / np.sqrt(draws.size)
    ratios = [line.log_weight(x) + mover._fit(mover.f + x * d) - mover.fit for x in draws[:200]]
    assert np.std(ratios) < 0.4
    # and along the line the evidence of the two models, by quadrature
    v = line.knots[0] + np.diff(line.knots[[0, -1]]) * np.linspace(0, 1, 2001)
    fits = problem.log_likelihoods(theta + v[:, None] * t)
    prior = -0.5 * v**2 * line.bend - v * line.slope + line.log_prior
    exact = np.log(trapezoid(np.exp(fits + prior - mover.fit), v))
    assert np.log(np.mean(np.exp(ratios))) == pytest.approx(exact, abs=0.05)


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
