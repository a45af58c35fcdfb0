"""The judge itself."""

import time
import warnings

import numpy as np
import pytest

from bayesvm import BayesianLinearSVC
from tests.campaign import judge


def verdict(action, **how):
    tally = judge.Tally("")
    tally.judge("case", action, **how)
    ((out, count),) = tally.counts.items()
    assert count == 1
    return out


def wrong():
    judge.require(1 > 2, "no")


def sleep():
    for _ in range(100):
        time.sleep(0.1)


CASES = {
    "a result": (lambda: None, judge.RIGHT),
    "an error on purpose": (
        lambda: BayesianLinearSVC(max_iter=-1).fit([[0.0], [1]], [0, 1]),
        judge.CLEAR,
    ),
    "an error inside numpy": (lambda: np.linalg.cholesky(-np.eye(2)), judge.UNCLEAR),
    "an error of Python": (lambda: {}["a"], judge.UNCLEAR),
    "a warning of numpy": (lambda: np.float64(1e300) * np.float64(1e300), judge.UNCLEAR),
    "a warning in words": (lambda: warnings.warn("rows are few", stacklevel=1), judge.RIGHT),
    "a bad result": (wrong, judge.WRONG),
    "no end": (sleep, judge.HANG),
}


@pytest.mark.parametrize("name", CASES)
def test_verdicts(name):
    action, expected = CASES[name]
    limit = 0.2 if expected == judge.HANG else 10
    assert verdict(action, due=None, limit=limit) == expected


def test_predictions_that_contradict_one_another_are_wrong():
    X, y = np.array([[-1.0], [-0.5], [0.5], [1.0]]), np.array([0, 0, 1, 1])
    model = BayesianLinearSVC().fit(X, y)
    judge.require_valid(model, X)
    model.predict = lambda X: 1 - y
    with pytest.raises(judge.Wrong, match="likeliest"):
        judge.require_valid(model, X)


def test_a_verdict_that_is_not_due_is_wrong():
    assert verdict(CASES["a result"][0], due=judge.CLEAR) == judge.WRONG
    assert verdict(CASES["an error on purpose"][0], due=judge.RIGHT) == judge.WRONG
