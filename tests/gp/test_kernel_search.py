"""The kernel search: it finds relevant columns and local parts, and does not depend on luck."""

import numpy as np
from sklearn.metrics import log_loss

from bayesvm import BayesianSVC
from bayesvm.gp.evidence import Reporter
from bayesvm.gp.inducing import choose_points, enough_points, pivots
from bayesvm.gp.kernel_search import (
    FoldLoss,
    KernelSearch,
    first_kernel,
    fold_weights,
    search_kernel,
)
from bayesvm.gp.sites import TrainingData, merge
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


def searched(X, y, length_scale, reporter=None, **options):
    first, _ = first_kernel(Scaled(1.0, RBF(length_scale)), data_of(X, y), Logistic(), QUICK)
    return search_kernel(first, data_of(X, y), Logistic(), QUICK, reporter=reporter, **options)


def test_relevant_columns_have_the_shortest_scales():
    X, y = bumpy(400, 0)
    scales = np.asarray(searched(X, y, 2.4, per_column=True).kernel.length_scale)
    assert scales.shape == (6,)
    assert scales[0] < 0.5 * scales[2:].min()


def test_the_search_depends_on_the_data_alone():
    X, y = bumpy(500, 1)
    order = np.random.default_rng(0).permutation(500)
    P = [
        BayesianSVC(tune=QUICK, random_state=seed).fit(A, b).predict_proba(X[:50])
        for seed, A, b in ((0, X, y), (1, X, y), (2, X[order], y[order]))
    ]
    np.testing.assert_allclose(P[1], P[0], atol=1e-12)
    np.testing.assert_allclose(P[2], P[0], atol=1e-6)


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

    reporter = Reporter(watch)
    searched(X, y, 2.4, reporter, per_column=True)
    assert reporter.stopped
    assert len(seen) == 3


def test_points_are_doubled_until_they_miss_little():
    X = np.random.default_rng(0).standard_normal((3000, 2))
    rng, some = np.random.default_rng(0), X[:200]
    smooth, rough = Scaled(1.0, RBF(2.0)), Scaled(1.0, RBF(0.05))
    how = (some, np.ones(200), "kmeans", rng, 3000)
    assert len(enough_points(X, smooth, *how)) == 128
    assert enough_points(X, rough, *how) is X
    assert len(enough_points(X, rough, *how, limit=1000)) == 512


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
