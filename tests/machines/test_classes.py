"""Links over more than two classes."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_expit, logit, ndtri, softmax

from bayesvm import BayesianSVC
from bayesvm.inference import Gibbs
from bayesvm.inputs import reading
from bayesvm.machines.calibration import Calibrated
from bayesvm.machines.classes import (
    PRIOR_MEAN,
    PRIOR_SD,
    SOFTENED,
    Separate,
    Softmax,
    class_bands,
    class_odds,
    class_targets,
    derivatives,
    fit_softmax,
    loss_of,
    normalised,
)


def moments(n=80, classes=4, seed=0, shift=1.0):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    m = rng.normal(size=(n, classes)) - 0.5
    m[np.arange(n), codes] += shift
    return codes, m, rng.uniform(0.1, 2.0, (n, classes)), rng.uniform(0.5, 2.0, n)


def test_slope_and_curvature_are_those_of_the_loss():
    codes, m, v, c = moments()
    t, x, h = class_targets(codes, c, 4), np.array([0.3, -0.8, 0.5, -0.2, 0.1, 1.0]), 1e-5
    slope, curvature, _ = derivatives(x, t, m, v, c)
    for j, e in enumerate(np.eye(x.size)):
        by = (loss_of(x + h * e, t, m, v, c) - loss_of(x - h * e, t, m, v, c)) / (2 * h)
        assert by == pytest.approx(slope[j], abs=1e-6)
        up, down = (derivatives(x + s * h * e, t, m, v, c)[0] for s in (1, -1))
        np.testing.assert_allclose((up - down) / (2 * h), curvature[j], atol=1e-6)


def test_expected_curvature_is_the_average_over_labels():
    _, m, v, c = moments(n=6, classes=3)
    x = np.array([0.3, -0.8, 0.5, -0.2, 0.1])
    z = (np.exp(x[0]) * m + x[2:]) / np.sqrt(1.0 + np.exp(x[1]) * v)
    # with targets equal to the probabilities the other part is zero
    _, curvature, fisher = derivatives(x, softmax(z, axis=1), m, v, c)
    np.testing.assert_allclose(curvature, fisher, atol=1e-12)


@pytest.mark.parametrize("classes", [3, 7])
def test_link_of_least_loss_is_found(classes):
    """The loss written out again, and a search without derivatives' help."""
    codes, m, v, c = moments(60, classes, seed=classes)
    unit = np.sqrt(np.mean([np.cov(m[:, k], aweights=c, ddof=0) for k in range(classes)]))
    sums = np.array([c[codes == k].sum() for k in range(classes)])
    left = SOFTENED / (sums + 2 * SOFTENED)

    def loss(x):
        z = (np.exp(x[0]) * m / unit + x[2:]) / np.sqrt(1.0 + np.exp(x[1]) * v / unit**2)
        logs = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        total = 0.5 * ((x[0] - PRIOR_MEAN[0]) / PRIOR_SD[0]) ** 2
        total += 0.5 * ((x[1] - PRIOR_MEAN[1]) / PRIOR_SD[1]) ** 2
        total += 0.5 * np.sum(x[2:] ** 2) / PRIOR_SD[2] ** 2
        for i, k in enumerate(codes):
            others = logs[i].sum() - logs[i, k]
            total -= c[i] * ((1 - left[k]) * logs[i, k] + left[k] / (classes - 1) * others)
        return total

    found = minimize(loss, np.zeros(classes + 2), method="BFGS", options={"gtol": 1e-6})
    link = fit_softmax(codes, m, v, c)
    assert link.a == pytest.approx(np.exp(found.x[0]) / unit, rel=1e-4)
    assert link.c == pytest.approx(np.exp(found.x[1]) / unit**2, rel=1e-3)
    np.testing.assert_allclose(link.b, found.x[2:], atol=1e-3)


def test_first_steps_on_part_of_the_rows_change_nothing(monkeypatch):
    codes, m, v, c = moments(300)
    plain = fit_softmax(codes, m, v, c)
    monkeypatch.setattr("bayesvm.machines.classes.FIRST_ROWS", 40)
    again = fit_softmax(codes, m, v, c)
    np.testing.assert_allclose(again.b, plain.b, atol=1e-8)
    assert again.a == pytest.approx(plain.a, rel=1e-8)


def test_weights_units_and_order_of_classes():
    codes, m, v, c = moments()
    link = fit_softmax(codes, m, v, 2.0 * np.ones(codes.size))
    twice = fit_softmax(*(np.concatenate([x, x]) for x in (codes, m, v, np.ones(codes.size))))
    np.testing.assert_allclose(twice.b, link.b, atol=1e-9)
    link = fit_softmax(codes, m, v, c)
    large = fit_softmax(codes, 50.0 * m, 2500.0 * v, c)
    np.testing.assert_allclose(large.proba(50.0 * m, 2500.0 * v), link.proba(m, v), atol=1e-9)
    turn = np.array([2, 0, 3, 1])
    other = fit_softmax(np.argsort(turn)[codes], m[:, turn], v[:, turn], c)
    np.testing.assert_allclose(other.b, link.b[turn], atol=1e-9)


def test_classes_far_apart_and_classes_of_few_rows():
    codes, m, v, c = moments(shift=60.0)
    link = fit_softmax(codes, m, v, c)
    assert np.all(np.isfinite([link.a, link.c, *link.b]))
    codes, m, v, c = moments(40, 5)
    codes[codes == 2] = 0
    codes[7] = 2  # one row
    link = fit_softmax(codes, m, v, c)
    p = link.proba(m, v)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    # offsets make the probabilities' average the classes' shares, but for prior and softening
    np.testing.assert_allclose(c @ p, np.bincount(codes, c), atol=3.0)
    codes[7] = 0  # none
    assert np.all(fit_softmax(codes, m, v, c).proba(m, v)[:, 2] < 0.05)


def test_equal_moments_give_the_shares_of_classes():
    codes = np.repeat([0, 1, 2], [50, 30, 20])
    m, v = np.full((100, 3), -1.0), np.ones((100, 3))
    p = fit_softmax(codes, m, v, np.ones(100)).proba(m, v)[0]
    np.testing.assert_allclose(p, [0.5, 0.3, 0.2], atol=0.01)


def test_earlier_rows_keep_their_link():
    old = Softmax(1.7, np.array([0.4, -0.3, 0.0]), 0.2)
    codes, m, v, c = moments(20, 3)
    v = np.full_like(v, 0.5)
    link = fit_softmax(codes, m, v, c, earlier=(old, 1e6))
    f = np.random.default_rng(1).uniform(-2.0, 2.0, (50, 3))
    spread = np.full_like(f, 0.5)
    np.testing.assert_allclose(link.proba(f, spread), old.proba(f, spread), atol=0.01)
    light = fit_softmax(codes, m, v, c, earlier=(old, 1e-9))
    np.testing.assert_allclose(light.b, fit_softmax(codes, m, v, c).b, atol=1e-6)


def test_separate_links_are_normalised():
    links = [Calibrated(1.5, 0.2, 0.4), Calibrated(0.7, -0.2, 0.1), Calibrated(2.0, 0.0, 1.0)]
    _, m, v, _ = moments(classes=3)
    logits = np.stack([k.logit(m[:, j], v[:, j]) for j, k in enumerate(links)], axis=1)
    p = 1.0 / (1.0 + np.exp(-logits))
    link = Separate(links)
    np.testing.assert_allclose(link.proba(m, v), p / p.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(link.offsets, [0.2 / 1.5, -0.2 / 0.7, 0.0])


def test_odds_of_certain_classes_are_accurate():
    logs = np.array([[0.0, -1.0, -2.0], [0.0, -50.0, -60.0], [0.0, -800.0, -900.0]])
    odds = class_odds(logs)
    np.testing.assert_allclose(odds[0], logit(normalised(logs[0])), rtol=1e-12)
    np.testing.assert_allclose(odds[1], [50.0, -50.0, -60.0], rtol=1e-4)
    np.testing.assert_allclose(odds[2], [800.0, -800.0, -900.0])
    many = log_expit(np.random.default_rng(0).normal(size=(4, 5, 3)))
    np.testing.assert_allclose(class_odds(many), logit(normalised(many)), rtol=1e-9)


# ---------------------------------------------------------------------------------------------
# Kernel machines


def three_classes(n=90, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 3
    angle = 2 * np.pi * codes / 3
    X = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.6 * rng.normal(size=(n, 2))
    return X, codes


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_inducing": 20},
        {"inference": "em"},
        {"inference": Gibbs(draws=200, burn_in=50)},
        {"n_inducing": 20, "approximation": "fitc"},
    ],
)
def test_kernel_machines_have_one_link_over_classes(options):
    X, y = three_classes()
    model = BayesianSVC(tune=False, random_state=0, **options).fit(X, y)
    link, (m, v) = model.fit_.link, model._moments(X)
    assert isinstance(link, Softmax)
    np.testing.assert_allclose(model.predict_proba(X), link.proba(m, v))
    np.testing.assert_allclose(model.offset_, link.b / link.a)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, logit(model.predict_proba(X)), rtol=1e-6)
    assert np.array_equal(scores.argmax(axis=1), model.predict(X))


def test_intervals_are_those_of_the_link():
    X, y = three_classes()
    model = BayesianSVC(tune=False, random_state=0).fit(X, y)
    low, high = model.predict_interval(X[:7], level=0.8)
    p = model.predict_proba(X[:7])
    assert np.all((low <= p) & (p <= high))
    m, v = model._moments(X[:7], reported=True)
    f = m + np.sqrt(v) * np.random.default_rng(0).standard_normal((20_000, *m.shape))
    drawn = np.quantile(softmax(model.fit_.link.a * f + model.fit_.link.b, axis=-1), [0.1, 0.9], 0)
    # averaging over f moves one end further out
    assert np.all(low <= drawn[0] + 0.02)
    assert np.all(high >= drawn[1] - 0.02)
    outside = np.minimum(np.abs(low - drawn[0]), np.abs(high - drawn[1]))
    assert np.max(outside) < 0.02


@pytest.mark.parametrize("probability", ["normalised", "probit"])
def test_links_that_are_not_fitted_stay_separate(probability):
    X, y = three_classes()
    model = BayesianSVC(tune=False, probability=probability, random_state=0).fit(X, y)
    assert model.fit_.link is None


def test_rows_in_blocks_have_such_a_link(monkeypatch):
    """A thousand rows, of which the link uses all, or a part that represents all.

    There every class has a covariance of its own.
    """
    X, y = three_classes(999)
    options = {"tune": False, "inducing": X[:40], "likelihood": "soft_hinge", "random_state": 0}
    few = BayesianSVC(**options).fit(X, y).predict_proba(X)
    monkeypatch.setattr(reading, "is_large", lambda X: True)
    blocks = BayesianSVC(**options).fit(X, y)
    assert isinstance(blocks.fit_.link, Softmax)
    np.testing.assert_allclose(blocks.predict_proba(X), few, atol=0.05)
    monkeypatch.setattr("bayesvm.machines.fitting.CLASSES_ROWS", 900)
    part = BayesianSVC(**options).fit(X, y)
    np.testing.assert_allclose(part.predict_proba(X), blocks.predict_proba(X), atol=0.05)


def test_a_stream_has_the_link_of_a_fit_to_its_rows():
    X, y = three_classes(120)
    options = {"tune": False, "inducing": X[:20], "random_state": 0}
    model = BayesianSVC(**options).fit(X, y)
    stream = BayesianSVC(**options)
    for part in np.array_split(np.arange(120), 3):
        stream.partial_fit(X[part], y[part], classes=[0, 1, 2])
    # in a stream every class has a covariance of its own
    np.testing.assert_allclose(stream.predict_proba(X), model.predict_proba(X), atol=0.03)
    before = model.fit_.link
    model.partial_fit(X[:3], y[:3])
    np.testing.assert_allclose(model.fit_.link.b, before.b, atol=0.01)
    assert model.fit_.link.a == pytest.approx(before.a, rel=0.02)
    assert model.fit_.link.c == pytest.approx(before.c, rel=0.1)


@pytest.mark.parametrize(("count", "sd"), [(3, 0.5), (3, 1.5), (8, 0.7)])
def test_bands_of_classes_hold_what_they_promise(count, sd):
    rng = np.random.default_rng(0)
    m, s = rng.standard_normal((20, count)), sd * rng.uniform(0.5, 1.5, (20, count))
    drawn = class_odds(m + s * rng.standard_normal((5000, 20, count)))
    for level in (0.5, 0.9, 0.998):
        z = ndtri([0.5 - level / 2, 0.5, 0.5 + level / 2])[:, None, None]
        low, _, high = class_bands(m + s * z)
        assert level - 0.02 < np.mean((low <= drawn) & (drawn <= high)) < level + 0.03


def test_bands_of_classes_follow_their_order():
    rng = np.random.default_rng(0)
    logs, order = np.sort(3.0 * rng.standard_normal((3, 9, 5)), axis=0), [3, 0, 4, 2, 1]
    np.testing.assert_allclose(class_bands(logs[..., order]), class_bands(logs)[..., order])
    low, middle, high = class_bands(logs)
    np.testing.assert_allclose(middle, class_odds(logs[1]))
    assert np.all((low < middle) & (middle < high))


def test_bands_of_two_classes_are_exact():
    f = np.array([-3.0, 0.5, 2.0])  # of one class; the other is fixed
    logs = np.stack([np.zeros(3), f], axis=-1)[:, None]
    np.testing.assert_allclose(class_bands(logs)[:, 0, 1], f, atol=1e-12)
    far = np.array([-2000.0, 0.0, 2000.0])
    ends = class_bands(np.stack([far, far], axis=-1)[:, None])
    assert np.all(np.isfinite(ends))
