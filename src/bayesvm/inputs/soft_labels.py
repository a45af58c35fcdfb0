"""Soft labels: a row with a probability of each class in place of a label."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core import arrays
from ..core.types import Array
from .labels import Training, check_weights

ROUNDING = 1e-6  # of the sum of a row's probabilities


class SoftLabels(NamedTuple):
    """Classes, and their probabilities at rows, ``(n, classes)``."""

    classes: Array
    P: Array

    @staticmethod
    def read(y: Any) -> SoftLabels | None:
        """From a table of probabilities; ``None`` if y has one column, and so holds labels.

        The columns of a data frame are the classes; those of an array are 0, 1, ...
        """
        shape = getattr(y, "shape", None)
        if shape is None and isinstance(y, list | tuple) and len(y) and np.ndim(y[0]) == 1:
            shape = (len(y), len(y[0]))
        if shape is None or len(shape) != 2 or shape[1] < 2 or not hasattr(shape[0], "__index__"):
            return None
        names = list(y.columns) if hasattr(y, "columns") else range(shape[1])
        P = np.asarray(y)
        if P.dtype.kind not in "biuf" or not np.all(np.isfinite(P)) or np.any(P < 0):
            P = np.zeros(1)
        P = P.astype(float)
        if P.ndim != 2 or np.any(np.abs(P.sum(axis=1) - 1.0) > ROUNDING):
            raise ValueError(
                f"y of shape {tuple(shape)} must hold the probability of each class in its column, "
                "numbers of at least 0 that sum to one in each row; labels go into one column. Of "
                "several labels for each row, fit one model a column: "
                "sklearn.multioutput.MultiOutputClassifier around the estimator."
            )
        if len(set(names)) < len(names):
            raise ValueError(f"columns of y are classes and must differ; got {names[:10]}.")
        if never := [name for name, p in zip(names, P.sum(axis=0), strict=True) if not p > 0]:
            raise ValueError(
                f"class {never[0]} has a probability of zero in every row of y; leave it out."
            )
        order = np.argsort(np.array(names))
        return SoftLabels(np.array(names)[order], P[:, order] / P.sum(axis=1, keepdims=True))

    @property
    def likeliest(self) -> Array:
        """The most probable class of each row."""
        return self.classes[self.P.argmax(axis=1)]

    def training(self, X: Any, sample_weight: Any, class_weight: Any) -> Training:
        """Every row once for each class that it may have, weighted by the probability of that."""
        c = check_weights(sample_weight, None, self.P[:, 0], self.classes, X)
        rows, k = np.nonzero(self.P > 0)
        X, weight = arrays.pick(X, rows), c[rows] * self.P[rows, k]
        return Training.of(X, self.classes[k], weight, class_weight)._replace(chosen=rows)
