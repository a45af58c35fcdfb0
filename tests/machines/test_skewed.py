"""The link whose log odds are a curve in f."""

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize
from scipy.special import expit, log_expit

from bayesvm import BayesianLinearSVC
from bayesvm.machines.calibration import (
    PRIOR_PRECISION,
    Calibrated,
    fit_link,
    link_rows,
    posterior_mode,
)
from bayesvm.machines.skewed import CURVE_SD, Skewed, bent, fit_skewed, loss_of, stretched

PRECISION = np.append(PRIOR_PRECISION, CURVE_SD**-2)


def rows(n=300, seed=0, skew=0.6):
    rng = np.random.default_rng(seed)
    m, v = 2.0 * rng.standard_normal(n) - 0.5, rng.exponential(size=n)
    y = np.where(rng.random(n) < expit(bent(m, skew) / np.sqrt(1 + 0.4 * v)), 1.0, -1.0)
    return y, m, v, np.ones(n)


M, V = (a.ravel() for a in np.meshgrid(np.linspace(-4, 4, 41), [0.0, 0.3, 5.0]))


def test_without_skewness_it_is_the_calibrated_link():
    one, other = Skewed(1.7, -0.4, 0.8), Calibrated(1.7, -0.4, 0.8)
    np.testing.assert_allclose(one.logit(M, V), other.logit(M, V), atol=1e-14)
    np.testing.assert_allclose(one.score(M, V), other.score(M, V), atol=1e-14)


@pytest.mark.parametrize("tail", [-0.4, 0.0, 0.6])
@pytest.mark.parametrize("skew", [-2.0, -0.3, 0.7, 3.0])
def test_logit_score_and_probability_agree(skew, tail):
    link = Skewed(1.7, -0.4, 0.8, skew=skew, tail=tail)
    p, score = link.proba(M, V), link.score(M, V)
    np.testing.assert_allclose(expit(link.logit(M, V)), p, atol=1e-12)
    np.testing.assert_array_equal(p > 0.5, M + link.offset > 0)
    np.testing.assert_array_equal(score > 0, M + link.offset > 0)
    assert (np.diff(p[np.argsort(score)]) >= -1e-12).all()
    s = np.linspace(-40, 40, 401)
    assert (np.diff(bent(s, skew)) > 0).all()
    steps = np.diff(bent(np.array([-60.0, -59.0, 59.0, 60.0]), skew))[[0, 2]]
    np.testing.assert_allclose(steps, np.exp([-skew, skew]), rtol=1e-9)
    high = stretched(np.array([1e6, 1e7]), tail)  # a power of r
    assert np.log10(high[1] / high[0]) == pytest.approx(np.exp(tail), rel=1e-8)
    assert np.isfinite(link.logit(np.array([-1e200, 1e200]), np.ones(2))).all()


def test_without_variance_it_is_beta_calibration():
    """a log p - b log(1 - p) + c of p = sigma(s), with slopes a = exp(-d) and b = exp(d)."""
    s, d = np.linspace(-6, 6, 25), 0.4
    want = np.exp(-d) * log_expit(s) - np.exp(d) * log_expit(-s) - 2 * np.sinh(d) * np.log(2)
    np.testing.assert_allclose(bent(s, d), want, atol=1e-12)


@pytest.mark.parametrize("n", [60, 300, 8000])
def test_the_fit_ends_where_another_optimiser_does(n):
    data = rows(n)
    held = link_rows(*data)[0]
    x, value = posterior_mode(held)
    centre = np.append(held.prior_mean(), [0.0, 0.0])
    start, link = np.append(x, [0.0, 0.0]), fit_skewed(*data)
    a, scale = link.a * held.scale.sd, held.scale
    found = np.array([np.log(a), link.b + link.a * scale.mean, np.log(link.c / link.a**2)])
    found = np.append(found, [link.skew, link.tail])
    args = (held, centre, PRECISION)
    assert check_grad(*(lambda z, k=k: loss_of(z, *args)[k] for k in (0, 1)), found) < 1e-5 * n
    assert loss_of(start, *args)[0] == pytest.approx(value, rel=1e-12)
    best = minimize(lambda z: loss_of(z, *args)[0], start, method="BFGS").fun
    assert loss_of(found, *args)[0] <= best + 1e-6


@pytest.mark.parametrize("case", ["even", "uneven", "earlier"])
def test_few_rows_lead_to_the_least_loss_of_many(case):
    """Also where some have very large weights, or an earlier link is unlike the rows."""
    y, m, v, c = rows(20_000, 3)
    if case == "uneven":
        c = 1.0 + np.random.default_rng(0).pareto(1.1, y.size)
    earlier = (Calibrated(-1.0, 0.5, 0.1), 2e4) if case == "earlier" else None
    held, few = link_rows(y, m, v, c, earlier)
    assert (few is held) == (case != "even")
    link, centre = fit_skewed(y, m, v, c, earlier=earlier), np.append(held.prior_mean(), [0.0, 0.0])
    x = [np.log(link.a * held.scale.sd), link.b + link.a * held.scale.mean]
    x = np.array([*x, np.log(link.c / link.a**2), link.skew, link.tail])
    args = (held, centre, PRECISION)

    def scaled(z):
        return loss_of(z, *args)[:2]

    ends = [np.append(posterior_mode(held)[0], [skew, 0.0]) for skew in (-0.5, 0.0, 0.5)]
    best = min(minimize(scaled, z, jac=True, method="L-BFGS-B").fun for z in ends)
    assert loss_of(x, *args)[0] <= best + 1e-3


def test_the_skewness_of_many_rows_is_found():
    for skew in (-0.8, 0.0, 0.8):
        link = fit_skewed(*rows(20_000, 1, skew))
        assert (link.skew, link.tail) == pytest.approx((skew, 0.0), abs=0.15)


def test_the_tail_of_many_rows_is_found():
    """The log odds where most rows are: slope and tail can replace each other in part."""
    rng = np.random.default_rng(0)
    m, v, c = 2.0 * rng.standard_normal(40_000), np.full(40_000, 0.01), np.ones(40_000)
    for tail in (-0.4, 0.3):
        truth = stretched(m, tail)
        link = fit_skewed(np.where(rng.random(m.size) < expit(truth), 1.0, -1.0), m, v, c)
        gap = expit(link.logit(m, v)) - expit(truth)
        assert np.abs(gap).max() < 0.03
        assert np.sign(link.tail) == np.sign(tail)


def test_flipped_labels_scales_and_weights():
    y, m, v, _ = rows()
    count = np.arange(m.size) % 3
    again = np.repeat(np.arange(m.size), count)
    one = fit_skewed(y, m, v, count.astype(float))
    others = {
        "flipped": (fit_skewed(-y, -m, v, count.astype(float)), -m, v, -1),
        "scaled": (fit_skewed(y, 10 * m + 3, 100 * v, count.astype(float)), 10 * m + 3, 100 * v, 1),
        "repeated": (fit_skewed(y[again], m[again], v[again], np.ones(again.size)), m, v, 1),
    }
    for name, (link, at, var, sign) in others.items():
        want = sign * one.logit(m, v)
        np.testing.assert_allclose(link.logit(at, var), want, atol=1e-4, err_msg=name)


def test_a_useless_f_gives_the_share_of_the_label():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(600) < 0.3, 1.0, -1.0)
    m, v, c = rng.standard_normal(600) - 0.1 * y, np.full(600, 0.1), np.ones(600)
    p = fit_skewed(y, m, v, c).proba(m, v)
    np.testing.assert_allclose(p, np.mean(y > 0), atol=2e-3)
    assert (np.argsort(p) == np.argsort(m)).all()  # rows are still ranked
    assert np.ptp(fit_link(y, m, v, c).proba(m, v)) > 10 * np.ptp(p)
    few = slice(0, 60)
    assert isinstance(fit_skewed(y[few], m[few], v[few], c[few]), Skewed)


def test_the_share_of_a_label_is_not_known_exactly():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((300, 8)), (rng.random(300) < 0.3).astype(int)
    low, high = BayesianLinearSVC().fit(X, y).predict_interval(X, level=0.9)
    wide = 2 * 1.645 * np.sqrt(y.mean() * (1 - y.mean()) / len(y))
    assert np.all(high - low > 0.8 * wide)  # nor that columns tell nothing
    assert np.mean((low[:, 1] < 0.3) & (high[:, 1] > 0.3)) > 0.9


@pytest.mark.filterwarnings("error")
def test_intervals_of_rows_far_away_do_not_overflow():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 2))
    y = X[:, 0] + 0.5 * rng.logistic(size=100) > 0
    low, high = BayesianLinearSVC(standardize=False).fit(X, y).predict_interval(1e300 * X[:5])
    assert np.all((low >= 0) & (low < high) & (high <= 1))


def test_log_odds_of_two_slopes_are_found_and_the_boundary_stays_linear():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 3))
    s = X @ [2.0, -1.0, 0.5]
    y = rng.random(3000) < expit(np.where(s > 0, 3.0 * s, 0.3 * s))
    model = BayesianLinearSVC().fit(X, y)
    assert model.machines_[0].link.skew > 0.7
    f = X @ model.coef_[0] + model.intercept_[0] + model.offset_[0]
    np.testing.assert_array_equal(model.predict(X), f > 0)


def test_slopes_are_derivatives_in_the_uncertain_numbers():
    rng = np.random.default_rng(0)
    m = 2.0 * rng.standard_normal(400) + 0.3
    y = np.where(rng.random(400) < expit(1.3 * m - 0.4), 1.0, -1.0)
    link = fit_skewed(y, m, np.full(400, 0.2), np.ones(400))
    x, centre, _, _ = link.spread
    at, v = np.linspace(-3, 3, 7), np.full(7, 0.2)

    def logits(x):
        own = np.exp(x[0]) * (at - centre)
        kappa = link.c * np.exp(-2 * link.spread.x[0]) * np.exp(x[2] - link.spread.x[2])
        q = 1.0 + kappa * np.exp(2 * x[0]) * v
        return stretched(bent(own + x[1], x[3]) / np.sqrt(q), x[4])

    np.testing.assert_allclose(logits(x), link.logit(at, v), rtol=1e-6, atol=1e-8)
    numeric = [(logits(x + e) - logits(x - e)) / 2e-5 for e in 1e-5 * np.eye(5)]
    np.testing.assert_allclose(link.slopes(at, v), numeric, rtol=1e-4, atol=1e-6)
