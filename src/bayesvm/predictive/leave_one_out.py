r"""Leave-one-out moments of f at the training rows; prediction sets and extrapolation from them.

**Prediction sets.**  The *nonconformity* of a row with a label is the total probability of the
labels that are more probable; for the most probable label it is minus its own probability,

.. math::

    s(x, k) = \sum_{j:\, p_j(x) > p_k(x)} p_j(x), \qquad s(x, k) = -p_k(x) \text{ if there is none.}

A set contains the labels whose nonconformity does not exceed the ``coverage`` quantile of the
training rows' nonconformity with their own labels, from leave-one-out predictions.  Sets are thus
larger for ambiguous rows (adaptive sets), and deterministic.

**Extrapolation.**  A link is fitted to these moments and is not valid at rows where f has a larger
variance than at any training row.  There log probabilities are mixed with the logs of the class
shares :math:`\pi_k`,

.. math:: \log p_k \leftarrow \log\pi_k + g(v)\,(\log p_k - \log\pi_k) + \text{const},

if *v* exceeds :math:`v_0`, the largest variance at a training row.  The share
:math:`g = (1/v - 1/v_p)/(1/v_0 - 1/v_p)` is the precision that the training rows add to the prior
with variance :math:`v_p` (infinite for linear predictors), relative to the smallest at a training
row.  By exchangeability a new row from the population of the *n* training rows has
:math:`v > v_0` with a probability of at most :math:`1/(n + 1)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from ..core.types import Array, Contribution


def leave_one_out(m: Array, v: Array, local: Contribution, removed: Array) -> tuple[Array, Array]:
    r"""Leave-one-out moments of f at each row; ``removed`` is the weight that is left out.

    ``local`` are the likelihood contributions of unit weight.  Exact for fixed sites:

    .. math:: m_{-i} = m_i - \frac{v_i g_i}{1 - w_i v_i}, \qquad v_{-i} = \frac{v_i}{1 - w_i v_i}.
    """
    denominator = np.maximum(1.0 - removed * local.w * v, 1e-6)
    return m - v * removed * local.g / denominator, v / denominator


def effective(c: Array, unit: Array | float) -> Array:
    """Weights proportional to c, with the effective number of rows as their total.

    Class weights of ten are not ten rows: for c / unit rows with weights ``unit`` the effective
    number is (sum c)^2 / sum(c unit) (Kish 1965).  Without class weights these are c.
    """
    if isinstance(unit, float) and unit == 1.0:
        return c
    return c * (float(np.sum(c)) / float(np.sum(c * unit)))


def masses(y: Array, c: Array) -> Array:
    """Weight of the rows with each label, the positive label first."""
    positive = float(c[y > 0].sum())
    return np.array([positive, float(c[~(y > 0)].sum())])


def weighted_quantile(x: Array, c: Array, mass: Array | float) -> Array:
    """Weighted quantile: the smallest x at which the cumulative weight reaches ``mass``."""
    order = np.argsort(x)
    at = np.searchsorted(np.cumsum(c[order]), mass)
    return x[order][np.minimum(at, x.size - 1)]


def leave_one_out_draws(f: Array, log_lik: Array, removed: Array) -> tuple[Array, Array]:
    """Leave-one-out moments from draws of f, ``(n, draws)``, by importance weights 1/likelihood."""
    weight = softmax(-removed[:, None] * log_lik, axis=1)
    mean = np.einsum("ij,ij->i", weight, f)
    return mean, np.einsum("ij,ij->i", weight, (f - mean[:, None]) ** 2)


def effect_scale(y: Array, proba: Array, mean: Array, c: Array) -> float:
    r"""Correction factor of effects on probabilities, from the training rows.

    .. math:: \frac{\sum_i c_i\, y_i^\top (m_i - \bar m)}{\sum_i c_i\, p_i^\top (m_i - \bar m)}

    A link fitted to leave-one-out moments shrinks f: best for predictions, but effects become too
    small.  With this factor they satisfy the maximum likelihood equation along f, that the
    residuals ``y - proba`` are uncorrelated with ``mean``.  It is one if all probabilities are
    equal.  Arrays are ``(n,)`` or ``(n, classes)``.
    """
    gap = (c * (mean - np.average(mean, axis=0, weights=c)).T).T
    observed, predicted = float(np.vdot(gap, y)), float(np.vdot(gap, proba))
    return observed / predicted if observed > 0.0 and predicted > 0.0 else 1.0


class LooMoments(NamedTuple):
    """Leave-one-out moments of f at training rows, for one or all binary models."""

    codes: Array  # (n,), labels -1 and 1 of one binary model, or class numbers
    m: Array  # (n,) or (n, machines)
    v: Array
    c: Array  # (n,), weight of the rows that each entry represents

    @staticmethod
    def of(parts: Sequence[LooMoments]) -> LooMoments | None:
        """The moments of several binary models side by side; ``None`` if their rows differ."""
        Y, M, V, C = zip(*parts, strict=True)
        if len(parts) == 1:
            return LooMoments((Y[0] > 0).astype(np.intp), M[0][:, None], V[0][:, None], C[0])
        if any(y.shape != Y[0].shape or not np.array_equal(c, C[0]) for y, c in zip(Y, C)):
            return None
        members = np.stack(Y, axis=1) > 0
        if not np.all(members.sum(axis=1) == 1):  # each row has one class
            return None
        return LooMoments(members.argmax(axis=1), np.stack(M, axis=1), np.stack(V, axis=1), C[0])

    def thinned(self, most: int) -> LooMoments:
        """At most ``most`` rows, in proportion to the classes."""
        step = -(-self.codes.size // most)
        if step <= 1:
            return self
        drawn = np.argsort(self.codes, kind="stable")[::step]
        codes, m, v, c = (x[drawn] for x in self)
        return LooMoments(codes, m, v, step * c)


def nonconformity(P: Array) -> Array:
    """Nonconformity of each row with each label, from probabilities, ``(n, classes)``."""
    order = np.argsort(-P, axis=1, kind="stable")
    ranked = np.take_along_axis(P, order, axis=1)
    score = np.cumsum(ranked, axis=1) - ranked
    score[:, 0] = -ranked[:, 0]
    out = np.empty_like(score)
    np.put_along_axis(out, order, score, axis=1)
    return out


class LooPredictions(NamedTuple):
    """Stored leave-one-out predictions of the training rows."""

    codes: Array  # (n,), classes of the rows
    score: Array  # nonconformity with their own class
    spread: Array  # variance of f, averaged over machines
    c: Array  # weight of the rows that each entry represents
    proba: Array = np.empty(0)  # probability of their own class

    @staticmethod
    def of(
        moments: LooMoments, proba: Callable[[Array, Array], Array], max_rows: int = 10_000
    ) -> LooPredictions:
        """From moments of f and the link; 10,000 rows determine coverage to a third of a point."""
        codes, m, v, c = moments.thinned(max_rows)
        P, true_class = proba(m, v), (np.arange(codes.size), codes)
        score = nonconformity(P)[true_class]
        return LooPredictions(codes, score, v.mean(axis=1), c, P[true_class])

    def sets(self, P: Array, coverage: float, by_class: bool, allow_empty: bool) -> Array:
        """Membership of each label in the prediction sets for probabilities P, ``(n, classes)``."""
        K = P.shape[1]
        if by_class:
            limit = np.array([self._limit(self.codes == k, coverage) for k in range(K)])
        else:
            limit = np.full(K, self._limit(np.ones(self.codes.size, dtype=bool), coverage))
        inside: Array = nonconformity(P) <= limit
        if not allow_empty:
            inside[np.arange(P.shape[0]), P.argmax(axis=1)] = True
        return inside

    def _limit(self, rows: Array, coverage: float) -> float:
        """The ``coverage`` quantile of the score, with a new row included."""
        score, c = self.score[rows], self.c[rows]
        mass = coverage * (float(c.sum()) + 1.0) * (1.0 - 1e-12)
        return float(weighted_quantile(score, c, mass)) if mass <= c.sum() else np.inf

    def percentile(self, spread: Array) -> Array:
        """The share of training rows with a smaller variance of f; ties count half."""
        order = np.argsort(self.spread)
        ascending, mass = self.spread[order], np.append(0.0, np.cumsum(self.c[order]))
        low, high = (np.searchsorted(ascending, spread, side) for side in ("left", "right"))
        return (mass[low] + mass[high]) / (2.0 * mass[-1])


class Extrapolation(NamedTuple):
    """Mixing of probabilities with the class shares, far from the training rows."""

    largest: float  # largest variance of f at a training row, v_0
    limit: float  # variance of f under the prior, v_p; may be infinite
    log_shares: Array  # (classes,)

    @staticmethod
    def of(moments: LooMoments, masses: Array, limit: float) -> Extrapolation | None:
        """From leave-one-out moments; ``None`` if no row can have a larger variance."""
        largest = float(moments.v.mean(axis=1).max())
        if not (0.0 < largest < limit and np.all(masses > 0)):
            return None
        return Extrapolation(largest, limit, np.log(masses / masses.sum()))

    def mixed(self, logs: Array, v: Array) -> Array:
        """Unnormalised log probabilities, ``(n, classes)``, mixed with the shares.

        ``v`` are variances of f, ``(n, machines)``.
        """
        v = np.maximum(v.mean(axis=-1, keepdims=True), self.largest)
        least, information = 1.0 / self.largest - 1.0 / self.limit, 1.0 / v - 1.0 / self.limit
        g = np.maximum(information, 0.0) / least
        return np.where(g < 1.0, self.log_shares + g * (logs - self.log_shares), logs)
