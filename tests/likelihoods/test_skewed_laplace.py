"""The skewed Laplace: a density of the residual, and a scale that can be learned."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import logsumexp
from tests.likelihoods.test_common import M, V, Y
from tests.problems import Z, make_problem, simulate, z_score

from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.inference import EM, VB, Gibbs
from bayesvm.inference.vb import learn_scale
from bayesvm.likelihoods import Hinge, SkewedLaplace

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("gamma", "gamma0"), [(0.7, 0.4), (3.0, 0.05), (0.01, 2.0)])
def test_it_is_a_density_of_the_residual(gamma, gamma0):
    lik = SkewedLaplace(gamma, gamma0)

    def density(u):
        return float(np.exp(lik.log_prob(np.ones(1), np.array([1.0 - u])))[0])

    far = 60 / gamma0 + 60 / gamma
    parts = [quad(density, a, b, limit=400)[0] for a, b in [(-far, -1), (-1, 0), (0, 1), (1, far)]]
    assert sum(parts) == pytest.approx(1.0, rel=1e-7)


def test_without_a_rate_it_is_the_hinge_to_a_power():
    lik = SkewedLaplace(1.6, 0.0)
    np.testing.assert_allclose(lik.log_prob(Y, M), 1.6 * Hinge().log_prob(Y, M), rtol=1e-14)
    for a, b in zip(SkewedLaplace(1.0, 0.0).tight(Y, M, V), Hinge().tight(Y, M, V)):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    np.testing.assert_allclose(
        SkewedLaplace(1.0, 0.0).proba(M, V), Hinge().proba(M, V), rtol=1e-12, atol=1e-300
    )


def test_the_line_keeps_its_digits():
    """gamma (k - 1) for gamma0 far below gamma: 1e-12 of it, to ten digits."""
    lik = SkewedLaplace(1.0, 1e-12)
    far = lik.expected(np.ones(1), np.array([1e6]), 1e-6)
    assert far.g[0] == pytest.approx(-1e-12, rel=1e-5)


# ----- learning the scale


def test_a_scale_that_cannot_be_learned_is_refused_with_the_reason():
    with pytest.raises(ValueError, match="no density, so that data can only lower gamma"):
        SkewedLaplace(gamma=None, gamma0=0.0)
    with pytest.raises(ValueError, match=r"gamma\) must be a positive number or None; got 0"):
        SkewedLaplace(gamma=0)
    with pytest.raises(
        ValueError, match=r"gamma0\) must be a number of at least 0 or None; got -1"
    ):
        SkewedLaplace(gamma0=-1)


@pytest.mark.parametrize("kind", ["expected", "tight"])
@pytest.mark.parametrize("gamma", [None, 0.3, 8.0])
def test_the_update_maximises_what_rows_say(kind, gamma):
    """In closed form from three sums, against the rows themselves at other scales."""
    rng = np.random.default_rng(3)
    y, m, v = rng.choice([-1.0, 1.0], 50), rng.normal(0, 2, 50), rng.exponential(1, 50)
    c = rng.choice([0.5, 1.0, 2.0], 50)
    lik = SkewedLaplace(gamma, 0.2)

    def total(g):
        return float(c @ getattr(lik.with_numbers([g]), kind)(y, m, v).bound) - g  # Exp(1)

    new = lik.update(total(lik.scale) + lik.scale, float(c @ (1 - y * m)), float(c.sum()))
    best = total(new.scale)
    for factor in (0.05, 0.9, 0.999, 1.001, 1.1, 20.0):
        assert total(factor * new.scale) < best


def test_scale_and_rate_are_drawn_as_a_grid_has_them():
    """Residuals given, gamma, gamma0 ~ Ga(2, 0.5): every 10th of 15,000 draws against a grid of
    300 x 300; five means, |z| < 4.5."""
    u = np.array([-2.0, -0.7, -0.3, 0.2, 0.9, -1.4, 0.1, -0.2])
    n, lean = float(u.size), float(u.sum())
    t = np.linspace(-9, 6, 300)
    logs = np.empty((300, 300))
    for i, gamma in enumerate(np.exp(t)):
        for j, rate in enumerate(np.exp(t)):
            k = np.sqrt(1 + 2 * rate / gamma)
            logs[i, j] = n * np.log(rate / k) - gamma * (k * np.abs(u).sum() + lean)  # eq. 4
            logs[i, j] += 2 * (t[i] + t[j]) - 0.5 * (gamma + rate)  # of the logarithms
    weight = np.exp(logs - logsumexp(logs))
    lik, rng, draws = SkewedLaplace(None, None, a0=2.0, b0=0.5), np.random.default_rng(0), []
    for _ in range(15_000):
        fit = float(lik.log_prob(np.ones(u.size), 1 - u).sum())
        lik = lik.redraw(fit, lean, n, rng)
        draws.append(np.log(lik.numbers))
    a, b = np.array(draws)[::10].T
    across, down = weight.sum(axis=0), weight.sum(axis=1)
    for got, value in (
        (a, down @ t), (b, across @ t), (a**2, down @ t**2), (b**2, across @ t**2),
        (a * b, t @ weight @ t),
    ):  # fmt: skip
        assert abs(z_score(got, float(value))) < Z


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("Machine", [BayesianLinearSVC, BayesianSVC])
def test_machines_draw_the_rate(Machine):
    X, y, _ = simulate(60, 2, 9, noise=0.3)
    options = {} if Machine is BayesianLinearSVC else {"tune": False, "n_inducing": 20}
    lik = SkewedLaplace(gamma0=None)
    chains = Gibbs(60, 30, chains=2)
    fit = Machine(inference=chains, likelihood=lik, random_state=0, **options).fit(X, y)
    drawn = fit.machines_[0].draws.hyper["likelihood"]
    assert drawn.shape == (2, 60, 2)
    assert np.all(np.ptp(drawn, axis=1) > 0)
    final = fit.machines_[0].model.likelihood
    np.testing.assert_allclose(final.numbers, np.exp(np.log(drawn).mean(axis=(0, 1))))
    with pytest.raises(ValueError, match="drawn by inference='gibbs'"):
        Machine(likelihood=lik).fit(X, y)


@pytest.mark.parametrize(
    "kind", [VB(tol=1e-10), VB(tol=1e-10, bound="tight")], ids=["loose", "tight"]
)
def test_the_learned_scale_is_the_top_of_the_bound(kind):
    X, y, c = simulate(60, 3, 5, weighted=True)

    def problem(lik):
        return make_problem(X, y, c, likelihood=lik.tightened(kind.is_tight))

    known, start = learn_scale(problem(SkewedLaplace(gamma0=0.3)), kind, RNG)
    scale = known.model.likelihood.scale
    best = kind.fit(known, RNG, start).bound - scale  # with the log prior, that of Exp(1)
    for factor in (0.8, 0.97, 1.03, 1.25):
        other = problem(SkewedLaplace(factor * scale, 0.3))
        assert kind.fit(other, RNG, start).bound - factor * scale < best


def test_em_is_the_mode():
    X, y, c = simulate(40, 2, 8, weighted=True)
    lik = SkewedLaplace(0.8, 0.3)
    run = EM().fit(make_problem(X, y, c, likelihood=lik), RNG)

    def loss(theta):
        return -float(c @ lik.log_prob(y, X @ theta)) + 0.5 * theta @ theta

    options = {"xatol": 1e-10, "fatol": 1e-13, "maxiter": 4000}
    best = minimize(loss, run.state.coef.mean + 0.1, method="Nelder-Mead", options=options)
    assert loss(run.state.coef.mean) <= best.fun + 1e-6
    np.testing.assert_allclose(run.state.coef.mean, best.x, atol=1e-4)


# ----- as users meet it


@pytest.mark.parametrize(
    "inference",
    ["vb", "em", "svi", Gibbs(100, 50, chains=2)],
    ids=["vb", "em", "svi", "gibbs"],
)
@pytest.mark.parametrize("Machine", [BayesianLinearSVC, BayesianSVC])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_machines_learn_the_scale(Machine, inference):
    X, y, _ = simulate(80, 2, 9, noise=0.3)
    options = {} if Machine is BayesianLinearSVC else {"tune": False, "n_inducing": 20}
    fit = Machine(likelihood="skewed_laplace", inference=inference, random_state=0, **options).fit(
        X, y
    )
    assert fit.score(X, y) > 0.75
    assert 0.02 < fit.machines_[0].model.likelihood.scale < 5


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_checkpoint_of_chains_keeps_the_scales(tmp_path):
    X, y, _ = simulate(30, 2, 10)
    options = {"likelihood": "skewed_laplace", "random_state": 0}
    path = tmp_path / "chains.npz"

    def stop(progress):
        return progress.iteration >= 40

    chain = Gibbs(60, 20, chains=1)
    BayesianLinearSVC(inference=chain, callbacks=[stop], checkpoint=path, **options).fit(X, y)
    resumed = BayesianLinearSVC(inference=chain, checkpoint=path, **options).fit(X, y)
    straight = BayesianLinearSVC(inference=chain, **options).fit(X, y)
    a, b = (k.machines_[0].draws.hyper["likelihood"] for k in (resumed, straight))
    assert a.shape == (1, 60, 1)
    np.testing.assert_array_equal(a, b)
