"""Machines of falling rate: how near they come to the process, and which is taken."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bayesvm.vectors import laplace
from bayesvm.vectors.newton import largest_rate
from bayesvm.vectors.process import reference
from bayesvm.vectors.thinning import LENGTH, NEAR, RATIO, thinned
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


def test_the_first_that_is_near_enough_is_taken():
    made, A, gram, y, c = path()
    k = made.near()
    assert k == len(made.rates) - 1  # the path ends there
    assert made.distances[k] <= NEAR < min(made.distances[:k])
    sparse = laplace.fit(A, y, c, made.rates[k], gram)
    f, _ = sparse.moments(A[:, :-1])
    assert made.target.distance(f, c) < 1.2 * NEAR  # tight tolerances move it little
    assert 0 < sparse.columns.size < 50


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


def test_one_standard_error_takes_a_larger_rate():
    made, _, _, y, c = path()
    k = made.within_error(y, c)
    assert k < made.near()


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
