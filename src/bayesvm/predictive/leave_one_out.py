"""Moments of f at each row with that row left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ..core import arrays
from ..core.types import Array, Local
from ..model.problem import Problem

LooMoments: TypeAlias = tuple[
    Array, Array, Array, Array
]  # labels, means, variances, weights of rows


def leave_one_out(m: Array, v: Array, local: Local, gone: Array) -> tuple[Array, Array]:
    r"""Moments of f at each row without it; ``gone`` is what that takes from its weight.

    ``local`` are the likelihood contributions of unit weight.  Exact for fixed sites:

    .. math:: m_{-i} = m_i - \frac{v_i g_i}{1 - w_i v_i}, \qquad v_{-i} = \frac{v_i}{1 - w_i v_i}.
    """
    rest = np.maximum(1.0 - gone * local.w * v, 1e-6)
    return m - v * gone * local.g / rest, v / rest


def effective(c: Array, unit: Array | float) -> Array:
    """Weights with the proportions of c, and the effective number of rows as their total.

    Class weights of ten are not ten rows: of c / unit rows each of weight ``unit`` the effective
    number is (sum c)^2 / sum(c unit) (Kish 1965).  Without class weights these are c.
    """
    if isinstance(unit, float) and unit == 1.0:
        return c
    return c * (float(np.sum(c)) / float(np.sum(c * unit)))


def masses(y: Array, c: Array) -> Array:
    """Weight of the rows of either label, positive ones first."""
    positive = float(arrays.total(c[y > 0]))
    return np.array([positive, float(arrays.total(c[~(y > 0)]))])


def leave_one_out_draws(f: Array, log_lik: Array, gone: Array) -> tuple[Array, Array]:
    """The same moments from draws of f, ``(n, draws)``, by importance weights 1/likelihood."""
    log_weight = -gone[:, None] * log_lik
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    mean = np.einsum("ij,ij->i", weight, f)
    return mean, np.einsum("ij,ij->i", weight, (f - mean[:, None]) ** 2)


def means_of_f(problem: Problem, theta: Array) -> Array:
    """f at every row by the coefficients ``theta``."""
    return problem.matrix.matvec(theta)


def effect_scale(y: Array, proba: Array, mean: Array, c: Array) -> float:
    r"""What effects on probabilities are multiplied by, from the rows of the fit.

    .. math:: \frac{\sum_i c_i\, y_i^\top (m_i - \bar m)}{\sum_i c_i\, p_i^\top (m_i - \bar m)}

    A link that is fitted to rows left out shrinks f, which predicts best and makes effects too
    small.  With this factor they meet the equation of maximum likelihood along f, that residuals
    ``y - proba`` are not correlated with ``mean``.  One where all probabilities are equal.
    Arrays are ``(n,)`` or ``(n, classes)``.
    """
    gap = (c * (mean - np.average(mean, axis=0, weights=c)).T).T
    own, predicted = float(np.vdot(gap, y)), float(np.vdot(gap, proba))
    return own / predicted if own > 0.0 and predicted > 0.0 else 1.0


class Moments(NamedTuple):
    """Moments of f at training rows, each left out."""

    codes: Array  # (n,), classes of the rows
    m: Array  # (n, machines)
    v: Array
    c: Array  # (n,), weight of the rows that each represents

    @staticmethod
    def of(parts: Sequence[LooMoments]) -> Moments | None:
        """From those of each machine; ``None`` if these are not of the same rows."""
        Y, M, V, C = zip(*parts, strict=True)
        if len(parts) == 1:
            return Moments((Y[0] > 0).astype(np.intp), M[0][:, None], V[0][:, None], C[0])
        if any(y.shape != Y[0].shape or not np.array_equal(c, C[0]) for y, c in zip(Y, C)):
            return None
        own = np.stack(Y, axis=1) > 0
        if not np.all(own.sum(axis=1) == 1):  # a row has one class
            return None
        return Moments(own.argmax(axis=1), np.stack(M, axis=1), np.stack(V, axis=1), C[0])

    def thinned(self, most: int) -> Moments:
        """At most so many rows, of every class its share."""
        step = -(-self.codes.size // most)
        if step <= 1:
            return self
        some = np.argsort(self.codes, kind="stable")[::step]
        codes, m, v, c = (x[some] for x in self)
        return Moments(codes, m, v, step * c)
