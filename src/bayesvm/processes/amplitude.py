"""The amplitude of a kernel for more than two classes, by predictions of rows left out in folds.

Moments with single rows left out, for fixed other sites, are optimistic where the amplitude is
large: the sites of neighbours would follow.  For several classes, whose fits share a covariance,
folds are affordable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.types import Array
from ..machines.classes import score_softmax
from .evidence import LabelledPoints, Search
from .process import Gram, LowRank, Prior, Site, SiteFit
from .shared import ClassLabels, SharedSites, fit_shared, sites_of

FOLDS = 3
LOOKS = 20  # amplitudes that are tried, about
SETTLED = 1e-4  # gain a row that ends a fit


def held_out(c: Array, groups: Array, folds: int, rng: np.random.Generator) -> Array:
    """Weight of each row that every fold leaves out, ``(rows, folds)``.

    A row of weight two is two rows.  Of every group folds have equal parts, as far as they can.
    """
    order = rng.permutation(c.size)
    offset = np.empty(c.size, dtype=np.intp)
    for group in np.unique(groups):
        rows = order[groups[order] == group]
        offset[rows] = np.arange(rows.size)
    each = np.floor(c / folds)
    rank = (np.arange(folds) - offset[:, None]) % folds
    return each[:, None] + np.clip((c - folds * each)[:, None] - rank, 0.0, 1.0)


class FoldedAmplitude:
    """Log loss of all classes at rows left out by folds, as a function of the log amplitude.

    The process is computed once, for an amplitude of one.
    """

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
        self.codes = np.argmax([labels.y for labels in seen.machines], axis=0)
        self.out = held_out(first.c, self.codes, FOLDS, np.random.default_rng(seed))
        self.starts: list[SharedSites | None] = [None] * FOLDS
        self.losses: dict[float, float] = {}

    def follow(self, other: Any) -> None:
        """Start where the fits of another have ended."""
        self.starts = [*other.starts]

    def __call__(self, log_amplitude: float) -> float:
        if log_amplitude not in self.losses:
            process = self.unit.scaled(float(np.exp(log_amplitude)))
            pool = [self._fold(process, k) for k in range(FOLDS)]
            rows, m, v, c = (np.concatenate(part) for part in zip(*pool, strict=True))
            total = 0.5 * log_amplitude**2 + score_softmax(self.codes[rows], m, v, c)[1]
            best = min(self.losses.values(), default=np.inf)
            self.losses[log_amplitude] = total
            self.search.report("amplitude", len(self.losses), LOOKS, -total, best - total)
        return self.losses[log_amplitude]

    def _fold(self, process: Gram | LowRank, k: int) -> tuple[Array, Array, Array, Array]:
        """Rows left out by a fold, moments of f at them, ``(rows, classes)``, and weights."""
        machines, out = self.seen.machines, self.out[:, k]
        first = machines[0]
        rows, left = np.flatnonzero(first.c > out), np.flatnonzero(out > 0)
        kept, points = replace(first, c=first.c - out).take(rows)
        Y = np.stack([labels.y[rows] for labels in machines], axis=1)
        labels = ClassLabels(Y, kept)
        fits = fit_shared(part_of(process, points), labels, self.site, self.starts[k], SETTLED)
        self.starts[k] = sites_of(fits)
        m, v = predicted(process, fits, points, first.at[left])
        return left, m, np.repeat(v[:, None], m.shape[1], axis=1), out[left]


def part_of(process: Gram | LowRank, points: Array) -> Gram | LowRank:
    """The process at some of its points."""
    if isinstance(process, Gram):
        return Gram(process.K[np.ix_(points, points)])
    return replace(process, X=process.X[points], C=process.C[points], rest=process.rest[points])


def predicted(
    process: Gram | LowRank, fits: Sequence[SiteFit], points: Array, at: Array
) -> tuple[Array, Array]:
    """Means of all classes, ``(n, classes)``, and the variance at other points of a process."""
    A = np.stack([fit.alpha for fit in fits], axis=1)
    if isinstance(process, Gram):
        cross = process.K[np.ix_(at, points)]
        return cross @ A, fits[0].predictor(cross, np.diag(process.K)[at])[1]
    C = process.C[at]
    T = C @ fits[0].R.T
    return C @ (process.C[points].T @ A), np.einsum("ij,ij->i", T, T) + process.rest[at]
