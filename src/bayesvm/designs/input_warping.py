"""Input warping for kernels: rank-based transformations, and indicators of discrete features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..core import arrays
from ..core.types import Array, Columns
from .columns import Standardised

SAME = 1e-4  # of the smallest gap between values: closer numbers are equal up to rounding


@dataclass(frozen=True, eq=False)
class Warped(Standardised):
    r"""Standardised columns; columns with many values are transformed by an increasing curve.

    .. math:: z \mapsto \frac{z}{\sqrt{1 + z^2/9}} + \Phi^{-1}(\text{rank of } z),

    scaled to unit variance; ranks go from 0.03 to 0.97.  Unlike standardisation, this is robust to
    outliers, which would move all other values close together.  Unlike ranks, it preserves
    differences.

    For columns with few values, an indicator for each value is appended: two values
    :math:`a \ne b` then have the squared distance :math:`(a - b)^2/s^2 + 2`.  The constant suits
    numbers that are codes (such as the bases of a gene), the square suits counts and ranks.
    """

    warps: tuple[tuple[int, Array, Array], ...] = ()  # columns, standardised values, curve there
    levels: tuple[tuple[int, Array], ...] = ()  # columns with few values, and these values

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        rows = super().columns(X, out)
        if self.warps:
            bent = np.array(arrays.to_numpy(rows), dtype=float)
            for j, knots, values in self.warps:
                # beyond its ends the curve continues logarithmically
                near = np.clip(bent[:, j], knots[0], knots[-1])
                bent[:, j] = np.interp(near, knots, values) + np.arcsinh(bent[:, j] - near)
            rows[:, :] = arrays.like(bent, rows)
        if not self.levels:
            return rows
        X, xp, parts = arrays.inner(X), arrays.of(rows), [rows]
        for j, values in self.levels:
            near = SAME * float(np.diff(values).min())
            gap = xp.abs(arrays.double(X)[:, j][:, None] - arrays.like(values, rows))
            parts.append(xp.where(gap <= near, xp.ones_like(gap), xp.zeros_like(gap)))
        return xp.concat(parts, axis=1) if xp is not np else np.concatenate(parts, axis=1)

    def to_input(self, Z: Array) -> Array:
        """Inverse transformation to the scale of the input."""
        Z = np.array(Z[:, : self.width], dtype=float)
        for j, knots, values in self.warps:
            near = np.clip(Z[:, j], values[0], values[-1])
            Z[:, j] = np.interp(near, values, knots) + np.sinh(Z[:, j] - near)
        return super().to_input(Z)

    @property
    def spans(self) -> list[tuple[int, int, int]]:
        ends = self.width + np.cumsum([0, *(values.size for _, values in self.levels)])
        first, last = ends[:-1].tolist(), ends[1:].tolist()
        return list(zip([j for j, _ in self.levels], first, last, strict=True))

    def groups(self, given: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """Groups of columns that share a length scale; indicators are grouped with their column."""
        if not self.levels:
            return given
        own = tuple(range(self.width)) if given is None else given
        return own + tuple(own[j] for j, values in self.levels for _ in values)


def warped(
    columns: Standardised, X: Array, c: Array, fewest: int = 11, straight: float = 0.95
) -> Warped:
    """Transform the columns with at least ``fewest`` distinct values in rows X of weights c.

    Columns whose squared correlation with their Gaussian ranks is above ``straight``, such as
    uniform and Gaussian columns, are not changed.
    """
    found = list[tuple[int, Array, Array]]()
    for k, z in enumerate(columns.columns(X).T):
        values, at = np.unique(z, return_inverse=True)
        weight = np.bincount(at.reshape(-1), c)
        curve = (values, values)
        if values.size >= fewest:
            share = weight / weight.sum()
            rank = np.cumsum(share) - 0.5 * share
            normal = ndtri(np.clip(rank, 1e-9, 1.0 - 1e-9))
            correlation = np.cov(values, normal, aweights=share, ddof=0)
            square = correlation[0, 1] ** 2 / (correlation[0, 0] * correlation[1, 1])
            curve = values[[0, -1]], values[[0, -1]]
            if square <= straight:
                curve = _curve(values, share, rank)
        found.append((k, *curve))
    return Warped(columns.center, columns.scale, columns.far, columns.still, tuple(found))


def _curve(
    z: Array, share: Array, rank: Array, least: float = 0.03, tail: float = 3.0, knots: int = 200
) -> tuple[Array, Array]:
    """Knots among the distinct values, and the values of the curve at the knots.

    Ranks begin at ``least``; the slope in the number falls beyond ``tail`` standard deviations.
    """
    curve = z / np.sqrt(1.0 + np.square(z / tail)) + ndtri(least + (1.0 - 2.0 * least) * rank)
    curve -= share @ curve
    curve /= np.sqrt(share @ np.square(curve)) or 1.0
    low = np.arange(knots // 2) * (z.size - 1) // knots
    some = np.unique(np.concatenate([low, z.size - 1 - low]))  # symmetric
    return z[some], curve[some]


def levelled(columns: Warped, X: Array, fewest: int = 3, most: int = 10, points: int = 4) -> Warped:
    """Append indicators of the values of columns with few values among the distinct rows X.

    These columns have ``fewest`` to ``most`` values and, without the commonest value, on average
    at least ``points`` rows per value.
    """
    found = []
    for j in range(X.shape[1]):
        values, counts = np.unique(X[:, j], return_counts=True)
        others = counts.sum() - counts.max()
        if fewest <= values.size <= most and others >= points * (values.size - 1):
            found.append((j, values))
    return replace(columns, levels=tuple(found))
