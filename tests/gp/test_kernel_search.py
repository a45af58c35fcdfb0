"""The kernel search: it finds relevant columns and local parts, and does not depend on luck."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import log_loss

from bayesvm import BayesianSVC
from bayesvm.gp.evidence import maximise
from bayesvm.gp.inducing import PointCount, choose_points, inducing_points, pivots
from bayesvm.gp.kernel_search import (
    FoldLoss,
    KernelSearch,
    fold_weights,
    search_kernel,
)
from bayesvm.gp.sites import TrainingData, merge
from bayesvm.inference.progress import Monitor, silent
from bayesvm.kernels import RBF, Precomputed, Scaled
from bayesvm.likelihoods import Logistic, SoftHinge

QUICK = KernelSearch(rows=300, first_rows=150, judge_rows=200, folds=3)


def bumpy(n, seed, p=6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    f = 4.0 * np.sin(2.0 * X[:, 0]) + 2.0 * X[:, 1]
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-f))).astype(int)


def data_of(X, y):
    distinct = merge(X, y, np.ones(len(y)))
    return TrainingData.of(distinct.X, distinct, 9.0, float(X.shape[1]))


def searched(X, y, length_scale, **options):
    kernel, data = Scaled(1.0, RBF(length_scale)), data_of(X, y)
    return search_kernel(kernel, data, Logistic(), QUICK, **options)


def test_relevant_columns_have_the_shortest_scales():
    X, y = bumpy(400, 0)
    scales = np.asarray(searched(X, y, 2.4, per_column=True).kernel.length_scale)
    assert scales.shape == (6,)
    assert scales[0] < 0.5 * scales[2:].min()


@pytest.mark.parametrize("decimals", [9, 0], ids=["numbers", "grid"])
def test_the_search_depends_on_the_data_alone(decimals):
    """Points of a grid are at equal distances from their mean, in whatever order rows come."""
    X, y = bumpy(500, 1)
    X = np.round(X, decimals)
    order = np.random.default_rng(0).permutation(500)
    P = [
        BayesianSVC(tune=QUICK, random_state=seed).fit(A, b).predict_proba(X[:50])
        for seed, A, b in ((0, X, y), (1, X, y), (2, X[order], y[order]))
    ]
    np.testing.assert_allclose(P[1], P[0], atol=1e-12)
    np.testing.assert_allclose(P[2], P[0], atol=1e-6)


def curves(n, seed, p=40):
    """Hills and valleys in curves of very different levels: a small part of a large distance."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    level, size = 10.0 ** rng.uniform(0, 5, (n, 1)), rng.uniform(0.05, 0.3, (n, 1))
    place, width = rng.uniform(4, 36, (n, 1)), rng.uniform(1, 4, (n, 1))
    hill = np.exp(-0.5 * ((np.arange(p) - place) / width) ** 2)
    return level * (1.0 + (2 * y - 1)[:, None] * size * hill), y


def contrast(n, seed, p=10):
    """The larger of two columns, of ten that are nearly the same number."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 1)) + 0.05 * rng.standard_normal((n, p))
    return X, (X[:, 0] > X[:, 1]).astype(int)


@pytest.mark.parametrize(("draw", "most"), [(curves, 0.5), (contrast, 0.15)])
def test_what_a_linear_machine_separates_is_told_apart(draw, most):
    new, truth = draw(500, 1)
    model = BayesianSVC(tune=replace(QUICK, first_rows=300)).fit(*draw(300, 0))
    assert log_loss(truth, model.predict_proba(new)) < most


def test_a_smooth_function_gets_no_local_part():
    X, y = bumpy(400, 4, 2)
    assert isinstance(searched(X, y, 1.4, local=True).kernel, RBF)


def test_folds_hold_every_unit_once():
    units, codes = np.array([1.0, 4.0, 1.0, 2.5, 1.0, 1.0]), np.array([0, 0, 0, 1, 1, 1])
    out = fold_weights(units, codes, 3)
    np.testing.assert_allclose(out.sum(axis=1), units)
    assert np.all(out >= 0.0)
    assert np.all(np.abs(out[1] - 4.0 / 3.0) < 1.0)  # spread over the folds


def test_fold_loss_prefers_the_scale_of_the_truth():
    X, y = bumpy(300, 5, 2)
    loss = FoldLoss(data_of(X, y), SoftHinge().tight, 3)
    assert loss(Scaled(2.0, RBF(1.0))) < min(
        loss(Scaled(2.0, RBF(0.02))), loss(Scaled(2.0, RBF(30.0)))
    )


def test_copies_of_rows_change_predictions_little():
    X, y = bumpy(200, 6, 4)
    new, truth = bumpy(1000, 7, 4)
    plain = BayesianSVC().fit(X, y)
    twice = BayesianSVC().fit(np.vstack([X, X]), np.r_[y, y])
    heavy = BayesianSVC().fit(X, y, sample_weight=np.full(200, 2.0))
    losses = [log_loss(truth, m.predict_proba(new)) for m in (plain, twice, heavy)]
    assert max(losses[1:]) < 1.1 * losses[0]
    np.testing.assert_allclose(twice.predict_proba(new), heavy.predict_proba(new), atol=1e-6)
    covered = np.mean(twice.predict_set(new)[np.arange(1000), truth])
    assert 0.85 < covered < 0.95


def test_a_callback_ends_the_search():
    X, y = bumpy(200, 8)
    seen = []

    def watch(progress, state):
        seen.append(progress)
        return len(seen) == 3

    searched(X, y, 2.4, watch=watch, per_column=True)
    assert len(seen) == 3


def test_points_are_doubled_until_they_miss_little():
    X = np.random.default_rng(0).standard_normal((3000, 2))
    smooth, rough = Scaled(1.0, RBF(2.0)), Scaled(1.0, RBF(0.05))
    enough = PointCount(X[:200], np.ones(200), len(X))
    how = ("kmeans", "auto", X)
    inputs, rng = None, np.random.default_rng(0)
    assert len(inducing_points(*how, smooth, inputs, rng, enough)) == 128
    assert inducing_points(*how, rough, inputs, rng, enough) is X
    assert len(inducing_points(*how, rough, inputs, rng, enough._replace(limit=1000))) == 512


def test_points_do_not_depend_on_the_generator_but_for_random():
    X, kernel = np.random.default_rng(0).standard_normal((500, 2)), RBF(1.0)
    one, two = (
        choose_points(X, 20, "kmeans", kernel, np.random.default_rng(seed)) for seed in (0, 1)
    )
    np.testing.assert_array_equal(one, two)
    one, two = (
        choose_points(X, 20, "random", kernel, np.random.default_rng(seed)) for seed in (0, 1)
    )
    assert not np.array_equal(one, two)
    assert choose_points(X[:10], 20, "kmeans", kernel, np.random.default_rng(0)) is not None


def test_pivots_explain_a_kernel_of_low_rank():
    A = np.random.default_rng(0).standard_normal((40, 3))
    kernel = Precomputed(A @ A.T)
    chosen = pivots(kernel, np.arange(40.0)[:, None], 10)
    assert len(chosen) == 3


def test_every_class_of_many_is_in_a_sample():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(4), [900, 900, 4, 1])
    X = rng.standard_normal((codes.size, 2))
    up = np.bincount(data_of(X, codes).subset(200).codes)
    assert up[2:].tolist() == [4, 1]
    assert abs(up[0] - up[1]) <= 1  # the others alike


class TwoHills:
    """A start near the top of one hill, with slope 0.9, and a hill ten lower farther on."""

    def __call__(self, theta):
        near = 15.0 * np.exp(-0.5 * (theta / 0.2) ** 2)
        far = 5.0 * np.exp(-0.5 * (theta - 2.5) ** 2)
        slope = -near * theta / 0.04 - far * (theta - 2.5)
        return float((near + far)[0]) - 515.0, slope


def test_the_search_never_ends_below_its_start():
    start = np.array([-0.001])
    value, slope = TwoHills()(start)
    assert abs(slope[0]) < 1.0
    theta, most = maximise(TwoHills(), start, lambda z: z, Monitor(silent))
    assert most >= value
    assert TwoHills()(theta)[0] == pytest.approx(most, abs=1e-9)
