"""Predictions of an exact process from kernel values with its points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core.arrays import double, squares, through_upper
from ..core.types import Array
from .matrices import factor, invert

NEGLIGIBLE = 1e-10  # precision of a site, in units of the prior's, that changes nothing


@dataclass(frozen=True, eq=False)
class Predictor:
    """Moments of f at new rows from their kernel values with the points of an exact process.

    With ``single`` the product that variances need is made in single precision: seven digits of the
    prior variance.
    """

    alpha: Array
    w: Array  # of the points in B
    R: Array
    on: Array
    single: bool = False

    @staticmethod
    def of(K: Array, w: Array, alpha: Array, single: bool = False) -> Predictor:
        """From the covariance at the points and the precisions of the sites."""
        on = np.flatnonzero(w * np.diag(K) > NEGLIGIBLE)
        return Predictor(alpha, w[on], invert(factor(K, w[on], on)), on, single)

    @cached_property
    def root(self) -> Array:
        """W^1/2 R', an upper triangle."""
        root = np.sqrt(self.w)[:, None] * self.R.T
        return np.ascontiguousarray(root, dtype=np.float32 if self.single else np.float64)

    def __call__(self, cross: Array, diag: Array | float) -> tuple[Array, Array]:
        """From values with the points, ``(new, points)``, and of the rows with themselves."""
        some = cross if self.on.size == cross.shape[1] else cross[:, self.on]
        F = self.root
        if isinstance(some, np.ndarray):
            some = some.astype(F.dtype, copy=False)
        v = diag - double(sum(squares(T) for _, T in through_upper(some, F)))
        return cross @ self.alpha, np.maximum(v, 1e-12 * diag)
