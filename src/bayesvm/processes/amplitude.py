"""The amplitude of a kernel, by predictions of rows left out in folds.

Moments with single rows left out, for fixed other sites, are optimistic where the amplitude is
large: the sites of neighbours would follow.  Where labels are noisy and the function is rough, the
amplitude that they choose has no limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array
from ..kernels import Scaled
from ..predictive.leave_one_out import effective
from ..predictive.link_fitting import LogisticFamily, SoftmaxFamily, score_link
from .evidence import Search
from .labelled import LabelledPoints
from .process import Gram, LowRank, Prior
from .quick import fit_classes
from .shared import ClassLabels, SharedSites, sites_of
from .sites import Site, SiteFit, Sites

FOLDS = 3
LOOKS = 20  # amplitudes that are tried, about
SETTLED = 1e-4  # gain a row that ends a fit


def held_out(
    c: Array, groups: Array, folds: int, rng: np.random.Generator, unit: Array | float = 1.0
) -> Array:
    """Weight of each row that every fold leaves out, ``(rows, folds)``.

    A row of weight two is two rows; one of class weight two, ``unit``, is one.  Of every group
    folds have equal parts, as far as they can; where the parts of one group end those of the next
    begin, which spreads the remainders.
    """
    order = rng.permutation(c.size)
    _, first, codes = np.unique(groups[order], return_index=True, return_inverse=True)
    offset = np.empty(c.size, dtype=np.intp)  # groups as they come, whatever their names are
    offset[order[np.argsort(first[codes], kind="stable")]] = np.arange(c.size)
    copies = c / unit
    each = np.floor(copies / folds)
    rank = (np.arange(folds) - offset[:, None]) % folds
    out = each[:, None] + np.clip((copies - folds * each)[:, None] - rank, 0.0, 1.0)
    out *= np.reshape(unit, (-1, 1))
    whole = (1.0 - 1e-9) * c[:, None] < out  # a row left out leaves no rounding behind
    return np.where(whole, c[:, None], out)


class Fold(NamedTuple):
    """The points of the rows that a fold keeps, and the fits of all classes to them."""

    points: Array
    fits: Sequence[SiteFit]


class FoldedAmplitude:
    """Log loss of all classes at rows left out by folds, as a function of the log amplitude.

    The process is computed once, for an amplitude of one.
    """

    by_folds = True

    def __init__(
        self,
        prior: Prior,
        seen: LabelledPoints,
        site: Site,
        search: Search,
        seed: int,
    ) -> None:
        self.unit = replace(prior, kernel=prior.kernel.kernel).at(seen.X)
        self.seen, self.site, self.search = seen, site, search
        first = seen.machines[0]
        Y = np.stack([labels.y for labels in seen.machines])
        self.codes = np.argmax(Y, axis=0) if len(Y) > 1 else (first.y > 0).astype(int)
        rng = np.random.default_rng(seed)
        self.out = held_out(first.c, self.codes, FOLDS, rng, first.unit)
        self.starts: list[SharedSites | None] = [None] * FOLDS
        self.losses: dict[float, float] = {}
        self.best: tuple[float, list[Fold]] = (0.0, [])  # log amplitude and folds of least loss

    def follow(self, other: Any) -> None:
        """Start where the fits of another have ended."""
        self.starts = [*other.starts]

    def __call__(self, log_amplitude: float) -> float:
        if log_amplitude not in self.losses:
            process = self.unit.scaled(float(np.exp(log_amplitude)))
            folds = [self._fold(process, k) for k in range(FOLDS)]
            pool = [self._left_out(process, fold, k) for k, fold in enumerate(folds)]
            rows, m, v, c = (np.concatenate(part) for part in zip(*pool, strict=True))
            total = 0.5 * log_amplitude**2 + self._score(rows, m, v, c)
            best = min(self.losses.values(), default=np.inf)
            if total < best:
                self.best = log_amplitude, folds
            self.losses[log_amplitude] = total
            self.search.report("amplitude", len(self.losses), LOOKS, -total, best - total)
        return self.losses[log_amplitude]

    def _score(self, rows: Array, m: Array, v: Array, c: Array) -> float:
        unit = self.seen.machines[0].unit
        c = effective(c, unit if isinstance(unit, float) else unit[rows])
        if m.shape[1] > 1:
            return score_link(SoftmaxFamily(), self.codes[rows], m, v, c)
        y = self.seen.machines[0].y[rows]
        return score_link(LogisticFamily(), y, m[:, 0], v[:, 0], c)

    def sites_at(self, kernel: Scaled) -> list[Sites]:
        """Sites that predictions of the folds touch, at the best amplitude that was tried."""
        log_amplitude, folds = self.best
        process, every = (
            self.unit.scaled(float(np.exp(log_amplitude))),
            np.arange(self.seen.X.shape[0]),
        )
        pairs = [predicted(process, fold.fits, fold.points, every) for fold in folds]
        M, v = (np.mean(each, axis=0) for each in zip(*pairs, strict=True))
        w, B = ClassLabels.of(self.seen.machines).touching(self.site, M, v)
        return [Sites(w, b) for b in B.T]

    def _fold(self, process: Gram | LowRank, k: int) -> Fold:
        """The fits without the rows that a fold leaves out."""
        machines, first = self.seen.machines, self.seen.machines[0]
        rows = np.flatnonzero(first.c > self.out[:, k])
        kept, points = replace(first, c=first.c - self.out[:, k]).take(rows)
        Y = np.stack([labels.y[rows] for labels in machines], axis=1)
        labels, part = ClassLabels(Y, kept), part_of(process, points).light
        fits = fit_classes(part, labels, self.site, self.starts[k], SETTLED)
        self.starts[k] = sites_of(fits)
        return Fold(points, fits)

    def _left_out(
        self, process: Gram | LowRank, fold: Fold, k: int
    ) -> tuple[Array, Array, Array, Array]:
        """Rows left out by a fold, moments of f at them, ``(rows, classes)``, and weights."""
        left = np.flatnonzero(self.out[:, k] > 0)
        m, v = predicted(process, fold.fits, fold.points, self.seen.machines[0].at[left])
        return left, m, np.repeat(v[:, None], m.shape[1], axis=1), self.out[left, k]


def part_of(process: Gram | LowRank, points: Array) -> Gram | LowRank:
    """The process at some of its points."""
    if isinstance(process, Gram):
        return Gram(process.K[np.ix_(points, points)], level=process.level)
    return replace(process, X=process.X[points], C=process.C[points], rest=process.rest[points])


def weights_of(fits: Sequence[SiteFit]) -> Array:
    """Weights alpha of the points, ``(points, classes)``."""
    return np.stack([fit.alpha for fit in fits], axis=1)


def predicted(
    process: Gram | LowRank, fits: Sequence[SiteFit], points: Array, at: Array
) -> tuple[Array, Array]:
    """Means of all classes, ``(n, classes)``, and the variance at other points of a process."""
    if isinstance(process, Gram):
        cross = process.K[np.ix_(at, points)]
        return cross @ weights_of(fits), fits[0].predictor(cross, np.diag(process.K)[at])[1]
    C = process.C[at]
    T = C @ fits[0].R.T
    known = fits[0].coef
    a = process.C[points].T @ weights_of(fits) if known is None else known[:, None]
    return C @ a, np.einsum("ij,ij->i", T, T) + process.rest[at]
