"""Prediction sets and percentiles against their definitions, and their coverage."""

import numpy as np
import pytest

from bayesvm.predictive.leave_one_out import LooMoments, LooPredictions, nonconformity

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(4), size=60)
CODES = np.array([RNG.choice(4, p=p) for p in P])
C = RNG.integers(1, 4, size=60).astype(float)
NEW = RNG.dirichlet(np.ones(4), size=25)


def kept(P, codes, c, spread=None):
    score = nonconformity(P)[np.arange(len(codes)), codes]
    return LooPredictions(codes, score, np.ones(len(codes)) if spread is None else spread, c)


def test_nonconformity_is_the_probability_of_likelier_labels():
    for p, found in zip(P, nonconformity(P), strict=True):
        for k in range(4):
            likelier = p[p > p[k]].sum()
            assert found[k] == pytest.approx(likelier if likelier else -p[k])


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.99])
@pytest.mark.parametrize("by_class", [False, True])
def test_sets_are_labels_whose_rank_among_training_rows_is_not_too_high(coverage, by_class):
    """A label is in if, with the new row among them, no smaller share has its score or a lower."""
    left_out = kept(P, CODES, C)
    inside = left_out.sets(NEW, coverage, by_class, allow_empty=True)
    scores = nonconformity(NEW)
    for i in range(len(NEW)):
        for k in range(4):
            own = k == CODES if by_class else np.ones(60, dtype=bool)
            below = C[own & (left_out.score < scores[i, k])].sum()
            assert inside[i, k] == (below < coverage * (C[own].sum() + 1))


def test_sets_need_not_be_empty():
    certain = np.tile([0.997, 0.001, 0.001, 0.001], (50, 1))
    sure = kept(certain, np.zeros(50, dtype=int), np.ones(50))
    assert not sure.sets(NEW, 0.9, False, allow_empty=True).any()
    inside = sure.sets(NEW, 0.9, False, allow_empty=False)
    np.testing.assert_array_equal(inside.sum(axis=1), 1)
    np.testing.assert_array_equal(inside.argmax(axis=1), NEW.argmax(axis=1))


def test_percentiles():
    spread = RNG.integers(0, 12, size=60) / 10
    left_out = kept(P, CODES, C, spread)
    for value in (-1.0, 0.3, 0.35, 0.0, 2.0):
        share = (C @ (spread < value) + C @ (spread <= value)) / (2 * C.sum())
        assert left_out.percentile(np.array([value]))[0] == pytest.approx(share)


def test_moments_of_machines_with_other_rows_do_not_belong_together():
    y, x = np.array([1.0, -1.0, -1.0]), np.arange(3.0)
    parts = [(np.roll(y, k), x, x, np.ones(3)) for k in range(3)]
    together = LooMoments.of(parts)
    np.testing.assert_array_equal(together.codes, [0, 1, 2])
    assert together.m.shape == (3, 3)
    assert LooMoments.of([*parts[:2], (y, x, x, np.ones(3))]) is None
    assert LooMoments.of([*parts[:2], (y[:2], x[:2], x[:2], np.ones(2))]) is None
