r"""Links: class probabilities from the posterior of f.

The hinge is not a model of *y*: the pseudo-likelihoods of the two labels do not sum to one.  The
default link is therefore fitted to the training rows, each with moments of f from which the row
itself is left out; these moments are analytic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_ndtr, ndtr, ndtri

from ..core import arrays
from ..core.arrays import to_numpy
from ..core.types import Array, Engine
from ..engines import Serial
from ..likelihoods import Likelihood

# Prior of log a, b and log kappa on the standardised scale; b is measured from the log odds of the
# labels.  Chosen on realisations 0 to 2 of eleven of Raetsch's sets and folds 0 and 1 of 24 tabular
# sets, for linear and kernel machines together.
PRIOR_MEAN = np.array([np.log(2.0), 0.0, np.log(0.4)])
PRIOR_PRECISION = 1.0 / np.array([1.5, 3.0, 2.0]) ** 2
SOFTENED = 0.5  # count by which targets are softened,
FEW_ROWS = 500.0  # up to so many rows; beyond, so much less
# Standard deviation of log odds for the shape of the curve, as a share of the distance between the
# logistic and the probit curve: chosen on simulated sets by the coverage of probabilities.
SHAPE = 0.5
HUGE = 1e150  # of such deviations: squares of larger ones would overflow
PROBIT_SLOPE = 1.7  # of the logistic curve that is nearest to the probit one,
BEYOND = 2.0  # whose log odds are the smaller ones up to these
FIRST_ROWS = 5000  # rows of the first steps of a fit,
EVEN = 0.5  # if their weights are as even: the least share of them that they count as
PIECE = 2**14  # rows at a time: fewer, and threads wait for Python's lock between short calls
MAX_ITER = 100
ROUNDING = 1e-6  # share of its mean by which f varies at least, unless it is the same at all rows
ONE_THREAD = Serial()


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

    def judged(self, m: Array, v: Array) -> tuple[Array, Array]:
        """Log odds, and probabilities that agree with the sign of the score."""
        return self.logit(m, v), decisive(self.proba(m, v), self.score(m, v))

    def band(
        self,
        f: Array,
        m: Array,
        v: Array,
        levels: tuple[float, ...],
        known: Array | float = 1.0,
        centre: Array | None = None,
    ) -> Array:
        """Log odds at lower end, centre and upper end of an interval, ``(3, n)``.

        ``f`` are quantiles of f, as far as the link does not correct it, the median between the
        ends; the link averages over f ~ N(m, v).  There are two intervals, around the log odds of
        the median and around the prediction, which a link that levels off makes smaller; the ends
        are the outer ones.  ``known`` is the share of ``v`` that is of coefficients.  The rest, the
        effect of a new group, is not an error of the link, and the prediction averages over it.
        ``centre`` are the log odds at ``m`` and ``v``, if they are known.
        """
        z, centre = self.logit(f, np.zeros_like(f)), self.logit(m, v) if centre is None else centre
        sd, smaller = np.sqrt(known * self.variance(f[1], v)), self.levelled(v)
        below, above = (np.hypot(z[k] - z[1], ndtri(levels[k]) * sd) for k in (0, 2))
        share = known / smaller
        low = np.minimum(z[1] - below, centre - share * below)
        return np.stack([low, centre, np.maximum(z[1] + above, centre + share * above)])

    def levelled(self, v: Array) -> Array:
        """What the log odds of the mean of f are divided by in the average over f."""
        return np.ones_like(v)

    def variance(self, m: Array, v: Array) -> Array:
        """Variance of the log odds at ``m``, since the link is not known exactly.

        Here for the shape of the curve: in the tails no rows tell a logistic from a probit one.
        Rows inform the link where f has variances like ``v``.
        """
        out: Array = (SHAPE * to_probit(self.logit(m, np.zeros_like(m)))) ** 2
        return out


@dataclass(frozen=True)
class Calibrated(Link):
    r"""Logistic link :math:`\sigma\big((am + b)/\sqrt{1 + cv}\big)` with three fitted numbers.

    The weight *c* of the posterior variance is fitted like slope and offset; see
    :func:`score_link`.  ``cov`` is the covariance of log a, the log odds at ``centre``, and the log
    of c divided by a squared.
    """

    a: float
    b: float
    c: float
    centre: float = 0.0
    cov: Array | None = field(default=None, compare=False, repr=False)

    @property
    def offset(self) -> float:
        return self.b / self.a

    @property
    def uncertainty(self) -> Array | None:
        """The covariance of the numbers in which :meth:`slopes` are; ``None`` if not known."""
        return self.cov

    def score(self, m: Array, v: Array) -> Array:
        out: Array = (m + self.offset) / np.sqrt(1.0 + self.c * v)
        return out

    def logit(self, m: Array, v: Array) -> Array:
        return self.a * self.score(m, v)

    def judged(self, m: Array, v: Array) -> tuple[Array, Array]:
        z = self.logit(m, v)
        return z, decisive(expit(z), z)

    def levelled(self, v: Array) -> Array:
        return np.sqrt(1.0 + self.c * v)

    def variance(self, m: Array, v: Array) -> Array:
        shape = super().variance(m, v)
        if self.cov is None:
            return shape
        D = self.slopes(m, v)  # of averaged log odds, which are smaller
        out: Array = shape + (1.0 + self.c * v) * np.einsum("i...,ij,j...->...", D, self.cov, D)
        return out

    def slopes(self, m: Array, v: Array) -> Array:
        """Derivatives of the log odds in the numbers that are uncertain, those first."""
        q = 1.0 + self.c * v
        root, part, z = np.sqrt(q), 1.0 - 1.0 / q, self.logit(m, v)
        return np.stack([self.a * (m - self.centre) / root - z * part, 1.0 / root, -0.5 * z * part])


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


def to_probit(z: Array) -> Array:
    """From log odds to those of the probit curve that is nearest to the logistic one."""
    other = arrays.log_ndtr(z / PROBIT_SLOPE) - arrays.log_ndtr(-z / PROBIT_SLOPE)
    out: Array = arrays.functions(z).clip(other - z, -HUGE, HUGE)
    return out


def beyond(z: Array) -> Array:
    """:func:`to_probit` where the log odds of the probit curve are the larger ones, else zero."""
    if not isinstance(z, np.ndarray):
        gap = to_probit(z)
        return np.where(gap * z > 0.0, gap, 0.0)
    out, some = np.zeros_like(z), np.abs(z) > BEYOND
    far = z[some]
    gap = to_probit(far)
    out[some] = np.where(gap * far > 0.0, gap, 0.0)
    return out


def plain_link(probability: str, likelihood: Likelihood) -> Link | None:
    """A link that needs no fitting; ``None`` for the calibrated one."""
    if probability == "calibrated":
        return None
    return ProbitLink() if probability == "probit" else Normalised(likelihood)


def fit_link(
    y: Array,
    m: Array,
    v: Array,
    c: Array,
    *,
    earlier: tuple[Link, float] | None = None,
    engine: Engine = ONE_THREAD,
) -> Calibrated:
    """Fit the calibrated link to moments of f at rows left out.

    ``earlier`` is a link fitted to rows that are no longer stored, and their weight: they count as
    rows on either side of the mean with the probabilities that it gives.  Sums over rows are by
    the ``engine``.
    """
    rows, few = link_rows(y, m, v, c, earlier, engine)
    x, _ = posterior_mode(rows, posterior_mode(few)[0] if few is not rows else None)
    return rows.scale.link(x, np.linalg.inv(link_sums(x, rows, rows.prior_mean()).fisher))


def link_rows(
    y: Array,
    m: Array,
    v: Array,
    c: Array,
    earlier: tuple[Link, float] | None = None,
    engine: Engine = ONE_THREAD,
) -> tuple[LinkRows, LinkRows]:
    """The rows to which a link is fitted, and a few of them for the first steps of a search.

    These are the same where there are not many, or where few would not do for all: beside an
    earlier link, or if the weights of a few are so uneven that they count as half as many or less.
    """
    scale, t, n = Scale.of(m, c), targets(y, c), y.shape[0]
    if earlier is not None:
        link, weight = earlier
        old = scale.mean + scale.sd * np.linspace(-2.0, 2.0, 9), np.full(9, v.mean())
        t, c = np.concatenate([t, link.proba(*old)]), np.concatenate([c, np.full(9, weight / 9)])
        m, v = np.concatenate([m, old[0]]), np.concatenate([v, old[1]])
    rows = LinkRows.of(t, m, v, c, scale, engine)
    if earlier is not None or n <= FIRST_ROWS:
        return rows, rows
    some = slice(None, None, -(-n // FIRST_ROWS))
    here = [to_numpy(x[some]) for x in (t, m, v, c)]
    few = LinkRows.of(here[0], here[1], here[2], here[3], scale)
    return rows, few if few.c.sum() ** 2 > EVEN * few.c.size * (few.c @ few.c) else rows


def score_link(y: Array, m: Array, v: Array, c: Array) -> tuple[Calibrated, float]:
    r"""The calibrated link, by Newton's method, and the loss that it reaches.

    With :math:`\tilde m`, of mean zero and unit variance over the rows, and :math:`\tilde v` on
    the same scale the link is :math:`\sigma\big((a\tilde m + b)/\sqrt{1 + \kappa a^2\tilde
    v}\big)`; the factor :math:`\kappa = \pi/8` would average a logistic link over f.  The
    weighted log loss, with targets softened by half a count up to 500 rows and by less beyond, is
    minimised under :math:`\log a \sim N(\log 2, 1.5^2)`, :math:`b \sim N(b_0, 3^2)` and
    :math:`\log\kappa \sim N(\log 0.4, 2^2)`, with :math:`b_0` the log odds of the labels.  So
    neither the scale of f nor a rare class changes the fit.  Without a prior the slope of
    separable data diverges.
    """
    scale = Scale.of(m, c)
    x, value = posterior_mode(LinkRows.of(targets(y, c), m, v, c, scale))
    return scale.link(x), value


class Scale(NamedTuple):
    """Mean and standard deviation of the moments to which a link is fitted."""

    mean: float
    sd: float

    @staticmethod
    def of(m: Array, c: Array) -> Scale:
        weight = arrays.total(c)
        mean = float(c @ m / weight)
        sd = float(c @ (m - mean) ** 2 / weight) ** 0.5
        return Scale(mean, sd if sd > ROUNDING * abs(mean) else 1.0)

    def link(self, x: Array, cov: Array | None = None) -> Calibrated:
        """The link of parameters (log a, b, log kappa), on the scale of f."""
        a = float(np.exp(x[0])) / self.sd
        numbers = a, float(x[1]) - a * self.mean, float(np.exp(x[2])) * a * a
        return Calibrated(*numbers, self.mean, cov)


class LinkRows(NamedTuple):
    """Targets, moments of f and weights of the rows to which a link is fitted.

    The moments are on the scale on which its parameters are.
    """

    t: Array
    m: Array
    v: Array
    c: Array
    scale: Scale
    engine: Engine

    @staticmethod
    def of(
        t: Array,
        m: Array,
        v: Array,
        c: Array,
        scale: Scale,
        engine: Engine = ONE_THREAD,
    ) -> LinkRows:
        m, v = (m - scale.mean) / scale.sd, v / scale.sd**2
        return LinkRows(t, m, v, c, scale, engine)

    def sums(self, of: Callable[[Array, Array, Array, Array], tuple[Any, ...]]) -> list[Any]:
        """Sums over rows: ``of`` targets, moments and weights of some gives theirs."""

        def visit(at: slice) -> tuple[Any, ...]:
            with np.errstate(over="ignore", invalid="ignore"):  # a trial step may be far too long
                return of(self.t[at], self.m[at], self.v[at], self.c[at])

        n = int(self.t.shape[0])
        parts = self.engine.over(visit, n, n if arrays.is_foreign(self.t) else PIECE)
        return [to_numpy(sum(each[1:], each[0])) for each in zip(*parts, strict=True)]

    def prior_mean(self) -> Array:
        """The mean of the prior of the parameters; that of b is the log odds of the targets."""
        share = float(self.c @ self.t / arrays.total(self.c))
        return PRIOR_MEAN + np.array([0.0, np.log(share) - np.log1p(-share), 0.0])


def masses(y: Array, c: Array) -> Array:
    """Weight of the rows of either label, positive ones first."""
    positive = float(arrays.total(c[y > 0]))
    return np.array([positive, float(arrays.total(c[~(y > 0)]))])


def targets(y: Array, c: Array) -> Array:
    """Target probabilities of rows: their labels, softened where rows are few."""
    positive, negative = map(float, masses(y, c))
    soft = SOFTENED * min(1.0, FEW_ROWS / max(positive + negative, 1.0))
    high, low = (positive + soft) / (positive + 2.0 * soft), soft / (negative + 2.0 * soft)
    return arrays.double(y > 0) * (high - low) + low


class Sums(NamedTuple):
    """Loss of a link with parameters (log a, b, log kappa), and its derivatives in these."""

    loss: float
    slope: Array
    hessian: Array
    fisher: Array  # the expected Hessian


def link_sums(x: Array, rows: LinkRows, prior: Array) -> Sums:
    """The log loss minus the log prior, at x, and its derivatives."""
    loss, slope, bend, fisher = rows.sums(partial(_summed, x))
    gap, P = x - prior, np.diag(PRIOR_PRECISION)
    loss = float(loss) + 0.5 * float(gap @ P @ gap)
    return Sums(loss, slope + P @ gap, fisher + bend + P, fisher + P)


def posterior_mode(rows: LinkRows, start: Array | None = None) -> tuple[Array, float]:
    """Parameters (log a, b, log kappa) of least loss, and the loss."""
    prior = rows.prior_mean()
    x = prior if start is None else start
    now = link_sums(x, rows, prior)
    for _ in range(MAX_ITER):
        bend = now.hessian if np.linalg.eigvalsh(now.hessian)[0] > 0 else now.fisher
        step = np.linalg.solve(bend, now.slope)
        step *= min(1.0, 2.0 / np.max(np.abs(step), initial=1e-300))
        new = link_sums(x - step, rows, prior)
        # gains below the rounding of the loss cannot be seen in it: trust the step there
        while float(step @ now.slope) > 1e-12 * (1.0 + abs(now.loss)) and not new.loss <= now.loss:
            step *= 0.5
            new = link_sums(x - step, rows, prior)
        x, now = x - step, new
        if np.max(np.abs(step)) < 1e-10:
            break
    return x, now.loss


def scored(z: Array, t: Array) -> tuple[Array, Array, Array]:
    """Probabilities p, p (1 - p), and log scores for target probabilities t, from log odds z."""
    xp = arrays.of(z)
    e = xp.exp(-xp.abs(z))
    s = 1.0 / (1.0 + e)
    small = e * s
    return xp.where(z > 0, s, small), small * s, t * z - xp.clip(z, 0.0, None) - xp.log1p(e)


def _summed(x: Array, t: Array, m: Array, v: Array, c: Array) -> tuple[Any, ...]:
    """Log loss of rows, its gradient, and its Hessian less the expected one, which is last."""
    a, xp = float(np.exp(x[0])), arrays.of(m)
    q = 1.0 / (1.0 + float(np.exp(x[2])) * a * a * v)
    r, inverse = 1.0 - q, xp.sqrt(q)
    part = a * m * inverse
    z = part + float(x[1]) * inverse
    zr = z * r
    D = xp.stack([part - zr, inverse, -0.5 * zr])  # of z in log a, b, log kappa
    p, w, score = scored(z, t)
    e = c * (p - t)
    eq = e * q
    turn = float(eq @ zr)
    by = to_numpy(D @ (e - eq))  # of log a, b, log kappa
    return -(c @ score), D @ e, _bend(by, turn, float(eq @ part)), (D * (c * w)) @ D.T


def _bend(by: Array, turn: float, part: float) -> Array:
    """Sums of c (p - t) times the second derivatives of log odds."""
    bend = np.empty((3, 3))
    bend[0, 0] = part - by[0] - 2.0 * turn
    bend[0, 1] = bend[1, 0] = -by[1]
    bend[0, 2] = bend[2, 0] = -0.5 * by[0] - turn
    bend[1, 1] = 0.0
    bend[1, 2] = bend[2, 1] = -0.5 * by[1]
    bend[2, 2] = -0.5 * (by[2] + turn)
    return bend


def enclosing(odds: Array, low: Array, middle: Array, high: Array) -> tuple[Array, Array]:
    """Ends of an interval of log odds that has those of the averaged probability inside.

    ``odds`` averages over f; the others are lower end, median and upper end of the distribution of
    f.  As far as averaging moves the median, it moves the end on that side.
    """
    moved = odds - middle
    return low + np.minimum(moved, 0.0), high + np.maximum(moved, 0.0)


def of_both(low: Array, high: Array) -> tuple[Array, Array]:
    """Least and largest probabilities of two labels, ``(n, 2)``, from log odds of the second."""
    (a, b), (c, d) = _sides(low), _sides(high)
    return np.stack([c, b], axis=1), np.stack([a, d], axis=1)


def _sides(z: Array) -> tuple[Array, Array]:
    """Probabilities of either label, with all digits of both."""
    e = np.exp(-np.abs(z))
    large = 1.0 / (1.0 + e)
    small, up = e * large, z > 0
    return np.where(up, small, large), np.where(up, large, small)


def decisive(p: Array, score: Array) -> Array:
    """Probabilities that agree with the sign of the score, ties and rounding included."""
    half_up = np.nextafter(0.5, 1.0)
    return np.where(score > 0, np.maximum(p, half_up), np.minimum(p, 0.5))
