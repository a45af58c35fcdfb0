r"""The Gaussian process that a sparse machine approximates: its mode and leave-one-out moments.

Without a rate, the machine's f is the mode of a process with covariance :math:`K/\lambda` and a
nearly flat bias,

.. math:: \max_f\; \sum_i c_i\log\Phi(y_i f_i) - \tfrac12\lambda\, f^\top K^{-1} f .

Leave-one-out moments are those of Laplace's approximation there, in closed form: no folds, hence
nothing random.  They choose :math:`\lambda`; the distance of a machine from the mode chooses its
rate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from ..core.types import Array, Local
from ..gp.posterior import ExactPosterior, factor
from ..gp.sites import Labels, target_sites
from ..inference.progress import Progress
from ..predictive.leave_one_out import leave_one_out
from .callback import SILENT, Journal
from .folds import row_losses
from .newton import FLAT, PROBIT

LEVEL = 1e4  # largest prior variance of the bias: more would cost digits of K
STEP = float(np.log(10.0)) / 2.0  # between penalties of the norm, on the log scale
SPREAD = 3.0  # standard deviation of the prior of its logarithm
FARTHEST = 6  # steps
FAR = 6.0  # nats below the best at which the search ends


class ProcessMode(NamedTuple):
    """Moments of f at the rows, and its means with each row left out."""

    labels: Labels
    f: Array
    v: Array
    left_out: Array  # means without the row
    local: Local  # gradient and curvature of unit weight of each row

    @classmethod
    def of(cls, labels: Labels, f: Array, v: Array) -> ProcessMode:
        local = at_mode(labels.y, f)
        return cls(labels, f, v, leave_one_out(f, v, local, labels.gone)[0], local)

    def distance(self, f: Array) -> float:
        r"""Distance of another f, in standard deviations of the posterior.

        The root of :math:`\sum c h (\tilde f - f)^2 / \sum c h v`: half the numerator is, to second
        order, the Kullback-Leibler distance of the labels' probabilities, half the denominator that
        of a draw from the posterior, on average.
        """
        weight = self.labels.c * self.local.h
        return float(np.sqrt(weight @ (f - self.f) ** 2 / (weight @ self.v)))

    def leave_one_out(self, f: Array, v: Array) -> tuple[Array, Array]:
        """Leave-one-out moments of a machine nearby: its means change as the process's do."""
        _, variance = leave_one_out(f, v, at_mode(self.labels.y, f), self.labels.gone)
        return f + self.left_out - self.f, variance


def at_mode(y: Array, f: Array, v: Array | float = 0.0) -> Local:
    """Gradient and curvature of unit weight of each row; the precision is the curvature."""
    row = PROBIT.expected(y, f, 0.0)
    return row._replace(w=row.h)


def find_process_mode(
    K: Array, labels: Labels, penalty: float, start: Array | None = None, bias: float = FLAT
) -> ProcessMode:
    """The mode of the process, by Newton steps, and Laplace's approximation there.

    ``K`` holds kernel values of the points, ``penalty`` is that of the norm, ``start`` holds values
    of f at the points, ``bias`` is the prior precision of the bias.
    """
    prior = K / penalty + min(1.0 / bias, LEVEL)
    f, value, alpha = np.zeros(labels.points) if start is None else start, -np.inf, None
    for _ in range(100):
        sites = target_sites(f, f, labels, at_mode)
        s = np.sqrt(sites.w)
        inner = cho_solve((factor(prior, sites.w), True), s * (prior @ sites.b))
        wanted = sites.b - s * inner
        share = 1.0
        while True:
            new = wanted if alpha is None else alpha + share * (wanted - alpha)
            new_f = prior @ new
            density = labels.c @ PROBIT.log_prob(labels.y, new_f[labels.at]) - 0.5 * new @ new_f
            if density >= value or share < 1e-6:
                break
            share *= 0.5
        gain = float(density - value)
        if gain <= 0:  # only rounding is left
            break
        f, alpha, value = new_f, new, float(density)
        if gain < 1e-8 * labels.c.sum():
            break
    v = ExactPosterior(prior, target_sites(f, f, labels, at_mode).w).v
    return ProcessMode.of(labels, f[labels.at], v[labels.at])


def choose_norm_penalty(
    K: Array, labels: Labels, centre: float, bias: float = FLAT, journal: Journal = SILENT
) -> float:
    r"""The penalty of the norm by leave-one-out log loss: a geometric mean under a broad prior.

    Penalties half a decade apart are tried from the centre outwards; each counts
    :math:`e^{-\text{log loss}}`.  The mean varies less from sample to sample than the best would.
    """
    rows = np.empty(labels.points, dtype=int)
    rows[labels.at] = np.arange(labels.at.size)  # one at every point
    losses: dict[int, float] = {}
    f: Array | None = None
    stopped = False

    def loss_at(k: int) -> float:
        nonlocal f, stopped
        held = journal.recall(f"norm{k}")
        if held:
            losses[k], f = float(held["score"]), held["f"]  # the next starts there
            return losses[k]
        found = find_process_mode(K, labels, centre * float(np.exp(k * STEP)), f, bias)
        f = found.f[rows]
        moments = found.leave_one_out(found.f, found.v)
        c = labels.effective
        loss = float(c @ row_losses(labels.y, *moments, c))
        best = min(losses.values(), default=np.inf)
        losses[k] = loss + 0.5 * (k * STEP / SPREAD) ** 2
        journal.note(f"norm{k}", score=losses[k], f=f)
        change = best - losses[k]
        stopped = journal(Progress("norms", len(losses), 2 * FARTHEST + 1, -losses[k], change))
        return losses[k]

    loss_at(0)
    for way in (1, -1):
        k = way
        while not stopped and abs(k) <= FARTHEST and loss_at(k) < min(losses.values()) + FAR:
            k += way
    tried, found = np.array(list(losses)), np.array(list(losses.values()))
    counts = np.exp(found.min() - found)
    return centre * float(np.exp(STEP * (counts @ tried) / counts.sum()))
