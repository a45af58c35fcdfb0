"""Links fitted to moments of f at rows left out."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax
from tests.problems import frozen

from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.estimators.predictions import moments
from bayesvm.predictive.links import CalibratedLink, SoftmaxLink, floored


def curve(s, q, skew, tail=0.0):
    """Log odds as in the docstring of the link."""
    log_cosh = np.logaddexp(0.5 * s, -0.5 * s) - np.log(2.0)
    r = (s * np.cosh(skew) + 2.0 * np.sinh(skew) * log_cosh) / np.sqrt(q)
    return np.sinh(np.exp(tail) * np.arcsinh(r))


def rows(n=80, seed=0, sharp=1.5):
    """Labels, means, variances and weights of rows whose link is a noisy logistic."""
    rng = np.random.default_rng(seed)
    m, v = rng.normal(0.2, 1.5, n), rng.exponential(0.7, n)
    y = np.where(rng.random(n) < expit(sharp * m - 0.4), 1.0, -1.0)
    return frozen(y, m, v, rng.choice([0.5, 1.0, 2.0], n))


def curved_rows(n=300, seed=0, skew=0.6):
    rng = np.random.default_rng(seed)
    m, v = 2.0 * rng.standard_normal(n) - 0.5, rng.exponential(size=n)
    y = np.where(rng.random(n) < expit(curve(m, 1 + 0.4 * v, skew)), 1.0, -1.0)
    return y, m, v, np.ones(n)


def class_rows(n=80, classes=4, seed=0, shift=1.0):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    m = rng.normal(size=(n, classes)) - 0.5
    m[np.arange(n), codes] += shift
    return codes, m, rng.uniform(0.1, 2.0, (n, classes)), rng.uniform(0.5, 2.0, n)


# ----- three numbers


def medians(y, m, c):
    """Centre and unit of f: f repeated as often as weights say, doubled to be whole."""
    again = np.repeat(np.arange(m.size), np.round(2 * c).astype(int))
    y, m = y[again], m[again]
    middle = np.where(y > 0, np.median(m[y > 0]), np.median(m[y < 0]))
    centre = middle.mean()
    within = np.median(np.abs(m - middle)) / stats.norm.ppf(0.75)
    return centre, np.sqrt(np.mean((middle - centre) ** 2) + within**2)


def penalised_loss(x, y, m, v, c):
    """What is minimised, written from the docstrings; x = (log a, b, log kappa, delta, tau)."""
    positive, n = y > 0, c.sum()
    centre, unit = medians(y, m, c)
    m, v = (m - centre) / unit, v / unit**2
    n_pos, n_neg = c[positive].sum(), c[~positive].sum()
    t = np.where(positive, (n_pos + 0.5) / (n_pos + 1.0), 0.5 / (n_neg + 1.0))
    share = (c * t).sum() / n
    x = np.append(x, np.zeros(5 - len(x)))
    a, b, kappa = np.exp(x[0]), x[1], np.exp(x[2])
    z = curve(a * m + b, 1 + kappa * a**2 * v, x[3], x[4])
    p = floored(expit(z), n, 2)
    loss = -(c * (t * np.log(p) + (1 - t) * np.log1p(-p))).sum()
    means = [np.log(2), np.log(share / (1 - share)), np.log(0.4), 0.0, 0.0]
    return loss + 0.5 * np.sum(((x - means) / [1.5, 3.0, 2.0, 0.5, 0.3]) ** 2)


def parameters(link, y, m, c, count=3):
    """Numbers of a link on the standardised scale."""
    centre, unit = medians(y, m, c)
    b = link.b + link.a * centre
    x = [np.log(link.a * unit), b, np.log(link.c / link.a**2), link.skew, link.tail]
    return np.array(x[:count])


GRID = np.linspace(-3, 3, 40)
CASES = {
    "noisy": rows(),
    "separable": (np.sign(GRID), GRID, np.full(40, 0.1), np.ones(40)),
    "lopsided": (np.r_[1.0, -np.ones(40)], np.r_[-2.0, GRID], np.ones(41), np.ones(41)),
    "no-variance": (*rows()[:2], np.zeros(80), np.ones(80)),
}


@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("data", CASES.values(), ids=CASES)
def test_no_other_optimiser_ends_lower(data, curved):
    """L-BFGS stops where the loss changes by 1e-14 of it, or slopes are below 1e-6."""
    y, m, _, c = data
    count, link = 5 if curved else 3, CalibratedLink.fit(*data, curved=curved)
    found = penalised_loss(parameters(link, y, m, c, count), *data)
    assert found == pytest.approx(link.loss, rel=1e-9)
    starts = [0.0, 0.0, 0.0, 0.3, 0.0], [1.0, 0.5, -2.0, -0.3, 0.1], [-1.0, -0.5, 1.0, 0.0, -0.1]
    best = min(minimize(penalised_loss, x[:count], data, method="BFGS").fun for x in starts)
    assert found <= best + 1e-6


@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("rare", [False, True])
def test_one_absurd_row_does_not_flatten_the_link(rare, curved):
    """The left-out f of a row of leverage one may be any number."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(2000) < (0.03 if rare else 0.5), 1.0, -1.0)
    m, v = 8.0 * y + 4.0 * rng.standard_normal(2000), np.full(2000, 0.2)
    plain = CalibratedLink.fit(y, m, v, np.ones(2000), curved=curved)
    i = int(np.argmax(y))
    m[i], v[i] = -80_000.0, 14_000.0
    link = CalibratedLink.fit(y, m, v, np.ones(2000), curved=curved)
    some = np.arange(2000) != i
    p, q = link.proba(m[some], v[some]), plain.proba(m[some], v[some])
    assert np.average(np.abs(p - q)) < 0.01
    loss = -np.mean(np.where(y[some] > 0, np.log(p), np.log1p(-p)))
    assert loss < 1.2 * -np.mean(np.where(y[some] > 0, np.log(q), np.log1p(-q)))


@pytest.mark.parametrize("share", [0.03, 0.001])
def test_rare_labels_are_as_frequent_as_they_are(share):
    """The mean probability of rows is the share of the label, though f is far from zero."""
    rng = np.random.default_rng(0)
    n = round(30 / share)
    y = np.where(np.arange(n) < 30, 1.0, -1.0)
    m = -1.2 + 0.3 * y + 0.2 * rng.standard_normal(n)
    p = CalibratedLink.fit(y, m, np.full(n, 0.01), np.ones(n)).proba(m, np.full(n, 0.01))
    assert p.mean() == pytest.approx(share, rel=0.03)  # a row of thirty: priors and targets
    assert -np.log(np.where(y > 0, p, 1 - p)).mean() < -share * np.log(share)


# ----- five numbers


@pytest.mark.parametrize("curved", [False, True])
def test_flipped_labels_scales_and_weights(curved):
    y, m, v, _ = curved_rows()
    tolerance = 1e-6 if curved else 1e-7
    c = (np.arange(m.size) % 3).astype(float)
    again = np.repeat(np.arange(m.size), np.arange(m.size) % 3)
    want = CalibratedLink.fit(y, m, v, c, curved=curved).logit(m, v)
    flipped = CalibratedLink.fit(-y, -m, v, c, curved=curved)
    np.testing.assert_allclose(-flipped.logit(-m, v), want, atol=tolerance)
    scaled = CalibratedLink.fit(y, 10 * m + 3, 100 * v, c, curved=curved)
    np.testing.assert_allclose(scaled.logit(10 * m + 3, 100 * v), want, atol=tolerance)
    copies = CalibratedLink.fit(y[again], m[again], v[again], np.ones(again.size), curved=curved)
    np.testing.assert_allclose(copies.logit(m, v), want, atol=tolerance)


@pytest.mark.filterwarnings("error")
def test_intervals_of_rows_far_away_do_not_overflow():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 2))
    y = X[:, 0] + 0.5 * rng.logistic(size=100) > 0
    low, high = BayesianLinearSVC(standardize=False).fit(X, y).predict_interval(1e300 * X[:5])
    assert np.all((low >= 0) & (low < high) & (high <= 1))


# ----- several classes


def test_link_of_least_loss_is_found():
    """The loss written out again, and a search without derivatives' help."""
    codes, m, v, c, classes = *class_rows(60, 4, seed=4), 4
    unit = np.sqrt(np.mean([np.cov(m[:, k], aweights=c, ddof=0) for k in range(classes)]))
    sums = np.array([c[codes == k].sum() for k in range(classes)])
    left = 0.1 / (sums + 0.2)

    def loss(x):
        z = (np.exp(x[0]) * m / unit + x[2:]) / np.sqrt(1.0 + np.exp(x[1]) * v / unit**2)
        p = floored(softmax(z, axis=1), c.sum(), classes)
        total = 0.5 * ((x[0] - np.log(2.0)) / 0.5) ** 2 + 0.5 * ((x[1] - np.log(0.4)) / 1.5) ** 2
        total += 0.5 * np.sum(x[2:] ** 2) / 4.0**2
        for i, k in enumerate(codes):
            others = np.log(p[i]).sum() - np.log(p[i, k])
            total -= c[i] * ((1 - left[k]) * np.log(p[i, k]) + left[k] / (classes - 1) * others)
        return total

    found = minimize(loss, np.zeros(classes + 2), method="BFGS", options={"gtol": 1e-6})
    link = SoftmaxLink.fit(codes, m, v, c)
    assert link.a == pytest.approx(np.exp(found.x[0]) / unit, rel=1e-4)
    assert link.c == pytest.approx(np.exp(found.x[1]) / unit**2, rel=1e-3)
    np.testing.assert_allclose(link.b, found.x[2:], atol=1e-3)


def test_weights_units_and_order_of_classes():
    codes, m, v, c = class_rows()
    link = SoftmaxLink.fit(codes, m, v, 2.0 * np.ones(codes.size))
    twice = SoftmaxLink.fit(*(np.concatenate([x, x]) for x in (codes, m, v, np.ones(codes.size))))
    np.testing.assert_allclose(twice.b, link.b, atol=1e-9)
    link = SoftmaxLink.fit(codes, m, v, c)
    large = SoftmaxLink.fit(codes, 50.0 * m, 2500.0 * v, c)
    np.testing.assert_allclose(large.proba(50.0 * m, 2500.0 * v), link.proba(m, v), atol=1e-9)
    turn = np.array([2, 0, 3, 1])
    other = SoftmaxLink.fit(np.argsort(turn)[codes], m[:, turn], v[:, turn], c)
    np.testing.assert_allclose(other.b, link.b[turn], atol=1e-9)


def test_classes_far_apart_and_classes_of_few_rows():
    codes, m, v, c = class_rows(shift=60.0)
    link = SoftmaxLink.fit(codes, m, v, c)
    assert np.all(np.isfinite([link.a, link.c, *link.b]))
    codes, m, v, c = class_rows(40, 5)
    codes[codes == 2] = 0
    codes[7] = 2  # one row
    link = SoftmaxLink.fit(codes, m, v, c)
    p = link.proba(m, v)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    # offsets make the probabilities' average the classes' shares, but for prior and softening
    np.testing.assert_allclose(c @ p, np.bincount(codes, c), atol=3.0)
    codes[7] = 0  # none
    assert np.all(SoftmaxLink.fit(codes, m, v, c).proba(m, v)[:, 2] < 0.05)


def test_kernel_machines_have_one_link_over_classes():
    rng, y = np.random.default_rng(0), np.arange(90) % 3
    angle = 2 * np.pi * y / 3
    X = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.6 * rng.normal(size=(90, 2))
    model = BayesianSVC(tune=False).fit(X, y)
    link, (m, v) = model.fit_.link, moments(model, X)
    assert isinstance(link, SoftmaxLink)
    np.testing.assert_allclose(model.predict_proba(X), link.proba(m, v))
    np.testing.assert_allclose(model.offset_, link.b / link.a)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, logit(model.predict_proba(X)), rtol=1e-6)
    assert np.array_equal(scores.argmax(axis=1), model.predict(X))


def test_averaged_softmax_of_least_loss_is_found():
    """And weights are copies."""
    rng = np.random.default_rng(0)
    m, v = 2.0 * rng.standard_normal((200, 4)), rng.uniform(0.1, 3.0, (200, 4))
    codes, copies = (1.5 * m + rng.gumbel(size=m.shape)).argmax(axis=1), rng.integers(1, 4, 200)
    n = copies.sum()
    link = SoftmaxLink.fit(codes, m, v, copies.astype(float), averaged=True)

    def loss(x):
        a, weight = np.exp(x)
        link = SoftmaxLink(a, np.zeros(4), weight, averaged=True)
        p = link.proba(m, v)[np.arange(200), codes]
        prior = 0.5 * (x[0] / 0.5) ** 2 + 0.5 * ((x[1] - np.log(0.4)) / 1.5) ** 2
        return -copies @ np.log(floored(p, n, 4)) + prior

    best = minimize(loss, [0.0, -1.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9})
    np.testing.assert_allclose(np.log([link.a, link.c]), best.x, atol=1e-3)
    assert link.loss <= best.fun + 1e-6
    at = np.repeat(np.arange(200), copies)
    again = SoftmaxLink.fit(codes[at], m[at], v[at], np.ones(at.size), averaged=True)
    assert (again.a, again.c) == pytest.approx((link.a, link.c), rel=1e-5)
