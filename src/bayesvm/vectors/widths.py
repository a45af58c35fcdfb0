"""Length scales of a kernel: by the evidence, or as one number, doublings of a start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..gram import Labels
from ..inference.tune import START, Seen, maximise_evidence
from ..kernels import Scaled
from ..likelihoods import Logistic
from ..types import Array

LEVEL = 3.0  # prior standard deviation of the level of f
COARSE = (0.0, -1.0, 1.0)  # widths tried first, in doublings
WIDEST = 4.0  # doublings beyond which a width is not followed


def scales(kernel: Any) -> Any:
    """Which of the kernel's parameters are length scales."""
    return np.array(["length_scale" in name for name in kernel.names], dtype=bool)


def can_stretch(kernel: Any) -> bool:
    return kernel is not None and bool(np.any(scales(kernel)))


def stretched(kernel: Any, doublings: float) -> Any:
    """The kernel with all its length scales multiplied by two to a power."""
    if doublings == 0.0 or not can_stretch(kernel):
        return kernel
    return kernel.with_theta(kernel.theta + doublings * np.log(2.0) * scales(kernel))


def by_evidence(
    kernel: Any,
    per_column: bool,
    points: Array,
    at: Array,
    labels: Sequence[Array],
    c: Array,
    rng: np.random.Generator,
) -> Scaled:
    """The kernel and its amplitude where a logistic Gaussian process has most evidence.

    Row ``i`` is at ``points[at[i]]``; ``per_column`` allows a length scale for every column.
    """
    machines = tuple(Labels(y, c, at, points.shape[0]) for y in labels)
    start = Scaled(START, kernel)
    seen = Seen(points, machines, LEVEL**2)
    return maximise_evidence(start, seen, Logistic().tight, START, rng, per_column)


def prior(doublings: float) -> float:
    """Minus the log of a log-normal prior, one e-fold wide, around where tuning starts."""
    return 0.5 * (doublings * float(np.log(2.0))) ** 2


def choose_width(score: Callable[[float, float], float], start: Sequence[float] = COARSE) -> float:
    """Least score over widths: a coarse net, followed beyond its edge, then halves around it.

    ``score(width, bar)`` may stop as soon as it is sure to exceed the bar.
    """
    seen: dict[float, float] = {}

    def at(width: float) -> float:
        if width not in seen:
            seen[width] = score(width, min(seen.values(), default=np.inf))
        return seen[width]

    best = min(start, key=at)
    while abs(best) >= max(map(abs, start)) and abs(best) < WIDEST:
        at(best + np.sign(best))
        if min(seen, key=at) == best:
            break
        best = min(seen, key=at)
    return min((best, best - 0.5, best + 0.5), key=at)
