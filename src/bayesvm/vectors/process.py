r"""The Gaussian process that a sparse machine stands for: its mode, and rows left out of it.

Without the rate, the machine's f is the mode of a process with covariance :math:`K/\lambda` and a
level of its own,

.. math:: \max_f\; \sum_i c_i\log\Phi(y_i f_i) - \tfrac12\lambda\, f^\top K^{-1} f .

Moments with a row left out are those of Laplace's approximation there, in closed form: no folds,
hence nothing drawn.  They choose :math:`\lambda`; how near a machine comes to the mode chooses the
rate.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_solve

from ..core.types import Array, Local
from ..inference.progress import Progress, Watch, silent
from ..likelihoods import Probit
from ..machines.calibration import leave_one_out
from ..processes.gram import Labels, Sites, factor, moments
from .folds import row_losses

PROBIT = Probit()
LEVEL = 1e4  # prior variance of the level of f: flat
STEP = float(np.log(10.0)) / 2.0  # of the log weight of the norm
SPREAD = 3.0  # standard deviation of its prior
FARTHEST = 6  # steps
FAR = 6.0  # nats below the best at which a weight is out of the question


class Reference(NamedTuple):
    """What a machine shall come near to: moments of f at the rows, and with each left out."""

    f: Array
    v: Array
    left: Array  # means with one copy of the row left out
    local: Local  # what one copy of each row says

    @classmethod
    def of(cls, y: Array, c: Array, f: Array, v: Array) -> Reference:
        local = at_mode(y, f)
        return cls(f, v, leave_one_out(f, v, local, c)[0], local)

    def distance(self, f: Array, c: Array) -> float:
        r"""How far another f is, in standard deviations of the posterior.

        The root of :math:`\sum c h (\tilde f - f)^2 / \sum c h v`: half the numerator is, to second
        order, the Kullback-Leibler distance of the labels' probabilities, half the denominator what
        a draw from the posterior has on average.
        """
        weight = c * self.local.h
        return float(np.sqrt(weight @ (f - self.f) ** 2 / (weight @ self.v)))

    def without(self, y: Array, c: Array, f: Array, v: Array) -> tuple[Array, Array]:
        """Moments of a machine near this one with each row left out: means move as here."""
        _, spread = leave_one_out(f, v, at_mode(y, f), c)
        return f + self.left - self.f, spread


def at_mode(y: Array, f: Array) -> Local:
    """What one copy of a row says, its curvature being what it has."""
    row = PROBIT.expected(y, f, 0.0)
    return row._replace(w=row.h)


def reference(K: Array, labels: Labels, ridge: float, start: Array | None = None) -> Reference:
    """The mode of the process, by Newton steps, and Laplace's approximation there.

    ``K`` holds kernel values of the points; ``start`` are values of f at them.
    """
    prior = K / ridge + LEVEL
    f, value, alpha = np.zeros(labels.points) if start is None else start, -np.inf, None
    for _ in range(100):
        sites = _sites(labels, f)
        on = np.flatnonzero(sites.w > 0)
        s = np.sqrt(sites.w[on])
        wanted = sites.b.copy()
        inner = cho_solve((factor(prior, sites.w[on], on), True), s * (prior @ sites.b)[on])
        wanted[on] -= s * inner
        share = 1.0
        while True:
            new = wanted if alpha is None else alpha + share * (wanted - alpha)
            new_f = prior @ new
            density = labels.c @ PROBIT.log_prob(labels.y, new_f[labels.at]) - 0.5 * new @ new_f
            if density >= value or share < 1e-6:
                break
            share *= 0.5
        gain = float(density - value)
        if gain <= 0:  # rounding is all that is left
            break
        f, alpha, value = new_f, new, float(density)
        if gain < 1e-8 * labels.c.sum():
            break
    found = moments(prior, _sites(labels, f))
    return Reference.of(labels.y, labels.c, f[labels.at], found.v[labels.at])


def _sites(labels: Labels, f: Array) -> Sites:
    row = PROBIT.expected(labels.y, f[labels.at], 0.0).times(labels.c)
    w = labels.total(row.h)
    return Sites(w, labels.total(row.g) + w * f)


class Notes(Protocol):
    """Where scores are kept, so that an interrupted search can go on."""

    def recall(self, key: str) -> dict[str, Array]: ...
    def note(self, key: str, **arrays: Any) -> None: ...


def norm_weight(
    K: Array, labels: Labels, centre: float, watch: Watch = silent, notes: Notes | None = None
) -> float:
    r"""The weight of the norm: geometric mean under what rows left out say, and a broad prior.

    A half decade apart, from the centre outwards until hopeless; each weighs as much as the rows
    left out make likely, :math:`e^{-\text{log loss}}`.  The mean varies less from sample to sample
    than the best would.
    """
    rows = np.empty(labels.points, dtype=int)
    rows[labels.at] = np.arange(labels.at.size)  # one at every point
    scores: dict[int, float] = {}
    f: Array | None = None
    stopped = False

    def score(k: int) -> float:
        nonlocal f, stopped
        held = notes.recall(f"norm{k}") if notes else {}
        if held:
            scores[k], f = float(held["score"]), held["f"]  # the next starts there
            return scores[k]
        found = reference(K, labels, centre * float(np.exp(k * STEP)), f)
        f = found.f[rows]
        m, v = leave_one_out(found.f, found.v, found.local, labels.c)
        loss = float(labels.c @ row_losses(labels.y, m, v, labels.c))
        best = min(scores.values(), default=np.inf)
        scores[k] = loss + 0.5 * (k * STEP / SPREAD) ** 2
        if notes:
            notes.note(f"norm{k}", score=scores[k], f=f)
        told = Progress("norms", len(scores), 2 * FARTHEST + 1, -scores[k], best - scores[k])
        stopped = watch(told, None)
        return scores[k]

    score(0)
    for way in (1, -1):
        k = way
        while not stopped and abs(k) <= FARTHEST and score(k) < min(scores.values()) + FAR:
            k += way
    tried = np.array(list(scores))
    weights = np.exp(min(scores.values()) - np.array(list(scores.values())))
    return centre * float(np.exp(STEP * (weights @ tried) / weights.sum()))
