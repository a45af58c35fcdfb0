"""Columns of text as columns of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.preprocessing import OneHotEncoder

from ..core.types import Array


class Indicators(OneHotEncoder):  # type: ignore[misc]
    """An indicator for each value of a column; of an empty cell, all of them are missing.

    scikit-learn's encoder would make emptiness a value like the others.  A value that was not there
    at ``fit`` has no indicator and is none of the others.
    """

    def __init__(self, categories: Any = "auto") -> None:
        super().__init__(categories=categories, handle_unknown="ignore", sparse_output=False)

    def transform(self, X: Any) -> Array:
        """Indicators of rows."""
        out = np.array(super().transform(X.astype(object)), dtype=float)
        widths = [len(values) for values in self.categories_]
        out[np.repeat(X.isna().to_numpy(), widths, axis=1)] = np.nan
        return out
