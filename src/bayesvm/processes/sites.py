"""Labels of rows at points, Gaussian sites there, and a posterior given them.

A site is a Gaussian factor at a point, of precision *w* and potential *b*: what the likelihood of
the rows there contributes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..core import arrays
from ..core.types import Array, Local
from ..predictive.leave_one_out import effective, leave_one_out
from .matrices import squared_forms
from .predictor import Predictor

Site = Callable[[Array, Array, Array], Local]

FIRST = 2.0  # size of f before anything is known, with unit variance


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels and weights of rows, and the number of each row's point."""

    y: Array
    c: Array
    at: Array
    points: int
    one_each: bool = False  # known: row i is at point i
    unit: Array | float = 1.0  # weight of one row, that of its class: see core.types.Block

    @property
    def gone(self) -> Array:
        """What leaving one row out takes from its weight."""
        return np.minimum(self.c, self.unit)

    @property
    def effective(self) -> Array:
        """Weights by which losses are compared; see :func:`.effective`."""
        return effective(self.c, self.unit)

    def total(self, x: Array) -> Array:
        """Sums over the rows at each point."""
        if self.one_each:
            return x
        if not arrays.is_numpy(x):
            return arrays.sums_by(self.at, x[:, None], self.points)[:, 0]
        return np.bincount(self.at, x, self.points)

    def each(self, x: Array) -> Array:
        """Values at the points of the rows."""
        return x if self.one_each else x[self.at]

    def placed(self, place: Callable[[Array], Array]) -> Labels:
        """The same in another memory."""
        at = self.at
        one_each = self.one_each or np.array_equal(at, np.arange(self.points))
        unit = self.unit if isinstance(self.unit, float) else place(self.unit)
        return Labels(place(self.y), place(self.c), place(at), self.points, one_each, unit)

    def take(self, rows: Array) -> tuple[Labels, Array]:
        """Chosen rows, and the numbers of their points."""
        kept, at = np.unique(self.at[rows], return_inverse=True)
        unit = self.unit if isinstance(self.unit, float) else self.unit[rows]
        return Labels(self.y[rows], self.c[rows], at, kept.size, unit=unit), kept


class Sites(NamedTuple):
    """Precision and potential of each point's Gaussian site."""

    w: Array
    b: Array


class SiteMoments(NamedTuple):
    """Posterior of f at the points given sites."""

    m: Array
    v: Array
    alpha: Array
    R: Array  # lower, R' R is the inverse of B
    on: Any  # points that are in B
    kl: float
    solve: Callable[[Array], tuple[Array, Array]]  # alpha and m for other potentials, or columns
    times: Callable[[Array], Array] | None = (
        None  # columns by V, the covariance of what rows inform
    )
    squares: Callable[[Array], Array] | None = None  # a vector by V o V, where V is at hand
    inverse: Callable[[], Array] | None = None  # of B, computed once

    def squared_forms(self, *each: Array) -> list[float]:
        r"""Estimates of :math:`x^\top (V \circ V)\,x`; v changes by :math:`-(V \circ V)\,dw`."""
        assert self.times is not None
        return squared_forms(self.times, *each)

    def left(self, r: Array, dw: Array) -> float:
        r"""What better sites would gain, to second order.

        With the gradient r of the bound in the mean, and dw from the precisions to those that touch
        the bound, :math:`\tfrac12 r^\top V r + \tfrac14\,dw^\top (V \circ V)\,dw`: at fixed m the
        gradient in v is :math:`-\tfrac12 dw`.
        """
        assert self.times is not None
        by_mean = float(r @ self.times(r[:, None])[:, 0])
        by_spread = float(dw @ self.squares(dw)) if self.squares else self.squared_forms(dw)[0]
        return 0.5 * by_mean + 0.25 * by_spread


@dataclass(frozen=True, eq=False)
class SiteFit:
    """A posterior at the points: sites, moments, the root of B's inverse, and the bound."""

    sites: Sites
    m: Array
    v: Array
    alpha: Array
    R: Array
    on: Any
    local: Local  # likelihood contributions of the rows, each counted c times
    outside: Array | float  # part of v that no row can reduce
    bound: float
    passes: int = 0
    path: list[float] = field(default_factory=list)
    converged: bool = True
    change: float = np.inf
    left: float = 0.0  # what better sites would add to the bound, if it is known
    inverse: Callable[[], Array] | None = None  # of B, of an exact process
    coef: Array | None = None  # of whitened columns, whose mean m is, if they are known

    @property
    def predictor(self) -> Predictor:
        return Predictor(self.alpha, self.sites.w[self.on], self.R, self.on)

    def left_out(self, labels: Labels, site: Site) -> tuple[Array, Array]:
        """Moments of f at each row without that row, for fixed other sites."""
        m, v = self.m[labels.at], self.v[labels.at]
        rest = np.broadcast_to(self.outside, self.m.shape)[labels.at]
        m, v = leave_one_out(m, v - rest, self._own(labels, site(labels.y, m, v)), labels.gone)
        return m, v + rest

    def _own(self, labels: Labels, local: Local) -> Local:
        """With the precisions that rows have in the sites; ``local`` has those at its moments.

        These are equal where a fit has converged.  Before that, only what is in the posterior can
        be taken out of it: of a row of large leverage more than there is could be taken.
        """
        now = labels.total(labels.c * local.w)
        share = np.divide(self.sites.w, now, out=np.ones(now.shape), where=now > 0.0)
        return local._replace(w=local.w * share[labels.at])


def target_sites(m: Array, v: Array, labels: Labels, site: Site) -> Sites:
    """The sites that touch the bound where f has such moments at the points."""
    local = site(labels.y, labels.each(m), labels.each(v)).times(labels.c)
    w = labels.total(local.w)
    return Sites(w, labels.total(local.g) + w * m)
