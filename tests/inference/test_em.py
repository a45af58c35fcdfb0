"""EM and ECME: against their transcripts, a certified convex solver and general optimisers."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.papers import convex, polson
from tests.problems import certify, make_problem, simulate

from bayesvm.core.types import Coef
from bayesvm.inference import EM, VB
from bayesvm.inference.model import State
from bayesvm.likelihoods import Logistic, Probit
from bayesvm.linalg.covariances import Point
from bayesvm.priors import Fixed, Ridge

RNG = np.random.default_rng(0)


def fit(problem, **options):
    return EM(**options).fit(problem, RNG)


def at(problem, mean, eps=0.0, priors=None):
    """A state of EM: a point, smoothed by eps."""
    mean = np.asarray(mean, float)
    return State(Coef(mean, Point(mean.size, eps)), priors or problem.model.init())


def value(problem, mean, P):
    """J(theta) = 2 sum c u+ + theta' P theta / 2, from the transcript."""
    C = problem.model.rows(problem.blocks.X).C
    return polson.objective(mean, C, problem.y, problem.c, P)


def ones(X):
    return np.column_stack([np.ones(len(X)), X])


# ----- iterate by iterate


def watched(problem, **options):
    """States and objectives of plain steps, by level of smoothing."""
    seen = {}

    def watch(progress, state):
        seen.setdefault(state.coef.cov.eps, []).append((state, progress.bound))

    options = {"accelerate": False, "tol": 0, "max_iter": 25, **options}
    EM(**options).fit(problem, RNG, watch=watch)
    return seen


@pytest.mark.parametrize("form", ["dense", "factored"])
@pytest.mark.parametrize(("n", "p", "noise"), [(40, 3, 1), (12, 20, 1), (30, 4, 0)])
def test_steps_are_those_of_the_transcript(n, p, noise, form):
    """Every step at every level, from zero, weighted rows: coefficients and objective.

    At smoothing eps the weights reach 1/eps, and both programs know a step to 1/eps units in the
    last place.
    """
    X, y, c = simulate(n, p, seed=n, noise=noise, weighted=True)
    P = np.array([0.05, *[0.8] * p])
    problem = make_problem(X, y, c, prior=Fixed(0.8), intercept=Fixed(0.05), form=form)
    constant = 0.5 * np.log(P / (2 * np.pi)).sum()
    seen = watched(problem, eps_min=1e-4)
    np.testing.assert_allclose(list(seen), [1e-1, 1e-2, 1e-3, 1e-4])
    before = np.zeros(p + 1)
    for eps, run in seen.items():
        assert len(run) >= 5  # fewer than 24 where rounding ends a level
        for k, (state, bound) in enumerate(run):
            mean = state.coef.mean
            if k or eps == 0.1:
                step = polson.em_step(before, ones(X), y, c, P, eps)
                np.testing.assert_allclose(mean, step, atol=1e-12 / eps)
            value = polson.smoothed_objective(mean, ones(X), y, c, P, eps)
            assert constant - bound == pytest.approx(value, rel=1e-11)
            before = mean


@pytest.mark.parametrize("form", ["dense", "factored"])
def test_ecme_steps_are_those_of_the_transcript(form):
    """Coefficients given the last precision, then the precision given them; one objective."""
    X, y, c = simulate(40, 4, seed=9, weighted=True)
    A, B, penalised = 2.0, 0.5, np.arange(5) > 0
    flat = 0.0 if form == "dense" else 1e-6  # the dual form needs a proper prior
    problem = make_problem(X, y, c, prior=Ridge(a=A, b=B), intercept=Fixed(flat), form=form)
    atol = 1e-10 if form == "dense" else 1e-8
    for eps, run in watched(problem, learn="mode", eps_min=1e-2).items():
        states = [(s.coef.mean, 1 / s.priors[1].variance, bound) for s, bound in run]
        for (old, tau, below), (new, moved, above) in itertools.pairwise(states):
            P = np.where(penalised, tau, flat)
            step = polson.em_step(old, ones(X), y, c, P, eps)
            np.testing.assert_allclose(new, step, atol=atol)
            assert moved == pytest.approx(polson.ecme_tau(new, penalised, A, B), rel=1e-11)
            values = [
                polson.ecme_objective(m, t, ones(X), y, c, penalised, eps, A, B)
                + flat * m[0] ** 2 / 2
                for m, t in ((old, tau), (new, moved))
            ]
            assert above - below == pytest.approx(values[0] - values[1], abs=1e-10)


# ----- the quadratic programme

CASES = {
    "tall": (200, 10, 1.0),
    "square": (100, 50, 1.0),
    "wide": (50, 200, 1.0),
    "separable": (60, 30, 0.0),
    "separable-tall": (300, 20, 0.0),
    "tiny": (8, 2, 1.0),
    "noise": (150, 5, 30.0),
}


@pytest.mark.parametrize("intercept", [1.0, 1e-4], ids=["firm", "loose"])
@pytest.mark.parametrize("name", CASES)
def test_objective_is_the_certified_minimum(name, intercept):
    """Within 1e-6 of a lower bound that no method can beat; never below it.

    The reported gap is one more upper bound of the error, and the reported objective is J with the
    constants of the prior.
    """
    n, p, noise = CASES[name]
    X, y, c = simulate(n, p, seed=n + p, noise=noise, weighted=True)
    P = np.array([intercept, *[0.4] * p])
    form = "factored" if p > n else "dense"
    problem = make_problem(X, y, c, prior=Fixed(0.4), intercept=Fixed(intercept), form=form)
    best = convex.solve(ones(X), y, P, c)
    assert best.gap < 1e-8 * best.primal
    found = fit(problem)
    J = value(problem, found.state.coef.mean, P)
    assert -1e-10 < (J - best.dual) / best.primal < 1e-6
    assert found.certificate.gap * max(1, J) >= J - best.primal - 1e-10 * J
    constant = 0.5 * (np.log(P / (2 * np.pi))).sum()
    assert constant - found.bound == pytest.approx(J, rel=1e-10)


# ----- certificates


def certificate_case():
    X, y, c = simulate(50, 5, 8, weighted=True)
    problem = make_problem(X, y, c, prior=Fixed(0.4), intercept=Fixed(0.1))
    return problem, ones(X), np.array([0.1, *[0.4] * 5])


def test_certificate_by_hand():
    """Away from the optimum: residual of P theta = Xs' phi and J minus the dual value."""
    problem, C, P = certificate_case()
    y, c = problem.y, problem.c
    mean, eps = np.linspace(-0.5, 0.5, 6), 0.05
    cert, phi = certify(problem, at(problem, mean), eps)
    u = 1 - y * (C @ mean)
    np.testing.assert_allclose(phi, c * (1 + u / np.sqrt(u**2 + eps**2)), rtol=1e-13)
    force = C.T @ (y * phi)
    kkt = np.abs(force - P * mean).max() / max(1, np.abs(force).max())
    assert cert.kkt == pytest.approx(kkt, rel=1e-12)
    J = value(problem, mean, P)
    dual = convex.dual_value(phi, y[:, None] * C, P)
    assert cert.gap == pytest.approx((J - dual) / max(1, J), rel=1e-10)


def test_gap_bounds_the_error_whatever_the_point():
    problem, C, P = certificate_case()
    best = convex.solve(C, problem.y, P, problem.c)
    rng = np.random.default_rng(1)
    for _ in range(50):
        mean = best.theta + rng.normal(0, 0.3, 6)
        for eps in (1e-3, 0.3):
            cert, _ = certify(problem, at(problem, mean), eps)
            J = value(problem, mean, P)
            assert cert.gap * max(1, J) >= J - best.primal - 1e-9


def test_a_flat_direction_has_no_gap_to_report():
    problem, *_ = certificate_case()
    X, y, c = problem.blocks.X, problem.y, problem.c
    flat = make_problem(X, y, c, prior=Fixed(0.4), intercept=Fixed(0.0))
    cert, _ = certify(flat, at(flat, np.zeros(6)), 0.1)
    assert np.isnan(cert.gap)
    assert np.isfinite(cert.kkt)


# ----- learning the scale


def test_evidence_scale_is_the_variational_one_and_is_held():
    X, y, c = simulate(60, 5, 11, weighted=True)
    problem = make_problem(X, y, c, prior=Ridge(), intercept=Fixed(0.01))
    found = fit(problem)
    variational = VB(tol=1e-10, warm_rows=0).fit(problem, RNG)
    variance = found.state.priors[1].variance
    assert variance == pytest.approx(variational.state.priors[1].variance, rel=0.02)  # tol 1e-6
    P = np.array([0.01, *[1 / variance] * 5])
    best = convex.solve(ones(X), y, P, c)
    assert value(problem, found.state.coef.mean, P) == pytest.approx(best.primal, rel=1e-6)


def test_joint_mode_is_a_maximum_of_the_joint_density():
    """Coefficients optimal given the scale, the scale given the coefficients."""
    X, y, c = simulate(100, 5, 12, weighted=True)
    A, B = 2.0, 1.0
    problem = make_problem(X, y, c, prior=Ridge(a=A, b=B), intercept=Fixed(0.01))
    found = fit(problem, learn="mode")
    mean, tau = found.state.coef.mean, 1 / found.state.priors[1].variance
    assert tau == pytest.approx(polson.ecme_tau(mean, np.arange(6) > 0, A, B), rel=1e-4)
    P = np.array([0.01, *[tau] * 5])
    best = convex.solve(ones(X), y, P, c)
    assert value(problem, mean, P) == pytest.approx(best.primal, rel=1e-6)


def test_collapse_of_the_joint_mode_is_warned_of():
    """50 x 200 with b = 1e-2: the joint mode is at zero, whatever the data say."""
    X, y, _ = simulate(50, 200, 13)
    prior = Ridge(a=1.0, b=1e-2)
    problem = make_problem(X, y, prior=prior, intercept=Fixed(0.01), form="factored")
    with pytest.warns(RuntimeWarning, match="collapsed to zero.*inference='vb'"):
        found = fit(problem, learn="mode")
    assert np.abs(found.state.coef.mean[1:]).max() < 0.01  # f is within 0.05 of a constant


def test_flat_priors_are_no_cause_for_warnings(recwarn):
    """Plenty of rows determine the coefficients, without any help from a prior."""
    X, y, c = simulate(100, 3, 15, weighted=True)
    problem = make_problem(X, y, c, prior=Fixed(0.0), intercept=Fixed(0.0))
    P = np.zeros(4)
    found = fit(problem)
    best = convex.solve(ones(X), y, P, c)
    assert value(problem, found.state.coef.mean, P) == pytest.approx(best.primal, rel=1e-6)
    assert not [str(w.message) for w in recwarn]


# ----- smooth likelihoods


@pytest.mark.parametrize("form", ["dense", "factored", "diagonal"])
@pytest.mark.parametrize("lik", [Logistic(), Probit()], ids=str)
def test_smooth_likelihoods_against_a_general_optimiser(lik, form):
    X, y, c = simulate(60, 4, 14, weighted=True)
    C, P = ones(X), np.array([0.05, *[0.4] * 4])
    problem = make_problem(
        X, y, c, prior=Fixed(0.4), intercept=Fixed(0.05), likelihood=lik, form=form
    )

    def loss(theta):
        return -(c @ lik.log_prob(y, C @ theta)) + 0.5 * theta @ (P * theta)

    best = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-9})
    found = fit(problem, tol=1e-13)
    assert found.converged
    assert loss(found.state.coef.mean) <= best.fun * (1 + 1e-9)
    np.testing.assert_allclose(found.state.coef.mean, best.x, atol=1e-5)
    assert found.certificate is None
    constant = 0.5 * np.log(P / (2 * np.pi)).sum()
    assert found.bound == pytest.approx(constant - loss(found.state.coef.mean), rel=1e-12)
