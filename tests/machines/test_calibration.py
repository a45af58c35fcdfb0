"""Links from f to probabilities, and what the posterior says of a row left out."""

import inspect

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit, log_expit, ndtr
from tests.problems import Z, frozen, simulate, site

from bayesvm.core.types import Block
from bayesvm.likelihoods import Hinge, Logistic, Probit
from bayesvm.machines import calibration
from bayesvm.machines.calibration import (
    PRIOR_MEAN,
    PRIOR_PRECISION,
    Calibrated,
    Normalised,
    ProbitLink,
    beyond,
    decisive,
    fit_link,
    of_both,
    plain_link,
    score_link,
    to_probit,
)
from bayesvm.machines.leave_one_out import leave_one_out, leave_one_out_draws
from bayesvm.machines.skewed import Skewed


def rows(n=80, seed=0, sharp=1.5):
    """Labels, means, variances and weights of rows whose link is a noisy logistic."""
    rng = np.random.default_rng(seed)
    m, v = rng.normal(0.2, 1.5, n), rng.exponential(0.7, n)
    y = np.where(rng.random(n) < expit(sharp * m - 0.4), 1.0, -1.0)
    return frozen(y, m, v, rng.choice([0.5, 1.0, 2.0], n))


@pytest.mark.parametrize(
    "link",
    [Calibrated(1.3, -0.2, 0.4), Skewed(1.3, -0.2, 0.4, 0.1, None, 0.3, -0.1), ProbitLink(),
     Normalised(Hinge())],
    ids=lambda link: type(link).__name__,
)  # fmt: skip
def test_log_odds_and_probabilities_are_found_together(link):
    m, v = np.linspace(-40.0, 40.0, 81), np.linspace(0.0, 3.0, 81)
    z, p = link.judged(m, v)
    np.testing.assert_array_equal(z, link.logit(m, v))
    np.testing.assert_array_equal(p, decisive(link.proba(m, v), link.score(m, v)))


def test_the_probit_curve_is_the_steeper_one_beyond_some_log_odds():
    z = np.linspace(-9.0, 9.0, 3601)
    gap = to_probit(z)
    np.testing.assert_allclose(beyond(z), np.where(gap * z > 0.0, gap, 0.0), atol=1e-14)
    assert np.any(beyond(z) != 0.0)


def test_probabilities_of_both_labels_keep_their_digits():
    low, high = np.array([-60.0, -1.0, 0.0, 50.0]), np.array([-50.0, 1.0, 0.0, 60.0])
    least, most = of_both(low, high)
    np.testing.assert_allclose(least, np.stack([expit(-high), expit(low)], axis=1), rtol=1e-15)
    np.testing.assert_allclose(most, np.stack([expit(-low), expit(high)], axis=1), rtol=1e-15)


# ----- the fitted link


def standard(m, v, c):
    """Moments with the means centred and scaled, and that centre and scale."""
    mean = np.average(m, weights=c)
    sd = np.sqrt(np.average((m - mean) ** 2, weights=c))
    return (m - mean) / sd, v / sd**2, mean, sd


def penalised_loss(x, y, m, v, c):
    """What fit_link minimises, written from its docstring; x = (log a, b, log kappa)."""
    positive, n = y > 0, c.sum()
    m, v, _, _ = standard(m, v, c)
    n_pos, n_neg = c[positive].sum(), c[~positive].sum()
    soft = 0.5 * min(1.0, 500 / n)
    t = np.where(positive, (n_pos + soft) / (n_pos + 2 * soft), soft / (n_neg + 2 * soft))
    share = (c * t).sum() / n
    a, b, kappa = np.exp(x[0]), x[1], np.exp(x[2])
    z = (a * m + b) / np.sqrt(1 + kappa * a**2 * v)
    loss = -(c * (t * log_expit(z) + (1 - t) * log_expit(-z))).sum()
    means = [np.log(2), np.log(share / (1 - share)), np.log(0.4)]
    return loss - stats.norm.logpdf(x, means, [1.5, 3, 2]).sum()


def parameters(link, m, v, c):
    """(log a, b, log kappa) of a link on the standardised scale."""
    _, _, mean, sd = standard(m, v, c)
    return np.array([np.log(link.a * sd), link.b + link.a * mean, np.log(link.c / link.a**2)])


def test_many_rows_are_seen_after_a_part_of_them():
    """The first fit is a start only."""
    data = rows(n=3 * calibration.FIRST_ROWS)
    whole, staged = score_link(*data)[0], fit_link(*data)
    np.testing.assert_allclose(*(parameters(k, *data[1:]) for k in (staged, whole)), rtol=1e-8)


SEPARABLE = (np.sign(np.linspace(-3, 3, 40)), np.linspace(-3, 3, 40), np.full(40, 0.1), np.ones(40))
LOPSIDED = (np.r_[1.0, -np.ones(60)], np.r_[-2.0, np.linspace(-4, 1, 60)], np.ones(61), np.ones(61))
POINTS = (rows()[0], rows()[1], np.zeros(80), np.ones(80))
CASES = {
    "noisy": rows(),
    "many": rows(4000, 1),
    "separable": SEPARABLE,
    "lopsided": LOPSIDED,
    "no-variance": POINTS,
}


@pytest.mark.parametrize("data", CASES.values(), ids=CASES)
def test_fitted_link_is_a_stationary_minimum(data):
    """Gradient by central differences of order two: h^2 L''' / 6 + eps L / h, below 1e-6 of L."""
    x, h = parameters(fit_link(*data), *data[1:]), 1e-5
    value = penalised_loss(x, *data)
    for e in np.eye(3):
        slope = (penalised_loss(x + h * e, *data) - penalised_loss(x - h * e, *data)) / (2 * h)
        assert abs(slope) < 1e-6 * max(1, value)
        for d in (-0.05, 0.05):
            assert penalised_loss(x + d * e, *data) > value


@pytest.mark.parametrize("data", CASES.values(), ids=CASES)
def test_fitted_link_is_where_another_optimiser_ends(data):
    found = penalised_loss(parameters(fit_link(*data), *data[1:]), *data)
    best = min(
        minimize(penalised_loss, start, data, method="BFGS", options={"gtol": 1e-9}).fun
        for start in ([0.0, 0.0, 0.0], [1.0, 0.5, -2.0], [-1.0, -0.5, 1.0])
    )
    assert found <= best + 1e-9 * max(1, abs(best))


def test_prior_of_the_link_is_the_one_documented():
    np.testing.assert_allclose(PRIOR_MEAN, [np.log(2), 0, np.log(0.4)])
    np.testing.assert_allclose(PRIOR_PRECISION, [1 / 1.5**2, 1 / 9, 1 / 4])


@pytest.mark.parametrize("data", [CASES["noisy"], LOPSIDED])
def test_flipped_labels_give_the_mirrored_link(data):
    y, m, v, c = data
    one, other = fit_link(y, m, v, c), fit_link(-y, -m, v, c)
    assert (other.a, other.b, other.c) == pytest.approx((one.a, -one.b, one.c), rel=1e-6)
    np.testing.assert_allclose(one.proba(m, v), 1 - other.proba(-m, v), atol=1e-7)


def test_whole_weights_are_repetitions_of_rows():
    y, m, v, _ = rows()
    count = np.arange(80) % 3
    again = np.repeat(np.arange(80), count)
    weighted = fit_link(y, m, v, count.astype(float))
    repeated = fit_link(y[again], m[again], v[again], np.ones(again.size))
    for name in "abc":
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), rel=1e-6)


def test_scale_and_level_of_f_change_nothing():
    """f times ten plus three, with its variance times a hundred, has the same probabilities."""
    y, m, v, c = rows()
    one, other = fit_link(y, m, v, c), fit_link(y, 10 * m + 3, 100 * v, c)
    np.testing.assert_allclose(one.logit(m, v), other.logit(10 * m + 3, 100 * v), atol=1e-7)


@pytest.mark.parametrize("share", [0.03, 0.001])
def test_rare_labels_are_as_frequent_as_they_are(share):
    """The mean probability of rows is the share of the label, though f is far from zero."""
    rng = np.random.default_rng(0)
    n = round(30 / share)
    y = np.where(np.arange(n) < 30, 1.0, -1.0)
    m = -1.2 + 0.3 * y + 0.2 * rng.standard_normal(n)
    p = fit_link(y, m, np.full(n, 0.01), np.ones(n)).proba(m, np.full(n, 0.01))
    assert p.mean() == pytest.approx(share, rel=0.03)  # a row of thirty: priors and targets
    assert -np.log(np.where(y > 0, p, 1 - p)).mean() < -share * np.log(share)


def test_absurd_moments_do_not_break_the_fit():
    y, m, v, c = rows()
    for scale in (1e-8, 1e6):
        link = fit_link(y, m * scale, v * scale**2, c)
        p = link.proba(m * scale, v * scale**2)
        assert np.isfinite([link.a, link.b, link.c]).all()
        assert ((p >= 0) & (p <= 1)).all()


# ----- the links themselves

LINKS = [
    Calibrated(1.7, -0.4, 0.8),
    Calibrated(0.3, 0.0, 0.0),
    ProbitLink(),
    Normalised(Hinge()),
    Normalised(Logistic()),
    Normalised(Probit()),
]


@pytest.mark.parametrize("seed", [63, 77, 449, 969])
def test_long_steps_are_cut_short_and_not_turned(seed):
    """Moments of wild scales, from which cutting each coordinate of a step alone went astray."""
    rng = np.random.default_rng(seed)
    n, spread = 60, 10.0 ** rng.uniform(-3, 5)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    m = spread * (rng.standard_normal(n) - 0.3 * y * (seed % 3))
    v = spread**2 * rng.exponential(size=n) ** 4
    link, value = score_link(y, m, v, np.ones(n))
    x, h = parameters(link, m, v, np.ones(n)), 1e-4
    for e in np.eye(3):
        up, down = (penalised_loss(x + d * e, y, m, v, np.ones(n)) for d in (h, -h))
        assert abs(up - down) / (2 * h) < 1e-3 * value


def test_no_missing_link():
    public = {
        item
        for name, item in vars(calibration).items()
        if inspect.isclass(item)
        and item.__module__ == calibration.__name__
        and issubclass(item, calibration.Link)
        and item is not calibration.Link
    }
    assert public == {type(link) for link in LINKS}


@pytest.mark.parametrize("link", LINKS, ids=str)
def test_logit_score_and_probability_agree(link):
    m, v = (a.ravel() for a in np.meshgrid(np.linspace(-4, 4, 41), [0.0, 0.3, 5.0]))
    frozen(m, v)
    p, logit, score = link.proba(m, v), link.logit(m, v), link.score(m, v)
    np.testing.assert_allclose(expit(logit), p, atol=1e-12)
    clear = np.abs(score) > 1e-12
    np.testing.assert_array_equal((p > 0.5)[clear], (score > 0)[clear])
    np.testing.assert_array_equal((p > 0.5)[clear], (m + link.offset > 0)[clear])
    np.testing.assert_array_equal(np.sign(score)[clear], np.sign(logit)[clear])
    order = np.argsort(score, kind="stable")  # the score ranks rows as the probability does
    assert (np.diff(p[order]) >= -1e-12).all()


def test_probit_link_is_the_averaged_probit():
    """Phi(m / sqrt(1 + v)) = E Phi(f): 200 000 draws, |z| < 4.5."""
    f = 0.7 + np.sqrt(2.0) * np.random.default_rng(1).standard_normal(200_000)
    draws = ndtr(f)
    error = draws.std() / np.sqrt(draws.size)
    assert abs(draws.mean() - ProbitLink().proba(0.7, 2.0)) < Z * error


def test_probit_link_keeps_its_tails():
    m, v = np.array([-40.0, 40.0]), np.zeros(2)
    np.testing.assert_allclose(ProbitLink().logit(m, v), [-804.608442, 804.608442], rtol=1e-8)


def test_plain_links():
    assert plain_link("calibrated", Hinge()) is None
    assert isinstance(plain_link("probit", Hinge()), ProbitLink)
    assert plain_link("normalised", Hinge()) == Normalised(Hinge())


def test_decisive_never_contradicts_the_sign():
    score = np.array([-1e-300, 0.0, 1e-300, 2.0, -2.0, 5.0, -5.0])
    p = decisive(frozen(np.array([0.5, 0.5, 0.5, 0.4999999, 0.500001, 0.9, 0.1])), frozen(score))
    np.testing.assert_array_equal(p > 0.5, score > 0)
    np.testing.assert_array_equal(p[-2:], [0.9, 0.1])  # where there is no conflict, untouched
    np.testing.assert_allclose(p, [0.5, 0.5, 0.5, 0.5, 0.5, 0.9, 0.1], atol=1e-15)


# ----- leaving a row out


def sites(n=14, K=4, seed=2):
    """A Gaussian model with given sites: rows, weights w and potentials b, prior precision."""
    rng = np.random.default_rng(seed)
    C, y, c = simulate(n, K, seed, weighted=True)
    return C, rng.uniform(0.1, 1.5, n), rng.standard_normal(n), c, np.eye(K) * 0.7


def gaussian(C, w, b, P):
    Sigma = np.linalg.inv((C.T * w) @ C + P)
    return C @ Sigma @ (C.T @ b), np.diag(C @ Sigma @ C.T)


@pytest.mark.parametrize("weights", ["one", "mixed"])
def test_leave_one_out_is_explicit_removal(weights):
    """At fixed sites: a part of row i leaves, and with it that part of what it says."""
    C, w, b, c, P = sites()
    c = np.ones_like(c) if weights == "one" else c
    assert weights == "one" or set(c) == {0.5, 1.0, 2.0}
    m, v = gaussian(C, c * w, c * b, P)
    gone = np.minimum(c, 1.0)
    found = leave_one_out(m, v, site(w, b - w * m), gone)
    for i in range(len(m)):
        rest = c.copy()
        rest[i] -= gone[i]
        mean, var = gaussian(C, rest * w, rest * b, P)
        assert found[0][i] == pytest.approx(mean[i], rel=1e-10)
        assert found[1][i] == pytest.approx(var[i], rel=1e-10)


def test_leave_one_out_treats_a_double_row_as_two():
    """Weight two, or the same row twice: the copy that stays speaks in both."""
    C, w, b, _, P = sites()
    twice = np.r_[0, np.arange(14)]
    c = np.ones(14)
    c[0] = 2.0
    m, v = gaussian(C, c * w, c * b, P)
    gone = Block(C, np.ones(14), c).gone
    weighted = leave_one_out(m, v, site(w, b - w * m), gone)
    m, v = gaussian(C[twice], w[twice], b[twice], P)
    repeated = leave_one_out(m, v, site(w[twice], b[twice] - w[twice] * m), np.ones(15))
    for a, b_ in zip(weighted, repeated):
        np.testing.assert_allclose(a, b_[1:], rtol=1e-11)
        assert b_[0] == pytest.approx(b_[1])


def test_leave_one_out_of_a_row_that_is_all_there_is_stays_finite():
    one = np.ones(1)
    m, v = leave_one_out(one, one, site(one, one), one)  # w v = 1: nothing would be left
    assert np.isfinite(m).all()
    assert (v > 0).all()


@pytest.mark.parametrize("lik", [Logistic(), Probit()], ids=str)
def test_importance_weights_leave_out_the_likelihood(lik):
    """Draws of f from N(m, v), tilted by 1 / p(y | f), against quadrature, and with weights.

    The importance weights of these two likelihoods are bounded for f on the side of y and grow
    like exp(|f|) or exp(f^2 / 2) on the other, so v is kept below 1/4.  With 100 000 draws the
    standard error is that of a ratio of means (delta method); 2 labels x 3 weights, |z| < 4.5.
    """
    rng, n = np.random.default_rng(3), 100_000
    m, v = 0.4, 0.2
    f = m + np.sqrt(v) * rng.standard_normal((1, n))
    grid = np.linspace(m - 9 * np.sqrt(v), m + 9 * np.sqrt(v), 4001)
    for y in (-1.0, 1.0):
        for share in (0.25, 0.5, 1.0):
            log_lik = lik.log_prob(np.full((1, n), y), f)
            mean, var = leave_one_out_draws(f, log_lik, np.array([share]))
            density = stats.norm.pdf(grid, m, np.sqrt(v))
            density *= np.exp(-share * lik.log_prob(np.full_like(grid, y), grid))
            density /= density.sum()
            exact_mean = density @ grid
            exact_var = density @ (grid - exact_mean) ** 2
            weight = np.exp(-share * log_lik[0])
            weight /= weight.mean()
            for h, found, exact in (
                (f[0], mean[0], exact_mean),
                ((f[0] - exact_mean) ** 2, var[0], exact_var),
            ):
                error = np.std(weight * (h - exact)) / np.sqrt(n)
                assert abs(found - exact) < Z * error


@pytest.mark.parametrize("lik", [Logistic(), Probit()], ids=str)
def test_draws_and_gaussian_agree_on_a_gaussian_posterior(lik):
    """Where the likelihood of a row is nearly Gaussian in f, both ways leave out the same.

    The site is the row's own quadratic at the posterior mean, so with v = 0.01 the two differ by
    a third derivative times v^2, below 2e-4; the Monte Carlo error, by the delta method, is added
    at 4.5 standard errors (5 rows, 2 moments).
    """
    rng, n = np.random.default_rng(4), 200_000
    y, m, v = np.array([1.0, -1.0, 1.0, -1.0, 1.0]), np.array([-1.0, -0.3, 0.2, 0.9, 2.0]), 0.01
    h = 1e-3
    up, mid, down = (lik.log_prob(y, m + d) for d in (h, 0.0, -h))
    slope, curvature = (up - down) / (2 * h), (up - 2 * mid + down) / h**2
    mean, var = leave_one_out(m, np.full(5, v), site(-curvature, slope), np.ones(5))
    f = m[:, None] + np.sqrt(v) * rng.standard_normal((5, n))
    log_lik = lik.log_prob(y[:, None], f)
    drawn = leave_one_out_draws(f, log_lik, np.ones(5))
    weight = np.exp(-log_lik)
    weight /= weight.mean(axis=1, keepdims=True)
    centred = f - drawn[0][:, None]
    error = np.std(weight * centred, axis=1) / np.sqrt(n)
    assert (np.abs(drawn[0] - mean) < Z * error + 2e-4).all()
    error = np.std(weight * (centred**2 - drawn[1][:, None]), axis=1) / np.sqrt(n)
    assert (np.abs(drawn[1] - var) < Z * error + 2e-4).all()
    assert (np.abs(mean - m) > 10 * 2e-4).any()  # something was left out


def test_importance_weights_do_not_overflow():
    f = np.array([[-2000.0, 0.0, 3.0]])
    mean, var = leave_one_out_draws(f, Hinge().log_prob(np.ones((1, 3)), f), np.ones(1))
    assert mean[0] == pytest.approx(-2000.0)  # nearly all weight on the draw the row forbade
    assert var[0] == pytest.approx(0.0, abs=1e-6)


def test_f_that_varies_by_rounding_only_is_constant():
    """Its standard deviation is no unit to measure variances of f by."""
    rng = np.random.default_rng(3)
    y, m = np.where(rng.random(200) < 0.1, 1.0, -1.0), -5.0 + 1e-8 * rng.standard_normal(200)
    link = fit_link(y, m, np.zeros(200), np.ones(200))
    share = np.mean(y > 0)
    np.testing.assert_allclose(link.proba(np.array([-5.0]), np.array([0.02])), share, atol=0.03)
