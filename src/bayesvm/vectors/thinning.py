r"""Vectors left out beside a norm: as many as f hardly notices.

The norm has made f smooth; what remains to be done is to leave vectors out.  Two steps do it.

1. From strong rates to weak, machines come nearer and nearer to the process they stand for; the
   first that is close to it has few vectors, chosen all at once.
2. Of these, one after another is left out, each time the one that is missed least.  The log
   posterior of the others is, to second order, a paraboloid with covariance :math:`\Sigma` and its
   top at *x*; without vector *j*

   .. math::

       x' = x - \Sigma_{\cdot j}\,x_j/\Sigma_{jj}, \qquad
       \Sigma' = \Sigma - \Sigma_{\cdot j}\Sigma_{j\cdot}/\Sigma_{jj},

   and :math:`x_j^2/2\Sigma_{jj}` nats are lost (as in Hassibi & Stork's surgeon, 1993).

The second step begins where the first has gone further than need be, and ends where one more would
be missed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..core.types import Array
from ..inference.progress import Progress, Watch, silent
from . import laplace
from .folds import row_losses
from .machine import Sparse
from .newton import Gram, maximise
from .process import Reference

RATIO = 0.5  # of one rate to the next
LENGTH = 24  # rates tried at most
CLOSE = 0.05  # standard deviations of the posterior by which a rate may move f,
NEAR = 0.07  # and all that is left out together
LAG = 3  # rates between machines compared, for neighbours often have the same vectors
FAR = 1e3  # what is told of a distance that is not known yet
LOOSE = (1e-5, 1e-3)  # nats and slack of machines on the way

Enough = Callable[[Array], bool]  # whether an f at the rows will do


class Machines(NamedTuple):
    """Machines of falling rate, what they come near to, and how near."""

    rates: list[float]
    x: list[Array]  # signed weights and the bias
    f: list[Array]  # at the rows
    distances: list[float]
    target: Reference

    def near(self) -> int:
        """The first that is close, or else the nearest."""
        good = np.flatnonzero(np.array(self.distances) <= CLOSE)
        return int(good[0]) if good.size else int(np.argmin(self.distances))

    def close_by(self, c: Array) -> Enough:
        """Whether an f is near what the machines come near to."""
        return lambda f: self.target.distance(f, c) <= NEAR

    def within_error(self, y: Array, c: Array) -> Enough:
        """Whether its log loss of rows left out is within a standard error of the nearest's."""

        def losses(f: Array) -> Array:
            return row_losses(y, f + self.target.left - self.target.f, np.zeros_like(f), c)

        best = losses(self.f[self.near()])
        mean = float(c @ best) / float(c.sum())
        bar = float(c @ best) + float(np.sqrt(c @ (best - mean) ** 2))
        return lambda f: float(c @ losses(f)) <= bar


def thinned(
    A: Array,
    y: Array,
    c: Array,
    gram: Gram,
    rates: Sequence[float],
    target: Reference | None = None,
    watch: Watch = silent,
) -> Machines:
    """Machines from strong rates to weak until one is close to the target.

    Without a target (where the process itself would cost too much) the last is what the others are
    compared with: one that is hardly different from that of a rate eight times as large.
    """
    x = np.zeros(A.shape[1])
    used: list[float] = []
    found: list[Array] = []
    made: list[Array] = []
    near = target
    for number, rate in enumerate(rates, 1):
        x, _ = maximise(A, y, c, laplace.penalty(x.size, rate, gram), x, *LOOSE)
        freed, _ = laplace.relaxed(A, y, c, gram, x, LOOSE[0])
        used.append(rate)
        found.append(freed)
        made.append(A @ freed)
        if target is None:
            near = _own(A, y, c, freed, made[-1], gram)
            gap = near.distance(made[-1 - LAG], c) if number > LAG else FAR
        else:
            gap = target.distance(made[-1], c)
        if watch(Progress("rates", number, len(rates), -gap, gap), None) or gap <= CLOSE:
            break
    assert near is not None  # there is a rate at least
    return Machines(used, found, made, [near.distance(f, c) for f in made], near)


def leave_out(A: Array, sparse: Sparse, enough: Enough) -> Array:
    """Weights of a machine's vectors but for those that are not missed.

    ``A`` holds the signed columns of all candidates.  Weights that turn negative on the way go
    first, and one vector stays.  What is missed grows with the number left out, so that halving
    finds where it becomes too much.
    """
    steps = _eliminated(A, sparse)

    def too_few(count: int) -> bool:
        on, x = steps[count]
        return not enough(A[:, on] @ x)

    on, x = steps[bisect_left(range(1, len(steps)), True, key=too_few)]
    out = np.zeros(A.shape[1])
    out[on] = x
    return out


def _eliminated(A: Array, sparse: Sparse) -> list[tuple[Array, Array]]:
    """Columns and coefficients: all, then without one after another, down to one vector."""
    # the bias first, so that who leaves can change places with the last
    on, x = np.append(A.shape[1] - 1, sparse.columns), np.roll(sparse.mean, 1)
    S = np.roll(sparse.covariance().dense(), 1, axis=(0, 1))
    steps = [(on.copy(), x.copy())]
    for k in range(on.size - 1, 1, -1):  # so many stay, the bias among them
        cost = x[1 : k + 1] * np.abs(x[1 : k + 1]) / np.diag(S)[1 : k + 1]
        pair = [1 + int(np.argmin(cost)), k]
        for part in (on, x, S, S.T):  # rows of S, then its columns
            part[pair] = part[pair[::-1]]
        pull = S[:k, k] / S[k, k]
        x[:k] -= pull * x[k]
        S[:k, :k] -= np.outer(pull, S[k, :k])
        if np.all(x[1:k] >= 0):
            steps.append((on[:k].copy(), x[:k].copy()))
    return steps


def _own(A: Array, y: Array, c: Array, x: Array, f: Array, gram: Gram) -> Reference:
    return Reference.of(y, c, f, laplace.at(A, y, c, gram, x).moments(A[:, :-1])[1])
