"""Predictions of an exact process from kernel values with its points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.types import Array
from .matrices import factor, invert

NEGLIGIBLE = 1e-10  # precision of a site, in units of the prior's, that changes nothing


@dataclass(frozen=True, eq=False)
class Predictor:
    """Moments of f at new rows from their kernel values with the points of an exact process."""

    alpha: Array
    w: Array  # of the points in B
    R: Array
    on: Array

    @staticmethod
    def of(K: Array, w: Array, alpha: Array) -> Predictor:
        """From the covariance at the points and the precisions of the sites."""
        on = np.flatnonzero(w * np.diag(K) > NEGLIGIBLE)
        return Predictor(alpha, w[on], invert(factor(K, w[on], on)), on)

    def __call__(self, cross: Array, diag: Array | float) -> tuple[Array, Array]:
        """From values with the points, ``(new, points)``, and of the rows with themselves."""
        T = (cross[:, self.on] * np.sqrt(self.w)) @ self.R.T
        v = diag - np.einsum("ij,ij->i", T, T)
        return cross @ self.alpha, np.maximum(v, 1e-12 * diag)
