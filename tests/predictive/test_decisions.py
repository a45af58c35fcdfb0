"""Decisions against their definitions."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from bayesvm.predictive.decisions import Decision, read_costs, read_prevalence, reweighted

CLASSES = np.array(["a", "b", "c"])
P = np.random.default_rng(0).dirichlet(np.ones(3), size=40)
COSTS = np.array([[0.0, 1.0, 5.0], [2.0, 0.0, 1.0], [10.0, 3.0, 0.0]])


def test_the_label_of_least_expected_cost():
    found = Decision.read(COSTS, None, CLASSES).labels(P, CLASSES)
    for p, label in zip(P, found, strict=True):
        expected = [sum(p[i] * COSTS[i, j] for i in range(3)) for j in range(3)]
        assert label == CLASSES[np.argmin(expected)]
    for costs in (None, 1 - np.eye(3)):
        found = Decision.read(costs, None, CLASSES).labels(P, CLASSES)
        np.testing.assert_array_equal(found, CLASSES[P.argmax(axis=1)])


@pytest.mark.parametrize(("costs", "abstain"), [(None, 0.4), (COSTS, 1.0)])
def test_no_label_where_each_would_cost_more(costs, abstain):
    found = Decision.read(costs, abstain, CLASSES).labels(P, CLASSES)
    expected = (P @ (1 - np.eye(3) if costs is None else costs)).min(axis=1)
    np.testing.assert_array_equal(found.mask, expected > abstain)
    assert 0 < found.mask.sum() < 40
    plain = Decision.read(costs, None, CLASSES).labels(P, CLASSES)
    np.testing.assert_array_equal(found.data, plain)


def test_costs_in_a_frame_are_read_by_label():
    frame = pd.DataFrame(COSTS, CLASSES, CLASSES).loc[["c", "a", "b"], ["b", "c", "a"]]
    np.testing.assert_array_equal(read_costs(frame, CLASSES), COSTS)


def test_another_prevalence_is_bayes_rule():
    """Classes with known densities: the probabilities of the other population are known too."""
    x = np.linspace(-3, 5, 50)[:, None]
    density = norm.pdf(x, [0.0, 1.0, 2.5], [1.0, 0.7, 1.3])
    old, new = np.array([0.5, 0.3, 0.2]), np.array([0.05, 0.15, 0.8])
    before, after = (density * s / (density * s).sum(axis=1, keepdims=True) for s in (old, new))
    np.testing.assert_allclose(reweighted(before, new, 70 * old), after, rtol=1e-12)


def test_shares_by_label_or_in_order():
    by_label = read_prevalence({"c": 0.2, "a": 0.5, "b": 0.3}, CLASSES)
    np.testing.assert_array_equal(by_label, [0.5, 0.3, 0.2])
    np.testing.assert_array_equal(read_prevalence((0.5, 0.3, 0.2), CLASSES), by_label)
    series = pd.Series({"c": 0.2, "a": 0.5, "b": 0.3})  # in another order, as of value_counts()
    np.testing.assert_array_equal(read_prevalence(series, CLASSES), by_label)


@pytest.mark.parametrize(
    "call",
    [
        lambda: read_costs(np.eye(2), CLASSES),
        lambda: read_costs([[0, 1, np.nan]] * 3, CLASSES),
        lambda: read_costs("high", CLASSES),
        lambda: read_costs(pd.DataFrame(COSTS, CLASSES, ["a", "b", "x"]), CLASSES),
        lambda: read_prevalence([0.5, 0.5], CLASSES),
        lambda: read_prevalence([0.5, 0.3, 0.3], CLASSES),
        lambda: read_prevalence([0.5, 0.5, 0.0], CLASSES),
        lambda: read_prevalence({"a": 0.5, "b": 0.5}, CLASSES),
        lambda: read_prevalence(pd.Series([0.5, 0.3, 0.2]), CLASSES),
        lambda: Decision.read(None, 1.5, CLASSES),
        lambda: Decision.read(None, True, CLASSES),
        lambda: Decision.read(COSTS, -1.0, CLASSES),
        lambda: reweighted(P, np.ones(3) / 3, np.array([1.0, 0.0, 2.0])),
    ],
)
def test_refused(call):
    with pytest.raises(ValueError, match=r"costs|prevalence|abstain"):
        call()
