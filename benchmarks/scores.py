"""How good predictions are on rows that were not fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import brier_score_loss, log_loss

BINS = 20


def expected_calibration_error(y: np.ndarray, p: np.ndarray, bins: int = BINS) -> float:
    """Mean gap between the stated and the observed share of ones, over bins of equal counts."""
    order = np.argsort(p, kind="stable")
    parts = np.array_split(order, bins)
    return float(sum(abs(p[k].sum() - y[k].sum()) for k in parts) / y.size)


def score(model: Any, X: Any, y: np.ndarray) -> dict[str, float]:
    """Error; and log loss, Brier score and calibration of a model that gives probabilities."""
    out = {"error": float(np.mean(model.predict(X) != y))}
    if hasattr(model, "predict_proba"):
        p = model.predict_proba(X)[:, 1]
        out["log_loss"] = float(log_loss(y, p))
        out["brier"] = float(brier_score_loss(y, p))
        out["ece"] = expected_calibration_error(y, p)
    return out
