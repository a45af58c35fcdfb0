"""Machines of falling rate: how near they come to the process, and which is taken."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayesvm.vectors import Sparse, laplace
from bayesvm.vectors.newton import largest_rate
from bayesvm.vectors.process import reference
from bayesvm.vectors.thinning import CLOSE, LENGTH, NEAR, RATIO, leave_out, thinned
from bayesvm.vectors.tune import Candidates, whole_path

from .test_process import labels_of, problem

RIDGE = 0.3


def path(with_target=True, rates=None, watch=None):
    K, y, c = problem(80)
    columns = Candidates(K, np.arange(80))
    A, gram = columns.signed(y), columns.gram(y, RIDGE)
    target = reference(K, labels_of(y, c), RIDGE) if with_target else None
    rates = rates or whole_path(largest_rate(A, y, c), RATIO, LENGTH)
    return thinned(A, y, c, gram, rates, target, *([watch] if watch else [])), A, gram, y, c


def test_the_first_that_is_close_begins():
    made, A, gram, y, c = path()
    k = made.near()
    assert k == len(made.rates) - 1  # the path ends there
    assert made.distances[k] <= CLOSE < min(made.distances[:k])
    sparse = laplace.fit(A, y, c, made.rates[k], gram)
    f, _ = sparse.moments(A[:, :-1])
    assert made.target.distance(f, c) < 1.2 * CLOSE  # tight tolerances move it little
    assert 0 < sparse.columns.size < 60


def test_vectors_are_left_out_while_f_stays_near():
    made, A, gram, y, c = path()
    begin = laplace.among(A, y, c, gram, made.x[made.near()])
    x = leave_out(A, begin, made.close_by(c))
    end = laplace.among(A, y, c, gram, x)
    assert set(end.columns) < set(begin.columns)
    assert end.columns.size <= 0.75 * begin.columns.size
    assert np.all(end.mean[:-1] > 0)
    # the paraboloid says what the machine of those that are left does
    assert_allclose(x[end.columns], end.mean[:-1], rtol=0.2)
    assert made.target.distance(end.moments(A[:, :-1])[0], c) < 1.1 * NEAR
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
        out = leave_out(A, sparse, lambda f: np.abs(f - A @ x).max() <= gap + 1e-9)
        assert_allclose(out[others], wanted, rtol=1e-9)
        assert np.count_nonzero(out) == len(others)


def test_one_vector_stays():
    made, A, gram, y, c = path()
    begin = laplace.among(A, y, c, gram, made.x[made.near()])
    assert np.count_nonzero(leave_out(A, begin, lambda f: True)[:-1]) == 1
    untouched = leave_out(A, begin, lambda f: False)
    assert_allclose(untouched[begin.columns], begin.mean[:-1])


def test_weaker_rates_come_nearer():
    rates = [2.0, 0.2, 0.02, 0.002]
    K, y, c = problem(80)
    made = [path(rates=[rate])[0].distances[0] for rate in rates]
    assert made == sorted(made, reverse=True)
    assert made[-1] < 0.3 * made[0]


def test_without_a_target_the_last_is_the_measure():
    made, A, gram, y, c = path(with_target=False)
    known, *_ = path()
    assert made.distances[-1] == 0.0
    assert made.near() < len(made.rates) - 1
    # it is as near to the process as to the last
    process = reference(problem(80)[0], labels_of(y, c), RIDGE)
    assert process.distance(made.f[made.near()], c) < 2 * NEAR
    assert abs(made.near() - known.near()) <= 2


def test_one_standard_error_leaves_out_more():
    made, A, gram, y, c = path()
    begin = laplace.among(A, y, c, gram, made.x[made.near()])
    few = leave_out(A, begin, made.within_error(y, c))
    near = leave_out(A, begin, made.close_by(c))
    assert 0 < np.count_nonzero(few[:-1]) < np.count_nonzero(near[:-1])
    assert made.within_error(y, c)(A @ few)


def test_a_rate_that_is_given_is_taken_however_far():
    made, *_ = path(rates=[8.0])
    assert made.near() == 0
    assert made.distances[0] > NEAR


def test_progress_is_told_and_a_path_may_be_stopped():
    told = []

    def watch(progress, state):
        told.append(progress)
        return len(told) == 2

    made, *_ = path(watch=watch)
    assert len(made.rates) == 2
    assert_allclose([p.change for p in told], made.distances)
    assert made.near() == pytest.approx(int(np.argmin(made.distances)))
