"""Points with the labels of machines there: parts of them, and what columns tell of classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..blocks import rows_of_all_classes
from ..core.types import Array
from ..kernels import squared_distances
from .sites import Labels

BINS = 40  # ranks of a column that are told apart,
NEAR = 0.5  # distance of neighbours among them, as quantiles of a Gaussian,
SURPRISE = 3.0  # and standard deviations by which a column that matters differs from others
FEW_NEAR = 8  # neighbours up to which one is found after another


@dataclass(frozen=True, eq=False)
class LabelledPoints:
    """Distinct points, the labels of each machine at them, and the variance of the level."""

    X: Array
    machines: tuple[Labels, ...]
    level: float
    extent: float  # squared size of the cloud of points: one a column, if they are standardised
    place: Callable[[Array], Any] | None = None  # into the memory where evidence is computed

    def by_digits(self) -> LabelledPoints:
        """With a machine for each binary digit of the classes' numbers, in the order of their size.

        Together they tell all classes from each other, and are about as many as the logarithm of
        their number: the evidence of a kernel is that of the class, written as a binary number.
        """
        first, count = self.machines[0], len(self.machines)
        if count < 3:
            return self
        number = np.argsort(self._sorted_classes())
        codes = number[np.argmax([labels.y for labels in self.machines], axis=0)]
        digits = range(int(count - 1).bit_length())
        each = tuple(replace(first, y=np.where(codes >> j & 1, 1.0, -1.0)) for j in digits)
        return replace(self, machines=each)

    def _sorted_classes(self) -> Array:
        """Numbers of the machines by the weight of their class, then by where its points are."""
        sides = [(k.c * (k.y > 0), k.at) for k in self.machines]
        size = np.array([c.sum() for c, _ in sides])
        place = np.array([c @ at for c, at in sides]) / np.maximum(size, 1e-300)
        return np.lexsort([place, size])

    def thinned(self, most: int, rng: np.random.Generator) -> LabelledPoints:
        """At most so many points, drawn from every class; all of a class that has very few.

        Classes drawn in other proportions than they have change the level of the log-odds and
        nothing else of them (Prentice & Pyke 1979), so rows keep the weights they have.
        """
        some = self.some(most, rng)
        return self if some is None else self.take(some)

    def some(self, most: int, rng: np.random.Generator) -> Array | None:
        """Numbers of so many points, drawn from every class; None for all of them."""
        if self.X.shape[0] <= most:
            return None
        return rows_of_all_classes(self._classes(), most, rng)

    def take(self, points: Array) -> LabelledPoints:
        """Some of the points, in the order that they have, and their rows."""
        keep = np.zeros(self.X.shape[0], dtype=bool)
        keep[points] = True
        kept = tuple(k.take(np.flatnonzero(keep[k.at]))[0] for k in self.machines)
        return replace(self, X=self.X[keep], machines=kept)

    def neighbourhoods(
        self, most: int, size: int, reach: Array, rng: np.random.Generator
    ) -> LabelledPoints:
        """At most so many points: some drawn from every class, and the nearest to each of them.

        Few points drawn from many are far apart, and show nothing of how f varies between
        neighbours; these show it as all do.  ``reach`` is the unit of distance along each column.
        """
        if self.X.shape[0] <= most:
            return self
        return self.around(rows_of_all_classes(self._classes(), most // size, rng), size, reach)

    def around(self, centres: Array, size: int, reach: Array) -> LabelledPoints:
        """The points that are nearest to some of them."""
        A = self.X / reach
        D = squared_distances(A[centres], A)
        if size > FEW_NEAR:
            return self.take(np.argpartition(D, size - 1, axis=1)[:, :size].ravel())
        near, each = np.empty((size, len(D)), dtype=np.intp), np.arange(len(D))
        for k in range(size):
            near[k] = D.argmin(axis=1)
            D[each, near[k]] = np.inf
        return self.take(near.ravel())

    def related(self) -> Array:
        r"""Whether each column by itself tells classes apart.

        Of the ranks of a column a kernel is made, and of the classes their indicators Y.  The trace
        of Y'KY, both centred, is compared with its mean and standard deviation over all ways of
        putting the classes in another order.
        """
        first, codes = self.machines[0], self._codes()
        n, p = first.c.sum(), np.bincount(codes, first.c) / first.c.sum()
        Y = (np.eye(p.size)[codes] - p) * first.c[:, None]
        size, power = 1.0 - p @ p, np.square(np.diag(p) - np.outer(p, p)).sum()
        out = np.zeros(self.X.shape[1], dtype=bool)
        known: dict[bytes, tuple[Array, float, float]] = {}  # columns without ties have the same
        for j, x in enumerate(self.X.T):
            at = np.unique(x[first.at], return_inverse=True)[1].reshape(-1)
            share = np.bincount(at, first.c) / n
            at = np.minimum(BINS * (np.cumsum(share) - 0.5 * share), BINS - 1).astype(int)[at]
            at = (np.cumsum(np.bincount(at) > 0) - 1)[at]  # of ranks that occur
            share = np.bincount(at, first.c) / n
            if share.size < 2:
                continue
            if (key := share.tobytes()) not in known:
                place = ndtri(np.cumsum(share) - 0.5 * share)
                G = np.exp(-0.5 * np.square((place[:, None] - place) / NEAR))
                G = G - share @ G
                G -= (G @ share)[:, None]
                mean = size * (share @ np.diag(G))
                known[key] = G, mean, np.sqrt(2.0 * power * (share @ np.square(G) @ share))
            G, mean, spread = known[key]
            sums = np.stack([np.bincount(at, y, share.size) for y in Y.T], axis=1)
            out[j] = np.vdot(sums, G @ sums) / n - mean > SURPRISE * spread
        return out

    def _codes(self) -> Array:
        """The class of each row."""
        signs = np.packbits([labels.y > 0 for labels in self.machines[::-1]], axis=0)
        return np.unique(signs, axis=1, return_inverse=True)[1].reshape(-1)

    def _classes(self) -> Array:
        """The class of each point: the rarest of its rows', whatever numbers classes have."""
        first, codes = self.machines[0], self._codes()
        size, place = np.bincount(codes, first.c), np.bincount(codes, first.c * first.at)
        rank = np.argsort(np.lexsort([place, size]))
        out = np.full(first.points, rank.size)
        np.minimum.at(out, first.at, rank[codes])
        return out


def extent_of(X: Array, standardised: bool, groups: Sequence[int] | None = None) -> float:
    """Squared size of a cloud of points: the variances of its columns together.

    Indicators of the levels of one column, which are in a group, together vary as one column does;
    a constant column has no part in distances.
    """
    if standardised:
        varies = np.flatnonzero(np.ptp(X, axis=0) > 0)
        return float(len(set(varies if groups is None else np.asarray(groups)[varies])) or 1.0)
    return float(X.var(axis=0).sum() or 1.0)
