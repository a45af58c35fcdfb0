"""Probabilities and intervals from moments of f, as in :mod:`bayesvm.predictive`.

Moments are values of a graph with a column for each machine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from ..likelihoods.base import NODES, WEIGHTS
from ..likelihoods.logistic import LOGITS, SHARES
from ..predictive import links
from ..predictive.links import LARGE, unseen_rate
from .graph import (
    Value,
    arcsinh,
    beside,
    exp,
    expit,
    expm1,
    log,
    log1p,
    log_expit,
    log_ndtr,
    logsumexp,
    maximum,
    minimum,
    row_sum,
    size,
    sqrt,
    tanh,
    where,
)


class Spread(NamedTuple):
    """Quantiles of f at the lower end, the median and the upper end of an interval."""

    low: Value
    middle: Value
    high: Value


def logit(link: Any, m: Value, v: Any) -> Value:
    """Log odds of the positive label where f ~ N(m, v)."""
    if isinstance(link, links.CalibratedLink):
        s = link.a * (m + link.offset)
        return _stretched(_bent(s, link.skew) / sqrt(1.0 + link.c * v + 0.0 * m), link.tail)
    if isinstance(link, links.ProbitLink):
        z = m / sqrt(1.0 + v + 0.0 * m)
        return log_ndtr(z) - log_ndtr(-z)
    likelihood = link.likelihood
    if not likelihood.is_logit:
        raise ValueError(f"it has no link but the likelihood {type(likelihood).__name__}")
    if not isinstance(v, Value):
        return m
    tiny = np.finfo(float).tiny
    p = maximum(_averaged_logistic(-size(m), v), tiny)
    z = log1p(-p) - log(p)
    return where(m < 0.0, -z, z)


def _averaged_logistic(low: Value, v: Value) -> Value:
    """The logistic function averaged over f, of negative mean: ``Logistic.proba``."""
    tail = low < -v  # there it is nearly exp(f), which tilts the Gaussian
    m, s = where(tail, -(low + v), low), sqrt(v)
    narrow = expit(m + s * NODES) @ WEIGHTS[:, None]
    wide = exp(log_ndtr((m - LOGITS) / maximum(s, 1.0))) @ SHARES[:, None]
    body = minimum(maximum(where(s < 2.0, narrow, wide), 0.0), 1.0)
    return where(tail, exp(minimum(low + 0.5 * v, 0.0)) * body, body)


def _log_cosh(s: Value) -> Value:
    return 0.5 * size(s) + log1p(exp(-size(s))) - np.log(2.0)


def _bent(s: Value, skew: Any) -> Value:
    grow = exp(skew) if isinstance(skew, Value) else np.exp(skew)
    return s * (0.5 * (grow + 1.0 / grow)) + _log_cosh(s) * (grow - 1.0 / grow)


def _stretched(r: Value, tail: Any) -> Value:
    if not isinstance(tail, Value) and tail == 0.0:
        return r
    power = exp(tail) if isinstance(tail, Value) else np.exp(tail)
    up = exp(maximum(minimum(arcsinh(r) * power, LARGE), -LARGE))
    return 0.5 * (up - 1.0 / up)


def band(link: Any, f: Spread, levels: tuple[float, float]) -> Spread:
    """Log odds at quantiles of f, with the uncertainty of a fitted link: its ``band``."""
    if not isinstance(link, links.CalibratedLink):
        return Spread(*(logit(link, each, 0.0) for each in f))
    x, cov = link.parameters, np.zeros((5, 5)) if link.cov is None else link.cov
    a, even, odd, power = np.exp(x[0]), np.cosh(x[3]), np.sinh(x[3]), np.exp(x[4])
    m = f.middle - link.centre
    s = a * m + x[1]
    curve = 2.0 * _log_cosh(s)
    r = s * even + curve * odd
    far = arcsinh(r)
    up = exp(maximum(minimum(power * far, LARGE), -LARGE))
    z, last = 0.5 * (up - 1.0 / up), (0.5 * power) * (up + 1.0 / up)
    steep = last / sqrt(1.0 + r * r)
    slope = steep * (even + odd * tanh(0.5 * s))
    D = beside([slope * a * m, slope, 0.0 * slope, steep * (s * odd + curve * even), last * far])
    moves, ends = D @ cov, []
    for end, level in zip((f.low, f.high), levels, strict=True):
        sd = (end - f.middle) / ndtri(level)
        whole = sqrt((a * slope * sd) * (a * slope * sd) + row_sum(D * moves))
        steps = np.sqrt(link.counted) * ndtri(level) / where(whole > 0.0, whole, 1.0)
        moved = x + steps * moves
        s = exp(moved[0]) * (m + steps * a * slope * sd * sd) + moved[1]
        ends.append(_stretched(_bent(s, moved[3]), moved[4]))
    return Spread(minimum(ends[0], z), z, maximum(ends[1], z))


def class_logs(link: Any, m: Value, v: Any, classes: int) -> Value:
    """Logs of the probabilities of several classes up to a constant."""
    if isinstance(link, links.SoftmaxLink):
        if not link.averaged or not isinstance(v, Value):
            return (link.a * m + link.b) / sqrt(1.0 + link.c * v + 0.0 * m)
        gaps = ((m - m[k]) / sqrt(1.0 + link.c * (v + v[k])) for k in range(classes))
        return beside([-logsumexp(link.a * gap) for gap in gaps])
    v = v + 0.0 * m
    each = (logit(own, m[k], v[k]) for k, own in enumerate(link.links))
    return log_expit(beside(list(each)))


def _class_odds(logs: Value, classes: int) -> Value:
    """Log odds of each class from logs of probabilities up to a constant."""
    logs = logs - logsumexp(logs)
    first = logs.graph.add("ArgMax", logs, axis=1, keepdims=1) == np.arange(classes)
    rest = where(first, -np.inf, logs)
    return logs - where(first, logsumexp(rest), log1p(-exp(rest)))


def _class_bands(low: Value, middle: Value, high: Value, classes: int) -> Spread:
    """Log odds at the ends of intervals of several classes: ``links.class_bands``."""
    odds = _class_odds(middle, classes)
    others = middle - odds
    below, above = (low - middle) * (low - middle), (high - middle) * (high - middle)
    down, up = (expm1(minimum(end - middle, LARGE)) for end in (low, high))
    for k in range(classes):
        share = exp(minimum(middle[k] - others, 0.0)) * (np.arange(classes) != k).astype(float)
        over = log1p(share * up[k])
        under = log1p(maximum(share * down[k], -np.nextafter(1.0, 0.0)))
        below, above = below + over * over, above + under * under
    return Spread(odds - sqrt(below), odds, odds + sqrt(above))


class Predictor(NamedTuple):
    """Moments of f of all machines of a fit, with a column each, at the rows of a graph."""

    fit: Any
    m: Value
    v: Value

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.fit.classes)

    def _weight(self) -> Value:
        """Weight of the link at rows far from the training rows, ``Extrapolation.weight``."""
        far, count = self.fit.far, len(self.fit.machines)
        mean = row_sum(self.v) / float(count)
        g = far.begin / maximum(mean, far.begin)
        if not np.isfinite(far.near):
            return g
        rest = (far.end - maximum(mean, far.near)) / (far.end - far.near)
        return minimum(g, maximum(rest, 0.0))

    def _logs(self) -> tuple[Value, Value]:
        """Logs of the probabilities of all classes by the link alone, and with the shares."""
        if self.fit.is_binary:
            z = logit(self.fit.machines[0].link, self.m, self.v)
            logs = beside([0.0 * z, z])
        else:
            logs = class_logs(self.fit.over_classes, self.m, self.v, self.classes)
            logs = logs - logsumexp(logs)
        if self.fit.far is None:
            return logs, logs
        g, shares = self._weight(), self.fit.far.shares
        return logs, where(g < 1.0, shares + g * (logs - shares), logs)

    def _floored(self, p: Value) -> Value:
        """Probabilities with the floor that the number of training rows sets: ``floored``."""
        floor = unseen_rate(self._rows, 0.05)
        return floor + (1.0 - self.classes * floor) * p

    @property
    def _rows(self) -> float:
        fit = self.fit
        return float(fit.machines[0].link.rows if fit.is_binary else fit.over_classes.rows)

    def proba(self) -> Value:
        """Class probabilities."""
        logs = self._logs()[1]
        if not self.fit.is_binary:
            return self._floored(exp(logs - logsumexp(logs)))
        z = logs[1] - logs[0]
        p = self._floored(expit(z))
        p = where(z > 0.0, maximum(p, np.nextafter(0.5, 1.0)), minimum(p, 0.5))
        return beside([1.0 - p, p])

    def interval(self, f: Spread, tails: tuple[float, float]) -> tuple[Value, Value]:
        """Lower and upper probabilities, from quantiles of f: ``Fit.interval_at``."""
        plain, mixed = self._logs()
        if self.fit.is_binary:
            machine, odds = self.fit.machines[0], mixed[1] - mixed[0]
            if machine.width is None:
                ends = Spread(*(logit(machine.link, each, 0.0) for each in f))
            else:
                found, middle = band(machine.link, f, tails), plain[1] - plain[0]
                gap = 1e-3 * (found.high - found.low)  # the prediction is strictly inside
                low, high = minimum(found.low, middle - gap), maximum(found.high, middle + gap)
                ends = Spread(low, middle, high)
        else:
            odds, link = _class_odds(mixed, self.classes), self.fit.over_classes
            low, middle, high = (class_logs(link, each, 0.0, self.classes) for each in f)
            ends = _class_bands(low, middle, high, self.classes)
        moved = odds - ends.middle
        low, high = ends.low + minimum(moved, 0.0), ends.high + maximum(moved, 0.0)
        if self.fit.is_binary:
            low, high = beside([-high, low]), beside([-low, high])
        unseen = unseen_rate(self._rows, tails[1])
        least, most = self._floored(expit(low)), self._floored(expit(high))
        return minimum(least, 1.0 - unseen), maximum(most, unseen)
