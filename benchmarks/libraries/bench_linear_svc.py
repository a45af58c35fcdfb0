"""scikit-learn's linear support vector machine at its defaults: no probabilities."""

from __future__ import annotations

from typing import Any

from sklearn.svm import LinearSVC

from libraries.scaled import scaled


def fit(X: Any, y: Any, seed: int) -> Any:
    return scaled(X, LinearSVC(random_state=seed)).fit(X, y)
