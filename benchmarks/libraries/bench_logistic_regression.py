"""scikit-learn's logistic regression at its defaults."""

from __future__ import annotations

from typing import Any

from sklearn.linear_model import LogisticRegression

from libraries.scaled import scaled


def fit(X: Any, y: Any, seed: int) -> Any:
    return scaled(X, LogisticRegression(random_state=seed)).fit(X, y)
