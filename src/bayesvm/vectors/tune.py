"""Rate of the prior and weight of the norm by what is said of rows left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import log_expit

from ..calibration import fit_link
from ..inference.loop import Progress, Watch, silent
from ..types import Array
from . import laplace
from .newton import Gram, largest_rate, maximise

RATIO = 0.25  # of one rate of a path to the next
LENGTH = 9  # rates of a path
ENOUGH = 0.5  # nats that a rate must gain,
PATIENCE = 2  # or so many may follow before a path ends,
MANY = 0.3  # or one, where vectors are more than this share of the candidates
EQUAL = 0.15  # standard errors by which two scores may differ and count as one
STEP = float(np.log(10.0)) / 2.0  # of the log weight of the norm
SPREAD = 1.5  # standard deviation of its prior
FARTHEST = 6  # steps
MOST = LENGTH * (FARTHEST + 2) + 1  # rates ever tried
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
    """Rates from strong to weak at one weight of the norm, and what each is worth."""

    ridge: float
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
            self.ridge,
            self.rates + other.rates,
            self.scores + other.scores,
            self.spreads + other.spreads,
            self.points + other.points,
        )


def whole_path(top: float) -> list[float]:
    """Rates from the largest power of two that leaves a vector."""
    first = 2.0 ** np.floor(np.log2(top)) if top > 0 else 1.0
    return [float(first * RATIO**k) for k in range(LENGTH)]


def link_loss(y: Array, m: Array, v: Array, c: Array) -> Array:
    """Log loss of each row under the link fitted to all of them."""
    link = fit_link(y, m, v, c)
    out: Array = -c * log_expit(y * link.logit(m, v))
    return out


class Trials:
    """One machine fitted to all folds but one, for each, at any rate and weight of the norm."""

    def __init__(
        self, columns: Candidates, y: Array, c: Array, H: Array, watch: Watch = silent
    ) -> None:
        self.columns, self.y, self.watch = columns, y, watch
        self.count, self.stopped = 0, False
        self.folds = [columns.fold(y, c, h) for h in H.T]
        self.labels = np.concatenate([y[f.out] for f in self.folds])
        self.weights = np.concatenate([f.weight for f in self.folds])
        self.number = np.repeat(np.arange(len(self.folds)), [f.out.size for f in self.folds])
        self.top = largest_rate(columns.signed(y), y, c)

    def gram(self, f: Fold, ridge: float) -> Gram | None:
        return self.columns.gram(self.y, ridge, f.keep)

    def follow(
        self,
        ridge: float,
        rates: Sequence[float] | None = None,
        bar: float = np.inf,
        start: list[Array] | None = None,
    ) -> Path:
        """Follow a path of rates in all folds at once, from strong to weak.

        It ends early where it no longer gets better (sooner, if vectors are many), and where gains
        as large as the last at every rate to come would not bring its score below ``bar``.
        """
        rates = list(rates or whole_path(self.top))
        xs = start or [np.zeros(f.A.shape[1]) for f in self.folds]
        grams = [self.gram(f, ridge) for f in self.folds]
        path = Path(ridge, [], [], [], [])
        best, behind = np.inf, 0
        for rate in rates:
            xs = [
                maximise(f.A, f.y, f.c, laplace.penalty(x.size, rate, gram), x, *LOOSE)[0]
                for f, x, gram in zip(self.folds, xs, grams, strict=True)
            ]
            points = [
                x if gram is None else laplace.relaxed(f.A, f.y, f.c, gram, x, LOOSE[0])
                for f, x, gram in zip(self.folds, xs, grams, strict=True)
            ]
            m = np.concatenate([f.B @ x for f, x in zip(self.folds, points, strict=True)])
            loss = link_loss(self.labels, m, np.zeros_like(m), self.weights)
            each = np.bincount(self.number, loss) / np.bincount(self.number, self.weights)
            spread = float(each.std(ddof=1) / np.sqrt(each.size) * self.weights.sum())
            path.rates.append(rate)
            path.scores.append(float(loss.sum()))
            path.spreads.append(spread)
            path.points.append(points)
            self.count += 1
            progress = Progress("folds", self.count, MOST, -path.scores[-1], best - path.scores[-1])
            self.stopped = self.watch(progress, None)
            behind = 0 if path.scores[-1] < best - ENOUGH else behind + 1
            best = min(best, path.scores[-1])
            crowded = any((x > 0).mean() > MANY for x in xs)
            hopeless = False
            if len(path.scores) > PATIENCE:
                gain = max(0.0, *(-np.diff(path.scores[-PATIENCE:])))
                hopeless = best - gain * (len(rates) - len(path.scores)) > bar
            if self.stopped or hopeless or behind >= (1 if crowded else PATIENCE):
                break
        return path

    def finer(self, path: Path, within: float = EQUAL) -> Path:
        """The path with the rate between the one chosen and the next above it."""
        k = path.choose(within)
        return path.and_then(
            self.follow(path.ridge, [path.rates[k] / RATIO**0.5], start=path.points[k])
        )

    def held(self, path: Path, k: int) -> Held:
        """Moments of f at rows held out, at one rate of a path."""
        moments = [
            self._moments(f, x, path.rates[k], path.ridge)
            for f, x in zip(self.folds, path.points[k], strict=True)
        ]
        m, v = (np.concatenate(part) for part in zip(*moments, strict=True))
        return self.labels, m, v, self.weights

    def _moments(self, f: Fold, x: Array, rate: float, ridge: float) -> tuple[Array, Array]:
        prior = laplace.curvature(x, rate, self.gram(f, ridge))
        sparse = laplace.survivors(f.A, f.y, f.c, x, prior, 0.0, [], 0)
        return sparse.moments(f.B[:, :-1])


class Notes(Protocol):
    """Where scores are kept, so that an interrupted search can go on."""

    def recall(self, key: str) -> dict[str, Array]: ...
    def note(self, key: str, **arrays: Any) -> None: ...


def search(
    trials: Trials, centre: float, rates: Sequence[float] | None, notes: Notes | None = None
) -> Path:
    r"""The path of the best weight of the norm: downhill from the centre in steps of a half decade.

    Its score is the least of the path and minus the log of a log-normal prior around the centre.
    """
    scores: dict[int, float] = {}
    paths: dict[int, Path] = {}

    def follow(k: int, bar: float = np.inf) -> Path:
        return trials.follow(centre * float(np.exp(k * STEP)), rates, bar)

    def at(k: int) -> float:
        held = notes.recall(f"norm{k}") if notes and k not in scores else {}
        if held:
            scores[k] = float(held["score"])
        elif k not in scores:
            extra = 0.5 * (k * STEP / SPREAD) ** 2
            paths[k] = follow(k, min(scores.values(), default=np.inf) - extra)
            scores[k] = min(paths[k].scores) + extra
            if notes and not trials.stopped:
                notes.note(f"norm{k}", score=scores[k])
        return scores[k]

    at(0)
    way = 1 if trials.stopped or at(1) < at(0) else -1
    k = int(1 in scores and way > 0)
    while not trials.stopped and abs(k) < FARTHEST and at(k + way) < at(k):
        k += way
    return paths[k] if k in paths else follow(k)
