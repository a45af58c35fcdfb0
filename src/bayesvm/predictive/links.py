r"""Links: class probabilities from the posterior of f, and fits of their parameters.

The hinge is not a model of *y*: the pseudo-likelihoods of the labels do not sum to one.  Therefore
the default links are fitted to leave-one-out moments of f at the training rows, by minimising a
penalised log loss with L-BFGS.  :class:`Link` is for two labels, :class:`ClassLink` for more.

Probabilities have a floor that depends on the number *n* of rows: :func:`floored`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaincinv, expit, log_expit, log_ndtr, logsumexp, ndtri, softmax

from ..core.arrays import to_numpy
from ..core.types import Array
from ..likelihoods import Likelihood
from .leave_one_out import weighted_quantile

LARGE = 350.0  # squares of larger exponentials overflow


def unseen_rate(rows: float, level: float) -> float:
    """Posterior quantile of the rate of an event that was not seen in ``rows`` observations.

    Under Jeffreys' prior the rate is Beta(1/2, rows + 1/2).
    """
    return 0.0 if np.isinf(rows) else float(betaincinv(0.5, rows + 0.5, level))


def floored(p: Array, rows: float, classes: int) -> Array:
    """Class probabilities shrunk towards equality, so that each is at least a floor.

    The floor is the lower end of Jeffreys' 90 % interval for the rate of a class that did not occur
    in the rows, about 0.002 / rows.  Probabilities still sum to one.
    """
    floor = unseen_rate(rows, 0.05)
    return floor + (1.0 - classes * floor) * p


# ---------------------------------------------------------------------------------------------
# Two classes


class Link:
    """Probability of the positive label for f ~ N(m, v)."""

    rows: float = np.inf  # weight of the rows to which the link was fitted
    offset: float = 0.0  # shift of f before its sign is taken

    def logit(self, m: Array, v: Array) -> Array:
        """Log odds of the positive label, without the floor."""
        raise NotImplementedError

    def score(self, m: Array, v: Array) -> Array:
        """Decision values: same order as ``proba``, positive if it is above one half."""
        return self.logit(m, v)

    def proba(self, m: Array, v: Array) -> Array:
        """Probabilities of the positive label."""
        return floored(expit(self.logit(m, v)), self.rows, 2)

    def band(self, f: Array, levels: tuple[float, ...]) -> Array:
        """Log odds at the quantiles f: lower end, median and upper end, ``(3, n)``."""
        return self.logit(f, np.zeros_like(f))


@dataclass(frozen=True)
class NormalisedLink(Link):
    """The likelihood averaged over f and normalised over the two labels."""

    likelihood: Likelihood

    def logit(self, m: Array, v: Array) -> Array:
        return np.copysign(self.likelihood.log_odds(m, v), m)  # keep the sign despite rounding


@dataclass(frozen=True)
class ProbitLink(Link):
    r"""The averaged probit :math:`\Phi(m/\sqrt{1 + v})` (two papers print it without the root)."""

    def score(self, m: Array, v: Array) -> Array:
        return m / np.sqrt(1.0 + v)

    def logit(self, m: Array, v: Array) -> Array:
        z = self.score(m, v)
        return log_ndtr(z) - log_ndtr(-z)


def plain_link(probability: str, likelihood: Likelihood) -> Link | None:
    """A link without parameters; ``None`` for the calibrated one."""
    if probability == "calibrated":
        return None
    return ProbitLink() if probability == "probit" else NormalisedLink(likelihood)


@dataclass(frozen=True)
class CalibratedLink(Link):
    r"""Logistic link with a skewed, heavy-tailed transformation of f.

    .. math::

        \mathrm{logit}\,p = \sinh\big(e^\tau \operatorname{arsinh} r\big), \qquad
        r = \frac{s\cosh\delta + 2\sinh\delta\,\log\cosh(s/2)}{\sqrt{1 + cv}}, \qquad
        s = am + b .

    Far from the boundary :math:`s = 0` the slopes of r in s are :math:`e^\delta` and
    :math:`e^{-\delta}`, and the log odds rise as the power :math:`e^\tau` of r.  With
    :math:`\delta = \tau = 0` it is :math:`(am + b)/\sqrt{1 + cv}`; without variance and with
    :math:`\tau = 0` it is beta calibration of :math:`\sigma(s)`.

    References
    ----------
    Kull, Silva Filho & Flach (2017), *Beta calibration: a well-founded and easily implemented
    improvement on logistic calibration for binary classifiers*; Jones & Pewsey (2009),
    *Sinh-arcsinh distributions*.
    """

    a: float  # slope,
    b: float  # offset,
    c: float  # and weight of the variance of f
    skew: float = 0.0  # delta
    tail: float = 0.0  # tau
    rows: float = np.inf
    centre: float = 0.0  # mean of f over the rows of the fit
    cov: Array | None = field(default=None, compare=False, repr=False)  # of ``parameters``
    loss: float = field(default=np.nan, compare=False, repr=False)  # penalised log loss
    # share of the variances of f and the parameters in intervals: the prior is wide
    counted: float = field(default=0.85, compare=False, repr=False)

    @classmethod
    def fit(cls, y: Array, m: Array, v: Array, c: Array, curved: bool = False) -> Self:
        r"""Minimise the penalised log loss, with :math:`\delta = \tau = 0` unless ``curved``.

        ``y`` are labels -1 and 1, ``m`` and ``v`` leave-one-out moments of f, ``c`` weights, all of
        shape ``(n,)``.  With :math:`\tilde m`, of mean zero and unit variance over the rows, and
        :math:`\tilde v` on the same scale, the parameters are :math:`\log a`, :math:`b` and
        :math:`\log\kappa` of :math:`s = a\tilde m + b` and :math:`c = \kappa a^2`;
        :math:`\kappa = \pi/8` would average a logistic link over f.  Their prior is
        :math:`\log a \sim N(\log 2, 1.5^2)`, :math:`b \sim N(b_0, 3^2)` with :math:`b_0` the log
        odds of the labels, :math:`\log\kappa \sim N(\log 0.4, 2^2)`,
        :math:`\delta \sim N(0, 0.5^2)` and :math:`\tau \sim N(0, 0.3^2)`.  The fit depends neither
        on the scale of f nor on class imbalance, and the slope is finite for separable data.

        The covariance of the parameters is the sampling covariance plus the squared shrinkage by
        the prior, :math:`V(F + P(dd^\top + V)P)V` with :math:`V = (F + P)^{-1}` of the expected
        Hessian F and the prior precision P, d the distance from the prior mean.
        """
        y, m, v, c = map(to_numpy, (y, m, v, c))
        codes = (y > 0).astype(int)
        centre, unit = _location_scale(m, c, codes)
        m, v, targets = (m - centre) / unit, v / unit**2, soft_targets(codes, c, 2, 0.5)
        negative, positive = c @ targets
        mean = np.array([np.log(2.0), np.log(positive / negative), np.log(0.4), 0.0, 0.0])
        sd, free = np.array([1.5, 3.0, 2.0, 0.5, 0.3]), slice(5 if curved else 3)

        def objective(u: Array) -> tuple[float, Array]:
            x = mean.copy()
            x[free] += sd[free] * u
            z, D = log_odds(x, m, v)
            loss, slope = log_loss(np.stack([np.zeros_like(z), z]), targets.T, c)
            return loss + 0.5 * float(u @ u), sd[free] * (D[free] @ slope[1]) + u

        starts = np.zeros((1, 3))
        if curved:  # the loss can have a minimum for each pair of signs of skewness and tail
            signs = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
            starts = np.hstack([np.zeros((4, 3)), signs])
        u, loss = least_loss(objective, starts)
        x, cov = mean.copy(), np.zeros((5, 5))
        x[free] += sd[free] * u
        z, D = log_odds(x, m, v)
        p, gap, P = expit(z), sd[free] * u, np.diag(sd[free] ** -2)
        F = (D[free] * (c * p * (1.0 - p))) @ D[free].T
        V = np.linalg.inv(F + P)
        cov[free, free] = V @ (F + P @ (np.outer(gap, gap) + V) @ P) @ V
        a = float(np.exp(x[0])) / unit
        b, kappa, skew, tail = float(x[1]) - a * centre, float(np.exp(x[2])), *map(float, x[3:])
        return cls(a, b, kappa * a * a, skew, tail, float(c.sum()), centre, cov, loss)

    @property
    def offset(self) -> float:  # type: ignore[override]
        return self.b / self.a

    @property
    def parameters(self) -> Array:
        """log a, log odds at the centre, log c/a^2, delta, tau."""
        log_a, b = np.log(self.a), self.b + self.a * self.centre
        with np.errstate(divide="ignore"):  # the weight of a zero variance may be zero
            return np.array([log_a, b, np.log(self.c) - 2.0 * log_a, self.skew, self.tail])

    def logit(self, m: Array, v: Array) -> Array:
        # the offset is added to m, so that the sign is the sign of m + offset
        s, q = self.a * (m + self.b / self.a), 1.0 + self.c * v
        return sinh_arcsinh(s, q, self.skew, self.tail)[0]

    def score(self, m: Array, v: Array) -> Array:
        return self.logit(m, v) / self.a

    def slopes(self, m: Array, v: Array) -> Array:
        """Derivatives of the log odds in :attr:`parameters`, ``(5, n)``."""
        return log_odds(self.parameters, m - self.centre, v)[1]

    def band(self, f: Array, levels: tuple[float, ...]) -> Array:
        """Log odds at the lower end, median and upper end of an interval, ``(3, n)``.

        At either end f and the parameters of the link are moved together, in the direction in which
        the log odds change most under their covariance.
        """
        x, cov = self.parameters, np.zeros((5, 5)) if self.cov is None else self.cov
        m, none = f[1] - self.centre, np.zeros_like(f[1])
        z, D = log_odds(x, m, none)
        moves, rise = cov @ D, np.exp(x[0]) * D[1]  # rise: derivative in f
        ends = []
        for k in (0, 2):
            quantile = ndtri(levels[k])
            sd = (f[k] - f[1]) / quantile
            size = np.sqrt((rise * sd) ** 2 + np.einsum("ij,ij->j", D, moves))
            steps = np.sqrt(self.counted) * quantile / np.where(size > 0.0, size, 1.0)
            ends.append(log_odds(x[:, None] + steps * moves, m + steps * rise * sd * sd, none)[0])
        return np.stack([np.minimum(ends[0], z), z, np.maximum(ends[1], z)])


def log_odds(x: Array, m: Array, v: Array) -> tuple[Array, Array]:
    """Log odds of :class:`CalibratedLink`, ``(n,)``, and their derivatives in x, ``(5, n)``.

    x = (log a, b, log kappa, delta, tau), numbers or of shape ``(n,)``, with c = kappa a^2; the
    origin of m is the centre.
    """
    a = np.exp(x[0])
    q = 1.0 + np.exp(x[2]) * a * a * v
    z, D = sinh_arcsinh(a * m + x[1], q, x[3], x[4])
    by_c = D[1] * (1.0 - 1.0 / q)
    return z, np.stack([D[0] * a * m + 2.0 * by_c, D[0], by_c, D[2], D[3]])


def sinh_arcsinh(s: Array, q: Array, skew: Any, tail: Any) -> tuple[Array, Array]:
    """The curve of :class:`CalibratedLink` at s and q = 1 + cv, and its derivatives, ``(4, n)``.

    The derivatives are with respect to s, log q, delta and tau.
    """
    even, odd, power = np.cosh(skew), np.sinh(skew), np.exp(tail)
    bend = np.abs(s) + 2.0 * (np.log1p(np.exp(-np.abs(s))) - np.log(2.0))  # 2 log cosh(s / 2)
    root = np.sqrt(q)
    r = (s * even + bend * odd) / root
    stretched = np.clip(power * np.arcsinh(r), -LARGE, LARGE)
    z, steep = np.sinh(stretched), np.cosh(stretched)
    by_r = power * steep / np.hypot(1.0, r)
    by_s, by_skew = (even + odd * np.tanh(0.5 * s)) / root, (s * odd + bend * even) / root
    return z, np.stack([by_r * by_s, -0.5 * by_r * r, by_r * by_skew, steep * stretched])


# ---------------------------------------------------------------------------------------------
# More than two classes


class ClassLink:
    """Class probabilities for independent Gaussian f; classes are the last axis."""

    rows: float = np.inf

    @property
    def offsets(self) -> Array:
        """The shift of each class's f."""
        raise NotImplementedError

    def logs(self, m: Array, v: Array) -> Array:
        """Unnormalised log probabilities, without the floor."""
        raise NotImplementedError

    def proba(self, m: Array, v: Array) -> Array:
        """Probabilities of the classes."""
        return floored(softmax(self.logs(m, v), axis=-1), self.rows, m.shape[-1])


@dataclass(frozen=True)
class SeparateLinks(ClassLink):
    """A separate link for each class against the rest, then normalised."""

    links: Sequence[Link]

    @property
    def rows(self) -> float:  # type: ignore[override]
        return min(link.rows for link in self.links)

    @property
    def offsets(self) -> Array:
        return np.array([link.offset for link in self.links])

    def logs(self, m: Array, v: Array) -> Array:
        each = [link.logit(m[..., j], v[..., j]) for j, link in enumerate(self.links)]
        return log_expit(np.stack(each, axis=-1))


@dataclass(frozen=True, eq=False)
class SoftmaxLink(ClassLink):
    r"""The softmax of :math:`af + b`, with a slope shared by the classes, and offsets.

    For classes fitted one by one it is the softmax of :math:`(a m_k + b_k)/\sqrt{1 + c v_k}`.  For
    f of a joint likelihood, ``averaged``, it is the mean-field average over independent f, which
    equals the softmax without variance,

    .. math::

        p_k \propto \Big(\sum_j e^{z_{kj}}\Big)^{-1}, \qquad
        z_{kj} = \frac{a(m_j - m_k)}{\sqrt{1 + c(v_j + v_k)}},\quad z_{kk} = 0 .

    References
    ----------
    Lu, Ie & Sha (2020), *Mean-field approximation to Gaussian-softmax integral with application to
    uncertainty estimation*.
    """

    a: float
    b: Array  # (classes,), zero if averaged
    c: float
    averaged: bool = False
    rows: float = np.inf
    loss: float = np.nan

    @classmethod
    def fit(cls, codes: Array, m: Array, v: Array, c: Array, averaged: bool = False) -> Self:
        r"""Minimise the penalised log loss, for moments of f of shape ``(n, classes)``.

        In units of the spread *s* of f (the root of its variance over rows, averaged over classes)
        :math:`\log as \sim N(\log 2, 0.5^2)`, :math:`\log cs^2 \sim N(\log 0.4, 1.5^2)` and
        :math:`b_k \sim N(0, 4^2)`, wide enough for an offset of a rare class.  The f of a joint
        likelihood have a fixed scale: there *s* is one and :math:`\log a \sim N(0, 0.5^2)`.
        """
        codes, m, v, c = map(to_numpy, (codes, m, v, c))
        K, unit = m.shape[1], 1.0
        if not averaged:
            share = c / c.sum()
            unit = float(np.sqrt(np.mean(share @ np.square(m - share @ m))))
            unit = unit if unit > 1e-12 * float(np.abs(m).max()) else 1.0  # guard against rounding
        m, v = m / unit, v / unit**2
        targets = soft_targets(codes, c, K, 0.0 if averaged else 0.1)
        free = 2 if averaged else 2 + K  # the offsets of averaged links are zero
        mean = np.r_[np.log([1.0 if averaged else 2.0, 0.4]), np.zeros(K)]
        sd = np.r_[0.5, 1.5, np.full(K, 4.0)][:free]

        def objective(u: Array) -> tuple[float, Array]:
            x = mean.copy()
            x[:free] += sd * u
            a, weight = np.exp(x[:2])
            if averaged:
                logs, by_a, by_c = mean_field_softmax(a, weight, m, v)
            else:
                q = 1.0 + weight * v
                by_a = a * m / np.sqrt(q)
                logs = by_a + x[2:] / np.sqrt(q)
                by_c = -0.5 * logs * (1.0 - 1.0 / q)
            loss, slope = log_loss(logs.T, targets.T, c)
            slope = slope.T
            D = np.array([np.vdot(slope, by_a), np.vdot(slope, by_c)])
            if not averaged:
                D = np.append(D, (slope / np.sqrt(q)).sum(axis=0))
            return loss + 0.5 * float(u @ u), sd * D + u

        u, loss = least_loss(objective, np.zeros((1, free)))
        x = mean.copy()
        x[:free] += sd * u
        a, weight = map(float, np.exp(x[:2]))
        return cls(a / unit, x[2:], weight / unit**2, averaged, float(c.sum()), loss)

    @property
    def offsets(self) -> Array:
        return self.b / self.a

    def logs(self, m: Array, v: Array) -> Array:
        if self.averaged and np.any(v):
            return mean_field_softmax(self.a, self.c, m, v)[0]
        return (self.a * m + self.b) / np.sqrt(1.0 + self.c * v)


def mean_field_softmax(a: float, c: float, m: Array, v: Array) -> tuple[Array, Array, Array]:
    """Log probabilities of the averaged :class:`SoftmaxLink`, and slopes in log a and log c."""
    logs, by_a, by_c = (np.empty(m.shape) for _ in range(3))
    for k in range(m.shape[-1]):  # one class at a time: all pairs need too much memory
        q = 1.0 + c * (v + v[..., k, None])
        z = a * (m - m[..., k, None]) / np.sqrt(q)
        weighted = softmax(z, axis=-1) * z
        logs[..., k] = -logsumexp(z, axis=-1)
        by_a[..., k] = -weighted.sum(axis=-1)
        by_c[..., k] = 0.5 * (weighted * (1.0 - 1.0 / q)).sum(axis=-1)
    return logs, by_a, by_c


def class_odds(logs: Array) -> Array:
    """Log odds from unnormalised log probabilities, accurate for probabilities near one too."""
    logs = logs - logsumexp(logs, axis=-1, keepdims=True)
    # all others are at most one half
    first = np.arange(logs.shape[-1]) == np.argmax(logs, axis=-1)[..., None]
    others = np.where(first, -np.inf, logs)
    total = logsumexp(others, axis=-1, keepdims=True)
    return logs - np.where(first, total, np.log1p(-np.exp(others)))


def class_bands(logs: Array) -> Array:
    r"""Log odds of each class at the lower end, middle and upper end, ``(3, n, classes)``.

    ``logs`` are the classes' values at the lower end, median and upper end of their independent f.
    If one class moves to an end and the others stay, the log odds
    :math:`z_k = l_k - \log\sum_{j \ne k} e^{l_j}` change by a known amount; the squares of the
    changes in one direction add up.
    """
    low, middle, high = logs
    odds = class_odds(middle)
    others = middle - odds  # log of the sum over the other classes
    below, above = np.square(low - middle), np.square(high - middle)
    for j in range(logs.shape[-1]):
        own = slice(j, j + 1)
        # share of class j among the classes other than k
        share = np.exp(np.minimum(middle[..., own] - others, 0.0))
        share = np.where(np.arange(logs.shape[-1]) == j, 0.0, share)
        down, up = (np.expm1(np.minimum(end - middle, LARGE))[..., own] for end in (low, high))
        below += np.square(np.log1p(share * up))
        above += np.square(np.log1p(np.maximum(share * down, -np.nextafter(1.0, 0.0))))
    return np.stack([odds - np.sqrt(below), odds, odds + np.sqrt(above)])


# ---------------------------------------------------------------------------------------------
# Fitting


def log_loss(logs: Array, targets: Array, c: Array) -> tuple[float, Array]:
    """Weighted log loss of unnormalised log probabilities, and its derivatives.

    Arrays are ``(classes, n)``.  The floor of the probabilities bounds the loss of a row, so that
    one extreme leave-one-out f cannot dominate.
    """
    rows, K = float(c.sum()), logs.shape[0]
    p = softmax(logs, axis=0)
    q = floored(p, rows, K)
    loss = -float((targets * np.log(q)).sum(axis=0) @ c)
    by_p = -(1.0 - K * unseen_rate(rows, 0.05)) * c * targets / q
    return loss, p * (by_p - (p * by_p).sum(axis=0))


def least_loss(
    objective: Callable[[Array], tuple[float, Array]], starts: Array
) -> tuple[Array, float]:
    """Minimise an objective with gradient from several starts; the best argument and its value.

    Parameters are in standard deviations of their prior from its mean.
    """
    bounds, options = [(-6.0, 6.0)] * starts.shape[1], {"ftol": 1e-15, "gtol": 1e-8}
    best, least = starts[0], np.inf
    for start in starts:
        with np.errstate(over="ignore", invalid="ignore"):  # trial steps may be too long
            found = minimize(objective, start, jac=True, bounds=bounds, options=options)
        if found.fun < least:
            best, least = found.x, float(found.fun)
    return best, least


def soft_targets(codes: Array, c: Array, classes: int, count: float) -> Array:
    """Target probabilities of rows, ``(n, classes)``: their classes, smoothed by a pseudo-count."""
    left = (count / (np.bincount(codes, c, classes) + 2.0 * count))[codes]
    out = np.tile(left[:, None] / (classes - 1), classes)
    out[np.arange(codes.size), codes] = 1.0 - left
    return out


def _location_scale(m: Array, c: Array, codes: Array) -> tuple[float, float]:
    """Mean and standard deviation of f over rows, from medians within each of two labels.

    The leave-one-out f of a row with large leverage may be an outlier.
    """
    share, median = np.bincount(codes, c, 2) / c.sum(), np.zeros(2)
    half = np.array([0.5 - 1e-9, 0.5 + 1e-9])  # both neighbours of a tie
    for k in np.unique(codes):
        f, weight = m[codes == k], c[codes == k]
        median[k] = weighted_quantile(f, weight, half * weight.sum()).mean()
    centre = float(share @ median)
    between = np.sqrt(share @ np.square(median - centre))
    within = weighted_quantile(np.abs(m - median[codes]), c, half * c.sum()).mean()
    unit = np.hypot(between, within / ndtri(0.75))  # a Gaussian's absolute deviation
    if unit <= 1e-6 * abs(centre):  # most rows have the same f
        unit = np.sqrt(c @ np.square(m - centre) / c.sum())
    return centre, float(unit) if unit > 1e-6 * abs(centre) else 1.0  # rounding
