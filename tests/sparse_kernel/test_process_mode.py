"""The process behind a sparse machine: its mode, rows left out, the weight of its norm."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr, ndtr
from tests.papers import chen

from bayesvm.gp.sites import Labels
from bayesvm.inference.progress import Reporter
from bayesvm.sparse_kernel import process_mode
from bayesvm.sparse_kernel.callback import Journal
from bayesvm.sparse_kernel.pcvm_laplace import convex_model, fit, signed_columns
from bayesvm.sparse_kernel.process_mode import (
    LEVEL,
    STEP,
    ProcessMode,
    choose_norm_penalty,
    find_process_mode,
)


def problem(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.5 * rng.standard_normal(n) > 0.7, 1.0, -1.0)
    return chen.rbf(X, 1.2), y, np.ones(n)


def labels_of(y, c):
    return Labels(y, c, np.arange(y.size), y.size)


@pytest.mark.parametrize("ridge", [0.05, 1.0, 20.0])
def test_the_machine_without_a_rate_is_the_mode_of_the_process(ridge):
    K, y, c = problem()
    A = signed_columns(K, y, np.arange(60))
    sparse = fit(convex_model(A, y, c, 1e-9, ridge * np.outer(y, y) * K))
    m, v = sparse.moments(A[:, :-1])
    found = find_process_mode(K, labels_of(y, c), ridge)
    assert_allclose(found.f, m, atol=2e-3)  # the level is not quite flat
    assert_allclose(found.v, v, rtol=0.02)  # a weight of zero has no spread in the machine


def test_slope_at_the_mode_is_zero_from_any_start():
    K, y, c = problem()
    for start in (None, 30.0 * y, -30.0 * y):
        found = find_process_mode(K, labels_of(y, c), 0.1, start)
        level = found.f - K @ found.local.g / 0.1
        assert_allclose(level, level.mean(), atol=1e-6)
        assert_allclose(LEVEL * found.local.g.sum(), level.mean(), rtol=0.01)


def test_rows_left_out_are_close_to_fits_without_them():
    K, y, c = problem(40)
    found = find_process_mode(K, labels_of(y, c), 0.5)
    exact = []
    for i in range(40):
        rest = np.delete(np.arange(40), i)
        inside = find_process_mode(K[np.ix_(rest, rest)], labels_of(y[rest], c[rest]), 0.5)
        exact.append((K[i, rest] / 0.5 + LEVEL) @ inside.local.g)
    assert np.abs(found.left_out - exact).max() < 0.12
    assert np.abs(found.left_out - exact).max() < 0.2 * np.abs(found.left_out - found.f).max()


def test_a_row_of_weight_two_is_the_row_twice():
    K, y, c = problem(30)
    c[4] = 2.0
    at = np.append(np.arange(30), 4)
    twice = find_process_mode(K, Labels(y[at], np.ones(31), at, 30), 0.3)
    once = find_process_mode(K, labels_of(y, c), 0.3)
    assert_allclose(twice.f[:30], once.f, atol=1e-6)
    assert_allclose(twice.left_out[:30], once.left_out, atol=1e-6)


def test_draws_of_the_posterior_are_one_deviation_away():
    """The mean of squared distances is one; 2000 draws tell it to 4 standard errors."""
    K, y, c = problem()
    found = find_process_mode(K, labels_of(y, c), 0.3)
    prior = K / 0.3 + LEVEL
    cov = np.linalg.inv(np.linalg.inv(prior + 1e-9 * np.eye(60)) + np.diag(found.local.h))
    draws = np.random.default_rng(0).multivariate_normal(found.f, cov, 2000)
    squares = np.array([found.distance(f) ** 2 for f in draws])
    z = (squares.mean() - 1.0) / (squares.std(ddof=1) / np.sqrt(2000))
    assert abs(z) < 4
    assert found.distance(found.f) == 0.0


def test_small_distances_are_those_of_the_probabilities():
    """Half the numerator against the Kullback-Leibler distance of Bernoulli labels."""
    K, y, c = problem()
    c = c + np.arange(60) % 3
    found = find_process_mode(K, labels_of(y, c), 0.3)
    expected = found._replace(local=found.local._replace(h=_fisher(found.f)))
    f = found.f + 0.02 * np.sin(np.arange(60))
    kl = sum(
        c @ (ndtr(s * found.f) * (log_ndtr(s * found.f) - log_ndtr(s * f))) for s in (1.0, -1.0)
    )
    half = 0.5 * expected.distance(f) ** 2 * ((c * expected.local.h) @ found.v)
    assert half == pytest.approx(kl, rel=0.02)


def _fisher(f):
    """Expected curvature; the observed one is its mean over the labels."""
    phi = np.exp(-0.5 * f**2) / np.sqrt(2 * np.pi)
    return phi**2 / (ndtr(f) * ndtr(-f))


def test_a_neighbour_moves_as_the_process_does():
    K, y, c = problem()
    found = find_process_mode(K, labels_of(y, c), 0.3)
    m, v = found.leave_one_out(found.f, found.v)
    assert_allclose(m, found.left_out)
    assert np.all(v >= found.v)


# ----- the weight of the norm


class Memory(Journal):
    def __init__(self, callback):
        super().__init__(Reporter([callback], 0))
        self.held = {}

    def recall(self, key):
        return self.held.get(key, {})

    def note(self, key, **arrays):
        self.held[key] = arrays


@pytest.mark.parametrize("best", [-3, -1, 0, 2, 3])
def test_the_weight_is_the_mean_under_the_losses(best, monkeypatch):
    """Losses that are a parabola in the log weight: the mean of a Gaussian times the prior's."""

    def known(K, labels, ridge, start, bias):
        ones = np.ones(2)
        row = process_mode.at_mode(ones, ones)
        f = np.full(2, np.log(ridge))
        return ProcessMode(labels, f, ones, f, row)

    def losses(y, m, v, c):
        return np.full(2, 0.25 * (m[0] / STEP - best) ** 2)

    monkeypatch.setattr(process_mode, "find_process_mode", known)
    monkeypatch.setattr(process_mode, "leave_one_out", lambda f, v, local, c: (f, v))
    monkeypatch.setattr(process_mode, "row_losses", losses)
    got = choose_norm_penalty(np.eye(2), labels_of(np.array([1.0, -1.0]), np.ones(2)), 1.0)
    precision = (1.0, (STEP / process_mode.SPREAD) ** 2)
    assert np.log(got) / STEP == pytest.approx(precision[0] * best / sum(precision), abs=0.05)


def test_a_centre_far_off_is_left():
    K, y, c = problem(100)
    near = choose_norm_penalty(K, labels_of(y, c), 1.0)
    far = choose_norm_penalty(K, labels_of(y, c), 300.0)
    assert abs(np.log10(far / near)) < 0.75  # the prior pulls a little


def test_a_search_goes_on_from_its_notes_and_may_be_stopped():
    K, y, c = problem()
    told, again = [], []
    memory = Memory(told.append)
    labels = labels_of(y, c)
    first = choose_norm_penalty(K, labels, 1.0, journal=memory)
    memory.report = Reporter([again.append], 0)
    second = choose_norm_penalty(K, labels, 1.0, journal=memory)
    assert second == pytest.approx(first)
    assert [p.iteration for p in told] == list(range(1, len(told) + 1))
    assert again == []
    stop = Journal(Reporter([lambda p: True], 0))
    assert choose_norm_penalty(K, labels, 7.0, journal=stop) == 7.0
