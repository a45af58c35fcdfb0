"""The convex machine: the process it approximates, rates, vectors removed, folds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr, ndtr
from tests.papers import chen

from bayesvm.inference.progress import Run
from bayesvm.sparse_kernel import convex
from bayesvm.sparse_kernel.convex import Process, Settings, approximate, convex_model, relax
from bayesvm.sparse_kernel.data import Journal, MergedRows, Sparse

PENALTY = 0.3
FLAT = 1e-8
DEFAULT = Settings()


def problem(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.5 * rng.standard_normal(n) > 0.7, 1.0, -1.0)
    return chen.rbf(X, 1.2), y, np.ones(n)


def merged(K, y, c, at=None, candidates=None):
    at = np.arange(y.size) if at is None else at
    candidates = np.arange(y.size) if candidates is None else candidates
    return MergedRows(K, at, c, (y > 0).astype(int), [y], candidates)


def process_of(K, y, c, at=None):
    data = merged(K, y, c, at)
    values = data.values(None)
    return Process.of(values, data, np.arange(y.size), np.arange(y.size))


def signed(K, y, penalty=PENALTY, c=None):
    A = np.column_stack([K * y, np.ones(y.size)])
    c = np.ones(y.size) if c is None else c
    return convex_model(A, y, c, penalty * np.outer(y, y) * K if penalty else None)


def fit(model):
    """Maximise, and find the weights again without the rate."""
    flat = model.with_rate(0.0)
    return approximate(flat, *relax(flat, model.maximise(np.zeros(model.t.size))[0]))


# ----- the process


@pytest.mark.parametrize("penalty", [0.05, 1.0, 20.0])
def test_the_machine_without_a_rate_is_the_mode_of_the_process(penalty):
    K, y, c = problem()
    model = signed(K, y, penalty).with_rate(1e-9)
    m, v = fit(model).moments(model.A[:, :-1])
    mode = process_of(K, y, c).mode(y, penalty, FLAT)
    assert_allclose(mode.f, m, atol=2e-3)
    assert_allclose(mode.v, v, rtol=0.02)  # a weight of zero has no spread in the machine


def test_the_slope_at_the_mode_is_zero_from_any_start():
    K, y, c = problem()
    process = process_of(K, y, c)
    for start in (None, 30.0, -30.0):
        x = None if start is None else np.full(process.A.shape[1], start)
        mode = process.mode(y, 0.1, FLAT, x)
        g = mode.model.local(mode.f).g
        level = mode.f - K @ g / 0.1  # f = K g / lambda + b
        assert_allclose(level, level.mean(), atol=1e-4)
        assert abs(g.sum()) < 1e-4


def test_rows_left_out_are_close_to_fits_without_them():
    K, y, c = problem(40)
    mode = process_of(K, y, c).mode(y, 0.5, FLAT)
    exact = []
    for i in range(40):
        rest = np.delete(np.arange(40), i)
        inside = process_of(K[np.ix_(rest, rest)], y[rest], c[rest]).mode(y[rest], 0.5, FLAT)
        exact.append(K[i, rest] @ inside.model.local(inside.f).g / 0.5 + inside.x[-1])
    assert np.abs(mode.left_out - exact).max() < 0.12
    assert np.abs(mode.left_out - exact).max() < 0.2 * np.abs(mode.left_out - mode.f).max()


def test_a_row_of_weight_two_is_the_row_twice():
    K, y, c = problem(30)
    c[4] = 2.0
    at = np.append(np.arange(30), 4)
    twice = process_of(K, y[at], np.ones(31), at).mode(y[at], PENALTY, FLAT)
    once = process_of(K, y, c).mode(y, PENALTY, FLAT)
    assert_allclose(twice.f[:30], once.f, atol=1e-5)
    assert_allclose(twice.left_out[:30], once.left_out, atol=1e-5)


def test_distances_are_in_deviations_of_the_posterior():
    """The mean of squares is one for draws; small ones are those of the probabilities."""
    K, y, c = problem()
    mode = process_of(K, y, c).mode(y, PENALTY, FLAT)
    root = np.linalg.cholesky(np.linalg.inv(mode.model.curvature(mode.h)))
    dice = np.random.default_rng(0).standard_normal((2000, root.shape[0]))
    squares = np.array([mode.distance(f) ** 2 for f in mode.f + dice @ root.T @ mode.model.A.T])
    z = (squares.mean() - 1.0) / (squares.std(ddof=1) / np.sqrt(2000))
    assert abs(z) < 4
    # expected curvature; the observed one is its mean over the labels
    phi = np.exp(-0.5 * mode.f**2) / np.sqrt(2 * np.pi)
    expected = mode._replace(h=phi**2 / (ndtr(mode.f) * ndtr(-mode.f)))
    f = mode.f + 0.02 * np.sin(np.arange(60))
    kl = sum(ndtr(s * mode.f) @ (log_ndtr(s * mode.f) - log_ndtr(s * f)) for s in (1.0, -1.0))
    assert 0.5 * expected.distance(f) ** 2 * (expected.h @ mode.v) == pytest.approx(kl, rel=0.02)


def test_the_penalty_of_the_norm():
    """From a centre far off the search arrives nearby; it can be stopped."""
    K, y, c = problem(100)
    process, told = process_of(K, y, c), []
    near = convex.choose_norm_penalty(
        process, y, 1.0, journal=Journal(Run("", {"callbacks": [told.append]}))
    )
    far = convex.choose_norm_penalty(process, y, 300.0)
    assert abs(np.log10(far / near)) < 0.75  # the prior pulls a little
    assert [p.iteration for p in told] == list(range(1, 14))
    stop = Journal(Run("", {"callbacks": [lambda p: True]}))
    assert convex.choose_norm_penalty(process, y, 7.0, journal=stop) == 7.0


# ----- few vectors


def approach(settings=DEFAULT, watch=None):
    K, y, c = problem(80)
    model, target = signed(K, y), process_of(K, y, c).mode(y, PENALTY, FLAT)
    journal = Journal(Run("", {"callbacks": [watch] if watch else []}))
    return convex.approach_process(model, target, settings, journal), model, target


def test_few_vectors_are_close_to_the_process():
    told = []
    (sparse, rate, held_out), model, target = approach(watch=told.append)
    gaps = [p.change for p in told]
    assert gaps[-1] <= 0.05 < min(gaps[:-1])  # the first that is close begins
    begin = fit(model.with_rate(rate))
    assert target.distance(begin.moments(model.A[:, :-1])[0]) < 1.2 * 0.05
    assert set(sparse.columns) < set(begin.columns)
    assert sparse.columns.size <= 0.75 * begin.columns.size
    assert np.all(sparse.mean[:-1] > 0)
    f, v = sparse.moments(model.A[:, :-1])
    assert target.distance(f) < 1.1 * 0.07
    assert_allclose(held_out[1], f + target.left_out - target.f)  # it moves as the process does
    assert np.all(held_out[2] >= v)
    (few, _, _), *_ = approach(Settings(one_standard_error=True))
    assert 0 < few.columns.size < sparse.columns.size


def test_a_rate_that_is_given_is_taken_however_far():
    made = [approach(Settings(rate=rate)) for rate in (8.0, 2.0, 0.2)]
    gaps = [target.distance(s.moments(model.A[:, :-1])[0]) for (s, *_), model, target in made]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 0.07
    assert [rate for (_, rate, _), *_ in made] == [8.0, 2.0, 0.2]


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
        out = convex.remove_vectors(A, sparse, lambda f: np.abs(f - A @ x).max() <= gap + 1e-9)
        assert_allclose(out[others], wanted, rtol=1e-9)
        assert np.count_nonzero(out) == len(others)
    assert np.count_nonzero(convex.remove_vectors(A, sparse, lambda f: True)[:-1]) == 1
    assert_allclose(convex.remove_vectors(A, sparse, lambda f: False), x)


# ----- without a norm


def chosen(settings=DEFAULT, watch=None, every=1):
    K, y, c = problem(60)
    candidates = np.arange(0, 60, every)
    A = np.column_stack([K[:, candidates] * y[candidates], np.ones(60)])
    model = convex_model(A, y, c)
    folds = merged(K, y, c, candidates=candidates).folds(4)
    journal = Journal(Run("", {"callbacks": [watch] if watch else []}))
    return convex.choose_rate(model, folds, settings, journal), model, folds


def test_the_rate_with_the_least_held_out_loss():
    told = []
    (rate, (y, m, v, c)), model, folds = chosen(watch=told.append)
    top = convex.largest_rate(model)
    rates = [2.0 ** np.floor(np.log2(top)) * 0.5**k for k in range(len(told))]
    best = int(np.argmax([p.bound for p in told]))
    assert rates[best] <= rate <= 4 * rates[best]
    assert chosen(Settings(one_standard_error=True))[0][0] >= rate
    assert c.sum() == y.size == 60
    assert np.all(v > 0)
    at = 0
    for f in folds:  # loose tolerances do not move the machines
        inside = model.of(np.append(f.keep, 60))
        part = inside.A[f.rows], model.y[f.rows], f.c
        p = convex_model(*part).with_rate(rate)
        sparse = approximate(p, p.maximise(np.zeros(p.t.size))[0])
        assert_allclose(
            m[at : at + f.out.size], sparse.moments(inside.A[f.out, :-1])[0], atol=0.1, rtol=0.05
        )
        at += f.out.size


def test_some_candidates_a_callback_that_stops_and_no_folds():
    told = []
    chosen(watch=lambda p: told.append(p) or len(told) == 2)
    assert len(told) == 2
    (_, (y, *_)), *_ = chosen(every=3)
    assert y.size == 60
    model = convex_model(np.ones((2, 2)), np.array([1.0, -1.0]), np.ones(2))
    assert convex.choose_rate(model, [], Settings()) == (1.0, None)
