"""Simulated sets have the best errors that their descriptions promise."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.neighbors import KNeighborsClassifier

from bayesvm.datasets import simulate_chen, simulate_luts

BEST = {
    "overlap": (lambda X: X[:, 0] - 0.5 * X[:, 1], norm.cdf(-2 / np.sqrt(3))),
    "bumpy": (lambda X: abs(X[:, 0]) - abs(X[:, 1]), 2 / np.pi * np.arctan(1 / 4)),
    "relevance": (lambda X: X[:, 0], norm.cdf(-2)),
}


@pytest.mark.parametrize("name", BEST)
def test_chen_best_rule(name):
    """40,000 rows: the error of the best rule within 4.5 standard errors, the classes even."""
    rule, error = BEST[name]
    X, y, X_test, y_test = simulate_chen(name, 39_000, np.random.default_rng(1))
    assert X.shape == (39_000, 2)
    assert X_test.shape == (1000, 2)
    found = np.mean(np.sign(rule(X)) != y)
    assert abs(found - error) < 4.5 * np.sqrt(error * (1 - error) / len(y))
    assert abs(np.mean(y)) < 4.5 / np.sqrt(len(y))


def test_chen_spiral():
    """A curve, not a cloud: no line does better than a fifth, neighbours hardly err."""
    X, y, X_test, y_test = simulate_chen("spiral", 2000, np.random.default_rng(2))
    assert KNeighborsClassifier(5).fit(X, y).score(X_test, y_test) > 0.98
    angle = np.linspace(0, np.pi, 50)
    lines = np.column_stack([np.cos(angle), np.sin(angle)]) @ X_test.T
    agreement = np.abs(np.mean(np.sign(lines) == y_test, axis=1) - 0.5)
    assert agreement.max() < 0.3


def test_chen_names():
    with pytest.raises(ValueError, match="'spiral', 'overlap', 'bumpy', 'relevance'; got 'moons'"):
        simulate_chen("moons", 10, np.random.default_rng(0))


def test_luts():
    X, y, X_test, y_test = simulate_luts(50, 4, np.random.default_rng(3), 20)
    assert X.shape == (50, 4)
    assert y_test.shape == (20,)
    assert set(y) <= {-1, 1}
