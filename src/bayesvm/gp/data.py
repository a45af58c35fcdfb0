"""Training data of a Gaussian process: distinct rows, labels at points, subsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..core import arrays
from ..core.types import Array
from ..data import rows_of_all_classes
from ..kernels import squared_distances
from .sites import Labels


class Distinct(NamedTuple):
    """Distinct points, and distinct pairs of point and class with their total weights."""

    X: Array  # (points, p)
    at: Array  # (rows,) point of each merged row
    codes: Array  # (rows,) its class
    c: Array  # (rows,) its weight
    back: Array  # (n,) merged row of each row given
    unit: Array | float = 1.0  # (rows,) weight of one row, that of its class

    def weighing(self, unit: Array | float) -> Distinct:
        """With the class weights of the rows given."""
        if isinstance(unit, float):
            return self
        own = np.empty_like(self.c)
        own[self.back] = unit
        return self._replace(unit=own)

    @property
    def copies(self) -> Array:
        """How often each merged row was copied, ``(rows,)``; one where equal rows are observations.

        After a join or a bootstrap, and with weights above one, equal rows (labels included) are
        one observation that occurs several times.  New rows repeat old ones, too, if most rows
        occur once, or if columns have few values, so that at least one pair of rows would be equal
        by chance if columns were independent: then equal rows are observations of their own.
        """
        count = self.c / self.unit
        pairs, share = 0.5 * count.sum() ** 2, count / count.sum()
        for x in self.X.T:
            value = np.unique(x, return_inverse=True)[1].reshape(-1)[self.at]
            pairs *= float(np.square(np.bincount(value, share)).sum())
        once = share[count <= 1.0].sum()
        return np.maximum(count, 1.0) if once < 0.5 and pairs < 1.0 else np.ones_like(count)


def merge(X: Array, codes: Array, c: Array) -> Distinct:
    """Merge equal rows of equal class; points are sorted by their distance from the mean.

    A row of weight two and the row twice are the same data, and become the same arrays.  Another
    order, signs or units of columns leave the order of points as it is, so that folds stay the
    same; points at the same distance keep the order in which they were given.
    """
    X = np.asarray(X, dtype=float) + 0.0  # minus zero is zero
    points, first, at = np.unique(X, axis=0, return_index=True, return_inverse=True)
    gap = np.abs(points - points.mean(axis=0))
    largest = np.max(gap, axis=0, initial=0.0)
    square = np.square(gap / np.where(largest > 0.0, largest, 1.0)).sum(axis=1)
    order = np.lexsort((first, np.round(square, 9)))
    return _paired(points[order], np.argsort(order)[at.reshape(-1)], codes, c)


def merge_values(K: Array, codes: Array, c: Array) -> Distinct:
    """The same for rows known by their kernel values with each other, a symmetric matrix.

    Points are again kernel values, of the distinct rows with each other, in an order that does not
    depend on that of the rows.
    """
    K = np.asarray(K, dtype=float) + 0.0
    _, first, at = np.unique(K, axis=0, return_index=True, return_inverse=True)
    order = np.lexsort(np.sort(K[np.ix_(first, first)], axis=1).T[::-1])
    first, at = first[order], np.argsort(order)[at.reshape(-1)]
    return _paired(K[np.ix_(first, first)], at, codes, c)


def _paired(points: Array, point: Array, codes: Array, c: Array) -> Distinct:
    classes = int(codes.max()) + 1
    pairs, back = np.unique(point * classes + codes, return_inverse=True)
    weight = np.bincount(back, c, pairs.size)
    return Distinct(points, pairs // classes, pairs % classes, weight, back)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Distinct points with the labels of all machines, for the choice of a kernel."""

    X: Array  # (points, p), on the scale of the kernel
    labels: Labels
    codes: Array  # (rows,), classes from zero on
    level: float  # prior variance of the level of f
    extent: float  # squared size of the cloud of points: one a column, if they are standardised
    copies: Array | float = 1.0  # (rows,), see Distinct

    @staticmethod
    def of(points: Array, data: Distinct, level: float, extent: float) -> TrainingData:
        """Classes without rows, as a stream may have, are left out."""
        codes, copies = np.unique(data.codes, return_inverse=True)[1].reshape(-1), data.copies
        Y = np.stack(list(arrays.one_against_rest(codes, int(codes.max()) + 1)), axis=1)
        labels = Labels(Y, data.c, data.at, len(points), data.unit * copies)
        return TrainingData(points, labels, codes, level, extent, copies)

    @property
    def n(self) -> int:
        return len(self.X)

    def search_data(self) -> TrainingData:
        """Labels for the evidence of kernels: copies count once, and classes are binary digits.

        Digits of the classes' numbers, in the order of their size, tell all classes from each
        other, and are as many as the logarithm of their number.
        """
        labels, classes = self.labels, int(self.codes.max()) + 1
        Y = labels.Y
        if classes > 2:
            number = np.argsort(np.argsort(np.bincount(self.codes, labels.c), kind="stable"))
            codes = number[self.codes]
            digits = range(int(classes - 1).bit_length())
            Y = np.stack([np.where(codes >> j & 1, 1.0, -1.0) for j in digits], axis=1)
        return replace(self, labels=replace(labels, y=Y, c=labels.c / self.copies))

    def take(self, points: Array) -> TrainingData:
        """Some of the points, in their order, and the rows there."""
        keep = np.zeros(self.n, dtype=bool)
        keep[points] = True
        rows = np.flatnonzero(keep[self.labels.at])
        copies = self.copies if isinstance(self.copies, float) else self.copies[rows]
        labels, codes = self.labels.take(rows)[0], self.codes[rows]
        return replace(self, X=self.X[keep], labels=labels, codes=codes, copies=copies)

    def subset(self, most: int) -> TrainingData:
        """At most ``most`` points of all classes, the same for the same data.

        Classes in other proportions than they have change the level of the log odds and nothing
        else (Prentice & Pyke 1979), so rows keep the weights they have.
        """
        if self.n <= most:
            return self
        return self.take(rows_of_all_classes(self.point_codes, most, np.random.default_rng(0)))

    def neighbourhoods(self, most: int, size: int, reach: Array) -> TrainingData:
        """At most ``most`` points: some of all classes, and the ``size`` nearest to each of them.

        A few points of many are far apart and show nothing of how f varies between neighbours.
        ``reach`` is the unit of distance along each column.
        """
        if self.n <= most:
            return self
        rng = np.random.default_rng(0)
        centres = rows_of_all_classes(self.point_codes, most // size, rng)
        D = squared_distances(self.X[centres] / reach, self.X / reach)
        return self.take(np.argpartition(D, size - 1, axis=1)[:, :size].ravel())

    @property
    def point_codes(self) -> Array:
        """The class of each point, the rarest if it has several."""
        size = np.bincount(self.codes, self.labels.c)
        out = np.empty(self.n, dtype=int)
        order = np.argsort(-size[self.codes], kind="stable")
        out[self.labels.at[order]] = self.codes[order]
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
