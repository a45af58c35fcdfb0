"""The pass over rows by compiled loops, where :mod:`bayesvm.compiled` has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..compiled import loops, plain
from ..core.types import Array, Block, Coef, Stats
from ..designs.columns import Intercept, Standardised
from ..gaussian.covariances import FullCovariance, Point, RootCovariance
from ..gaussian.forms import Dense
from ..likelihoods.tight import Tight
from .passes import LEAST_REST, Pull, Slopes


class Sums(NamedTuple):
    """Sums over a block of rows; matrices that are not summed have no entries."""

    S: Array
    J: Array
    g: Array
    bound: float
    used: float  # sum of w v
    most: float  # largest v


class Room(NamedTuple):
    """Rows of a block, and arrays that loops over pieces of them write to."""

    rows: Array
    step: int  # rows of a piece
    least: float  # variance of f at every row,
    extra: Array  # and at each
    A: Array  # columns times roots of weights
    rounded: Array  # columns in the precision of products, if that is another
    T: Array  # columns times a root of the covariance
    sizes: Array
    units: Array


@dataclass(frozen=True)
class FastPass:
    """A pass for a model of dense columns and a likelihood that averages hinges.

    What does not depend on rows is arranged once, not for every block: threads that do so take
    turns.
    """

    mean: Array
    F: Array  # the covariance of theta is F F'
    few: Array  # or, of small rank, few' few
    triangular: bool
    least: float  # variance of f at every row
    average: tuple[Any, ...]  # the likelihood
    scaled: tuple[Standardised, int] | None  # a design, and how many columns of ones are before it
    kept: Any  # precision of columns
    precisions: bool  # whether S is summed,
    slopes: bool  # and J

    @staticmethod
    def of(
        model: Any, coef: Coef, held: Any, single: bool, precisions: bool, slopes: bool
    ) -> FastPass | None:
        """The pass at a distribution of theta; ``None`` where that or the model is of another kind.

        ``held`` is the precision of columns that are in memory, ``None`` if they are made of rows.
        ``single`` means that products of matrices are in float32.
        """
        fast, likelihood = loops("passes"), model.likelihood
        average = likelihood.hinge_average() if isinstance(likelihood, Tight) else None
        root, least = _root(coef.cov)
        scaled = _scaled(model) if held is None else None
        if fast is None or average is None or root is None or (held is None and scaled is None):
            return None
        K, kept = model.width, np.dtype(model.dtype if held is None else held)
        kind = np.dtype(np.float32) if single and (precisions or slopes) else kept
        few = np.zeros((0, K))
        if root.shape[1] <= fast.FEW < K:  # by dot products, four at a time
            few = np.zeros((-(-root.shape[1] // 4) * 4, K))
            few[: root.shape[1]] = root.T
            root = root[:, :0]
        triangular = root.shape[1] == K > fast.SMALL and isinstance(coef.cov, FullCovariance)
        F = np.ascontiguousarray(root, dtype=kind)
        given = (coef.mean, F, few, triangular, least, tuple(average), scaled, kept)
        return FastPass(*given, precisions, slopes)

    def stats(self, block: Block) -> Stats | None:
        found = self.sums(block)
        if found is None:
            return None
        J = Dense(found.J) if self.slopes else None
        return Stats(Dense(found.S), found.g, found.bound, J=J)

    def slopes_of(self, block: Block) -> Slopes | None:
        found = self.sums(block)
        if found is None:
            return None
        bent = (Dense(found.S), found.g) if self.precisions else (0.0, 0.0)
        return Slopes(bent[0], Dense(found.J), bent[1])

    def pull(self, block: Block) -> Pull | None:
        found = self.sums(block)
        return None if found is None else Pull(found.g, found.bound, found.used, found.most)

    def moments(self, block: Block) -> tuple[Array, Array] | None:
        """Mean and variance of f at the rows of a block."""
        room = self._room(block)
        if room is None:
            return None
        m, v = np.empty((2, len(room.rows)))
        at = (self.mean, self.F, self.few, self.triangular, room.least)
        how = (room.extra, room.step, m, v, *at, room.rounded, room.T, room.sizes, room.units)
        return (m, v) if self._visit("moments", room, how) else None

    def sums(self, block: Block) -> Sums | None:
        """Sums over a block; ``None`` if it is not plain, or has entries of unusual size."""
        room = self._room(block)
        if room is None:
            return None
        K, kind = self.F.shape[0], self.F.dtype
        S, J = (np.zeros((K, K) if on else (0, 0)) for on in (self.precisions, self.slopes))
        g, ends, c = np.zeros(K), np.zeros(3), np.ascontiguousarray(block.c, dtype=np.float64)
        unit = np.array(np.broadcast_to(block.unit, c.shape) if self.slopes else (), dtype=float)
        part = np.empty((K, K) if self.precisions or self.slopes else (0, 0), kind)
        how = (
            *(block.y, c, unit, room.extra, room.step),
            *(self.mean, self.F, self.few, self.triangular, room.least),
            *(self.average, LEAST_REST, np.empty((5, room.step)), room.rounded, room.T, room.A),
            *(part, S, J, g, ends, room.sizes, room.units),
        )
        if not self._visit("pass", room, how):
            return None
        for M in (S, J):
            if M.size:
                loops("passes").mirrored(M)
        return Sums(S, J, g, *ends.tolist())

    def _visit(self, what: str, room: Room, how: tuple[Any, ...]) -> bool:
        """Loop over the rows; false if they have entries of unusual size."""
        fast = loops("passes")
        if self.scaled is None:
            getattr(fast, f"{what}_held")(room.rows, *how)
            return True
        design, first = self.scaled
        C = np.empty((room.step, self.F.shape[0]), self.kept)
        visit = getattr(fast, f"{what}_scaled")
        return bool(visit(room.rows, design.center, design.factor, first, C, *how) <= design.far**2)

    def _room(self, block: Block) -> Room | None:
        """Rows of a block and arrays to be written to; ``None`` if they are not plain."""
        fast, F = loops("passes"), self.F
        rows = plain(block.X if block.rows is None else block.rows.C)
        if rows is None:
            return None
        K, kind = F.shape[0], F.dtype
        step = min(max(fast.PIECE_BYTES // (K * kind.itemsize), fast.FEWEST), fast.MOST, len(rows))
        least, extra = self.least, np.empty(0) if block.rows is None else block.rows.extra
        if isinstance(extra, float):
            least, extra = least + extra, np.empty(0)
        A = np.empty((step, K), kind)
        rounded = A if self.kept != kind and not self.triangular and F.shape[1] else A[:0]
        own = F.shape[1] == K and rounded is not A
        T = A if own else np.empty((step, F.shape[1]), kind)
        sizes = np.array([K, step, F.shape[1]], dtype=np.int32)
        units = np.array([1.0, 0.0], dtype=kind)
        return Room(rows, step, float(least), extra, A, rounded, T, sizes, units)


def _root(cov: Any) -> tuple[Array | None, float]:
    """F with F F' the covariance, and a variance at every row; ``None`` for other forms."""
    if type(cov) in (FullCovariance, RootCovariance):
        return cov.root, 0.0
    if isinstance(cov, Point):
        return np.empty((cov.size, 0)), cov.eps**2
    return None, 0.0


def _scaled(model: Any) -> tuple[Standardised, int] | None:
    """The design of a model of scaled columns, and how many of ones are before them."""
    *ones, last = (term.design for term in model.terms)
    if type(last) is Standardised and all(type(design) is Intercept for design in ones):
        return last, len(ones)
    return None
