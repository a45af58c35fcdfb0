r"""The link of a linear machine: log odds that are a curve in f, or constant.

A linear f follows the log odds as far as they are linear.  Where they are not, they often rise at
another rate on one side of the boundary than on the other, or at another rate far from it, and a
link may follow that without another boundary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_expit, ndtri

from ..core import arrays
from ..core.types import Array, Engine
from .calibration import (
    ONE_THREAD,
    PRIOR_PRECISION,
    Calibrated,
    Link,
    LinkRows,
    beyond,
    link_rows,
    link_sums,
    posterior_mode,
    scored,
    to_probit,
)

# Standard deviations of the priors of skewness and tail, chosen on folds 0 and 1 of 36 tabular sets
# and realisations 0 to 4 of Raetsch's sets.
CURVE_SD = np.array([0.5, 0.3])
# A constant probability is chosen if its loss is lower by so many nats: with fewer than about a
# hundred rows it cannot be.
USELESS = 3.0
CURVE = [0, 1, 3, 4]  # of the five numbers, those that count without variance
INSIDE = 1e-3  # share of an interval, in log odds, that is beyond the prediction at least
LARGE = 350.0  # exponents beyond would overflow when they are squared
# Chosen on simulated sets by the coverage of probabilities: standard deviation for the shape of the
# curve, as a share of the distance to the probit one, and the share of all variances that counts.
FAR = 0.6
COUNTED = 0.85
HEAVIER = 3.0  # prior standard deviation of such shares, for heavier tails; chosen likewise
ENOUGH = 1e-7  # nats that the next step to the least loss would gain: 0.0004 standard deviations
LEFT = 0.3  # share of the gain of a step that the next one may gain
STEP = 0.1  # of differences, in standard deviations of the numbers by the expected Hessian
FLAT = np.array([-6.0, 0.0, 0.0])  # prior standard deviations of its parameters from their means


class Spread(NamedTuple):
    """What is known of the link."""

    x: Array  # log a, log odds at the centre, log kappa, skewness and tail
    centre: float
    cov: Array
    shape: float  # how much heavier tails are, as a share of the way from probit to logistic


@dataclass(frozen=True)
class Skewed(Calibrated):
    r"""Logistic link of log odds that are a skewed curve with tails in f.

    .. math::

        \mathrm{logit}\,p = \sinh\big(e^\tau \operatorname{arsinh} r\big), \qquad
        r = \frac{s\cosh\delta + 2\sinh\delta\,\log\cosh(s/2)}{\sqrt{1 + cv}}, \qquad
        s = am + b .

    Far from the boundary :math:`s = 0` the slopes of r in s are :math:`e^\delta` and
    :math:`e^{-\delta}`, and the log odds rise as the power :math:`e^\tau` of r.  With
    :math:`\delta = \tau = 0` it is the link :class:`.Calibrated`; without variance and with
    :math:`\tau = 0` it is beta calibration of :math:`\sigma(s)`.

    References
    ----------
    Kull, Silva Filho & Flach (2017), *Beta calibration: a well-founded and easily implemented
    improvement on logistic calibration for binary classifiers*; Jones & Pewsey (2009),
    *Sinh-arcsinh distributions*.
    """

    skew: float = 0.0
    tail: float = 0.0
    spread: Spread | None = field(default=None, compare=False, repr=False)

    def score(self, m: Array, v: Array) -> Array:
        s = self.a * (m + self.offset)
        out: Array = stretched(bent(s, self.skew) / np.sqrt(1.0 + self.c * v), self.tail) / self.a
        return out

    @property
    def uncertainty(self) -> Array | None:
        return self.cov if self.spread is None else COUNTED * self.spread.cov

    def slopes(self, m: Array, v: Array) -> Array:
        if self.spread is None:
            return super().slopes(m, v)
        x, centre, _, _ = self.spread
        own = np.exp(x[0]) * (m - centre)
        return _derivatives(own, own + x[1], 1.0 + self.c * v, x[3], x[4]).each

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

        At either end f and the numbers of the link are moved together, in the direction in which
        the log odds change most for their covariance.  Where the curve leads on to more extreme
        log odds than those of the rows, it may also be the probit one, and on the other side as
        much heavier as left-out rows allow.
        """
        if self.spread is None:
            return super().band(f, m, v, levels, known, centre)
        x, at, cov, shape = self.spread
        x, cov = x[CURVE], cov[np.ix_(CURVE, CURVE)]
        a, middle = np.exp(x[0]), self.logit(m, v) if centre is None else centre
        own = a * (f[1] - at)
        z, D = _curve(own, own + x[1], x[2], x[3])
        each, gap = cov @ D, beyond(z)
        square = np.einsum("ij,ij->j", D, each)
        ends = []
        for k, outer in ((0, np.minimum), (2, np.maximum)):
            far = ndtri(levels[k])
            sd = (f[k] - f[1]) / far
            turn = a * D[1] * sd
            steps = np.sqrt(COUNTED) * far / np.sqrt(turn * turn + square)
            log_a, b, skew, tail = (number + steps * by for number, by in zip(x, each, strict=True))
            s = np.exp(log_a) * (f[1] + steps * turn * sd - at) + b
            moved = outer(stretched(bent(s, skew), tail) - z, 0.0)
            bound = (FAR * far) * outer(gap, 0.0)
            out = np.sign(far) * np.sqrt(moved * moved + bound * bound)
            end = z + out
            if shape != 0.0:
                end = np.where(z * far < 0.0, _heavier(end, -shape), end)
            ends.append(outer(end, middle + INSIDE * out))
        return np.stack([ends[0], middle, ends[1]])


def _heavier(z: Array, share: float) -> Array:
    """Log odds with tails heavier by a share of the distance to the probit curve."""
    out: Array = z / (1.0 + share * beyond(z) / np.where(z == 0.0, 1.0, z))
    return out


def halves(x: Array | float) -> tuple[Any, Any]:
    """The even and the odd part of exp(x), as numbers of Python for one of them."""
    even, odd = np.cosh(x), np.sinh(x)
    return (even, odd) if np.ndim(x) else (float(even), float(odd))


def bent(s: Array, skew: Array | float) -> Array:
    """Log odds of a skewed link without variance and tails."""
    even, odd = halves(skew)
    out: Array = s * even + log_cosh(s) * (2.0 * odd)
    return out


def _bent_slopes(s: Array, skew: float, root: Any) -> tuple[Array, Array, Array]:
    """:func:`bent` over a root, and its derivatives in s and in the skewness."""
    xp, (even, odd) = arrays.functions(s), halves(skew)
    size = xp.abs(s)
    e = xp.exp(-size)
    curve = 0.5 * size + xp.log1p(e) - float(np.log(2.0))  # log cosh(s / 2)
    rise = xp.sign(s) * ((1.0 - e) / (1.0 + e) * odd) + even
    parts = s * even + curve * (2.0 * odd), rise, s * odd + curve * (2.0 * even)
    r, rise, turn = (part / root for part in parts)
    return r, rise, turn


def stretched(r: Array, tail: Array | float) -> Array:
    """Log odds with tails."""
    if np.all(tail == 0.0):
        return r
    xp, power = arrays.functions(r), np.exp(tail) if np.ndim(tail) else float(np.exp(tail))
    out: Array = xp.sinh(xp.clip(arsinh(r) * power, -LARGE, LARGE))
    return out


def arsinh(r: Array) -> Array:
    """The inverse of sinh."""
    xp = arrays.functions(r)
    out: Array = (np.arcsinh if xp is np else xp.asinh)(r)
    return out


def _stretched_slopes(r: Array, tail: float) -> tuple[Array, Array, Array]:
    """:func:`stretched`, and its derivatives in r and in the tail."""
    xp, far, power = arrays.functions(r), arsinh(r), float(np.exp(tail))
    up = xp.exp(xp.clip(power * far, -LARGE, LARGE))
    down = 1.0 / up
    last = (0.5 * power) * (up + down)
    return 0.5 * (up - down), last / xp.sqrt(1.0 + r * r), last * far


def log_cosh(s: Array) -> Array:
    """log cosh(s / 2)."""
    xp = arrays.functions(s)
    size = xp.abs(s)
    out: Array = 0.5 * size + xp.log1p(xp.exp(-size)) - float(np.log(2.0))
    return out


def fit_skewed(
    y: Array,
    m: Array,
    v: Array,
    c: Array,
    *,
    earlier: tuple[Link, float] | None = None,
    engine: Engine = ONE_THREAD,
) -> Calibrated:
    r"""Fit the skewed link to moments of f at rows left out.

    The loss is that of :func:`.score_link`, with :math:`\delta \sim N(0, 0.5^2)` and
    :math:`\tau \sim N(0, 0.3^2)`, and the search starts where that ends.  If a constant has a loss
    that is lower by three nats, f does not inform about the labels: the slope is then almost zero.
    """
    rows, few = link_rows(y, m, v, c, earlier, engine)
    prior, precision = rows.prior_mean(), np.append(PRIOR_PRECISION, CURVE_SD**-2)
    x, value = posterior_mode(few)
    flat = prior + FLAT / np.sqrt(PRIOR_PRECISION)
    up, down = float(log_expit(flat[1])), float(log_expit(-flat[1]))
    constant = -float(rows.c @ (rows.t * up + (1.0 - rows.t) * down))
    if few is not rows:
        value = link_sums(x, rows, prior).loss
        if constant < value - USELESS:  # or so it seems from few rows
            x, value = posterior_mode(rows, x)
    centre, start = np.append(prior, [0.0, 0.0]), np.append(x, [0.0, 0.0])
    if constant < value - USELESS:
        plain, known = rows.scale.link(flat), _spread(start, rows, centre, precision)
        return Skewed(plain.a, plain.b, plain.c, plain.centre, spread=known)
    found = _least(start, few, centre, precision)
    if few is not rows:
        if loss_of(found, rows, centre, precision, hessian=False)[0] <= value:
            more = _unexpected(found, few, rows, precision)
            found = _least(found, rows, centre, precision, more)
        else:  # the few were not like all
            start[:3] = posterior_mode(rows, x)[0]
            found = _least(start, rows, centre, precision)
    plain, known = rows.scale.link(found[:3]), _spread(found, rows, centre, precision)
    skew, tail = map(float, found[3:])
    return Skewed(plain.a, plain.b, plain.c, plain.centre, None, skew, tail, known)


def _least(
    x: Array, rows: LinkRows, centre: Array, precision: Array, more: Array | float = 0.0
) -> Array:
    """Where the loss is least.

    By steps with the expected Hessian from x, and ``more`` if it is known what that lacks, as long
    as they leave little of what they gain; if the model is far from the rows that Hessian is too,
    and it only scales the numbers.
    """
    reach, value, last = 6.0 / np.sqrt(precision), np.inf, np.inf
    new, now, unit = x, x, np.ones_like(x)
    while True:
        loss, slope, fisher = loss_of(new, rows, centre, precision)
        if not loss <= value:
            break
        now, value, unit = new, loss, 1.0 / np.sqrt(np.diag(fisher))
        # numbers at an end of their range stay there if the loss falls beyond it
        free = (np.abs(now - centre) < reach) | (slope * (now - centre) > 0.0)
        step = np.zeros_like(x)
        step[free] = np.linalg.solve((fisher + more)[np.ix_(free, free)], slope[free])
        gain = 0.5 * float(step @ slope)
        if 0.0 <= gain < ENOUGH:
            return now
        if not 0.0 < gain < LEFT * last:
            break
        new, last = np.clip(now - step, centre - reach, centre + reach), gain

    def scaled(u: Array) -> tuple[float, Array]:
        loss, slope, _ = loss_of(centre + u * unit, rows, centre, precision, hessian=False)
        return loss, slope * unit

    found = minimize(
        scaled,
        (now - centre) / unit,
        method="L-BFGS-B",
        jac=True,
        bounds=list(zip(-reach / unit, reach / unit, strict=True)),
        options={"ftol": 1e-13, "gtol": 1e-4},
    )
    return np.asarray(centre + found.x * unit)


def _unexpected(x: Array, few: LinkRows, rows: LinkRows, precision: Array) -> Array:
    """What the expected Hessian of the log loss of rows lacks at x.

    By differences of the gradient at a few rows.
    """
    none = np.zeros_like(x)
    fisher = loss_of(x, few, x, none)[2]
    steps = STEP / np.sqrt(np.diag(fisher) + precision)
    H = np.empty_like(fisher)
    for k, move in enumerate(np.diag(steps)):
        below, above = (loss_of(x + s * move, few, x, none, hessian=False)[1] for s in (-1, 1))
        H[k] = (above - below) / (2.0 * steps[k])
    return (0.5 * (H + H.T) - fisher) * (float(arrays.total(rows.c)) / float(few.c.sum()))


def _spread(x: Array, rows: LinkRows, centre: Array, precision: Array) -> Spread:
    """The uncertainty of the link at x = (log a, b, log kappa, delta, tau).

    The covariance is that of the numbers with other rows of the same kind, and of the shrinkage by
    the prior, by their posterior second moments around its mean.
    """

    def visit(t: Array, m: Array, v: Array, c: Array) -> tuple[Any, ...]:
        z, D = _slopes(x, m, v)
        p, gap = arrays.expit(z), to_probit(z)
        w = c * p * (1.0 - p)
        return (D * w) @ D.T, D @ (w * gap), w @ gap**2, gap @ (c * (t - p))

    # the last three are for a step of a sixth number, the share of the probit curve
    own, both, bend, lean = rows.sums(visit)
    pull = np.diag(precision)
    V = np.linalg.inv(own + pull)
    cov = V @ (own + pull @ (np.outer(x - centre, x - centre) + V) @ pull) @ V
    share = float(lean) / (float(bend) - float(both @ V @ both) + HEAVIER**-2)
    numbers = x - np.append(np.log(rows.scale.sd), np.zeros(4))
    return Spread(numbers, rows.scale.mean, cov, min(share, 0.0))


class Slopes(NamedTuple):
    """Log odds at rows, and their derivatives in (log a, b, log kappa, delta, tau)."""

    z: Array
    each: Array  # (5, n)


def _slopes(x: Array, m: Array, v: Array) -> Slopes:
    log_a, b, log_kappa, skew, tail = map(float, x)
    a = float(np.exp(log_a))
    q = 1.0 + float(np.exp(log_kappa)) * a * a * v
    return _derivatives(a * m, a * m + b, q, skew, tail)


def _derivatives(own: Array, s: Array, q: Array, skew: float, tail: float) -> Slopes:
    """At am, measured from the centre of the rows, s = am + b and q = 1 + cv."""
    xp, part = arrays.of(q), 1.0 - 1.0 / q
    r, rise, turn = _bent_slopes(s, skew, xp.sqrt(q))
    z, steep, last = _stretched_slopes(r, tail)
    each = [rise * own - r * part, rise, -0.5 * r * part, turn]
    return Slopes(z, xp.stack([*(steep * x for x in each), last]))


def _curve(own: Array, s: Array, skew: float, tail: float) -> Slopes:
    """The same without variance, and so without the derivative in log kappa, which is zero."""
    r, rise, turn = _bent_slopes(s, skew, 1.0)
    z, steep, last = _stretched_slopes(r, tail)
    rise = steep * rise
    return Slopes(z, np.stack([rise * own, rise, steep * turn, last]))


def loss_of(
    x: Array, rows: LinkRows, centre: Array, precision: Array, hessian: bool = True
) -> tuple[float, Array, Array]:
    """Log loss, minus the log prior, at x = (log a, b, log kappa, delta, tau).

    Also its gradient and, if ``hessian``, its expected Hessian.
    """

    def visit(t: Array, m: Array, v: Array, c: Array) -> tuple[Any, ...]:
        z, D = _slopes(x, m, v)
        p, w, score = scored(z, t)
        return -(c @ score), D @ (c * (p - t)), (D * (c * w)) @ D.T if hessian else 0.0

    loss, slope, fisher = rows.sums(visit)
    gap = x - centre
    loss = float(loss) + 0.5 * float(precision @ gap**2)
    return loss, slope + precision * gap, fisher + np.diag(precision)
