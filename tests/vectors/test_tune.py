"""The rate by rows held out: what is tried and what is chosen."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.papers import chen

from bayesvm.vectors import held_out, laplace
from bayesvm.vectors.tune import RATIO, Candidates, Path, Trials, whole_path


def problem(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.5 * rng.standard_normal(n) > 0.7, 1.0, -1.0)
    return chen.rbf(X, 1.2), y, np.ones(n)


def trials(n=60, of=None, watch=None):
    K, y, c = problem(n)
    of = np.arange(n) if of is None else of
    H = held_out(y, c, 4, np.random.default_rng(1))
    return Trials(Candidates(K[:, of], of), y, c, H, *([watch] if watch else []))


def test_a_path_chooses_the_largest_rate_that_is_as_good():
    path = Path([8.0, 2.0, 0.5, 0.1], [50.0, 41.2, 40.0, 40.3], [9.0, 9.0, 10.0, 9.0], [[]] * 4)
    assert path.choose(0.0) == 2
    assert path.choose(0.15) == 1
    assert path.choose(1.0) == 0
    finer = path.and_then(Path([4.0], [41.4], [9.0], [[]]))
    assert finer.choose(0.15) == 4
    assert finer.choose(0.0) == 2


def test_points_of_a_path_are_those_of_separate_fits():
    """Warm starts, working sets and loose tolerances do not move the scores."""
    t = trials()
    path = t.follow()
    assert path.rates == whole_path(t.top)[: len(path.rates)]
    k = path.choose()
    for f, x in zip(t.folds, path.points[k], strict=True):
        sparse = laplace.fit(f.A, f.y, f.c, path.rates[k])
        own = f.B[:, np.append(sparse.columns, x.size - 1)] @ sparse.mean
        assert_allclose(f.B @ x, own, atol=0.1)
    labels, m, v, c = t.held(path, k)
    assert labels.size == 60
    assert c.sum() == 60
    assert np.all(v > 0)


def test_the_finer_rate_lies_between_two_of_the_path():
    t = trials()
    path = t.follow()
    k = path.choose()
    finer = t.finer(path)
    assert finer.rates[-1] == pytest.approx(path.rates[k] / RATIO**0.5)
    assert len(finer.points) == len(path.points) + 1


def test_some_candidates_have_the_norm_of_their_own():
    of = np.arange(0, 60, 3)
    K, y, _ = problem()
    gram = Candidates(K[:, of], of).gram(y, 2.0, np.array([1, 4]))
    pair = of[[1, 4]]
    assert_allclose(gram.matrix(), 2.0 * K[np.ix_(pair, pair)] * np.outer(y[pair], y[pair]))
    assert Candidates(K, np.arange(60)).gram(y, 0.0) is None
    t = trials(of=of)
    path = t.follow()
    assert all(x.size <= of.size + 1 for x in path.points[-1])


def test_progress_is_told_and_a_path_may_be_stopped():
    told = []

    def watch(progress, state):
        told.append(progress)
        return len(told) == 2

    path = trials(watch=watch).follow()
    assert len(path.rates) == 2
    assert [p.iteration for p in told] == [1, 2]
    assert_allclose([-p.bound for p in told], path.scores)
