"""Probabilities and intervals from moments of f, as in :mod:`bayesvm.predictive`.

Moments are values of a graph with a column for each binary model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, ndtri

from ..likelihoods.base import NODES, WEIGHTS
from ..likelihoods.logistic import LOGITS, SHARES
from ..predictive import links
from ..predictive.links import LARGE, floored, log_odds, unseen_rate
from .graph import Columns, Value, beside, logsumexp, row_sum

Spread = tuple[Columns, Columns, Columns]  # at the lower end, the median and the upper end


def logit(link: Any, m: Columns, v: Any) -> Columns:
    """Log odds of the positive label for f ~ N(m, v)."""
    if isinstance(link, links.CalibratedLink | links.ProbitLink):
        return link.logit(m, v)
    if not link.likelihood.is_logit:
        raise ValueError(f"it has no link but the likelihood {type(link.likelihood).__name__}")
    if not isinstance(v, Value):
        return m
    p = np.maximum(_averaged_logistic(-np.abs(m), v), np.finfo(float).tiny)
    z = np.log1p(-p) - np.log(p)
    return np.where(m < 0.0, -z, z)


def _averaged_logistic(low: Columns, v: Columns) -> Columns:
    """The logistic function averaged over f with negative mean: ``Logistic.proba``."""
    tail = low < -v  # where it is nearly exp(f), which shifts the Gaussian
    m, s = np.where(tail, -(low + v), low), np.sqrt(v)
    narrow = expit(m + s * NODES) @ WEIGHTS[:, None]
    wide = np.exp(log_ndtr((m - LOGITS) / np.maximum(s, 1.0))) @ SHARES[:, None]
    body = np.clip(np.where(s < 2.0, narrow, wide), 0.0, 1.0)
    return np.where(tail, np.exp(np.minimum(low + 0.5 * v, 0.0)) * body, body)


def band(link: Any, f: Spread, levels: tuple[float, float]) -> Spread:
    """Log odds at quantiles of f, with the uncertainty of a fitted link: its ``band``."""
    if not isinstance(link, links.CalibratedLink):
        low, middle, high = (logit(link, each, 0.0) for each in f)
        return low, middle, high
    x, cov = link.parameters, np.zeros((5, 5)) if link.cov is None else link.cov
    m, none = f[1] - link.centre, np.zeros(1)  # a fixed f has no variance
    z, slopes = log_odds(x, m, none)
    D, rise = beside(list(slopes)), np.exp(x[0]) * slopes[1]  # rise: derivative in f
    moves, ends = D @ cov, []
    for end, level in zip((f[0], f[2]), levels, strict=True):
        sd = (end - f[1]) / ndtri(level)
        size = np.sqrt(np.square(rise * sd) + row_sum(D * moves))
        steps = np.sqrt(link.counted) * ndtri(level) / np.where(size > 0.0, size, 1.0)
        ends.append(log_odds(x + steps * moves, m + steps * rise * sd * sd, none)[0])
    return np.minimum(ends[0], z), z, np.maximum(ends[1], z)


def class_logs(link: Any, m: Columns, v: Any, classes: int) -> Columns:
    """Unnormalised log probabilities of several classes."""
    if not isinstance(link, links.SoftmaxLink):
        each = [logit(own, m[k], v[k] if isinstance(v, Value) else v)
                for k, own in enumerate(link.links)]  # fmt: skip
        return log_expit(beside(each))
    if not link.averaged or not isinstance(v, Value):
        return (link.a * m + link.b) / np.sqrt(1.0 + link.c * v)
    gaps = ((m - m[k]) / np.sqrt(1.0 + link.c * (v + v[k])) for k in range(classes))
    return beside([-logsumexp(link.a * gap) for gap in gaps])


def _class_odds(logs: Columns, classes: int) -> Columns:
    """Log odds of each class from unnormalised log probabilities."""
    logs = logs - logsumexp(logs)
    first = logs.graph.add("ArgMax", logs, axis=1, keepdims=1) == np.arange(classes)
    others = np.where(first, -np.inf, logs)
    return logs - np.where(first, logsumexp(others), np.log1p(-np.exp(others)))


def _class_bands(low: Columns, middle: Columns, high: Columns, classes: int) -> Spread:
    """Log odds at the ends of intervals for several classes: ``links.class_bands``."""
    odds = _class_odds(middle, classes)
    others = middle - odds
    below, above = np.square(low - middle), np.square(high - middle)
    down, up = (np.expm1(np.minimum(end - middle, LARGE)) for end in (low, high))
    for k in range(classes):
        other = (np.arange(classes) != k).astype(float)
        share = np.exp(np.minimum(middle[k] - others, 0.0)) * other
        over = np.log1p(share * up[k])
        under = np.log1p(np.maximum(share * down[k], -np.nextafter(1.0, 0.0)))
        below, above = below + np.square(over), above + np.square(under)
    return odds - np.sqrt(below), odds, odds + np.sqrt(above)


def _logs(fit: Any, m: Columns, v: Columns) -> tuple[Columns, Columns]:
    """Unnormalised log probabilities by the link alone, and mixed with the class shares."""
    if fit.is_binary:
        z = logit(fit.machines[0].link, m, v)
        logs = beside([0.0 * z, z])
    else:
        logs = class_logs(fit.over_classes, m, v, len(fit.classes))
        logs = logs - logsumexp(logs)
    return logs, logs if fit.extrapolation is None else fit.extrapolation.mixed(logs, v)


def proba(fit: Any, m: Columns, v: Columns) -> Columns:
    """Class probabilities, from moments of f with a column for each binary model."""
    logs, classes = _logs(fit, m, v)[1], len(fit.classes)
    if not fit.is_binary:
        return floored(np.exp(logs - logsumexp(logs)), fit.link_rows, classes)
    z = logs[1] - logs[0]
    p: Columns = floored(expit(z), fit.link_rows, classes)
    p = np.where(z > 0.0, np.maximum(p, np.nextafter(0.5, 1.0)), np.minimum(p, 0.5))
    return beside([1.0 - p, p])


def interval(
    fit: Any, m: Columns, v: Columns, f: Spread, tails: tuple[float, float]
) -> tuple[Columns, Columns]:
    """Lower and upper probabilities, from moments and quantiles of f: ``Fit.interval_at``."""
    (plain, mixed), classes = _logs(fit, m, v), len(fit.classes)
    if not fit.is_binary:
        odds = _class_odds(mixed, classes)
        low, middle, high = (class_logs(fit.over_classes, each, 0.0, classes) for each in f)
        low, middle, high = _class_bands(low, middle, high, classes)
    else:
        machine, odds = fit.machines[0], mixed[1] - mixed[0]
        if machine.robust_covariance is None:
            low, middle, high = (logit(machine.link, each, 0.0) for each in f)
        else:
            low, _, high = band(machine.link, f, tails)
            middle = plain[1] - plain[0]
            gap = 1e-3 * (high - low)  # the prediction is strictly inside
            low, high = np.minimum(low, middle - gap), np.maximum(high, middle + gap)
    moved = odds - middle
    low, high = low + np.minimum(moved, 0.0), high + np.maximum(moved, 0.0)
    if fit.is_binary:
        low, high = beside([-high, low]), beside([-low, high])
    unseen = unseen_rate(fit.link_rows, tails[1])
    least, most = (floored(expit(end), fit.link_rows, classes) for end in (low, high))
    return np.minimum(least, 1.0 - unseen), np.maximum(most, unseen)
