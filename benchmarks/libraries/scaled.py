"""The scaling that a careful user puts in front of a linear model."""

from __future__ import annotations

from typing import Any

from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler


def scaled(X: Any, model: Any) -> Any:
    """A pipeline: unit variance for dense columns, unit maximum for sparse ones."""
    return make_pipeline(MaxAbsScaler() if sparse.issparse(X) else StandardScaler(), model)
