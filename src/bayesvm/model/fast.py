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
    """Sums over a block of rows; matrices that were not asked for have no entries."""

    S: Array
    J: Array
    g: Array
    bound: float
    used: float  # sum of w v
    most: float  # largest v


@dataclass(frozen=True)
class FastPass:
    """Passes for models of dense columns and a likelihood that averages hinges.

    ``None`` is returned where a block, or the distribution of theta, is of another kind.
    """

    model: Any
    single: bool = False  # products of matrices in float32

    def stats(self, block: Block, coef: Coef, squares: bool = False) -> Stats | None:
        found = self.sums(block, coef, True, squares)
        if found is None:
            return None
        J = Dense(found.J) if squares else None
        return Stats(Dense(found.S), found.g, found.bound, J=J)

    def slopes(self, block: Block, coef: Coef, bent: bool) -> Slopes | None:
        found = self.sums(block, coef, bent, True)
        if found is None:
            return None
        return Slopes(Dense(found.S) if bent else 0.0, Dense(found.J), found.g)

    def pull(self, block: Block, coef: Coef) -> Pull | None:
        found = self.sums(block, coef, False, False)
        return None if found is None else Pull(found.g, found.bound, found.used, found.most)

    def sums(self, block: Block, coef: Coef, precisions: bool, slopes: bool) -> Sums | None:
        """Sums of precisions, of squared slopes, of both or of neither."""
        fast, likelihood = loops("passes"), self.model.likelihood
        average = likelihood.hinge_average() if isinstance(likelihood, Tight) else None
        root, least = _root(coef.cov)
        rows = plain(block.X if block.rows is None else block.rows.C)
        if fast is None or average is None or root is None or rows is None:
            return None
        scaled = None if block.rows is not None else _scaled(self.model)
        if block.rows is None and scaled is None:
            return None
        K = self.model.width
        kept = np.dtype(self.model.dtype) if block.rows is None else rows.dtype
        # products of matrices may be in float32
        kind = np.dtype(np.float32) if self.single and (precisions or slopes) else kept
        step = min(max(fast.PIECE_BYTES // (K * kind.itemsize), fast.FEWEST), fast.MOST, len(rows))
        few = np.zeros((0, K))
        if root.shape[1] <= fast.FEW < K:  # by dot products, four at a time
            few = np.zeros((-(-root.shape[1] // 4) * 4, K))
            few[: root.shape[1]] = root.T
            root = root[:, :0]
        triangular = root.shape[1] == K > fast.SMALL and isinstance(coef.cov, FullCovariance)
        F = np.ascontiguousarray(root, dtype=kind)
        extra = np.empty(0) if block.rows is None else block.rows.extra
        if isinstance(extra, float):
            least, extra = least + extra, np.empty(0)
        empty = np.empty((step, K), kind)
        rounded = empty if kept != kind and not triangular and F.shape[1] else empty[:0]
        own = F.shape[1] == K and rounded is not empty
        T = empty if own else np.empty((step, F.shape[1]), kind)
        S, J = (np.zeros((K, K) if wanted else (0, 0)) for wanted in (precisions, slopes))
        g, ends, c = np.zeros(K), np.zeros(3), np.ascontiguousarray(block.c, dtype=np.float64)
        sizes = np.array([K, step, F.shape[1]], dtype=np.int32)
        how = (
            *(block.y, c, extra, step, coef.mean, F, few, triangular, float(least)),
            *(tuple(average), LEAST_REST, np.empty((5, step)), rounded, T, empty),
            *(np.empty((K, K), kind), S, J, g, ends, sizes, np.array([1.0, 0.0], dtype=kind)),
        )
        if scaled is None:
            fast.pass_held(rows, *how)
        else:
            design, first = scaled
            size = fast.pass_scaled(
                rows, design.center, design.factor, first, np.empty((step, K), kept), *how
            )
            if not size <= design.far**2:
                return None
        for M in (S, J):
            M += np.tril(M, -1).T
        return Sums(S, J, g, *ends.tolist())


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
