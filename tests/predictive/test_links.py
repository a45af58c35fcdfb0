"""Links from f to probabilities."""

import numpy as np
import pytest
from scipy.special import expit, log_expit, logit, ndtri, softmax
from scipy.stats import beta
from tests.problems import frozen

from bayesvm.likelihoods import Hinge, Logistic, Probit
from bayesvm.predictive.links import (
    CalibratedLink,
    NormalisedLink,
    ProbitLink,
    SeparateLinks,
    SoftmaxLink,
    class_bands,
    class_odds,
    floored,
    unseen_rate,
)

RNG = np.random.default_rng(0)
MEANS, VARIANCES = 2.0 * RNG.standard_normal((200, 4)), RNG.uniform(0.1, 3.0, (200, 4))
LINKS = [
    CalibratedLink(1.7, -0.4, 0.8),
    CalibratedLink(0.3, 0.0, 0.0),
    *(CalibratedLink(1.7, -0.4, 0.8, k, t) for k, t in ((-2.0, 0.6), (0.7, -0.4), (3.0, 0.0))),
    ProbitLink(),
    NormalisedLink(Hinge()),
    NormalisedLink(Logistic()),
    NormalisedLink(Probit()),
]


@pytest.mark.parametrize("classes", [2, 5])
def test_no_probability_is_more_certain_than_the_rows(classes):
    """The floor is the .05 quantile of Beta(1/2, n + 1/2)."""
    floor = beta(0.5, 99.5).ppf(0.05)
    p = floored(np.eye(classes), 99.0, classes)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(p[~np.eye(classes, dtype=bool)], floor)
    np.testing.assert_array_equal(floored(np.eye(classes), np.inf, classes), np.eye(classes))
    link = CalibratedLink(1.0, 0.0, 0.0, rows=99.0)
    p = link.proba(np.array([-900.0, 900.0]), np.zeros(2))
    np.testing.assert_allclose(p, [floor, 1.0 - floor])
    assert unseen_rate(99.0, 0.05) == pytest.approx(floor)
    assert 99.0 * floor == pytest.approx(0.002, rel=0.05)


@pytest.mark.parametrize("link", LINKS, ids=str)
def test_logit_score_and_probability_of_every_link_agree(link):
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


@pytest.mark.parametrize(("skew", "tail"), [(-2.0, 0.6), (0.7, -0.4)])
def test_the_curve_far_from_the_boundary(skew, tail):
    """Slopes exp(-d) and exp(d), and a power exp(t) of the log odds."""
    s = np.array([-60.0, -59.0, 59.0, 60.0])
    steps = np.diff(CalibratedLink(1.0, 0.0, 0.0, skew).logit(s, np.zeros(4)))[[0, 2]]
    np.testing.assert_allclose(steps, np.exp([-skew, skew]), rtol=1e-9)
    high = CalibratedLink(1.0, 0.0, 0.0, tail=tail).logit(np.array([1e6, 1e7]), np.zeros(2))
    assert np.log10(high[1] / high[0]) == pytest.approx(np.exp(tail), rel=1e-8)
    far = CalibratedLink(1.7, -0.4, 0.8, skew, tail).logit(np.array([-1e200, 1e200]), np.ones(2))
    assert np.isfinite(far).all()


# ----- the curve


def test_without_variance_it_is_beta_calibration():
    """a log p - b log(1 - p) + c of p = sigma(s), with slopes a = exp(-d) and b = exp(d)."""
    s, d = np.linspace(-6, 6, 25), 0.4
    want = np.exp(-d) * log_expit(s) - np.exp(d) * log_expit(-s) - 2 * np.sinh(d) * np.log(2)
    link = CalibratedLink(1.0, 0.0, 0.0, d)
    np.testing.assert_allclose(link.logit(s, 0.0 * s), want, atol=1e-12)


def test_slopes_are_derivatives_in_the_numbers():
    link, h = CalibratedLink(1.2, -0.3, 0.4, 0.3, -0.2, centre=0.7), 1e-6
    at, v = np.linspace(-3, 3, 7), np.linspace(0.0, 2.0, 7)
    x = np.array([np.log(1.2), -0.3 + 1.2 * 0.7, np.log(0.4 / 1.44), 0.3, -0.2])

    def logits(x):
        a = np.exp(x[0])
        return CalibratedLink(a, x[1] - 0.7 * a, np.exp(x[2]) * a**2, *x[3:]).logit(at, v)

    np.testing.assert_allclose(logits(x), link.logit(at, v), rtol=1e-12)
    numeric = [(logits(x + e) - logits(x - e)) / (2 * h) for e in h * np.eye(5)]
    np.testing.assert_allclose(link.slopes(at, v), numeric, rtol=1e-6, atol=1e-8)


# ----- several classes


def test_separate_links_are_normalised():
    links = [CalibratedLink(1.5, 0.2, 0.4), CalibratedLink(0.7, -0.2, 0.1), ProbitLink()]
    m, v = MEANS[:, :3], VARIANCES[:, :3]
    p = np.stack([k.proba(m[:, j], v[:, j]) for j, k in enumerate(links)], axis=1)
    link = SeparateLinks(links)
    np.testing.assert_allclose(link.proba(m, v), p / p.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(link.offsets, [0.2 / 1.5, -0.2 / 0.7, 0.0])


def test_odds_of_certain_classes_are_accurate():
    logs = np.array([[0.0, -1.0, -2.0], [0.0, -50.0, -60.0], [0.0, -800.0, -900.0]])
    odds = class_odds(logs)
    np.testing.assert_allclose(odds[0], logit(softmax(logs[0])), rtol=1e-12)
    np.testing.assert_allclose(odds[1], [50.0, -50.0, -60.0], rtol=1e-4)
    np.testing.assert_allclose(odds[2], [800.0, -800.0, -900.0])


def test_bands_of_classes_that_are_certain_are_finite():
    far = np.array([-2000.0, 0.0, 2000.0])
    assert np.all(np.isfinite(class_bands(np.stack([far, far], axis=-1)[:, None])))


@pytest.mark.parametrize(("count", "sd"), [(2, 1.0), (3, 1.5), (8, 0.7)])
def test_bands_of_classes_hold_what_they_promise(count, sd):
    rng = np.random.default_rng(0)
    m, s = rng.standard_normal((20, count)), sd * rng.uniform(0.5, 1.5, (20, count))
    drawn = class_odds(m + s * rng.standard_normal((5000, 20, count)))
    for level in (0.5, 0.9, 0.998):
        z = ndtri([0.5 - level / 2, 0.5, 0.5 + level / 2])[:, None, None]
        low, _, high = class_bands(m + s * z)
        assert level - 0.02 < np.mean((low <= drawn) & (drawn <= high)) < level + 0.03


# ----- the averaged softmax


def test_averaged_links_in_any_shape():
    """Without variance they are the softmax."""
    link = SoftmaxLink(1.3, np.zeros(4), 0.2, averaged=True)
    for v in (0.0, 1e-14):
        found = link.proba(MEANS, np.full_like(MEANS, v))
        np.testing.assert_allclose(found, softmax(1.3 * MEANS, axis=1), rtol=1e-9)
    p = link.proba(MEANS, VARIANCES)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    odds = class_odds(link.logs(MEANS, VARIANCES))
    np.testing.assert_allclose(odds, np.log(p) - np.log1p(-p), rtol=1e-8)
    deep = link.proba(MEANS.reshape(20, 10, 4), VARIANCES.reshape(20, 10, 4))
    np.testing.assert_allclose(deep.reshape(-1, 4), p)
    turn = [2, 0, 3, 1]
    np.testing.assert_allclose(link.proba(MEANS[:, turn], VARIANCES[:, turn]), p[:, turn])
