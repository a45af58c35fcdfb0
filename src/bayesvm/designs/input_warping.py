"""Columns in distances: between their numbers and their ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..core import arrays
from ..core.types import Array, Columns
from .columns import Standardised

FEWEST = 11  # values, below which a column is not ranked
KNOTS = 200  # values between which the curve is straight, at most
LEAST = 0.03  # of the ranks of a column, as shares (tabular sets of up to 1,000 rows, folds 0, 1)
TINY = 1e-9
STRAIGHT = (
    0.95  # squared correlation with Gaussian ranks of numbers that stay as they are, as those
)
# of uniform and Gaussian columns do (Raetsch's sets, realisations 0 to 2; 20 tabular sets)
TAIL = 3.0  # standard deviations beyond which numbers count less and less


@dataclass(frozen=True, eq=False)
class Warped(Standardised):
    r"""Standardised columns, those of many values transformed by an increasing curve.

    .. math:: z \mapsto \frac{z}{\sqrt{1 + z^2/9}} + \Phi^{-1}(\text{rank of } z),

    brought to unit variance; ranks go from 0.03 to 0.97.  A few large numbers do not bring all
    others close together, as they do on a standardised scale, and differences still count, as they
    do not among ranks.
    """

    warps: tuple[tuple[int, Array, Array], ...] = ()  # columns, standardised values, curve there

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        rows = super().columns(X, out)
        if not self.warps:
            return rows
        bent = np.array(arrays.to_numpy(rows), dtype=float)
        for j, knots, values in self.warps:
            bent[:, j] = _follow(bent[:, j], knots, values)
        if arrays.is_numpy(rows):
            rows[:] = bent
            return rows
        rows = arrays.like(bent, rows)
        if out is not None:
            out[:, :] = rows
        return rows

    def to_input(self, Z: Array) -> Array:
        """Rows on the scale of the input from rows of these columns."""
        Z = np.array(Z[:, : self.width], dtype=float)
        for j, knots, values in self.warps:
            Z[:, j] = _back(Z[:, j], knots, values)
        return super().to_input(Z)


def _follow(z: Array, knots: Array, values: Array) -> Array:
    """The curve at z; beyond its ends it goes on as the logarithm of the distance."""
    near = np.clip(z, knots[0], knots[-1])
    out: Array = np.interp(near, knots, values) + np.arcsinh(z - near)
    return out


def _back(v: Array, knots: Array, values: Array) -> Array:
    """The z at which the curve has a value."""
    near = np.clip(v, values[0], values[-1])
    out: Array = np.interp(near, values, knots) + np.sinh(v - near)
    return out


def warped(columns: Standardised, X: Array, c: Array) -> Standardised:
    """The columns, those of many values among rows X of weights c transformed."""
    Z, found = columns.columns(X), list[tuple[int, Array, Array]]()
    alike = c.size > 0 and np.ptp(c) == 0.0  # values need not be told by row then
    for z in Z.T:
        if alike:
            values, counts = np.unique(z, return_counts=True)
            weight = c[0] * counts
        else:
            values, at = np.unique(z, return_inverse=True)
            weight = np.bincount(at.reshape(-1), c)
        curve = _curve(values, weight) if values.size >= FEWEST else (values, values)
        found.append((len(found), *curve))
    return Warped(columns.center, columns.scale, columns.far, columns.still, tuple(found))


def _curve(z: Array, c: Array) -> tuple[Array, Array]:
    """Knots among distinct values of weights c, and the curve there."""
    share = c / c.sum()
    rank = np.cumsum(share) - 0.5 * share
    if _alike(z, ndtri(np.clip(rank, TINY, 1.0 - TINY)), share) > STRAIGHT:
        return z[[0, -1]], z[[0, -1]]
    curve = z / np.sqrt(1.0 + np.square(z / TAIL)) + ndtri(LEAST + (1.0 - 2.0 * LEAST) * rank)
    curve -= share @ curve
    curve /= np.sqrt(share @ np.square(curve)) or 1.0
    low = np.arange(KNOTS // 2) * (z.size - 1) // KNOTS
    some = np.unique(np.concatenate([low, z.size - 1 - low]))  # from both ends alike
    return z[some], curve[some]


def _alike(a: Array, b: Array, share: Array) -> float:
    """Squared correlation."""
    a, b = a - share @ a, b - share @ b
    return float((share @ (a * b)) ** 2 / ((share @ a**2) * (share @ b**2) or 1.0))
