"""The epsilon-insensitive density: its mass, its two mixing variables, its scale.

What it has in common with other likelihoods is in ``test_common``.
"""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from tests.problems import Z, z_score

from bayesvm.likelihoods import EpsilonInsensitive

KINDS = [EpsilonInsensitive(0.7, 0.3), EpsilonInsensitive(2.5, 0.0), EpsilonInsensitive(4.0, 1.6)]
every = pytest.mark.parametrize("lik", KINDS, ids=["tube", "Laplace", "wide tube"])
Y = np.array([-3.0, -0.4, 0.1, 0.3, 2.0, 7.0])
M = np.array([0.5, -0.1, 0.1, 0.0, -1.0, 7.3])
V = np.array([0.01, 0.2, 1.0, 4.0, 0.5, 0.1])


def density(lik, y, f=0.0):
    return float(np.exp(lik.log_prob(np.array([y]), np.array([f]))[0]))


@every
def test_it_is_a_density_of_y_with_this_variance(lik):
    cuts = [-60.0, -lik.epsilon - 1e-9, lik.epsilon + 1e-9, 60.0]
    for power, expected in ((0, 1.0), (2, lik.variance)):
        total = sum(
            quad(lambda y: y**power * density(lik, y), a, b, limit=200)[0]
            for a, b in itertools.pairwise(cuts)
        )
        assert total == pytest.approx(expected, rel=1e-7)


@every
def test_the_loss_is_that_of_two_hinges(lik):
    s, t, c = lik.hinges(Y, np.full(6, 2.0))
    loss = (2.0 * c * np.maximum(t - s * M, 0.0)).sum(axis=0)
    constant = np.log(2 * lik.epsilon + 1 / lik.gamma)
    np.testing.assert_allclose(-2.0 * (lik.log_prob(Y, M) + constant), loss, rtol=1e-13, atol=1e-15)


# ----- the scale


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.5])
@pytest.mark.parametrize("method", ["expected", "tight"])
def test_the_update_of_the_scale_is_a_maximum_of_the_bound(epsilon, method):
    c = np.array([1.0, 2.0, 0.5, 1.0, 1.0, 3.0])

    def bound(gamma):
        row = getattr(EpsilonInsensitive(gamma, epsilon), method)(Y, M, V)
        return float(c @ row.bound)

    for start in (0.2, 3.0):
        found = EpsilonInsensitive(start, epsilon).update(bound(start), 0.0, c.sum()).gamma
        best = bound(found)
        assert best > max(bound(found * (1 + h)) for h in (-0.3, -1e-3, 1e-3, 0.3))
        slope = (bound(found * 1.0001) - bound(found / 1.0001)) / 2e-4
        assert abs(slope) < 1e-6 * abs(best)


def test_the_scale_is_drawn_from_its_density():
    """Mean of log gamma by quadrature; 4,000 draws of a chain thinned by four, |z| < 4.5."""
    lik, r = EpsilonInsensitive(1.0, 0.3), np.array([0.1, -0.6, 1.2, 0.2, -0.9, 0.5])
    fit = float(lik.log_prob(r, np.zeros(6)).sum())

    def mass(t):
        one = EpsilonInsensitive(np.exp(t), 0.3)
        return np.exp(one.log_prob(r, np.zeros(6)).sum() + t)  # flat in gamma

    total = quad(mass, -8, 6)[0]
    mean = quad(lambda t: t * mass(t), -8, 6)[0] / total
    rng, at, draws = np.random.default_rng(1), lik, []
    for k in range(16_000):
        at = at.redraw(float(at.log_prob(r, np.zeros(6)).sum()), 0.0, 6.0, rng)
        if k % 4 == 0:
            draws.append(np.log(at.gamma))
    assert abs(z_score(np.array(draws), mean)) < Z
    assert at.epsilon == 0.3
    first = lik.redraw(fit, 0.0, 6.0, np.random.default_rng(5))
    assert first == lik.redraw(fit, 0.0, 6.0, np.random.default_rng(5))


def test_rows_that_fit_exactly_leave_the_scale_finite():
    lik = EpsilonInsensitive(1.0, 0.0)
    y = np.arange(5.0)
    assert lik.update(float(lik.log_prob(y, y).sum()), 0.0, 5.0).gamma == 1e4


@pytest.mark.parametrize(
    ("gamma", "epsilon", "match"),
    [(0.0, 0.1, "gamma"), (np.inf, 0.1, "gamma"), ("a", 0.1, "gamma"), (1.0, -0.1, "epsilon")],
)
def test_wrong_parameters_are_refused(gamma, epsilon, match):
    with pytest.raises(ValueError, match=match):
        EpsilonInsensitive(gamma, epsilon)
