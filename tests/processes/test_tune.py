"""Kernel parameters: gradients by central differences, and rules that find what is there."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import make_moons

from bayesvm import BayesianSVC
from bayesvm.kernels import (
    RBF,
    Linear,
    Matern,
    Polynomial,
    Scaled,
    SmoothLocal,
    White,
    with_columns,
)
from bayesvm.likelihoods import Hinge, Logistic, SoftHinge
from bayesvm.predictive.link_fitting import LogisticFamily, fit_link, score_link
from bayesvm.processes import tune as tuning
from bayesvm.processes.amplitude import FoldedAmplitude
from bayesvm.processes.evidence import (
    NATS_AT_LEAST,
    OWN_SCALES,
    SPREAD,
    Evidence,
    LogNormal,
    Search,
    ascend_evidence,
    maximise_evidence,
    parameter_prior,
    search_coarsely,
)
from bayesvm.processes.labelled import LabelledPoints
from bayesvm.processes.matrices import covariance_of
from bayesvm.processes.process import Gram, LowRank, Prior
from bayesvm.processes.site_fit import fit_sites
from bayesvm.processes.sites import Labels
from bayesvm.processes.tune import (
    SETTLED,
    Amplitude,
    Folds,
    best_amplitude,
    cross_validate,
    shorten,
    tune,
)

ARD = (0.8, 1.5)
SOFT = SoftHinge().tight
KERNELS = [
    3.0 * RBF(1.2),
    3.0 * RBF(ARD),
    2.0 * Matern(1.2, nu=0.5),
    2.0 * Matern(ARD, nu=1.5),
    2.0 * Matern(ARD, nu=2.5),
    1.0 * Linear(ARD),
    0.05 * Polynomial(2, (2.0, 3.0)),  # larger, and the quadrature of the logistic site shows
    2.0 * (RBF(1.0) + 0.5 * Linear() + White(0.1)),
    1.5 * (RBF(1.0) * Linear(2.0)),
    2.0 * SmoothLocal(RBF(ARD), 0.5 * Matern(ARD, nu=0.5)),
]
SITES = {
    "logistic": Logistic().tight,
    "tight": Hinge().tight,
    "augmented": Hinge().expected,
}


def simulated(n=30, seed=0, p=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    y = np.where(X[:, 0] ** 2 - 0.7 + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return LabelledPoints(X, (Labels(y, np.ones(n), np.arange(n), n),), 4.0, X.shape[1])


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: str(k)[:50])
@pytest.mark.parametrize("name", SITES)
def test_gradient_of_the_evidence(kernel, name, monkeypatch):
    """The envelope: at the optimum of q, the slope at fixed q is the whole slope.

    Fits are run to rounding here, so central differences of step 1e-4 are good to 1e-5; what
    remains is the quadrature of the logistic site, whose value and slopes are separate averages.
    """
    monkeypatch.setattr(
        "bayesvm.processes.evidence.fit_one",
        lambda process, labels, site, start=None, tol=0: fit_sites(
            process, labels, site, start, tol=1e-15, max_iter=400
        ),
    )
    seen = simulated(15)
    prior = parameter_prior(kernel, 2, 16.0)
    evidence = Evidence(Prior(kernel, seen.level), seen, SITES[name], prior)
    theta = kernel.theta
    _, slope = evidence(theta)
    for j in range(theta.size):
        e = np.zeros_like(theta)
        e[j] = 1e-4
        want = (evidence(theta + e)[0] - evidence(theta - e)[0]) / 2e-4
        assert slope[j] == pytest.approx(want, rel=2e-5, abs=2e-5)


def test_prior_ties_length_scales_together():
    kernel = with_columns(2.0 * RBF(1.0), 4)
    prior = parameter_prior(kernel, 4, 16.0)
    root = np.stack([prior.step(e) for e in np.eye(5)])
    cov = root @ root
    np.testing.assert_allclose(np.diag(cov)[1:], 2.0)
    np.testing.assert_allclose(cov[1, 2], 1.0)
    np.testing.assert_allclose(prior.mean[1:], np.log(2.0))
    assert prior.mean[0] == np.log(16.0)
    value, slope = prior(prior.mean)
    assert value == 0.0
    np.testing.assert_allclose(slope, 0.0)


def test_evidence_climbs():
    seen = simulated(60)
    kernel = Scaled(16.0, RBF(np.sqrt(2.0)))
    prior = parameter_prior(kernel, 2, 16.0)
    evidence = Evidence(Prior(kernel, seen.level), seen, Logistic().tight, prior)
    start = evidence(kernel.theta)[0]
    top = ascend_evidence(evidence, prior, kernel.theta, 25, Search())
    assert top.value > start
    assert np.linalg.norm(evidence(top.theta)[1]) < 0.5
    low = ascend_evidence(evidence, prior, kernel.theta, 25, Search(), early=1e9)
    assert low.value < 1e9


def test_a_climb_takes_its_shape_from_the_last():
    """In the steps that an ascent leaves behind, the curvature at the top is near one all round."""
    seen = simulated(60)
    kernel = Scaled(16.0, RBF(np.sqrt(2.0)))
    evidence = Evidence(
        Prior(kernel, seen.level), seen, Logistic().tight, parameter_prior(kernel, 2, 16.0)
    )
    top = ascend_evidence(evidence, evidence.prior, kernel.theta, 40, Search())
    root = np.stack([top.round.forward(e) for e in np.eye(2)], axis=1)
    shape, eps = root / np.sqrt(np.mean(root**2)), 0.05
    slopes = [evidence(top.theta + sign * eps * way)[1] for way in shape.T for sign in (1.0, -1.0)]
    bend = -np.array([shape.T @ (a - b) for a, b in zip(slopes[::2], slopes[1::2])]) / (2 * eps)
    values = np.linalg.eigvalsh(0.5 * (bend + bend.T))
    plain = np.stack([evidence.prior.step(e) for e in np.eye(2)], axis=1)
    assert values[0] > 0
    start = top.theta + 0.5 * plain @ np.ones(2)
    again = ascend_evidence(evidence, evidence.prior, start, 40, Search(), after=top)
    assert again.value == pytest.approx(top.value, abs=0.1)
    assert values[-1] / values[0] < 4.0


def test_a_slope_promises_what_a_climb_gains():
    """Where the score is quadratic, but for what L-BFGS has not met of its curvature."""
    H = np.array([[3.0, 1.0], [1.0, 2.0]])
    prior = LogNormal(np.zeros(2), np.array([4.0, 0.25]))

    def score(theta):
        return -0.5 * theta @ H @ theta, -H @ theta

    start = np.array([2.0, -1.0])
    top = ascend_evidence(score, prior, start, 100, Search(), small=1e-15)
    assert top.value == pytest.approx(0.0, abs=1e-6)
    value, slope = score(np.array([0.3, 0.4]))
    assert top.expected_gain(slope) == pytest.approx(-value, rel=0.1)
    seen = []

    def counted(theta):
        seen.append(theta)
        return score(theta)

    ended = ascend_evidence(counted, prior, start, 100, Search(), early=30.0, after=top)
    assert len(seen) == 1  # three times what is expected is too little
    assert ended.value == score(start)[0]
    assert ascend_evidence(counted, prior, start, 100, Search(), early=-0.1, after=top).value > -0.1


def test_a_search_by_few_points_is_not_made_again():
    seen, site = simulated(90), Logistic().roughly
    kernel = Scaled(16.0, RBF(np.sqrt(2.0)))
    begun = search_coarsely(kernel, seen, site, 16.0, Search())
    rng = np.random.default_rng(0)
    found = maximise_evidence(kernel, seen, site, 16.0, rng, begun=begun)
    assert found == begun.kernel
    again = maximise_evidence(kernel, seen, site, 16.0, rng)
    np.testing.assert_allclose(again.theta, found.theta)
    # the same points in other units: given up where it would not end clearly above
    other = replace(seen, X=seen.X * [1.0, 1e-3], extent=1.0)
    short = Scaled(16.0, RBF(1.0))
    lost = search_coarsely(short, other, site, 16.0, Search(), begun)
    assert lost.top.value < begun.top.value + NATS_AT_LEAST
    told = []
    watch = Search(lambda progress, _: told.append(progress.stage) and False)
    search_coarsely(short, other, site, 16.0, watch, begun)
    assert len(told) <= 3


def test_columns_that_bend_are_found_among_idle_ones():
    """A long common scale, best if all must share one, hides the two columns that matter."""
    rng = np.random.default_rng(0)
    moons, side = make_moons(200, noise=0.25, random_state=0)
    X = np.hstack([moons / moons.std(axis=0), rng.standard_normal((200, 4))])
    seen = LabelledPoints(
        X, (Labels(2.0 * side - 1.0, np.ones(200), np.arange(200), 200),), 9.0, X.shape[1]
    )
    kernel = Scaled(16.0, RBF(np.sqrt(6.0)))
    shared = maximise_evidence(kernel, seen, Logistic().tight, 16.0, rng)
    assert shared.kernel.length_scale > 5.0
    found = maximise_evidence(kernel, seen, Logistic().tight, 16.0, rng, per_column=True)
    scales = np.array(found.kernel.length_scale)
    assert max(scales[:2]) < 0.5 * min(scales[2:])


def test_length_scales_of_their_own_where_they_pay():
    """Only the first of six columns matters: its length scale is by far the shortest."""
    seen = simulated(200, p=6)
    rng = np.random.default_rng(0)
    kernel = Scaled(16.0, RBF(np.sqrt(6.0)))
    found = maximise_evidence(kernel, seen, Logistic().tight, 16.0, rng, per_column=True)
    scales = np.array(found.kernel.length_scale)
    assert scales.shape == (6,)
    assert scales[0] < 0.5 * scales[1:].min()
    one = maximise_evidence(kernel, seen, Logistic().tight, 16.0, rng)
    assert isinstance(one.kernel.length_scale, float)


def test_more_points_decide_where_few_do_not(monkeypatch):
    """One of 40 columns matters: 80 points show half of the evidence needed, 240 twice as much.

    The columns are not looked at one by one before.
    """
    monkeypatch.setattr("bayesvm.processes.labelled.SURPRISE", np.inf)
    monkeypatch.setattr("bayesvm.processes.evidence.FEW", 80)
    monkeypatch.setattr("bayesvm.processes.evidence.SEARCHED", 240)
    seen, kernel = simulated(240, 1, 40), Scaled(16.0, RBF(np.sqrt(40.0)))

    def found():
        rng = np.random.default_rng(0)
        return maximise_evidence(kernel, seen, Logistic().tight, 16.0, rng, per_column=True)

    scales = np.array(found().kernel.length_scale)
    assert scales[0] < 0.5 * scales[1:].min()
    monkeypatch.setattr("bayesvm.processes.evidence.HINTED", 0.75)
    assert isinstance(found().kernel.length_scale, float)


def test_columns_that_tell_classes_apart_by_themselves():
    """Found where they do, in any order of rows; among others three in a thousand."""
    rng = np.random.default_rng(5)
    n, p = 200, 50
    X, codes = rng.standard_normal((n, p)), rng.integers(0, 4, n)
    X[:, 7] += 0.8 * (codes == 2)
    X[:, 9] = np.where(codes == 1, rng.uniform(-0.5, 0.5, n), X[:, 9])
    ones = np.ones(n)
    machines = tuple(
        Labels(np.where(codes == k, 1.0, -1.0), ones, np.arange(n), n) for k in range(4)
    )
    seen = LabelledPoints(X, machines, 4.0, p)
    assert set(np.flatnonzero(seen.related())) >= {7, 9}
    assert (
        np.flatnonzero(seen.by_digits().related()).tolist() == seen.related().nonzero()[0].tolist()
    )
    wrong = 0.0
    for _ in range(40):
        mixed = rng.permutation(n)
        other = tuple(Labels(m.y[mixed], m.c, m.at, m.points) for m in machines)
        wrong += LabelledPoints(X, other, 4.0, p).related().mean() / 40
    assert wrong < 0.015
    # a row of weight two is the row twice
    twice = np.concatenate([np.arange(n), np.arange(60)])
    double = tuple(Labels(m.y[twice], np.ones(n + 60), m.at[twice], n) for m in machines)
    weights = np.where(np.arange(n) < 60, 2.0, 1.0)
    heavy = tuple(Labels(m.y, weights, m.at, n) for m in machines)
    found = [LabelledPoints(X, each, 4.0, p).related() for each in (double, heavy)]
    np.testing.assert_array_equal(*found)


def test_few_columns_that_matter_are_found_among_many(monkeypatch):
    """Two steps in 40 columns: scales that all begin short find nothing."""
    rng = np.random.default_rng(3)
    n, p = 250, 40
    X = rng.standard_normal((n, p))
    sure = np.where(X[:, 3] > 0, X[:, 3] < 1, X[:, 20] > 0.5)
    y = np.where(rng.random(n) < np.where(sure, 0.8, 0.2), 1.0, -1.0)
    seen = LabelledPoints(X, (Labels(y, np.ones(n), np.arange(n), n),), 4.0, p)
    kernel = Scaled(16.0, RBF(np.sqrt(float(p))))

    def found():
        given = kernel, seen, Logistic().tight, 16.0, np.random.default_rng(0)
        return maximise_evidence(*given, per_column=True).kernel.length_scale

    assert set(np.argsort(found())[:2]) == {3, 20}
    monkeypatch.setattr("bayesvm.processes.labelled.SURPRISE", np.inf)
    assert isinstance(found(), float)


def test_columns_that_matter_alike_share_a_length_scale():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((150, 5))
    y = np.where(X.sum(axis=1) + rng.standard_normal(150) > 0, 1.0, -1.0)
    seen = LabelledPoints(X, (Labels(y, np.ones(150), np.arange(150), 150),), 4.0, X.shape[1])
    kernel = Scaled(16.0, RBF(np.sqrt(5.0)))
    found = maximise_evidence(kernel, seen, Logistic().tight, 16.0, rng, per_column=True)
    assert isinstance(found.kernel.length_scale, float)


def test_amplitude_is_the_best_of_its_neighbourhood():
    seen = simulated(80)
    score = Amplitude(Prior(2.0 * RBF(1.0), seen.level), seen, Hinge().tight, Search())
    best = best_amplitude(score, 0.0).at
    assert score(best) <= min(score(best - 0.5), score(best + 0.5)) + 0.05
    # the score by hand
    K = covariance_of(np.exp(0.3) * RBF(1.0)(seen.X), seen.level)
    (labels,) = seen.machines
    fit = fit_sites(Gram(K), labels, Hinge().tight, tol=1e-9, max_iter=500)
    m, v = fit.left_out(labels, Hinge().tight)
    want = score_link(LogisticFamily(), labels.y, m, v, labels.c) + 0.5 * 0.3**2
    assert score(0.3) == pytest.approx(want, abs=0.05)


def test_the_amplitude_of_two_classes_is_scored_by_folds():
    seen = simulated(80)
    score = FoldedAmplitude(Prior(2.0 * RBF(1.0), seen.level), seen, SOFT, Search(), 0)
    K = covariance_of(np.exp(0.3) * RBF(1.0)(seen.X), seen.level)
    (labels,) = seen.machines
    m, v = np.empty(80), np.empty(80)
    for out in score.out.T > 0:
        kept, points = labels.take(np.flatnonzero(~out))
        fit = fit_sites(Gram(K[np.ix_(points, points)]), kept, SOFT, tol=1e-9, max_iter=500)
        at = labels.at[out]
        m[out], v[out] = fit.predictor(K[np.ix_(at, points)], np.diag(K)[at])
    want = score_link(LogisticFamily(), labels.y, m, v, labels.c) + 0.5 * 0.3**2
    assert score(0.3) == pytest.approx(want, abs=0.02)


def test_noisy_labels_of_a_rough_function_have_a_limited_amplitude_by_folds():
    rng = np.random.default_rng(3)
    X, W = rng.random((300, 2)), rng.standard_cauchy((2, 300)) / 0.2
    f = 3.0 * np.cos(X @ W + rng.uniform(0, 6.3, 300)) @ rng.standard_normal(300) / 12.2
    y = np.where(rng.random(300) < expit(f), 1.0, -1.0)
    seen = LabelledPoints(X, (Labels(y, np.ones(300), np.arange(300), 300),), 4.0, 2.0)
    given = (Prior(2.0 * RBF(0.05), seen.level), seen, SOFT, Search())
    assert best_amplitude(Amplitude(*given), 0.0).at > np.log(50.0)  # with single rows left out
    assert best_amplitude(FoldedAmplitude(*given, 0), 0.0).at < np.log(4.0)


@pytest.mark.parametrize(("n", "folded"), [(120, False), (600, True)])
def test_folds_judge_the_amplitude_of_many_rows(n, folded, monkeypatch):
    seen, asked = simulated(n), []
    for name in ("Amplitude", "FoldedAmplitude"):
        kind = getattr(tuning, name)
        monkeypatch.setattr(tuning, name, lambda *a, kind=kind: (asked.append(kind), kind(*a))[1])
    tune("evidence", Scaled(1.0, RBF(1.0)), seen, SoftHinge(), np.random.default_rng(0))
    assert set(asked) == {FoldedAmplitude if folded else Amplitude}


def test_scales_that_are_much_too_long_are_shortened():
    seen = simulated(120)
    site = Hinge().tight
    long = Scaled(16.0, RBF(6.0))

    def judged(kernel):
        return Amplitude(Prior(kernel, seen.level), seen, site, Search())

    best, score = shorten(long, judged)
    start = judged(long)
    at = np.log(best.weight)
    assert best.kernel.length_scale < 0.6 * 6.0
    assert score(at) < start(best_amplitude(start, np.log(2.0)).at) - 2.0
    # the last step, which gains too little, is made in part
    long, short = score.unit.kernel.length_scale, best.kernel.length_scale
    assert long / np.sqrt(2.0) <= short <= long


def test_scales_stay_where_rows_left_out_do_not_insist():
    seen = simulated(60)
    kernel = 16.0 * RBF(1.0)
    best, score = shorten(
        kernel, lambda k: Amplitude(Prior(k, seen.level), seen, Hinge().tight, Search())
    )
    assert best.kernel.length_scale == 1.0
    assert score(np.log(best.weight)) < score(np.log(16.0))


def test_scales_of_their_own_are_not_shortened():
    seen, asked = simulated(60), []

    def judged(kernel):
        asked.append(kernel)
        return Amplitude(Prior(kernel, seen.level), seen, Hinge().tight, Search())

    best, _ = shorten(16.0 * RBF((50.0, 50.0)), judged)
    assert len(asked) == 1
    assert np.array_equal(best.kernel.length_scale, (50.0, 50.0))


def test_folds_leave_out_every_row_once():
    seen = simulated(40)
    folds = Folds(seen, Hinge().expected, np.random.default_rng(0))
    tested = np.concatenate([test for *_, test in folds.parts])
    assert sorted(tested) == list(range(40))
    for labels, kept, points, test in folds.parts:
        assert not set(points) & set(labels.at[test])
        assert (kept.y > 0).any()
        assert (kept.y < 0).any()


def test_every_rule_beats_its_start():
    seen = simulated(100, seed=2)
    rng = np.random.default_rng(0)
    start = Scaled(4.0, RBF(np.sqrt(2.0)))
    new = simulated(400, seed=3)
    truth = new.machines[0].y

    def loss(kernel):
        fit = fit_sites(Prior(kernel, seen.level).at(seen.X), seen.machines[0], Hinge().tight)
        (labels,) = seen.machines
        link = fit_link(LogisticFamily(), labels.y, *fit.left_out(labels, Hinge().tight), labels.c)
        m, v = fit.predictor(kernel(new.X, seen.X) + seen.level, kernel.diag(new.X) + seen.level)
        return -np.mean(np.log(np.where(truth > 0, link.proba(m, v), 1 - link.proba(m, v))))

    poor = loss(Scaled(4.0, RBF(15.0)))
    for rule in ("evidence", "cv", "bound"):
        tuned = tune(rule, start, seen, Hinge(), rng, per_column=True)
        assert loss(tuned.kernel) < 0.8 * poor
    assert tune("evidence", start, seen, Logistic(), rng).kernel.weight > 1.0


def test_many_points_are_thinned_and_the_fit_still_has_a_start():
    seen = simulated(1100)
    few = seen.thinned(50, np.random.default_rng(0))
    assert few.X.shape == (50, 2)
    (labels,) = few.machines
    assert labels.points == 50
    assert labels.at.max() == 49
    assert seen.thinned(2000, np.random.default_rng(0)) is seen


def test_points_are_drawn_alike_whichever_of_two_equal_classes_is_positive():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), np.where(rng.permutation(60) < 30, 1.0, -1.0)
    drawn = [
        LabelledPoints(X, (Labels(each, np.ones(60), np.arange(60), 60),), 4.0, 2.0)
        .thinned(20, np.random.default_rng(0))
        .X
        for each in (y, -y)
    ]
    np.testing.assert_array_equal(*drawn)


def test_cross_validation_does_not_depend_on_the_order_of_calls():
    seen = simulated(60)
    kernel = Scaled(4.0, RBF(1.0))
    a, b = (
        cross_validate(kernel, seen, Hinge().expected, np.random.default_rng(5)) for _ in range(2)
    )
    assert a == b


@pytest.mark.parametrize("fitc", [False, True], ids=["variational", "fitc"])
def test_amplitude_through_points_is_that_of_columns_made_anew(fitc):
    """Columns times a root against columns of the weighted kernel; scores by explicit fits."""
    rng = np.random.default_rng(5)
    A = rng.standard_normal((60, 2))
    y = np.where(A[:, 0] + A[:, 1] ** 2 > 0.8, 1.0, -1.0)
    labels = Labels(y, np.ones(60), np.arange(60), 60)
    seen, Z = LabelledPoints(A, (labels,), 4.0, A.shape[1]), A[:9]
    unit = Scaled(1.0, RBF(0.8))
    for t in (-1.0, 0.5, 2.0):
        low = LowRank.of(Scaled(float(np.exp(t)), RBF(0.8)), Z, A, 4.0, fitc)
        fit = fit_sites(low, labels, Hinge().tight, tol=SETTLED)
        m, v = fit.left_out(labels, Hinge().tight)
        direct = score_link(LogisticFamily(), labels.y, m, v, labels.c) + 0.5 * t**2
        score = Amplitude(Prior(unit, 4.0, Z, fitc), seen, Hinge().tight, Search())
        assert score(t) == pytest.approx(direct, rel=1e-6)


def test_the_amplitude_is_judged_through_the_points_of_the_fit():
    rng = np.random.default_rng(6)
    A = rng.standard_normal((100, 2))
    labels = Labels(np.where(A.sum(axis=1) > 0, 1.0, -1.0), np.ones(100), np.arange(100), 100)
    asked = []

    def through(kernel):
        asked.append(kernel)
        return A[:20]

    seen = LabelledPoints(A, (labels,), 4.0, A.shape[1])
    found = tune("evidence", Scaled(1.0, RBF(1.0)), seen, Hinge(), rng, inducing=through)
    assert len(asked) == 1
    # length scales were settled before, but for a part of a step
    long, short = asked[0].kernel.length_scale, found.kernel.kernel.length_scale
    assert long / np.sqrt(2.0) <= short <= long
    low = LowRank.of(found.kernel, A[:20], A, 4.0, False)
    end = fit_sites(low, labels, Hinge().tight, found.sites[0])
    assert end.path[0] == pytest.approx(end.bound, abs=0.01)  # the fit to come begins at its end


def test_of_two_valleys_the_amplitude_takes_the_lower():
    """Nearest to the start is a shallow one; a step of four beyond the ridge is a deep one."""

    class Score:
        by_folds = False

        def __call__(self, t):
            return min((t + 0.7) ** 2, (t - 3.0) ** 2 - 1.0)

    found = best_amplitude(Score(), 1.0)
    assert found.at == pytest.approx(3.0, abs=0.7)
    assert found.loss == Score()(found.at)


@pytest.mark.parametrize("least", [-6.2, -0.3, 0.4, 5.0])
def test_of_one_valley_a_parabola_foretells_the_least_score(least):
    class Score:
        by_folds = True
        tried = 0

        def __call__(self, t):
            self.tried += 1
            return 7.0 + 0.3 * (t - least) ** 2

    score = Score()
    found = best_amplitude(score, 0.0)
    assert found.at == pytest.approx(least)
    assert found.loss == pytest.approx(7.0)


# ----- many columns


def test_the_prior_of_length_scales_is_the_gaussian_of_its_covariance():
    kernel = Scaled(2.0, RBF((1.0, 2.0, 4.0)))
    prior, rng = parameter_prior(kernel, 3.0, 16.0), np.random.default_rng(0)
    cov = np.diag([SPREAD**2, *[OWN_SCALES**2] * 3])
    cov[1:, 1:] += 1.0
    gap, z = rng.standard_normal((2, 4))
    value, slope = prior(prior.mean + gap)
    np.testing.assert_allclose(slope, -np.linalg.solve(cov, gap))
    assert value == pytest.approx(0.5 * gap @ slope)
    root = np.stack([prior.step(e) for e in np.eye(4)])
    np.testing.assert_allclose(root, root.T)
    np.testing.assert_allclose(root @ root, cov)
    np.testing.assert_allclose(prior.step(z), root @ z)


def test_few_rows_of_very_many_columns_build_no_matrix_of_columns(monkeypatch):
    """Separate length scales could not add the evidence that they must."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.standard_normal((40, 1500)) + y[:, None] * (np.arange(1500) < 300)

    def too_large(*shape, **how):
        assert np.prod(shape) < 1500**2
        return eye(*shape, **how)

    eye = np.eye
    monkeypatch.setattr(np, "eye", too_large)
    assert BayesianSVC(random_state=0).fit(X, y).kernel_.theta.size == 2
