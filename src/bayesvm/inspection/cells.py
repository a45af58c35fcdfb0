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


class Imputed(NamedTuple):
    """Missing cells of the training rows, given other cells and labels, one entry per cell."""

    row: Array
    column: Array
    mean: Array
    std: Array


def impute(machines: Sequence[BinaryModel], X: Any, none: str) -> tuple[Array, Array]:
    """Mean and standard deviation of every cell of new rows.

    ``none`` is the error if no term models missing cells.
    """
    cells = np.array(inner(X), dtype=float)
    mean, std = cells.copy(), np.zeros_like(cells)
    for k, design, columns in _incomplete_terms(machines, none):
        known = ~np.isnan(cells[:, columns])
        if design.is_latent:
            each = zip(*(machine.entries(X, k) for machine in machines), strict=True)
            m, v = mixture(*map(np.stack, each))
        else:
            m, var = np.asarray(design.columns(X)), design.variances(X)
            v = np.zeros_like(m) if var is None else var
        filled = m * design.scale + design.center
        mean[:, columns] = np.where(known, cells[:, columns], filled)
        std[:, columns] = np.where(known, 0.0, np.sqrt(v) * design.scale)
    return mean, std


def imputed(machines: Sequence[BinaryModel], rows: Array | None, none: str) -> Imputed:
    """Missing cells of the training rows.

    ``rows`` are their indices in the input, unless all rows are used in order.
    """
    parts = []
    for k, design, columns in _incomplete_terms(machines, none):
        cells: Any = _learned(machines, k) if design.is_latent else design.cells
        row, column, mean, var = cells
        center, scale = design.center[column], design.scale[column]
        row = row if rows is None else rows[row]
        parts.append((row, columns[column], mean * scale + center, np.sqrt(var) * scale))
    row, column, mean, std = (np.concatenate(x) for x in zip(*parts, strict=True))
    order = np.lexsort((column, row))
    return Imputed(row[order], column[order], mean[order], std[order])


def _incomplete_terms(
    machines: Sequence[BinaryModel], none: str
) -> list[tuple[int, Missing | Filled, Array]]:
    """Index of each term that models missing cells, its design, and its numeric columns."""
    terms = [
        (k, t.design, getattr(t.design.inner, "where", np.arange(t.design.width)))
        for k, t in enumerate(machines[0].model.terms)
        if t.design.is_incomplete
    ]
    if not terms:
        raise AttributeError(none)
    return terms


def _learned(machines: Sequence[BinaryModel], k: int) -> tuple[Array, Array, Array, Array]:
    """Row, column, mean and variance of training cells, on the scale of the model."""
    each: list[list[Array]] = []
    for machine in machines:
        parts: list[Any] = [(np.empty(0, int), np.empty(0, int), np.empty(0), np.empty(0))]
        for cells in machine.ascent.state.latents[k].cells:
            row = np.repeat(cells.rows, cells.columns.shape[1])
            var = np.diagonal(cells.cov, axis1=1, axis2=2)
            parts.append((row, cells.columns.ravel(), cells.mean.ravel(), var.ravel()))
        each.append([np.concatenate(x) for x in zip(*parts, strict=True)])
    row, column = each[0][:2]
    mean, var = mixture(np.stack([e[2] for e in each]), np.stack([e[3] for e in each]))
    return row, column, mean, var
