r"""The link of classes that have a joint likelihood: their softmax, averaged over f."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from ..core.arrays import logsumexp
from ..core.types import Array
from .classes import ClassLink, normalised

# log a and log c; the slope and weight of an exact average would be 1 and about 0.4.  Fitting them
# was chosen on folds 0 and 1 of 45 sets, among eight kinds of link, by log loss.
PRIOR_MEAN = np.array([0.0, np.log(0.4)])
PRIOR_SD = np.array([0.5, 1.5])
TERMS = 2**20  # exponentials to a look at the rows: some of these are enough for two numbers
LEAST = 2000  # but so many rows


@dataclass(frozen=True)
class Averaged(ClassLink):
    r"""The average of the softmax of :math:`af` over independent f, approximately.

    .. math::

        p_k \propto \Big(\sum_j e^{z_{kj}}\Big)^{-1}, \qquad
        z_{kj} = \frac{a(m_j - m_k)}{\sqrt{1 + c(v_j + v_k)}},\quad z_{kk} = 0 .

    Without variance it is the softmax, of two classes the usual approximation of an averaged
    logistic function.

    References
    ----------
    Lu, Ie & Sha (2020), *Mean-field approximation to Gaussian-softmax integral with application to
    uncertainty estimation*.
    """

    classes: int
    a: float = 1.0
    c: float = np.pi / 8.0

    @property
    def offsets(self) -> Array:
        return np.zeros(self.classes)

    def logs(self, m: Array, v: Array) -> Array:
        if not np.any(v):
            return self.a * m
        each = []
        for k in range(self.classes):
            own = slice(k, k + 1)
            z = self.a * (m - m[..., own]) / np.sqrt(1.0 + self.c * (v + v[..., own]))
            each.append(-logsumexp(z, axis=-1))
        return np.stack(each, axis=-1)


def fit_averaged(codes: Array, m: Array, v: Array, c: Array) -> Averaged:
    r"""The link of least log loss at moments of f at rows left out, ``(n, classes)``.

    Under :math:`\log a \sim N(0, 0.5^2)` and :math:`\log c \sim N(\log 0.4, 1.5^2)`; ``c`` are
    weights of rows.
    """
    n, K = m.shape
    step = -(-n // max(LEAST, TERMS // K**2))
    order = np.argsort(codes, kind="stable")[::step]  # of every class its share
    codes, m, v, c = codes[order], m[order], v[order], step * c[order]

    def loss(x: Array) -> tuple[float, Array]:
        return loss_of(x, codes, m, v, c)

    limits = list(zip(PRIOR_MEAN - 6.0 * PRIOR_SD, PRIOR_MEAN + 6.0 * PRIOR_SD, strict=True))
    found = minimize(loss, PRIOR_MEAN, jac=True, method="L-BFGS-B", bounds=limits).x
    return Averaged(K, *map(float, np.exp(found)))


def loss_of(x: Array, codes: Array, m: Array, v: Array, c: Array) -> tuple[float, Array]:
    """Log loss, minus the log prior, at x = (log a, log c), and its gradient."""
    a, weight = np.exp(x)
    logs, slopes = np.empty_like(m), np.empty((2, *m.shape))
    for k in range(m.shape[1]):
        q = 1.0 + weight * (v + v[:, k : k + 1])
        z = a * (m - m[:, k : k + 1]) / np.sqrt(q)
        z[:, k] = 0.0
        p = normalised(z)
        logs[:, k] = -logsumexp(z, axis=1)
        slopes[0, :, k] = -np.einsum("ij,ij->i", p, z)
        slopes[1, :, k] = 0.5 * np.einsum("ij,ij,ij->i", p, z, 1.0 - 1.0 / q)
    at, p = np.arange(codes.size), normalised(logs)
    value = float(c @ (logsumexp(logs, axis=1) - logs[at, codes]))
    slope = [float(c @ (np.einsum("ij,ij->i", p, s) - s[at, codes])) for s in slopes]
    gap = (x - PRIOR_MEAN) / PRIOR_SD
    return value + 0.5 * float(gap @ gap), np.array(slope) + gap / PRIOR_SD
