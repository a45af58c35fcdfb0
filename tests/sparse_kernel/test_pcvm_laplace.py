"""The convex machine: rates, distances from the process, vectors removed, folds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayesvm.inference.progress import Reporter
from bayesvm.sparse_kernel.callback import Journal
from bayesvm.sparse_kernel.candidates import MergedRows
from bayesvm.sparse_kernel.newton import largest_rate
from bayesvm.sparse_kernel.pcvm_laplace import (
    CLOSE,
    FOLD_LENGTH,
    FOLD_RATIO,
    LENGTH,
    NEAR,
    RATIO,
    FoldSearch,
    Tried,
    convex_model,
    fit,
    follow_rates,
    rate_path,
    relax,
    remove_vectors,
    signed_columns,
)
from bayesvm.sparse_kernel.process_mode import find_process_mode
from bayesvm.sparse_kernel.sparse import Sparse

from .test_process_mode import labels_of, problem

WEIGHT = 0.3


def path(with_target=True, rates=None, watch=None):
    K, y, c = problem(80)
    A = signed_columns(K, y, np.arange(80))
    model = convex_model(A, y, c, 0.0, WEIGHT * np.outer(y, y) * K)
    labels = labels_of(y, c)
    target = find_process_mode(K, labels, WEIGHT) if with_target else None
    rates = rates or rate_path(model, None, RATIO, LENGTH)
    return follow_rates(model, labels, rates, target, *([watch] if watch else [])), model


def test_the_first_that_is_close_begins():
    made, model = path()
    k = made.nearest()
    assert k == len(made.rates) - 1  # the path ends there
    assert made.distances[k] <= CLOSE < min(made.distances[:k])
    sparse = fit(model.with_rate(made.rates[k]))
    f, _ = sparse.moments(model.A[:, :-1])
    assert made.target.distance(f) < 1.2 * CLOSE  # tight tolerances move it little
    assert 0 < sparse.columns.size < 60


def test_vectors_are_left_out_while_f_stays_near():
    made, model = path()
    begin = relax(model, made.x[made.nearest()])
    x = remove_vectors(model.A, begin, made.is_near)
    end = relax(model, x)
    assert set(end.columns) < set(begin.columns)
    assert end.columns.size <= 0.75 * begin.columns.size
    assert np.all(end.mean[:-1] > 0)
    # the paraboloid says what the machine of those that are left does
    assert_allclose(x[end.columns], end.mean[:-1], rtol=0.2)
    assert made.target.distance(end.moments(model.A[:, :-1])[0]) < 1.1 * NEAR
    # fewer than a rate alone leaves at the same distance
    alone = [s for s, d in zip(made.x, made.distances, strict=True) if d <= NEAR]
    assert end.columns.size < np.count_nonzero(alone[0][:-1])


def test_one_is_left_out_exactly_on_a_paraboloid():
    rng = np.random.default_rng(0)
    A = np.column_stack([rng.uniform(0.5, 1.5, (30, 4)), np.ones(30)])
    Q = A.T @ A + np.diag([0.1, 0.1, 0.1, 0.1, 1e-8])
    x = np.array([1.0, 0.05, 2.0, 1.5, -0.3])
    sparse = Sparse(np.arange(4), x, Q, 0.0, [], 0, True)
    for others in ([0, 2, 3, 4], [2, 3, 4], [2, 4]):
        r = Q @ x  # the paraboloid's top is at x: maximise r'x - x'Qx/2 without the rest
        wanted = np.linalg.solve(Q[np.ix_(others, others)], r[others])
        gap = np.abs(A[:, others] @ wanted - A @ x).max()
        out = remove_vectors(A, sparse, lambda f: np.abs(f - A @ x).max() <= gap + 1e-9)
        assert_allclose(out[others], wanted, rtol=1e-9)
        assert np.count_nonzero(out) == len(others)


def test_one_vector_stays():
    made, model = path()
    begin = relax(model, made.x[made.nearest()])
    assert np.count_nonzero(remove_vectors(model.A, begin, lambda f: True)[:-1]) == 1
    untouched = remove_vectors(model.A, begin, lambda f: False)
    assert_allclose(untouched[begin.columns], begin.mean[:-1])


def test_weaker_rates_come_nearer():
    rates = [2.0, 0.2, 0.02, 0.002]
    made = [path(rates=[rate])[0].distances[0] for rate in rates]
    assert made == sorted(made, reverse=True)
    assert made[-1] < 0.3 * made[0]


def test_without_a_target_the_last_is_the_measure():
    made, model = path(with_target=False)
    known, *_ = path()
    assert made.distances[-1] == 0.0
    assert made.nearest() < len(made.rates) - 1
    # it is as near to the process as to the last
    process = find_process_mode(problem(80)[0], labels_of(model.y, model.c), WEIGHT)
    assert process.distance(made.f[made.nearest()]) < 2 * NEAR
    assert abs(made.nearest() - known.nearest()) <= 2


def test_one_standard_error_leaves_out_more():
    made, model = path()
    begin = relax(model, made.x[made.nearest()])
    few = remove_vectors(model.A, begin, made.within_one_error)
    near = remove_vectors(model.A, begin, made.is_near)
    assert 0 < np.count_nonzero(few[:-1]) < np.count_nonzero(near[:-1])
    assert made.within_one_error(model.A @ few)


def test_a_rate_that_is_given_is_taken_however_far():
    made, *_ = path(rates=[8.0])
    assert made.nearest() == 0
    assert made.distances[0] > NEAR


def test_progress_is_told_and_a_path_may_be_stopped():
    told = []

    def watch(progress, state):
        told.append(progress)
        return len(told) == 2

    made, *_ = path(watch=watch)
    assert len(made.rates) == 2
    assert_allclose([p.change for p in told], made.distances)
    assert made.nearest() == pytest.approx(int(np.argmin(made.distances)))


# ----- without a norm


def search(of=None, **options):
    K, y, c = problem(60)
    rows = np.arange(60)
    of = rows if of is None else of
    data = MergedRows(K, rows, c, (y > 0).astype(int), [y], of)
    model = convex_model(signed_columns(K[:, of], y, of), y, c, 0.0)
    return FoldSearch(model, data.folds(4, np.random.default_rng(0)), **options)


def rates_of(n=60):
    K, y, c = problem(n)
    model = convex_model(signed_columns(K, y, np.arange(n)), y, c, 0.0)
    return rate_path(model, None, FOLD_RATIO, FOLD_LENGTH), largest_rate(model)


def test_rates_fall_from_the_largest_that_leaves_a_vector():
    rates, top = rates_of()
    assert top / 2 < rates[0] <= top
    assert_allclose(np.diff(np.log(rates)), np.log(FOLD_RATIO))
    assert_allclose(rate_path(None, 3.0, 0.5, 3), [6.0, 3.0, 1.5])  # around that of the last fit


def test_the_largest_rate_that_is_as_good_is_chosen():
    made, losses = search(), [50.0, 41.2, 40.0, 40.3]
    rates, errors = [8.0, 2.0, 0.5, 0.1], [9.0, 9.0, 10.0, 9.0]
    made.tried = [Tried(*one, []) for one in zip(rates, losses, errors, strict=True)]
    assert [made.choose(within).rate for within in (0.0, 0.15, 1.0)] == [0.5, 2.0, 8.0]
    made.tried.append(Tried(4.0, 41.4, 9.0, []))
    assert [made.choose(within).rate for within in (0.15, 0.0)] == [4.0, 0.5]


def test_machines_of_a_path_are_those_of_separate_fits():
    """Warm starts, working sets and loose tolerances do not move the losses."""
    made = search()
    made.follow(rates_of()[0])
    chosen = made.choose()
    for model, B, x in zip(made.models, made.columns, chosen.x, strict=True):
        sparse = fit(model.with_rate(chosen.rate))
        own = B[:, np.append(sparse.columns, x.size - 1)] @ sparse.mean
        assert_allclose(B @ x, own, atol=0.1)
    labels, m, v, c = made.held(chosen)
    assert labels.size == 60
    assert c.sum() == 60
    assert np.all(v > 0)


def test_candidates_without_weight_in_a_fold_are_left_out():
    of = np.arange(0, 60, 3)
    made = search(of=of)
    made.follow(rates_of()[0])
    sizes = [x.size for x in made.tried[-1].x]
    assert max(sizes) <= of.size + 1
    assert sum(sizes) == 3 * of.size + 4  # every candidate is held out once


def test_progress_of_folds_is_reported_and_a_path_may_be_stopped():
    told = []

    def callback(progress):
        told.append(progress)
        return len(told) == 2

    made = search(journal=Journal(Reporter([callback], 0)))
    made.follow(rates_of()[0])
    assert made.stopped
    assert [p.iteration for p in told] == [1, 2]
    assert_allclose([-p.bound for p in told], [one.loss for one in made.tried])
