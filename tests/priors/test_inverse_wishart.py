"""The prior of random slopes: bound, updates, draws and scale move."""

import numpy as np
import pytest
from scipy import stats
from tests.problems import Z, frozen, z_score

from bayesvm.core.types import TermMoments
from bayesvm.priors import InverseWishart, Ridge
from bayesvm.priors.inverse_wishart import WishartState

R, G = 2, 3
RNG = np.random.default_rng(0)
MEAN = frozen(RNG.standard_normal(G * R))
BLOCKS = frozen(np.stack([a @ a.T + 0.1 * np.eye(R) for a in 0.4 * RNG.standard_normal((G, R, R))]))
OWN = TermMoments(MEAN, np.einsum("gjj->gj", BLOCKS).ravel(), BLOCKS)
POINT = TermMoments(MEAN, np.zeros(G * R), np.zeros((G, R, R)))
PSI = frozen(np.array([[1.1, 0.3], [0.3, 0.8]]))
PRIOR = InverseWishart(R, freedom=4.5, scale=PSI)
STATE = WishartState(frozen(np.array([[0.9, -0.2], [-0.2, 0.5]])))


def nearby(state, rng):
    """The state with its covariance moved by a thousandth."""
    noise = np.tril(rng.standard_normal((R, R)))
    L = np.linalg.cholesky(state.covariance) @ (np.eye(R) + 1e-3 * noise)
    return WishartState(L @ L.T)


def test_bound_by_monte_carlo():
    """E_q[log p(u, Sigma) - log q(Sigma)] from the densities, |z| < 4.5."""
    rng, n = np.random.default_rng(1), 20_000
    q = stats.invwishart(4.5 + G, (4.5 + G) * STATE.covariance)
    V = q.rvs(n, random_state=rng)
    root = np.linalg.cholesky(BLOCKS)
    u = MEAN.reshape(G, R) + np.einsum("gjk,mgk->mgj", root, rng.standard_normal((n, G, R)))
    value = stats.invwishart(4.5, PSI).logpdf(V.T) - q.logpdf(V.T)
    square = np.einsum("mgj,mjk,mgk->m", u, np.linalg.inv(V), u)
    value += -0.5 * G * (R * np.log(2 * np.pi) + np.linalg.slogdet(V)[1]) - 0.5 * square
    assert abs(z_score(value, PRIOR.bound(STATE, OWN))) < Z


def test_update_maximises_the_bound():
    best = PRIOR.update(STATE, OWN)
    top = PRIOR.bound(best, OWN)
    assert top > PRIOR.bound(STATE, OWN)
    rng = np.random.default_rng(2)
    for _ in range(100):
        assert PRIOR.bound(nearby(best, rng), OWN) < top
    expected = PSI + sum(np.outer(u, u) for u in MEAN.reshape(G, R)) + BLOCKS.sum(0)
    np.testing.assert_allclose(best.covariance, expected / (4.5 + G), rtol=1e-13)


def test_mode_maximises_the_density():
    best = PRIOR.mode(STATE, POINT)
    rng, top = np.random.default_rng(3), PRIOR.log_prob(best, POINT)
    for _ in range(100):
        assert PRIOR.log_prob(nearby(best, rng), POINT) < top
    Lambda = np.linalg.inv(STATE.covariance)
    law = stats.wishart(4.5, np.linalg.inv(PSI))
    fit = stats.multivariate_normal(np.zeros(R), STATE.covariance).logpdf(MEAN.reshape(G, R)).sum()
    assert PRIOR.log_prob(STATE, POINT) == pytest.approx(law.logpdf(Lambda) + fit, rel=1e-12)


def test_one_effect_is_an_inverse_gamma():
    """IW(1) with nu = 2 a and Psi = 2 b, in every method that a scheme calls."""
    a, b, own = 2.2, 0.9, TermMoments(MEAN, np.full(6, 0.3), np.full((6, 1, 1), 0.3))
    wishart, ridge = InverseWishart(1, 2 * a, 2 * b), Ridge(a, b)
    s, t = WishartState(np.array([[0.7]])), ridge.init(6)._replace(variance=0.7)
    assert wishart.bound(s, own) == pytest.approx(ridge.bound(t, own), rel=1e-12)
    assert wishart.log_prob(s, own) == pytest.approx(ridge.log_prob(t, own), rel=1e-12)
    new, old = wishart.update(s, own), ridge.update(t, own)
    assert new.covariance[0, 0] == pytest.approx(old.variance, rel=1e-12)
    assert wishart.mode(s, own).covariance[0, 0] == pytest.approx(ridge.mode(t, own).variance)
    assert wishart.spread(s, 6)[0, 0] == pytest.approx(ridge.spread(t, 6), rel=1e-12)
    for step in (-0.7, 0.4):
        gap = wishart.stretch(s, own)(step) - wishart.stretch(s, own)(0.0)
        assert gap == pytest.approx(ridge.stretch(t, own)(step) - ridge.stretch(t, own)(0.0))
    np.testing.assert_allclose(wishart.precisions(s, 6), ridge.precisions(t, 6))


def test_draws_are_from_the_conditional():
    """E[Sigma^-1] = nu Psi^-1 and E[Sigma] = Psi / (nu - r - 1), entry by entry, |z| < 4.5."""
    rng, n = np.random.default_rng(4), 4000
    u = MEAN.reshape(G, R)
    Psi, nu = PSI + u.T @ u, 4.5 + G
    draws = np.stack([PRIOR.draw(STATE, MEAN, rng).covariance for _ in range(n)])
    assert (np.abs(z_score(np.linalg.inv(draws), nu * np.linalg.inv(Psi))) < Z).all()
    assert (np.abs(z_score(draws, Psi / (nu - R - 1))) < Z).all()


def test_the_stretch_is_the_density_along_its_ray():
    """log p(e^t u, e^2t Sigma) with the volume of the map, r (r + 1) t + G r t."""
    along = PRIOR.stretch(STATE, POINT)

    def log_density(t):
        V = np.exp(2 * t) * STATE.covariance
        u = np.exp(t) * MEAN.reshape(G, R)
        value = stats.invwishart(4.5, PSI).logpdf(V) + R * (R + 1) * t + G * R * t
        return value + stats.multivariate_normal(np.zeros(R), V).logpdf(u).sum()

    for t in (-1.0, 0.3, 0.8):
        assert along(t) - along(0) == pytest.approx(log_density(t) - log_density(0), rel=1e-9)
        grown = PRIOR.stretched(STATE, t).covariance
        np.testing.assert_allclose(grown, np.exp(2 * t) * STATE.covariance)


def test_scatter_and_spread_are_those_of_the_factor():
    draws = PRIOR.scatter(STATE, G * R, 20_000, np.random.default_rng(5))
    assert (np.abs(z_score(draws, PRIOR.spread(STATE, G * R))) < Z).all()
    ridge = Ridge(2.0, 1.0)
    s = ridge.init(8)
    draws = ridge.scatter(s, 8, 20_000, np.random.default_rng(6))
    assert abs(z_score(draws, ridge.spread(s, 8))) < Z


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "size"),
        ({"size": 2.5}, "size"),
        ({"size": 3, "freedom": 2.0}, "above size - 1 = 2"),
        ({"size": 2, "scale": -1.0}, "positive definite matrix of shape"),
        ({"size": 2, "scale": np.eye(3)}, "positive definite matrix of shape"),
        ({"size": 2, "scale": np.array([[1.0, 2.0], [2.0, 1.0]])}, "positive definite"),
    ],
    ids=["none", "half", "freedom", "negative", "shape", "indefinite"],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        InverseWishart(**arguments)


def test_a_width_that_is_no_multiple_of_the_size_is_refused():
    with pytest.raises(ValueError, match="not groups of 2"):
        PRIOR.init(5)


def test_a_mode_that_does_not_exist_is_said():
    with pytest.raises(ValueError, match="needs InverseWishart"):
        InverseWishart(3, freedom=2.5).mode(STATE, TermMoments(np.zeros(3), np.zeros(3)))
