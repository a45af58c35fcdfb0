r"""A Gaussian process seen through Gaussian targets: what ECM and expectation propagation share.

With the kernel :math:`a\exp(-\lVert x - x'\rVert^2/\theta^2)` and targets t of noise variances r,

.. math:: \log N(t; 0, \Sigma), \qquad \Sigma = K + \mathrm{diag}(r),

exactly, or with :math:`K` replaced by :math:`Q + \mathrm{diag}(K - Q)`,
:math:`Q = K_{nm}K_{mm}^{-1}K_{mn}` (FITC, eq. 10 of Henao et al., 2014).  In both the process has,
with :math:`\alpha = \Sigma^{-1}t`, at the rows the mean :math:`t - r\alpha` and the variance
:math:`r - r^2\,\mathrm{diag}(\Sigma^{-1})`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri
from scipy.spatial.distance import cdist
from scipy.special import ndtr

from bayesvm.core.types import Array

JITTER = 1e-6  # of the variances at pseudo-inputs


@dataclass(frozen=True, eq=False)
class Seen:
    """The process given targets, at one place of its parameters."""

    alpha: Array
    mean: Array  # of f at the rows
    variance: Array
    log_marginal: float
    slope: Callable[[], Array]  # of the log marginal in the parameters
    predict: Callable[[Array], tuple[Array, Array]]  # mean and variance of f at new rows


def squares(A: Array, B: Array) -> Array:
    """Squared distances by one product of matrices: pixels have 256 columns."""
    size = np.sum(A**2, axis=1)[:, None] + np.sum(B**2, axis=1)
    return np.maximum(size - 2.0 * A @ B.T, 0.0)  # type: ignore[no-any-return]


class Exact:
    """Parameters: logarithms of the amplitude a and of theta."""

    def __init__(self, X: Array) -> None:
        self.X = X
        self.D = cdist(X, X, "sqeuclidean")
        self.covariance = lru_cache(1)(lambda a, s: a * np.exp(-s * self.D))

    def start(self, theta: float) -> Array:
        return np.array([0.0, np.log(theta)])

    def given(self, at: Array, t: Array, r: Array) -> Seen:
        a, s = np.exp(at[0]), np.exp(-2.0 * at[1])
        K = self.covariance(a, s)
        sigma = K.copy()
        sigma[np.diag_indices_from(sigma)] += r
        L = cholesky(sigma, lower=True, overwrite_a=True, check_finite=False)
        alpha = cho_solve((L, True), t, check_finite=False)
        inverse = dpotri(L, lower=1)[0]
        diag = np.diag(inverse).copy()
        log_marginal = -0.5 * t @ alpha - np.log(np.diag(L)).sum()

        def slope() -> Array:
            whole = np.tril(inverse, -1)
            G = 0.5 * (np.outer(alpha, alpha) - whole - whole.T - np.diag(diag)) * K
            return np.array([G.sum(), 2.0 * s * np.sum(G * self.D)])

        def predict(X: Array) -> tuple[Array, Array]:
            k = a * np.exp(-s * cdist(self.X, X, "sqeuclidean"))
            half = solve_triangular(L, k, lower=True, check_finite=False)
            return k.T @ alpha, a - np.sum(half**2, axis=0)

        return Seen(alpha, t - r * alpha, r - r**2 * diag, float(log_marginal), slope, predict)


class Fitc:
    """Parameters: logarithms of a and of theta, then the pseudo-inputs."""

    def __init__(self, X: Array, V: Array) -> None:
        self.X, self.V = X, V
        self.last: tuple[Array, Any] | None = None

    def start(self, theta: float) -> Array:
        return np.concatenate([[0.0, np.log(theta)], self.V.ravel()])

    def covariances(self, at: Array) -> tuple[Any, ...]:
        """What does not depend on the targets."""
        a, s = np.exp(at[0]), np.exp(-2.0 * at[1])
        V = at[2:].reshape(self.V.shape)
        Dm, Dn = squares(V, V), squares(V, self.X)
        Km, Kn = a * (np.exp(-s * Dm) + JITTER * np.eye(len(V))), a * np.exp(-s * Dn)
        Lm = cholesky(Km, lower=True)
        return a, s, V, Dm, Dn, Km, Kn, Lm, solve_triangular(Lm, Kn, lower=True)

    def given(self, at: Array, t: Array, r: Array) -> Seen:
        if self.last is None or not np.array_equal(self.last[0], at):
            self.last = at.copy(), self.covariances(at)
        a, s, V, Dm, Dn, Km, Kn, Lm, C = self.last[1]
        d = np.maximum(a - np.sum(C**2, axis=0), 0.0) + r
        Cd = C / d
        LB = cholesky(np.eye(len(V)) + Cd @ C.T, lower=True)
        half = solve_triangular(LB, Cd, lower=True)  # Sigma^-1 = 1/d - half' half
        alpha = t / d - half.T @ (half @ t)
        diag = 1.0 / d - np.sum(half**2, axis=0)
        log_marginal = -0.5 * (t @ alpha + np.log(d).sum()) - np.log(np.diag(LB)).sum()

        def slope() -> Array:
            P = solve_triangular(Lm, C, lower=True, trans="T")  # Kmm^-1 Kmn
            g = 0.5 * (alpha**2 - diag)
            # P times the slope in Sigma, whose diagonal depends on a alone
            PG = 0.5 * (np.outer(P @ alpha, alpha) - P / d + (P @ half.T) @ half) - P * g
            Wn, Wm = 2.0 * PG * Kn, -(PG @ P.T) * Km
            to_a = g.sum() * a + Wn.sum() + Wm.sum()
            to_theta = 2.0 * s * (np.sum(Wn * Dn) + np.sum(Wm * Dm))
            to_V = 2.0 * s * (Wn @ self.X - Wn.sum(axis=1)[:, None] * V)
            to_V += 4.0 * s * (Wm @ V - Wm.sum(axis=1)[:, None] * V)
            return np.concatenate([[to_a, to_theta], to_V.ravel()])

        def predict(X: Array) -> tuple[Array, Array]:
            c = solve_triangular(Lm, a * np.exp(-s * squares(V, X)), lower=True)
            left = solve_triangular(LB, c, lower=True)
            return c.T @ (C @ alpha), a - np.sum(c**2, axis=0) + np.sum(left**2, axis=0)

        return Seen(alpha, t - r * alpha, r - r**2 * diag, float(log_marginal), slope, predict)


@dataclass(frozen=True, eq=False)
class Machine:
    """What was learned: rows are standardised, or not, and classified by the averaged probit."""

    classes_: Array
    centre: Array
    scale: Array
    seen: Seen
    at: Array  # the parameters
    scores: dict[str, float]  # gamma, numbers of rounds, the log marginal likelihood

    def predict_proba(self, X: Array) -> Array:
        mean, variance = self.seen.predict((X - self.centre) / self.scale)
        p = ndtr(mean / np.sqrt(1.0 + np.maximum(variance, 0.0)))
        return np.column_stack([1.0 - p, p])


def signs(y: Array) -> tuple[Array, Array]:
    """The two classes, and labels of -1 and 1."""
    classes = np.unique(y)
    return classes, np.where(y == classes[1], 1.0, -1.0)


def standardised(X: Array, wanted: bool) -> tuple[Array, Any, Any]:
    """Rows, their centre and scale."""
    if not wanted:
        return X, np.zeros(X.shape[1]), np.ones(X.shape[1])
    centre, scale = X.mean(axis=0), X.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return (X - centre) / scale, centre, scale
