r"""The factor model: many columns explained by few scores, through sparse loadings.

.. math::

    x_n = A w_n + \varepsilon_n, \quad \varepsilon_n \sim N(0, \psi^{-1} I), \quad w_n \sim N(0, I),
    \quad a_{ik} \sim N(0, \varphi_{ik}), \quad \varphi_{ik} \sim \mathrm{Exp}(\nu), \quad
    \psi \sim \mathrm{Ga}(a, b),

so that a loading is Laplace of rate :math:`\sqrt{2\nu}`.  Columns are independent given the scores:
every sum here is K by K, and d enters only as a number of such problems.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from ..distributions import LOG_2PI, inverse_gaussian
from ..types import Array
from .cells import Cells, Scores

TINY = 1e-12  # smallest E[a^2]: keeps the precision of a loading finite


class Loadings(NamedTuple):
    """q(A) q(phi) q(psi): means ``(d, K)``, covariances ``(d, K, K)``, E[1/phi] ``(d, K)``, shape
    and rate of the noise precision, and the Laplace rate."""

    mean: Array
    cov: Array
    shrink: Array
    shape: float
    rate: float
    laplace: float

    @property
    def psi(self) -> float:
        """E[psi]."""
        return self.shape / self.rate

    def square(self) -> Array:
        """E[a a'] of each column, ``(d, K, K)``."""
        return self.mean[:, :, None] * self.mean[:, None, :] + self.cov

    def across(self, cells: Cells) -> Array:
        """Sums of E[a a'] over the columns seen: ``(K, K)``, or ``(n, K, K)``."""
        if cells.seen is None:
            return np.asarray(self.mean.T @ self.mean + self.cov.sum(axis=0))
        return cells.across(self.square())

    def second(self) -> Array:
        """E[a_ik^2], ``(d, K)``."""
        return self.mean**2 + np.diagonal(self.cov, axis1=1, axis2=2)


@dataclass(frozen=True)
class FactorPrior:
    r"""Priors of loadings and noise.

    Parameters
    ----------
    nu : float or None, default=1.0
        Rate of the variances of loadings; ``None`` learns it, under :math:`\nu \sim
        \mathrm{Exp}(1)`.
    a, b : float, default=1.0
        Shape and rate of the noise precision.
    """

    nu: float | None = 1.0
    a: float = 1.0
    b: float = 1.0

    @property
    def laplace(self) -> float:
        """The Laplace rate to begin with."""
        return float(np.sqrt(2.0 * (1.0 if self.nu is None else self.nu)))

    # ----- variational

    def start(self, cells: Cells, K: int) -> tuple[Loadings, Scores]:
        """Leading singular vectors, scores with unit variance, rotated to sparse loadings."""
        W = leading_scores(cells, K)
        n = float(cells.c.sum())
        A = cells.cross(W) / n
        T = varimax(A)
        A, W = A @ T, W @ T
        left = max(cells.square - n * float(np.sum(A * A)), 1e-6 * cells.square)
        shape = self.a + 0.5 * cells.count
        d = cells.d
        spread = np.broadcast_to(np.eye(K) * (left / cells.count / n), (d, K, K))
        q = Loadings(A, spread, np.ones((d, K)), shape, shape * left / cells.count, self.laplace)
        return self.shrunk(q), Scores(W)

    def update(self, q: Loadings, cells: Cells, scores: Scores) -> Loadings:
        """All factors of the loadings and of the noise, in turn."""
        return self.noise(self.shrunk(self.load(q, cells, scores)), cells, scores)

    def load(self, q: Loadings, cells: Cells, scores: Scores) -> Loadings:
        """q(A), given scores."""
        precision = q.psi * cells.gram(scores) + _diagonals(q.shrink)
        cov = np.linalg.inv(precision)
        mean = q.psi * np.einsum("ijk,ik->ij", cov, cells.cross(scores.mean))
        return q._replace(mean=mean, cov=cov)

    def shrunk(self, q: Loadings) -> Loadings:
        r"""q(phi), :math:`E\varphi^{-1} = r/\sqrt{E a^2}`, and the Laplace rate r if learned."""
        size = np.sqrt(np.maximum(q.second(), TINY))
        r = q.laplace
        if self.nu is None:  # maximises dK log r - r T - r^2 / 2, with T the sum of sizes
            T = float(size.sum())
            r = 0.5 * (np.sqrt(T * T + 4.0 * size.size) - T)
        return q._replace(shrink=r / size, laplace=float(r))

    def noise(self, q: Loadings, cells: Cells, scores: Scores) -> Loadings:
        """q(psi)."""
        rate = self.b + 0.5 * energy(q, cells, scores)
        return q._replace(shape=self.a + 0.5 * cells.count, rate=rate)

    def bound(self, q: Loadings, cells: Cells, scores: Scores) -> float:
        """E log p(X, A, phi, psi | W) - E log q, complete with constants."""
        K = q.mean.shape[1]
        log_psi = digamma(q.shape) - np.log(q.rate)
        fit = 0.5 * cells.count * (log_psi - LOG_2PI) - 0.5 * q.psi * energy(q, cells, scores)
        sign, logdet = np.linalg.slogdet(q.cov)
        entropy = 0.5 * (q.mean.size * (1.0 + LOG_2PI) + float(logdet.sum()))
        a, b = self.a, self.b
        divergence = (
            (q.shape - a) * digamma(q.shape) - gammaln(q.shape) + gammaln(a)
            + a * (np.log(q.rate) - np.log(b)) + q.shape * (b - q.rate) / q.rate
        )  # fmt: skip
        learned = -0.5 * q.laplace**2 if self.nu is None else 0.0
        assert K == q.cov.shape[1]
        assert np.all(sign > 0)
        return float(fit + sparse_bound(q) + entropy - divergence + learned)

    # ----- draws

    def draw(self, q: Drawn, cells: Cells, W: Array, rng: np.random.Generator) -> Drawn:
        """Loadings, their variances and the noise, given scores."""
        precision = q.psi * cells.gram(Scores(W)) + _diagonals(q.shrink)
        L = np.linalg.cholesky(precision)
        half = np.linalg.solve(L, q.psi * cells.cross(W)[:, :, None])
        dice = rng.standard_normal((cells.d, W.shape[1], 1))
        A = np.linalg.solve(L.transpose(0, 2, 1), half + dice)[:, :, 0]
        r = q.laplace
        shrink = np.minimum(inverse_gaussian(np.abs(A) / r, r * r, rng), 1.0 / TINY)
        if self.nu is None:
            r = float(np.sqrt(2.0 * rng.gamma(1.0 + A.size) / (1.0 + np.sum(1.0 / shrink))))
        new = Drawn(A, shrink, q.psi, r)
        rate = self.b + 0.5 * energy(new, cells, Scores(W))
        return new._replace(psi=float(rng.gamma(self.a + 0.5 * cells.count) / rate))


class Drawn(NamedTuple):
    """A draw of the loadings, of 1/phi, of the noise precision and of the Laplace rate."""

    A: Array
    shrink: Array
    psi: float
    laplace: float

    @staticmethod
    def of(q: Loadings) -> Drawn:
        return Drawn(q.mean, q.shrink, q.psi, q.laplace)

    @property
    def mean(self) -> Array:
        return self.A

    def across(self, cells: Cells) -> Array:
        """Sums of a a' over the columns seen: ``(K, K)``, or ``(n, K, K)``."""
        if cells.seen is None:
            return np.asarray(self.A.T @ self.A)
        return cells.across(self.A[:, :, None] * self.A[:, None, :])


def energy(q: Loadings | Drawn, cells: Cells, scores: Scores) -> float:
    """Expected squared residuals, over the cells seen."""
    if cells.seen is None:
        both = np.vdot(cells.gram(scores), q.across(cells))
    else:
        both = np.vdot(cells.c[:, None, None] * scores.square(), q.across(cells))
    return float(cells.square - 2.0 * np.vdot(cells.cross(scores.mean), q.mean) + both)


def sparse_bound(q: Loadings) -> float:
    r"""E log p(a, phi) - E log q(phi): :math:`\log\frac r2 - \frac r2(E a^2/\xi + \xi)` a loading,
    with :math:`\xi = r/E\varphi^{-1}`."""
    r = q.laplace
    xi = r / q.shrink
    return float(q.mean.size * np.log(0.5 * r) - 0.5 * r * np.sum(q.second() / xi + xi))


def project(cells: Cells, q: Loadings | Drawn) -> Scores:
    """Scores given no more than the cells: covariance ``(K, K)``, or one a row where some miss."""
    cov = np.linalg.inv(np.eye(q.mean.shape[1]) + q.psi * q.across(cells))
    info = q.psi * (cells.X @ q.mean)
    return Scores(np.einsum("...jk,...k->...j", cov, info), cov)


def leading_scores(cells: Cells, K: int) -> Array:
    """Leading left singular vectors with unit variance; holes count as the column's mean.

    By the Gram matrix of the smaller side.
    """
    Y = cells.X * np.sqrt(cells.c)[:, None]
    n, d = Y.shape
    if n <= d:
        _, U = np.linalg.eigh(Y @ Y.T)
        U = U[:, ::-1][:, :K]
    else:
        values, V = np.linalg.eigh(Y.T @ Y)
        order = np.argsort(values)[::-1][:K]
        U = (Y @ V[:, order]) / np.sqrt(np.maximum(values[order], 1e-300))
    # a row of weight c is c rows: each has the share 1/sqrt(c) of the vector
    return np.asarray(U * np.sqrt(cells.c.sum() / cells.c)[:, None])


def varimax(A: Array, max_iter: int = 100, tol: float = 1e-6) -> Array:
    """The rotation that makes squared loadings as unequal as can be (Kaiser's varimax)."""
    d, K = A.shape
    T = np.eye(K)
    if K < 2:
        return T
    total = 0.0
    for _ in range(max_iter):
        B = A @ T
        U, s, Vt = np.linalg.svd(A.T @ (B**3 - B * (np.square(B).sum(axis=0) / d)))
        T = U @ Vt
        if s.sum() < total * (1.0 + tol):
            break
        total = float(s.sum())
    return T


def _diagonals(x: Array) -> Array:
    """Diagonal matrices, one a row of x."""
    return x[:, :, None] * np.eye(x.shape[1])
