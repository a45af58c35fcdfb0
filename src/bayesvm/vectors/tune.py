"""The rate of a prior without a norm beside it, by what is said of rows held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array
from ..inference.progress import Progress, Watch, silent
from . import laplace
from .folds import row_losses
from .newton import Gram, largest_rate, maximise
from .process import Notes

RATIO = 0.25  # of one rate of a path to the next
LENGTH = 9  # rates of a path
ENOUGH = 0.5  # nats that a rate must gain,
PATIENCE = 2  # or so many may follow before a path ends,
MANY = 0.3  # or one, where vectors are more than this share of the candidates
EQUAL = 0.15  # standard errors by which two scores may differ and count as one
LOOSE = (1e-4, 2e-2)  # nats and slack: scores need no more


Held = tuple[Array, Array, Array, Array]  # labels, mean and variance of f, weights


class Fold(NamedTuple):
    """Signed columns of the rows fitted and of those held out."""

    A: Array
    y: Array
    c: Array
    B: Array  # rows held out
    out: Array  # their numbers
    weight: Array  # and how much of each is held out
    keep: Array  # candidates that are columns


@dataclass(frozen=True)
class Candidates:
    """Kernel values of rows with candidates; candidate j is row ``of[j]``."""

    K: Array
    of: Array

    def signed(self, y: Array, rows: Any = slice(None), keep: Any = slice(None)) -> Array:
        """Columns times the label of their candidate, and the constant."""
        of = self.of[keep]
        A = self.K[rows][:, keep] * y[of]
        return np.column_stack([A, np.ones(A.shape[0])])

    @cached_property
    def square(self) -> Array:
        """Kernel values of candidates with one another."""
        all_rows = np.array_equal(self.of, np.arange(self.K.shape[0]))
        return self.K if all_rows else self.K[self.of]

    def gram(self, y: Array, weight: float, keep: Any = slice(None)) -> Gram | None:
        """The norm of f as a penalty of the columns' weights."""
        if weight == 0.0:
            return None
        at = np.arange(self.of.size)[keep]
        return Gram(self.square, at, y[self.of[at]], weight)

    def fold(self, y: Array, c: Array, H: Array) -> Fold:
        left = c - H
        rows, out = np.flatnonzero(left > 0), np.flatnonzero(H > 0)
        keep = np.flatnonzero(left[self.of] > 0)
        A, B = self.signed(y, rows, keep), self.signed(y, out, keep)
        return Fold(A, y[rows], left[rows], B, out, H[out], keep)


class Path(NamedTuple):
    """Rates from strong to weak, and what each is worth."""

    rates: list[float]
    scores: list[float]
    spreads: list[float]  # standard errors
    points: list[list[Array]]  # coefficients, for every rate and fold

    def choose(self, within: float = EQUAL) -> int:
        """The largest rate within so many standard errors of the best."""
        best = int(np.argmin(self.scores))
        bar = self.scores[best] + within * self.spreads[best]
        good = np.flatnonzero(np.array(self.scores) <= bar)
        return int(good[np.argmax(np.array(self.rates)[good])])

    def and_then(self, other: Path) -> Path:
        return Path(
            self.rates + other.rates,
            self.scores + other.scores,
            self.spreads + other.spreads,
            self.points + other.points,
        )


def whole_path(top: float, ratio: float = RATIO, length: int = LENGTH) -> list[float]:
    """Rates from the largest power of two that leaves a vector."""
    first = 2.0 ** np.floor(np.log2(top)) if top > 0 else 1.0
    return [float(first * ratio**k) for k in range(length)]


class Trials:
    """One machine fitted to all folds but one, for each, at any rate."""

    def __init__(
        self,
        columns: Candidates,
        y: Array,
        c: Array,
        H: Array,
        watch: Watch = silent,
        notes: Notes | None = None,
    ) -> None:
        self.watch, self.notes, self.count, self.stopped = watch, notes, 0, False
        self.folds = [columns.fold(y, c, h) for h in H.T]
        self.labels = np.concatenate([y[f.out] for f in self.folds])
        self.weights = np.concatenate([f.weight for f in self.folds])
        self.number = np.repeat(np.arange(len(self.folds)), [f.out.size for f in self.folds])
        self.top = largest_rate(columns.signed(y), y, c)

    def follow(
        self, rates: Sequence[float] | None = None, start: list[Array] | None = None
    ) -> Path:
        """Follow a path of rates in all folds at once, from strong to weak.

        It ends early where it no longer gets better (sooner, if vectors are many).
        """
        rates = list(rates or whole_path(self.top))
        xs = start or [np.zeros(f.A.shape[1]) for f in self.folds]
        path = Path([], [], [], [])
        best, behind = np.inf, 0
        for rate in rates:
            xs = self._fitted(rate, xs)
            m = np.concatenate([f.B @ x for f, x in zip(self.folds, xs, strict=True)])
            losses = row_losses(self.labels, m, np.zeros_like(m), self.weights)
            loss = self.weights * losses
            each = np.bincount(self.number, loss) / np.bincount(self.number, self.weights)
            path.rates.append(rate)
            path.scores.append(float(loss.sum()))
            path.spreads.append(float(each.std(ddof=1) / np.sqrt(each.size) * self.weights.sum()))
            path.points.append(xs)
            self.count += 1
            score = path.scores[-1]
            progress = Progress("folds", self.count, LENGTH + 1, -score, best - score)
            self.stopped = self.watch(progress, None)
            behind = 0 if score < best - ENOUGH else behind + 1
            best = min(best, score)
            crowded = any((x > 0).mean() > MANY for x in xs)
            if self.stopped or behind >= (1 if crowded else PATIENCE):
                break
        return path

    def _fitted(self, rate: float, start: list[Array]) -> list[Array]:
        """Coefficients in all folds; those that are noted are not found again."""
        held = self.notes.recall(f"rate{self.count}") if self.notes else {}
        if held:
            return [held[f"fold{k}"] for k in range(len(self.folds))]
        xs = [
            maximise(f.A, f.y, f.c, laplace.penalty(x.size, rate), x, *LOOSE)[0]
            for f, x in zip(self.folds, start, strict=True)
        ]
        if self.notes:
            self.notes.note(f"rate{self.count}", **{f"fold{k}": x for k, x in enumerate(xs)})
        return xs

    def finer(self, path: Path, within: float = EQUAL) -> Path:
        """The path with the rate between the one chosen and the next above it."""
        k = path.choose(within)
        return path.and_then(self.follow([path.rates[k] / RATIO**0.5], path.points[k]))

    def held(self, path: Path, k: int) -> Held:
        """Moments of f at rows held out, at one rate of a path."""
        moments = [
            _moments(f, x, path.rates[k]) for f, x in zip(self.folds, path.points[k], strict=True)
        ]
        m, v = (np.concatenate(part) for part in zip(*moments, strict=True))
        return self.labels, m, v, self.weights


def _moments(f: Fold, x: Array, rate: float) -> tuple[Array, Array]:
    sparse = laplace.survivors(f.A, f.y, f.c, x, laplace.curvature(x, rate), 0.0, [], 0)
    return sparse.moments(f.B[:, :-1])
