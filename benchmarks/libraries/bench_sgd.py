"""scikit-learn's stochastic gradient descent on the hinge, at its defaults: no probabilities."""

from __future__ import annotations

from typing import Any

from sklearn.linear_model import SGDClassifier

from libraries.scaled import scaled


def fit(X: Any, y: Any, seed: int) -> Any:
    return scaled(X, SGDClassifier(random_state=seed)).fit(X, y)
