"""The rate of a prior beside a norm: as large as f hardly notices.

The norm has made f smooth; the rate only leaves vectors out.  From strong rates to weak, machines
come nearer and nearer to the process they stand for, and the first that is near enough is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..inference.loop import Progress, Watch, silent
from ..types import Array
from . import laplace
from .newton import Gram, maximise
from .process import Reference, row_losses

RATIO = 0.5  # of one rate to the next
LENGTH = 24  # rates tried at most
NEAR = 0.2  # standard deviations of the posterior by which f may move
LAG = 3  # rates between machines compared, for neighbours often have the same vectors
FAR = 1e3  # what is told of a distance that is not known yet
LOOSE = (1e-5, 1e-3)  # nats and slack of machines on the way


class Machines(NamedTuple):
    """Machines of falling rate, what they come near to, and how near."""

    rates: list[float]
    f: list[Array]  # at the rows
    distances: list[float]
    target: Reference

    def near(self) -> int:
        """The first that is near enough, or else the nearest."""
        good = np.flatnonzero(np.array(self.distances) <= NEAR)
        return int(good[0]) if good.size else int(np.argmin(self.distances))

    def within_error(self, y: Array, c: Array) -> int:
        """The first whose log loss of rows left out is within a standard error of the nearest's."""
        losses = [
            row_losses(y, f + self.target.left - self.target.f, np.zeros_like(f), c) for f in self.f
        ]
        best = losses[self.near()]
        mean = float(c @ best) / float(c.sum())
        bar = float(c @ best) + float(np.sqrt(c @ (best - mean) ** 2))
        return next(k for k, loss in enumerate(losses) if float(c @ loss) <= bar)


def thinned(
    A: Array,
    y: Array,
    c: Array,
    gram: Gram,
    rates: Sequence[float],
    target: Reference | None = None,
    watch: Watch = silent,
) -> Machines:
    """Machines from strong rates to weak until one is near the target.

    Without a target (where the process itself would cost too much) the last is what the others are
    compared with: one that is hardly different from that of a rate eight times as large.
    """
    x = np.zeros(A.shape[1])
    used: list[float] = []
    made: list[Array] = []
    near = target
    for number, rate in enumerate(rates, 1):
        x, _ = maximise(A, y, c, laplace.penalty(x.size, rate, gram), x, *LOOSE)
        freed = laplace.relaxed(A, y, c, gram, x, LOOSE[0])
        used.append(rate)
        made.append(A @ freed)
        if target is None:
            near = _own(A, y, c, freed, made[-1], gram)
            gap = near.distance(made[-1 - LAG], c) if number > LAG else FAR
        else:
            gap = target.distance(made[-1], c)
        if watch(Progress("rates", number, len(rates), -gap, gap), None) or gap <= NEAR:
            break
    assert near is not None  # there is a rate at least
    return Machines(used, made, [near.distance(f, c) for f in made], near)


def _own(A: Array, y: Array, c: Array, x: Array, f: Array, gram: Gram) -> Reference:
    sparse = laplace.survivors(A, y, c, x, laplace.curvature(x, 0.0, gram), 0.0, [], 0)
    return Reference.of(y, c, f, sparse.moments(A[:, :-1])[1])
