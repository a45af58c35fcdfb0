"""Simulated problems of the benchmarks have the truths that they are scored against."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal

import grouped_scores
import rare


def test_share_of_positives():
    X, f = rare.logistic(np.random.default_rng(0), 200_000, 0.03)
    p = expit(f)
    assert abs(p.mean() - 0.03) < 4 * p.std() / np.sqrt(len(p))


@pytest.mark.parametrize("part", rare.CLUSTERS)
def test_log_odds_of_the_cluster_are_by_bayes_rule(part):
    X, y = rare.cluster(part, np.random.default_rng(0), 300, 9)
    assert y.sum() == 9
    centre, spread = rare.CLUSTERS[part]
    ones = multivariate_normal(centre, spread**2 * np.eye(5)).pdf(X)
    zeros = multivariate_normal(np.zeros(5), np.eye(5)).pdf(X)
    wanted = 0.003 * ones / (0.003 * ones + 0.997 * zeros)
    np.testing.assert_allclose(expit(rare.cluster_odds(part, X, 0.003)), wanted, atol=1e-12)


def test_expected_log_loss_is_least_at_the_truth():
    f = np.array([-2.0, 0.5])
    p, q = expit(f), np.array([0.2, 0.6])
    by_hand = np.mean([-(t * np.log(a) + (1 - t) * np.log(1 - a)) for t, a in zip(p, q)])
    assert rare.expected_log_loss(f, q) == pytest.approx(by_hand)
    assert rare.expected_log_loss(f, p) < by_hand


def test_new_groups_are_new_and_known_ones_known():
    g = grouped_scores.data("small", 0).g
    train, test = grouped_scores.division(g, "new", 0)
    assert not set(g[train]) & set(g[test])
    train, test = grouped_scores.division(g, "known", 0)
    assert set(g[test]) <= set(g[train])
    assert sorted([*train, *test]) == list(range(len(g)))
