"""Errata of (C), each settled: finite differences, quadrature, ascent, and print failing."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.special import log_ndtr
from scipy.stats import gamma, norm

from . import chen
from .checks import assert_monotone


def problem(n, seed, theta=1.5, p=2):
    """Rows, labels of both kinds from a curved rule with noise, kernel values, positive weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    y = np.where(X[:, 0] ** 2 + X[:, 1] + rng.standard_normal(n) > 0.7, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y, chen.rbf(X, theta), y * rng.uniform(0.05, 0.5, n)


def central(f, x, e=1e-3):
    """Central differences; exact for a quadratic."""
    return np.array([(f(x + d) - f(x - d)) / (2 * e) for d in e * np.eye(len(x))])


def test_p1_sign_of_the_prior_in_q():
    """Eq. 8 is the slope of Q with -w'Aw, as in eq. 6; with the printed + it is not."""
    X, y, Phi, w = problem(8, 0)
    h, alpha, b = chen.latent_mean(Phi @ w, y), chen.precision(w, 0.5, 0.1), 0.3

    def printed_slope(w):  # eq. 8
        return -2 * Phi.T @ Phi @ w + 2 * Phi.T @ h - 2 * b * Phi.sum(0) - 2 * alpha * w

    def q(w, sign):  # eq. 7
        fit = 2 * w @ Phi.T @ h - w @ Phi.T @ Phi @ w + 2 * b * h.sum() - 2 * b * (Phi @ w).sum()
        return fit - b**2 * len(y) + sign * (alpha * w**2).sum()

    assert_allclose(central(lambda x: q(x, -1.0), w), printed_slope(w), rtol=1e-8)
    assert np.abs(central(lambda x: q(x, 1.0), w) - printed_slope(w)).max() > 1
    # and Q as used here is half of it, up to what does not depend on w
    other = w * np.linspace(0.5, 1.5, 8)
    gap = chen.q_function(Phi, h, w, b, alpha) - chen.q_function(Phi, h, other, b, alpha)
    assert gap == pytest.approx((q(w, -1.0) - q(other, -1.0)) / 2)


def test_p2_slope_in_the_kernel_width():
    X, y, _, w = problem(12, 1)
    b, theta, e = 0.4, 1.3, 1e-5

    def fit(t):
        return log_ndtr(y * (chen.rbf(X, t) @ w + b)).sum()

    exact = (fit(theta + e) - fit(theta - e)) / (2 * e)
    Phi = chen.rbf(X, theta)
    dPhi = (chen.rbf(X, theta + e) - chen.rbf(X, theta - e)) / (2 * e)
    assert chen.width_slope(Phi, dPhi, y, w, b) == pytest.approx(exact, rel=1e-6)
    assert abs(chen.width_slope_printed(Phi, dPhi, y, w, b) - exact) > 0.1 * abs(exact)


@pytest.mark.parametrize(
    ("y", "mean", "printed"), [(1, 1.11192, 0.84288), (-1, -0.59050, -0.14288)]
)
def test_p3_mean_of_the_latent_variable(y, mean, printed):
    z = 0.7
    side = (0, np.inf) if y > 0 else (-np.inf, 0)
    mass = quad(lambda h: norm.pdf(h - z), *side)[0]
    exact = quad(lambda h: h * norm.pdf(h - z), *side)[0] / mass
    assert exact == pytest.approx(mean, abs=5e-6)
    assert chen.latent_mean(z, y) == pytest.approx(exact, rel=1e-10)
    assert chen.latent_mean_printed(z, y) == pytest.approx(printed, abs=5e-6)


def test_p3_far_in_the_tail():
    """N(-40, 1) above zero: the mean is 1/40 - 2/40^3 + 10/40^5 - ..., without overflow."""
    assert chen.latent_mean(-40.0, 1.0) == pytest.approx(0.02496885, abs=5e-9)


def test_p3_the_printed_e_step_ends_lower():
    _, y, Phi, w = problem(40, 2)
    right = chen.em_history(Phi, y, w, c=0.0, d=1e-2, steps=200)
    wrong = chen.em_history(Phi, y, w, c=0.0, d=1e-2, steps=200, e=chen.latent_mean_printed)
    assert right[-1].objective > wrong[-1].objective + 1
    assert np.diff([s.objective for s in wrong]).min() < -1e-3  # it does not even ascend


def test_p4_mean_of_the_precision():
    w, c, d = 0.6, 0.5, 0.44

    def joint(a):
        return norm.pdf(w, scale=a**-0.5) * gamma.pdf(a, c, scale=1 / d)

    exact = quad(lambda a: a * joint(a), 0, np.inf)[0] / quad(joint, 0, np.inf)[0]
    assert chen.precision(w, c, d) == pytest.approx(exact, rel=1e-6)
    assert chen.precision_printed(w, c, d) < 0.8 * exact
    # minus the slope of the log density over w, which is what an EM for this prior needs
    slope = approx_fprime(np.array([w]), lambda x: chen.log_student(x[0], c, d), 1e-7)[0]
    assert chen.precision(w, c, d) == pytest.approx(-slope / w, rel=1e-5)


def test_p4_the_printed_precision_does_not_ascend():
    _, y, Phi, w = problem(40, 3)
    right = chen.em_history(Phi, y, w, c=0.0, d=1e-2, steps=150)
    wrong = chen.em_history(Phi, y, w, c=0.0, d=1e-2, steps=150, alpha=chen.precision_printed)
    assert_monotone([s.objective for s in right])
    assert np.diff([s.objective for s in wrong]).min() < -1e-6


def test_p5_what_appendix_c_runs():
    """M = sqrt(2) |w| is the power prior of c = -1/4, not the c = 0 of eq. 21."""
    w = np.array([0.3, 1.2])
    ran = 1 / (np.sqrt(2) * w) ** 2
    assert_allclose(chen.precision(w, -0.25, 0.0), ran)
    assert_allclose(chen.precision(w, 0.0, 0.0), 2 * ran)
    # one weight, curvature k, best value v without a prior: it survives from z-score sqrt 2, or 2
    for c, z in ((-0.25, np.sqrt(2)), (0.0, 2.0)):
        for factor, lives in ((0.98, False), (1.02, True)):
            k, w = 1.0, factor * z
            v = w
            for _ in range(4000):
                alpha = chen.precision(w, c, 0.0)
                w = k * v / (k + alpha)
                if w < 1e-8:
                    break
            assert (w > 1e-3) == lives
            if lives:
                assert w == pytest.approx((v + np.sqrt(v**2 - 4 * (2 * c + 1) / k)) / 2, rel=1e-6)


def test_p7_exact_m_step_ascends_and_clipping_does_not():
    """Sixty runs of each; the exact M-step is the maximum of Q under the signs."""
    fallen = {"exact": 0, "clipped": 0}
    for seed in range(60):
        _, y, Phi, w = problem(15, seed, theta=2.0)
        for name, m in (("exact", chen.m_step), ("clipped", chen.m_step_clipped)):
            path = [s.objective for s in chen.em_history(Phi, y, w, c=0.0, d=1e-2, steps=12, m=m)]
            fallen[name] += np.diff(path).min() < -1e-9
    assert fallen["exact"] == 0
    assert fallen["clipped"] > 0


def test_m_step_maximises_q_under_the_signs():
    _, y, Phi, w = problem(10, 5)
    h, alpha = chen.latent_mean(Phi @ w, y), chen.precision(w, 0.0, 1e-2)
    best_w, best_b = chen.m_step(Phi, y, h, alpha)
    assert np.all(y * best_w >= 0)
    best = chen.q_function(Phi, h, best_w, best_b, alpha)
    rng = np.random.default_rng(0)
    for _ in range(500):
        move = best_w + rng.normal(size=10) * rng.choice([1e-3, 1e-1], 10)
        move = np.where(y * move > 0, move, 0.0)
        assert chen.q_function(Phi, h, move, best_b + 0.01 * rng.normal(), alpha) <= best + 1e-10


def test_relevance_updates_are_stationary_points_of_the_evidence():
    X, y, Phi, _ = problem(25, 7)
    C = np.column_stack([Phi[:, ::5], np.ones(25)])
    free = np.array([False] * 5 + [True])
    start = np.array([1.0] * 5 + [1e-8])
    alpha = chen.relevance_em(C, y, start, free, steps=400)
    alive = alpha[:5] < 1e6

    def evidence(logs):
        return chen.relevance_evidence(C, y, np.append(np.exp(logs), 1e-8))

    # MacKay's update neglects how the curvature moves with the mode: flat to a few hundredths
    slope = approx_fprime(np.log(alpha[:5]), evidence, 1e-4)
    assert np.abs(slope[alive]).max() < 0.05
    assert evidence(np.log(alpha[:5])) > evidence(np.zeros(5))
