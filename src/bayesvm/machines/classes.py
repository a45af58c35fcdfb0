r"""Links over more than two classes: probabilities of all classes from the posteriors of their f.

Every class has an f of its own, of mean :math:`m_k` and variance :math:`v_k` at a row.  A link
gives logs of the classes' probabilities up to a constant; normalised they are the probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_expit

from ..core.arrays import logsumexp
from ..core.types import Array
from .calibration import Link

# log a, log c and an offset, of f in units of its spread over rows.  The offsets' is so wide that
# a class of few rows can have one; chosen on folds 0 and 1 of 17 sets of up to 850 rows, among 40
# settings, by log loss (mean of the logarithm over sets).
PRIOR_MEAN = (float(np.log(2.0)), float(np.log(0.4)), 0.0)
PRIOR_SD = (0.5, 1.5, 4.0)
SOFTENED = 0.1  # counts by which a class's labels are softened
FIRST_ROWS = 5000  # rows of the first steps of a fit
MAX_ITER = 100
TOL = 1e-10
FLAT = 1e-12  # share of the size of f that is rounding
LARGE = 700.0  # exponents beyond would overflow
NEAR_ONE = 1.0 - 1e-15
EARLIER = np.linspace(-2.0, 2.0, 9)  # f of a class and of the others, that stand for earlier rows


class ClassLink:
    """Probabilities of classes where their f are independent and Gaussian; classes come last."""

    @property
    def offsets(self) -> Array:
        """What is added to the f of each class."""
        raise NotImplementedError

    def logs(self, m: Array, v: Array) -> Array:
        """Logs of the probabilities up to a constant, from moments of f."""
        raise NotImplementedError

    def proba(self, m: Array, v: Array) -> Array:
        """Probabilities of the classes."""
        return normalised(self.logs(m, v))

    def odds(self, m: Array, v: Array) -> Array:
        """Log odds of each class against the others."""
        return class_odds(self.logs(m, v))


@dataclass(frozen=True)
class Separate(ClassLink):
    """Each class against the rest by a link of its own, then normalised."""

    links: Sequence[Link]

    @property
    def offsets(self) -> Array:
        return np.array([link.offset for link in self.links])

    def logs(self, m: Array, v: Array) -> Array:
        each = [link.logit(m[..., j], v[..., j]) for j, link in enumerate(self.links)]
        out: Array = log_expit(np.stack(each, axis=-1))
        return out


@dataclass(frozen=True, eq=False)
class Softmax(ClassLink):
    r"""The softmax of :math:`z_k = (a m_k + b_k)/\sqrt{1 + c v_k}`.

    Slope and weight of the variance are shared, every class has an offset.
    """

    a: float
    b: Array  # (classes,)
    c: float

    @property
    def offsets(self) -> Array:
        return self.b / self.a

    def logs(self, m: Array, v: Array) -> Array:
        out: Array = (self.a * m + self.b) / np.sqrt(1.0 + self.c * v)
        return out


def normalised(logs: Array) -> Array:
    """Probabilities from their logs up to a constant, along the last axis."""
    out: Array = np.exp(logs - logsumexp(logs, axis=-1, keepdims=True))
    return out


def class_odds(logs: Array) -> Array:
    """Log odds from logs of probabilities up to a constant, accurate for certain classes too."""
    logs = logs - logsumexp(logs, axis=-1, keepdims=True)
    # all others are at most one half
    first = np.arange(logs.shape[-1]) == np.argmax(logs, axis=-1)[..., None]
    rest = np.where(first, -np.inf, logs)
    total = logsumexp(rest, axis=-1, keepdims=True)
    out: Array = logs - np.where(first, total, np.log1p(-np.exp(rest)))
    return out


def class_bands(logs: Array) -> Array:
    r"""Log odds of each class at lower end, middle and upper end, ``(3, n, classes)``.

    ``logs`` are those of the classes where their f are at lower end, median and upper end, each
    independent of the others.  As one class moves to an end and the others stay, the log odds
    :math:`z_k = l_k - \log\sum_{j \ne k} e^{l_j}` move by a known amount; the squares of what
    moves them in one direction add up.
    """
    low, middle, high = logs
    odds = class_odds(middle)
    others = middle - odds  # log of the sum over the other classes
    below, above = np.square(low - middle), np.square(high - middle)
    for j in range(logs.shape[-1]):
        own = slice(j, j + 1)
        # among the others of class k, the share of class j
        share = np.exp(np.minimum(middle[..., own] - others, 0.0))
        share = np.where(np.arange(logs.shape[-1]) == j, 0.0, share)
        down, up = (np.expm1(np.minimum(end - middle, LARGE))[..., own] for end in (low, high))
        below += np.square(np.log1p(share * up))
        above += np.square(np.log1p(np.maximum(share * down, -NEAR_ONE)))
    return np.stack([odds - np.sqrt(below), odds, odds + np.sqrt(above)])


# ---------------------------------------------------------------------------------------------
# Fitting


def fit_softmax(
    codes: Array, m: Array, v: Array, c: Array, *, earlier: tuple[ClassLink, float] | None = None
) -> Softmax:
    """The softmax link of least log loss at moments of f at rows left out, ``(n, classes)``.

    ``codes`` are the numbers of the rows' classes and ``c`` weights.  ``earlier`` is a link fitted
    to rows that are no longer stored, and their weight: they count as rows at which the f of one
    class differs from that of all others, with the probabilities that it gives.
    """
    return score_softmax(codes, m, v, c, earlier)[0]


def score_softmax(
    codes: Array, m: Array, v: Array, c: Array, earlier: tuple[ClassLink, float] | None = None
) -> tuple[Softmax, float]:
    r"""The softmax link, by Newton's method, and the loss that it reaches.

    In units of the spread *s* of f (the root of its variance over rows, averaged over classes)
    :math:`\log as \sim N(\log 2, 0.5^2)`, :math:`\log cs^2 \sim N(\log 0.4, 1.5^2)` and
    :math:`b_k \sim N(0, 4^2)`; labels are softened by a tenth of a count.
    """
    K, share = m.shape[1], c / c.sum()
    centre = share @ m
    unit = float(np.sqrt(np.mean(share @ np.square(m - centre))))
    unit = unit if unit > FLAT * float(np.abs(m).max()) else 1.0
    m, v, t = m / unit, v / unit**2, class_targets(codes, c, K)
    if earlier is not None:
        link, weight = earlier
        own = np.kron(np.eye(K), np.ones((EARLIER.size, 1))) > 0
        f = np.where(own, 1.0, -1.0) * np.tile(EARLIER, K)[:, None]
        spread = np.broadcast_to(v.mean(axis=0), f.shape)
        t = np.concatenate([t, link.proba(f, spread * unit**2)])
        m, v = np.concatenate([m, f / unit]), np.concatenate([v, spread])
        c = np.concatenate([c, np.full(len(f), weight / len(f))])
    x = prior_of(K)[0]
    if c.size > FIRST_ROWS:  # most steps on a part of the rows, the last few on all
        some = slice(None, None, -(-c.size // FIRST_ROWS))
        x = _minimise(x, t[some], m[some], v[some], c[some])[0]
    x, value = _minimise(x, t, m, v, c)
    return Softmax(float(np.exp(x[0])) / unit, x[2:], float(np.exp(x[1])) / unit**2), value


def class_targets(codes: Array, c: Array, classes: int) -> Array:
    """Target probabilities of rows: their classes, softened by a tenth of a count."""
    left = SOFTENED / (np.bincount(codes, c, classes) + 2.0 * SOFTENED)
    out = np.repeat((left / (classes - 1))[codes][:, None], classes, axis=1)
    out[np.arange(codes.size), codes] = 1.0 - left[codes]
    return out


def prior_of(classes: int) -> tuple[Array, Array]:
    """Mean and precision of (log a, log c, b)."""
    each = np.array([1, 1, classes])
    return np.repeat(PRIOR_MEAN, each), np.repeat(1.0 / np.square(PRIOR_SD), each)


def loss_of(x: Array, t: Array, m: Array, v: Array, c: Array) -> float:
    """Log loss for targets ``t``, minus the log prior, at x = (log a, log c, b)."""
    mean, precision = prior_of(m.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):  # a trial step may be far too long
        z = (np.exp(x[0]) * m + x[2:]) / np.sqrt(1.0 + np.exp(x[1]) * v)
        fit = float(c @ (logsumexp(z, axis=1) - np.einsum("ij,ij->i", t, z)))
    return fit + 0.5 * float(precision @ np.square(x - mean))


def derivatives(x: Array, t: Array, m: Array, v: Array, c: Array) -> tuple[Array, Array, Array]:
    """Gradient, Hessian and expected Hessian of the loss."""
    mean, precision = prior_of(m.shape[1])
    q = 1.0 + np.exp(x[1]) * v
    share, by_b = 1.0 - 1.0 / q, 1.0 / np.sqrt(q)
    by_a = np.exp(x[0]) * m * by_b
    z = by_a + x[2:] * by_b
    by_c = -0.5 * z * share
    p = normalised(z)
    e, weighted = c[:, None] * (p - t), c[:, None] * p * by_b
    slope = np.concatenate([[np.vdot(e, by_a), np.vdot(e, by_c)], (e * by_b).sum(axis=0)])
    # c (diag p - p p') between the derivatives of z
    about = [d - np.einsum("ij,ij->i", p, d)[:, None] for d in (by_a, by_c)]
    fisher = np.diag(precision)
    for j, left in enumerate(about):
        for k, right in enumerate(about):
            fisher[j, k] += np.einsum("i,ij,ij,ij->", c, p, left, right)
        fisher[j, 2:] = fisher[2:, j] = np.einsum("ij,ij->j", weighted, left)
    fisher[2:, 2:] -= weighted.T @ (p * by_b)
    fisher[2:, 2:] += np.diag(np.einsum("ij,ij->j", weighted, by_b))
    bend = np.zeros_like(fisher)
    bend[0, 0] = np.vdot(e, by_a)
    bend[0, 1] = bend[1, 0] = -0.5 * np.vdot(e, by_a * share)
    bend[1, 1] = -0.5 * np.vdot(e, by_c * share + z * share / q)
    bend[1, 2:] = bend[2:, 1] = -0.5 * np.einsum("ij,ij,ij->j", e, by_b, share)
    return slope + precision * (x - mean), fisher + bend, fisher


def _minimise(x: Array, t: Array, m: Array, v: Array, c: Array) -> tuple[Array, float]:
    """The parameters of least loss, and the loss."""
    value = loss_of(x, t, m, v, c)
    for _ in range(MAX_ITER):
        slope, curvature, fisher = derivatives(x, t, m, v, c)
        step = np.linalg.solve(curvature if np.linalg.eigvalsh(curvature)[0] > 0 else fisher, slope)
        step *= min(1.0, 2.0 / np.max(np.abs(step), initial=1e-300))
        new = loss_of(x - step, t, m, v, c)
        # gains below the rounding of the loss cannot be seen in it: the step is taken there
        while float(step @ slope) > 1e-12 * (1.0 + abs(value)) and not new <= value:
            step *= 0.5
            new = loss_of(x - step, t, m, v, c)
        x, value = x - step, new
        if np.max(np.abs(step)) < TOL:
            break
    return x, value
