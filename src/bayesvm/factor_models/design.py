"""Design matrix of the scores of a factor model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core.distributions import LOG_2PI
from ..core.types import Array, Cells, Design
from .loadings import Drawn, FactorPrior, Loadings, project
from .observed_data import Scores, Sheet, Sums


@dataclass(frozen=True, eq=False)
class FactorScores(Design):
    r"""Latent factor scores as columns of a classifier: every entry of a row is latent.

    .. math:: x_n = A w_n + \varepsilon_n, \qquad c_n = w_n \sim N(0, I_K) .

    The cells of a row and, in training, its label are informative about its scores: with a linear
    classifier this is the discriminative factor model.  NaN cells are left out, so a row's scores
    condition on its observed cells.

    References
    ----------
    Henao, Yuan & Carin (2014), section 5.
    """

    is_latent: ClassVar[bool] = True
    can_rotate: ClassVar[bool] = True

    prior: FactorPrior  # of loadings and noise
    first: Loadings  # initial loadings

    @property
    def width(self) -> int:
        return int(self.first.mean.shape[1])

    def columns(self, X: Any, out: Array | None = None) -> Array:
        """New entries have their marginal distribution."""
        out = np.empty((X.shape[0], self.width)) if out is None else out
        out[:] = 0.0
        return out

    # ----- latent entries

    def cells(self, X: Any, C: Array) -> tuple[Cells, ...]:
        """All entries, with their moments for the initial loadings."""
        n, K = X.shape[0], self.width
        if not n:
            return ()
        scores = project(Sheet.of(X), self.first)
        return (Cells(np.arange(n), np.tile(np.arange(K), (n, 1)), scores.mean, scores.covs()),)

    def sums(self, X: Any, C: Array, count: Array, cells: tuple[Cells, ...]) -> Sums:
        cov = cells[0].cov if cells else None
        return Sheet.of(X, count).sums(Scores(C, cov))

    def pull(self, params: Loadings | Drawn, X: Any, C: Array, cells: Cells) -> tuple[Array, Array]:
        """Precision of scores given the cells of their row, and slope at the current means."""
        sheet, W = Sheet.of(X[cells.rows]), C[cells.rows]
        precision = np.eye(self.width) + params.psi * sheet.across(params.mean, params.cov)
        slope = params.psi * (sheet.X @ params.mean) - np.einsum("...jk,...k->...j", precision, W)
        return np.broadcast_to(precision, (W.shape[0], *precision.shape[-2:])), slope

    def begin(self, sums: Sums) -> Loadings:
        return self.prior.update(self.first, sums)

    def update(self, params: Loadings, sums: Sums) -> Loadings:
        return self.prior.update(params, sums)

    def bound(self, params: Loadings, sums: Sums) -> float:
        scores = -0.5 * (sums.norm + sums.rows * self.width * LOG_2PI)
        return self.prior.bound(params, sums) + scores

    def draw(self, params: Loadings | Drawn, sums: Sums, rng: np.random.Generator) -> Drawn:
        """The next draw; a chain started from a variational fit begins at its means."""
        at = Drawn.of(params) if isinstance(params, Loadings) else params
        return self.prior.draw(at, sums, rng)

    def turn(
        self, params: Drawn, theta: Array, precision: Array, rng: np.random.Generator
    ) -> tuple[Drawn, Array]:
        """Factors rotated together with their coefficients, and the rotation matrix."""
        return self.prior.turn(params, rng, theta, precision)
