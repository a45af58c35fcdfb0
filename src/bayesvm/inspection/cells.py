"""Missing cells, imputed by the terms that model them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import inner
from ..core.types import Array
from ..designs import Filled, Missing
from ..predictive.fitted import BinaryModel
from ..predictive.posterior import mixture

NO_CELLS = "missing cells are modelled with missing='model' only."


class Imputed(NamedTuple):
    """Missing cells of the training rows, given other cells and labels, one entry per cell."""

    row: Array
    column: Array
    mean: Array
    std: Array


class ImputedCells:
    """Report on the missing cells of fitted models; ``none`` is the error if none are modelled."""

    def __init__(self, machines: Sequence[BinaryModel], none: str = NO_CELLS) -> None:
        self.machines = machines
        self.terms: list[tuple[int, Missing | Filled, Array]] = [
            (k, t.design, getattr(t.design.inner, "where", np.arange(t.design.width)))
            for k, t in enumerate(machines[0].model.terms)
            if t.design.is_incomplete
        ]  # index of the term, its design, and its numeric columns
        if not self.terms:
            raise AttributeError(none)

    def at(self, X: Any, unread: Sequence[int] | Array = ()) -> tuple[Array, Array]:
        """Mean and standard deviation of every cell of new rows; NaN in columns without a term."""
        cells = np.array(inner(X), dtype=float)
        mean, std = cells.copy(), np.zeros_like(cells)
        for k, design, columns in self.terms:
            known = ~np.isnan(cells[:, columns])
            if design.is_latent:
                each = zip(*(machine.entries(X, k) for machine in self.machines), strict=True)
                m, v = mixture(*map(np.stack, each))
            else:
                m, var = np.asarray(design.columns(X)), design.variances(X)
                v = np.zeros_like(m) if var is None else var
            filled = m * design.scale + design.center
            mean[:, columns] = np.where(known, cells[:, columns], filled)
            std[:, columns] = np.where(known, 0.0, np.sqrt(v) * design.scale)
        mean[:, list(unread)] = np.nan
        return mean, std

    def training(self, rows: Array | None) -> Imputed:
        """Missing cells of the training rows.

        ``rows`` are their indices in the input, unless all rows are used in order.
        """
        parts = []
        for k, design, columns in self.terms:
            cells: Any = self._learned(k) if design.is_latent else design.cells
            row, column, mean, var = cells
            center, scale = design.center[column], design.scale[column]
            sd = np.sqrt(var) * scale
            row = row if rows is None else rows[row]
            parts.append((row, columns[column], mean * scale + center, sd))
        row, column, mean, std = (np.concatenate(x) for x in zip(*parts, strict=True))
        order = np.lexsort((column, row))
        return Imputed(row[order], column[order], mean[order], std[order])

    def _learned(self, k: int) -> tuple[Array, Array, Array, Array]:
        """Row, column, mean and variance of training cells, on the scale of the model."""
        each = []
        for machine in self.machines:
            parts = [
                (
                    np.repeat(cells.rows, cells.columns.shape[1]),
                    cells.columns.ravel(),
                    cells.mean.ravel(),
                    np.diagonal(cells.cov, axis1=1, axis2=2).ravel(),
                )
                for cells in machine.state.latents[k].cells
            ]
            none = (np.empty(0, int), np.empty(0, int), np.empty(0), np.empty(0))
            each.append([np.concatenate(x) for x in zip(none, *parts, strict=True)])
        row, column = each[0][:2]
        mean, var = mixture(np.stack([e[2] for e in each]), np.stack([e[3] for e in each]))
        return row, column, mean, var
