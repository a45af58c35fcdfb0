"""The linear support vector machine with probabilities: Platt scaling over five folds."""

from __future__ import annotations

from typing import Any

from sklearn.calibration import CalibratedClassifierCV
from sklearn.svm import LinearSVC

from libraries.scaled import scaled


def fit(X: Any, y: Any, seed: int) -> Any:
    model = CalibratedClassifierCV(LinearSVC(random_state=seed), ensemble=False)
    return scaled(X, model).fit(X, y)
