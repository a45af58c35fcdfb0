"""The evidence of a kernel where classes are many."""

import numpy as np
import pytest

from bayesvm import BayesianSVC
from bayesvm.core.arrays import one_against_rest
from bayesvm.processes.labelled import LabelledPoints
from bayesvm.processes.sites import Labels

SIZES = (9, 9, 4, 20, 1, 7, 12)  # two are equal


def labelled(turn=None, sizes=SIZES, seed=0):
    """Points of classes of these sizes, whose numbers are turned."""
    rng, k = np.random.default_rng(seed), len(sizes)
    codes = rng.permutation(np.repeat(np.arange(k), sizes))
    X = rng.normal(size=(codes.size, 2)) + np.column_stack([codes, codes**2 / k])
    codes = codes if turn is None else np.asarray(turn)[codes]
    n, each = codes.size, one_against_rest(codes, k)
    machines = tuple(Labels(y, np.ones(n), np.arange(n), n) for y in each)
    return LabelledPoints(X, machines, 9.0, 2.0), codes


def test_digits_tell_all_classes_apart():
    seen, codes = labelled()
    digits = seen.by_digits()
    assert len(digits.machines) == 3
    number = sum((labels.y > 0).astype(int) << j for j, labels in enumerate(digits.machines))
    pairs = {(int(a), int(b)) for a, b in zip(codes, number)}
    assert len(pairs) == len(SIZES) == len({b for _, b in pairs})


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_machines_judge_themselves(count):
    seen, _ = labelled()
    few = LabelledPoints(seen.X, seen.machines[:count], 9.0, 2.0)
    assert few.by_digits() is few


def test_names_of_classes_do_not_matter():
    turn = np.random.default_rng(1).permutation(len(SIZES))
    one, other = labelled()[0], labelled(turn)[0]
    for a, b in zip(one.by_digits().machines, other.by_digits().machines, strict=True):
        assert np.array_equal(a.y, b.y)


def test_samples_of_digits_have_every_class():
    seen, _ = labelled(sizes=(200, 100, 3, 2, 30))
    digits = seen.by_digits().thinned(60, np.random.default_rng(0))
    number = sum((labels.y > 0).astype(int) << j for j, labels in enumerate(digits.machines))
    assert len(set(number.tolist())) == 5
    same = seen.thinned(60, np.random.default_rng(0))
    assert np.array_equal(same.X, digits.X)


def test_many_classes_have_a_machine_each():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(9), 8)
    X = rng.normal(size=(72, 2)) * 0.2 + np.column_stack([codes // 3, codes % 3])
    model = BayesianSVC(random_state=0).fit(X, codes)
    assert len(model.machines_) == 9
    assert model.score(X, codes) > 0.9
    turn = rng.permutation(9)
    other = BayesianSVC(random_state=0).fit(X, turn[codes])
    np.testing.assert_allclose(other.predict_proba(X)[:, turn], model.predict_proba(X), atol=1e-6)
