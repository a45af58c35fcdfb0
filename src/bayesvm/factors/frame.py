"""Coordinates of scores in which their distribution given the table is a unit Gaussian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.types import Array
from .loadings import Drawn, Loadings, project
from .sheet import Sheet


@dataclass(frozen=True, eq=False)
class Frame:
    r"""Coordinates in which scores given the table have unit covariance.

    :math:`w_n = \bar w_n + L z_n/\sqrt{c_n}` with :math:`N(\bar w_n, LL^\top)` the distribution of
    the scores given the cells of the row, whose logarithm is :math:`-\frac12 \lVert z\rVert^2`.  A
    row of weight c has the coordinates of c equal rows.
    """

    mean: Array
    root: Array  # (K, K) or (n, K, K)
    c: Array

    @staticmethod
    def of(sheet: Sheet, q: Loadings | Drawn) -> Frame:
        seen = project(sheet, q)
        assert seen.cov is not None
        return Frame(seen.mean, np.linalg.cholesky(seen.cov), sheet.c)

    def scores(self, Z: Array) -> Array:
        step = Z / np.sqrt(self.c)[:, None]
        return self.mean + np.einsum("...jk,...k->...j", self.root, step)

    def pull(self, slope: Array) -> Array:
        """Gradient in Z from the gradient in the scores."""
        out = np.einsum("...jk,...j->...k", self.root, slope)
        return np.asarray(out / np.sqrt(self.c)[:, None])

    def inverse(self, W: Array) -> Array:
        step = W - self.mean
        if self.root.ndim == 2:
            Z = np.linalg.solve(self.root, step.T).T
        else:
            Z = np.linalg.solve(self.root, step[:, :, None])[:, :, 0]
        return np.asarray(Z * np.sqrt(self.c)[:, None])
