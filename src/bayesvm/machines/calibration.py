r"""Links: class probabilities from the posterior of f.

The hinge is not a model of *y*: the pseudo-likelihoods of the two labels do not sum to one.  The
default link is therefore fitted to the training rows, each with moments of f from which the row
itself is left out; these moments are analytic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, logsumexp, ndtr

from ..core.types import Array
from ..likelihoods import Likelihood

PRIOR_MEAN = np.array([np.log(2.0), 0.0, np.log(0.4)])
PRIOR_PRECISION = 1.0 / np.array([1.0, 1.0, 1.5]) ** 2
FIRST_ROWS = 5000  # rows of the first steps of a fit
MAX_ITER = 100


class Link:
    """Probability of the positive label where f ~ N(m, v)."""

    @property
    def offset(self) -> float:
        """What is added to f before its sign decides."""
        return 0.0

    def logit(self, m: Array, v: Array) -> Array:
        """Log odds of the positive label."""
        raise NotImplementedError

    def score(self, m: Array, v: Array) -> Array:
        """Decision values: they rank rows as ``proba`` does and are positive above one half."""
        return self.logit(m, v)

    def proba(self, m: Array, v: Array) -> Array:
        out: Array = expit(self.logit(m, v))
        return out


@dataclass(frozen=True)
class Calibrated(Link):
    r"""Logistic link :math:`\sigma\big((am + b)/\sqrt{1 + cv}\big)` with three fitted numbers.

    The weight *c* of the posterior variance is fitted like slope and offset.
    """

    a: float
    b: float
    c: float

    @property
    def vector(self) -> Array:
        """The parameters of the fit: log a, b, log c."""
        return np.array([np.log(self.a), self.b, np.log(self.c)])

    @property
    def offset(self) -> float:
        return self.b / self.a

    def score(self, m: Array, v: Array) -> Array:
        out: Array = (m + self.offset) / np.sqrt(1.0 + self.c * v)
        return out

    def logit(self, m: Array, v: Array) -> Array:
        return self.a * self.score(m, v)


@dataclass(frozen=True)
class Normalised(Link):
    """The likelihood averaged over f and normalised over the two labels."""

    likelihood: Likelihood

    def logit(self, m: Array, v: Array) -> Array:
        return np.copysign(self.likelihood.log_odds(m, v), m)  # the sign survives rounding

    def proba(self, m: Array, v: Array) -> Array:
        return self.likelihood.proba(m, v)


@dataclass(frozen=True)
class ProbitLink(Link):
    r"""The averaged probit :math:`\Phi(m/\sqrt{1 + v})` (two papers print it without the root)."""

    def score(self, m: Array, v: Array) -> Array:
        out: Array = m / np.sqrt(1.0 + v)
        return out

    def logit(self, m: Array, v: Array) -> Array:
        z = self.score(m, v)
        out: Array = log_ndtr(z) - log_ndtr(-z)
        return out

    def proba(self, m: Array, v: Array) -> Array:
        out: Array = ndtr(self.score(m, v))
        return out


def plain_link(probability: str, likelihood: Likelihood) -> Link | None:
    """A link that needs no fitting; ``None`` for the calibrated one."""
    if probability == "calibrated":
        return None
    return ProbitLink() if probability == "probit" else Normalised(likelihood)


def fit_link(
    y: Array, m: Array, v: Array, c: Array, *, earlier: tuple[Link, float] | None = None
) -> Calibrated:
    """Fit the calibrated link to moments of f at rows left out.

    ``earlier`` is a link fitted to rows that are no longer stored, and their weight: they count as
    rows on either side of the margins with the probabilities that it gives.
    """
    start = PRIOR_MEAN
    if y.size > FIRST_ROWS:  # most steps on a part of the rows, the last few on all
        some = slice(None, None, -(-y.size // FIRST_ROWS))
        start = score_link(y[some], m[some], v[some], c[some])[0].vector
    if earlier is None:
        return score_link(y, m, v, c, start)[0]
    link, weight = earlier
    old = np.linspace(-2.0, 2.0, 9), np.full(9, v.mean())
    t = np.concatenate([targets(y, c), link.proba(*old)])
    m, v = np.concatenate([m, old[0]]), np.concatenate([v, old[1]])
    return _minimise(t, m, v, np.concatenate([c, np.full(9, weight / 9)]), start)[0]


def score_link(
    y: Array, m: Array, v: Array, c: Array, start: Array = PRIOR_MEAN
) -> tuple[Calibrated, float]:
    r"""The calibrated link, by Newton's method, and the loss that it reaches.

    Minimises the weighted log loss with targets softened by half a count, under
    :math:`\log a \sim N(\log 2, 1)`, :math:`b \sim N(0, 1)` and
    :math:`\log c \sim N(\log 0.4, 1.5^2)`.  Without a prior the slope of separable data diverges.
    """
    return _minimise(targets(y, c), m, v, c, start)


def masses(y: Array, c: Array) -> Array:
    """Weight of the rows of either label, positive ones first."""
    return np.array([c[y > 0].sum(), c[~(y > 0)].sum()])


def targets(y: Array, c: Array) -> Array:
    """Target probabilities of rows: their labels, softened by half a count."""
    positive, negative = masses(y, c)
    return np.where(y > 0, (positive + 0.5) / (positive + 1.0), 0.5 / (negative + 1.0))


def _minimise(t: Array, m: Array, v: Array, c: Array, start: Array) -> tuple[Calibrated, float]:
    """The link of least loss for targets ``t``, and the loss; x is (log a, b, log c)."""

    def loss(x: Array) -> float:
        with np.errstate(over="ignore", invalid="ignore"):  # a trial step may be far too long
            z = (np.exp(x[0]) * m + x[1]) / np.sqrt(1.0 + np.exp(x[2]) * v)
            fit = -float(c @ (t * log_expit(z) + (1.0 - t) * log_expit(-z)))
        return fit + 0.5 * float(PRIOR_PRECISION @ (x - PRIOR_MEAN) ** 2)

    x, value = start.copy(), loss(start)
    for _ in range(MAX_ITER):
        slope, curvature, fisher = _derivatives(x, t, m, v, c)
        step = np.linalg.solve(curvature if np.linalg.eigvalsh(curvature)[0] > 0 else fisher, slope)
        step *= min(1.0, 2.0 / np.max(np.abs(step), initial=1e-300))
        new = loss(x - step)
        # gains below the rounding of the loss cannot be seen in it: trust the step there
        while float(step @ slope) > 1e-12 * (1.0 + abs(value)) and not new <= value:
            step *= 0.5
            new = loss(x - step)
        x, value = x - step, new
        if np.max(np.abs(step)) < 1e-10:
            break
    return Calibrated(float(np.exp(x[0])), float(x[1]), float(np.exp(x[2]))), value


def _derivatives(x: Array, t: Array, m: Array, v: Array, c: Array) -> tuple[Array, Array, Array]:
    """Gradient, Hessian and expected Hessian of the loss."""
    q = 1.0 + np.exp(x[2]) * v
    share = 1.0 - 1.0 / q
    slope_z = np.stack([np.exp(x[0]) * m / np.sqrt(q), 1.0 / np.sqrt(q)])
    z = slope_z[0] + x[1] * slope_z[1]
    D = np.vstack([slope_z, -0.5 * z * share])
    p = expit(z)
    e = c * (p - t)
    fisher = (D * (c * p * (1.0 - p))) @ D.T + np.diag(PRIOR_PRECISION)
    bend = np.zeros((3, 3))
    bend[0, 0] = e @ D[0]
    bend[:2, 2] = bend[2, :2] = -0.5 * D[:2] @ (e * share)
    bend[2, 2] = -0.5 * e @ (D[2] * share + z * share / q)
    return D @ e + PRIOR_PRECISION * (x - PRIOR_MEAN), fisher + bend, fisher


def normalised(logits: Array) -> Array:
    """Probabilities of classes from log odds of each against the rest, along the last axis."""
    logs = log_expit(logits)
    out: Array = np.exp(logs - logsumexp(logs, axis=-1, keepdims=True))
    return out


def normalised_odds(logits: Array) -> Array:
    """Log odds of the normalised probabilities, accurate for certain classes too."""
    logs = log_expit(logits)
    logs -= logsumexp(logs, axis=-1, keepdims=True)
    first = np.argmax(logs, axis=-1)[..., None]  # all others are below one half
    rest = logs.copy()
    np.put_along_axis(rest, first, -np.inf, axis=-1)
    against = np.log1p(-np.exp(rest))
    np.put_along_axis(against, first, logsumexp(rest, axis=-1, keepdims=True), axis=-1)
    return logs - against


def enclosing(odds: Array, low: Array, middle: Array, high: Array) -> tuple[Array, Array]:
    """Ends of an interval of a probability that has the averaged probability inside.

    All are log odds: ``odds`` averages over f; the others are lower end, median and upper end of
    the distribution of f.  As far as averaging moves the median, it moves the end on that side.
    """
    moved = odds - middle
    return expit(low + np.minimum(moved, 0.0)), expit(high + np.maximum(moved, 0.0))


def decisive(p: Array, score: Array) -> Array:
    """Probabilities that agree with the sign of the score, ties and rounding included."""
    half_up = np.nextafter(0.5, 1.0)
    return np.where(score > 0, np.maximum(p, half_up), np.minimum(p, 0.5))
