r"""Far from the training rows probabilities go to the shares of the classes.

A link is fitted to training rows, each left out, and says nothing of rows at which f is much less
certain than at any of these.  From a variance :math:`v_0` on, log probabilities are therefore mixed
with those of the classes' shares :math:`\pi_k`,

.. math:: \log p_k \leftarrow \log\pi_k + g(v)\,(\log p_k - \log\pi_k) + \text{const},

with :math:`g = (v_1 - v)/(v_1 - v_0)` for a process whose variance cannot exceed :math:`v_1`, and
:math:`g = v_0/v` for a linear predictor, whose mean and variance grow without limit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.types import Array
from .leave_one_out import Moments

# Chosen on folds 0 and 1 of 21 sets so that the log loss of held-out rows stays what it is.
LITTLE = 0.97  # share of v_1 from which on a process knows little of a row: v_0,
RARE = 0.01  # unless f is less certain at more than such a share of the training rows;
FULL = 0.995  # if even then v_0 is so close to v_1, the link was fitted to rows like no others
DISTANCE = 2.0  # of a linear predictor's v_0, as a multiple of the farthest training row's


class Extrapolation(NamedTuple):
    """Where the mixing with the classes' shares begins and ends, and logs of these shares."""

    begin: float
    end: float
    shares: Array  # (classes,)

    @staticmethod
    def of(moments: Moments, masses: Array, limit: float) -> Extrapolation | None:
        """From moments at rows left out; ``limit`` is the largest variance, or infinite."""
        v = moments.v.mean(axis=1)
        if np.isfinite(limit):
            order = np.argsort(v)
            mass = np.cumsum(moments.c[order])
            rare = float(v[order][np.searchsorted(mass, (1.0 - RARE) * mass[-1])])
            begin = max(rare, LITTLE * limit)
        else:
            begin = DISTANCE**2 * float(v.max())
        if not v.max() > 0 or not begin < FULL * limit or not np.all(masses > 0):
            return None
        return Extrapolation(begin, limit, np.log(masses / masses.sum()))

    def weight(self, v: Array) -> Array:
        """The weight g of the link at rows with variances ``v`` of each machine."""
        mean = np.maximum(v.mean(axis=-1), self.begin)
        if np.isfinite(self.end):
            return np.maximum((self.end - mean) / (self.end - self.begin), 0.0)
        return self.begin / mean

    def mixed(self, logs: Array, v: Array) -> Array:
        """Logs of probabilities up to a constant, ``(n, classes)``, mixed with the shares."""
        g = self.weight(v)[..., None]
        out: Array = np.where(g < 1.0, self.shares + g * (logs - self.shares), logs)
        return out
