r"""Gaussian distributions of whole rows, from which missing entries are filled in.

Both work from the same sums over rows (:class:`Moments`), on the scale of the model's columns:
standardised ones, for which the defaults are meant, or with ``standardize=False`` those of the
input.  What rows need of them is a precision matrix *R* of their entries, expected or drawn:
products with it, and its blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, eigh, solve_triangular
from scipy.special import gammaln, multigammaln

from ..core.distributions import LOG_2PI, wishart
from ..core.types import Array
from ..gaussian.covariances import FullCovariance
from ..gaussian.forms import corners

ROUNDS = 30  # of EM on rows, where columns are too many for their moments
STILL = 0.02  # largest change of the log noise of a column that ends it
STEPS = 5  # of EM in a sweep: it is slow, and cheap beside the rows


@dataclass(frozen=True)
class Moments:
    """Count, sum and sum of squares of rows, expected where entries are latent."""

    n: float
    total: Array  # (d,)
    square: Array  # (d, d)

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.n + other.n, self.total + other.total, self.square + other.square)

    def about(self, mu: Array) -> Array:
        """The sum of squares of rows less ``mu``."""
        cross = np.outer(self.total, mu)
        out: Array = self.square - cross - cross.T + self.n * np.outer(mu, mu)
        return out


# ---------------------------------------------------------------------------------------------
# Any covariance


@dataclass(frozen=True)
class Wishart:
    r"""Factors of the mean and of the covariance of rows, or a draw of both.

    :math:`\mu_d \sim N(\text{mean}, \text{mean\_cov})` and
    :math:`\Sigma_d \sim \mathrm{IW}(\text{scale}, \text{df})`, so that
    :math:`R = E[\Sigma_d^{-1}] = \text{df}\,\text{scale}^{-1}`; a draw has ``df`` 1.
    """

    mean: Array
    mean_cov: Array | float
    scale: Array
    df: float

    @cached_property
    def _factor(self) -> Array:
        return cholesky(self.scale, lower=True, check_finite=False)

    @cached_property
    def R(self) -> Array:
        eye = np.eye(self.mean.size)
        out: Array = self.df * cho_solve((self._factor, True), eye, check_finite=False)
        return 0.5 * (out + out.T)

    @property
    def logdet(self) -> float:
        """Of the scale."""
        return float(2.0 * np.log(np.diag(self._factor)).sum())

    def vector(self) -> Array:
        """Mean and scale; the spread of the mean is left to the next update."""
        return np.concatenate([self.mean, FullCovariance(self._factor).vector()])

    def restore(self, vector: Array) -> Wishart:
        d = self.mean.size
        L = FullCovariance(self._factor).restore(vector[d:]).L
        return replace(self, mean=vector[:d], scale=L @ L.T)

    def times(self, Z: Array) -> Array:
        """Rows times R."""
        return Z @ self.R

    def corners(self, columns: Array) -> Array:
        return corners(self.R, columns)


@dataclass(frozen=True)
class Unstructured:
    r"""Rows with a covariance of any shape.

    .. math::

        d_i \sim N(\mu_d, \Sigma_d), \qquad \mu_d \sim N(0, \sigma_\mu^2 I), \qquad
        \Sigma_d \sim \mathrm{IW}(\psi I, d + 1) .

    Parameters
    ----------
    psi : float, default=0.01
        Scale of the prior of the covariance.
    mean_variance : float, default=1e4
        Prior variance of the means.
    extra_df : float, default=1.0
        Degrees of freedom beyond the number of columns; more than -1, below which the prior is
        improper.

    References
    ----------
    Luts & Ormerod (2014), Algorithm 4.
    """

    psi: float = 0.01
    mean_variance: float = 1e4
    extra_df: float = 1.0

    def begin(self, sums: Moments) -> Wishart:
        d = sums.total.size
        mean = sums.total / sums.n
        mean_cov = np.eye(d) / (sums.n + 1.0 / self.mean_variance)
        return Wishart(mean, mean_cov, *self._covariance(sums, mean, mean_cov))

    def _covariance(self, sums: Moments, mean: Array, mean_cov: Any) -> tuple[Array, float]:
        d = mean.size
        scale = sums.about(mean) + sums.n * mean_cov
        scale[np.diag_indices(d)] += self.psi
        return 0.5 * (scale + scale.T), d + self.extra_df + sums.n

    def _mean_precision(self, q: Wishart, n: float) -> Array:
        return n * q.R + np.eye(q.mean.size) / self.mean_variance

    def update(self, q: Wishart, sums: Moments) -> Wishart:
        """Luts & Ormerod, Algorithm 4: q(mu), then q(Sigma_d)."""
        L = cholesky(self._mean_precision(q, sums.n), lower=True, check_finite=False)
        root = solve_triangular(L, np.eye(q.mean.size), lower=True, check_finite=False)
        mean_cov = root.T @ root
        mean = mean_cov @ (q.R @ sums.total)
        return Wishart(mean, mean_cov, *self._covariance(sums, mean, mean_cov))

    def bound(self, q: Wishart, sums: Moments) -> float:
        n, d, nu = sums.n, q.mean.size, q.mean.size + self.extra_df
        spread = (
            np.linalg.slogdet(q.mean_cov)[1]
            - (q.mean @ q.mean + np.trace(q.mean_cov)) / self.mean_variance
        )
        expected = sums.about(q.mean) + n * q.mean_cov - q.scale
        expected[np.diag_indices(d)] += self.psi
        out = (
            -0.5 * n * d * np.log(np.pi)
            + 0.5 * nu * d * np.log(self.psi)
            - multigammaln(0.5 * nu, d)
            - 0.5 * q.df * q.logdet
            + multigammaln(0.5 * (nu + n), d)
            - 0.5 * np.sum(q.R * expected)
            + 0.5 * (d - d * np.log(self.mean_variance) + spread)
        )
        return float(out)

    def draw(self, q: Wishart, sums: Moments, rng: np.random.Generator) -> Wishart:
        """Luts & Ormerod, Appendix C, with the scale of the covariance made symmetric."""
        d = q.mean.size
        L = cholesky(self._mean_precision(q, sums.n), lower=True, check_finite=False)
        at = cho_solve((L, True), q.R @ sums.total, check_finite=False)
        step = rng.standard_normal(d)
        mean = at + solve_triangular(L, step, lower=True, trans=1, check_finite=False)
        scale, df = self._covariance(sums, mean, 0.0)
        R = wishart(df, scale, rng)
        sigma = cho_solve((cholesky(R, lower=True, check_finite=False), True), np.eye(d))
        return Wishart(mean, 0.0, 0.5 * (sigma + sigma.T), 1.0)


# ---------------------------------------------------------------------------------------------
# Few factors


@dataclass(frozen=True)
class Loadings:
    r"""Point estimates of :math:`\Sigma_d = \Lambda\Lambda^\top + \mathrm{diag}\,\psi`."""

    mean: Array  # (d,)
    L: Array  # (d, r)
    psi: Array  # (d,)

    @cached_property
    def _inner(self) -> Array:
        """Factor of I + L' Psi^-1 L."""
        scaled = self.L / self.psi[:, None]
        inner = self.L.T @ scaled
        inner[np.diag_indices_from(inner)] += 1.0
        return cholesky(inner, lower=True, check_finite=False)

    @cached_property
    def root(self) -> Array:
        """F with ``R = diag(1 / psi) - F F'``, (d, r)."""
        scaled = self.L / self.psi[:, None]
        return solve_triangular(self._inner, scaled.T, lower=True, check_finite=False).T

    @property
    def logdet(self) -> float:
        """Of Sigma_d."""
        return float(np.log(self.psi).sum() + 2.0 * np.log(np.diag(self._inner)).sum())

    def vector(self) -> Array:
        return np.concatenate([self.mean, np.log(self.psi), self.L.ravel()])

    def restore(self, vector: Array) -> Loadings:
        mean, psi, L = np.split(vector, [self.mean.size, 2 * self.mean.size])
        return Loadings(mean, L.reshape(self.L.shape), np.exp(psi))

    def times(self, Z: Array) -> Array:
        """Rows times R."""
        out: Array = Z / self.psi - (Z @ self.root) @ self.root.T
        return out

    def scores(self, Z: Array, known: Array) -> tuple[Array, Array]:
        """Means (n, r) and covariances (n, r, r) of the factors given the known entries of rows."""
        d, r = self.L.shape
        scaled = self.L / self.psi[:, None]
        square = (scaled[:, :, None] * self.L[:, None, :]).reshape(d, r * r)
        precision = np.eye(r) + (known @ square).reshape(len(Z), r, r)
        cov = np.linalg.inv(precision)
        gap = np.where(known > 0, Z - self.mean, 0.0)
        return np.einsum("nij,nj->ni", cov, gap @ scaled), cov

    def given(self, Z: Array) -> tuple[Array, Array]:
        """Rows with missing entries at their expectation, and the variances of these."""
        gone = np.isnan(Z)
        z, cov = self.scores(Z, 1.0 - gone)
        mean = np.where(gone, self.mean + z @ self.L.T, Z)
        spread = np.einsum("nij,di,dj->nd", cov, self.L, self.L, optimize=True)
        return mean, np.where(gone, self.psi + spread, 0.0)

    def corners(self, columns: Array) -> Array:
        F = self.root[columns]  # (k, m, r)
        out = -(F @ F.swapaxes(1, 2))
        i = np.arange(columns.shape[1])
        out[:, i, i] += 1.0 / self.psi[columns]
        return out


@dataclass(frozen=True)
class Factors:
    r"""Rows with few common factors: for tables too wide for a covariance of any shape.

    .. math::

        d_i = \mu_d + \Lambda z_i + e_i, \qquad z_i \sim N(0, I_r), \qquad
        e_i \sim N(0, \mathrm{diag}\,\psi), \qquad
        \Lambda_{jk} \sim N(0, 1), \quad \psi_j \sim \mathrm{IG}(a, b) .

    The factors are integrated out.  Means, loadings and noise are point estimates, moved by a few
    EM steps in each sweep, and Gibbs holds them where a variational fit left them.

    Parameters
    ----------
    rank : int, default=10
        Number of factors.
    a, b : float, default=1.0 and 0.05
        Prior of the noise.
    mean_variance : float, default=1e4
        Prior variance of the means.
    """

    rank: int = 10
    a: float = 1.0
    b: float = 0.05
    mean_variance: float = 1e4

    def begin(self, sums: Moments) -> Loadings:
        d = sums.total.size
        mean = sums.total / sums.n
        S = sums.about(mean) / sums.n
        r = min(self.rank, d)
        value, vector = eigh(S, subset_by_index=[d - r, d - 1])
        psi = np.maximum(np.diag(S) - (vector**2) @ value * 0.9, 0.05)
        return Loadings(mean, vector * np.sqrt(np.maximum(0.9 * value, 1e-3)), psi)

    def learn(self, Z: Array, count: Array) -> Loadings:
        """Estimates from rows with missing entries (NaN), without a matrix of the columns.

        EM with the factors latent; missing entries are integrated out and need no estimate.  Rows
        count so often.
        """
        known = (~np.isnan(Z)).astype(float)
        X, weight = np.where(known > 0, Z, 0.0), known * count[:, None]
        n = weight.sum(axis=0)
        q = self._first(X, weight, n, count)
        for _ in range(ROUNDS):
            z, cov = q.scores(X, known)
            mean = (weight * (X - z @ q.L.T)).sum(axis=0) / (n + q.psi / self.mean_variance)
            gap = known * (X - mean)
            r = z.shape[1]
            second = (cov + z[:, :, None] * z[:, None, :]).reshape(-1, r * r)
            square = (weight.T @ second).reshape(-1, r, r)  # (d, r, r)
            across = (count[:, None] * gap).T @ z  # (d, r)
            lhs = square + q.psi[:, None, None] * np.eye(r)
            L = np.linalg.solve(lhs, across[:, :, None])[:, :, 0]
            fit = np.einsum("dr,drs,ds->d", L, square, L, optimize=True)
            left = count @ gap**2 - 2.0 * np.einsum("dr,dr->d", across, L) + fit
            psi = (self.b + 0.5 * np.maximum(left, 0.0)) / (self.a + 1.0 + 0.5 * n)
            moved = float(np.max(np.abs(np.log(psi / q.psi))))
            q = Loadings(mean, L, psi)
            if moved < STILL:
                break
        # a new entry is as far from a regression on e numbers, fitted to n rows, as (n + e)/(n - e)
        # times what the rows leave: e counts the loadings less their shrinkage, and the mean
        spent = 1.0 + r - q.psi * np.trace(np.linalg.inv(lhs), axis1=1, axis2=2)
        return replace(q, psi=q.psi * (n + spent) / np.maximum(n - spent, 1.0))

    def _first(self, X: Array, weight: Array, n: Array, count: Array) -> Loadings:
        """Principal components of rows whose missing entries are at the mean of their column."""
        mean = (weight * X).sum(axis=0) / n
        gap = np.where(weight > 0, X - mean, 0.0) * np.sqrt(count)[:, None]
        total = float(count.sum())
        r = max(1, min(self.rank, X.shape[0] - 1, X.shape[1]))
        value, U = eigh(gap @ gap.T, subset_by_index=[X.shape[0] - r, X.shape[0] - 1])
        L = 0.95 * (gap.T @ U) / np.sqrt(total)  # 0.9 of the variance, as in ``begin``
        psi = np.maximum(np.einsum("ij,ij->j", gap, gap) / n - np.sum(L**2, axis=1), 0.05)
        return Loadings(mean, L, psi)

    def update(self, q: Loadings, sums: Moments) -> Loadings:
        for _ in range(STEPS):
            q = self._step(q, sums)
        return q

    def _step(self, q: Loadings, sums: Moments) -> Loadings:
        """EM, with the factors latent; the noise after the loadings."""
        n, d = sums.n, sums.total.size
        mean = self._mean(q, sums)
        S = sums.about(mean) / n
        B = q.times(q.L.T)  # E[z | d] = B (d - mean), (r, d)
        across = S @ B.T  # (d, r)
        r = B.shape[0]
        square = np.eye(r) - B @ q.L + B @ across
        square = 0.5 * (square + square.T)
        lhs = n * square + q.psi[:, None, None] * np.eye(r)
        L = np.linalg.solve(lhs, n * across[:, :, None])[:, :, 0]
        left = np.diag(S) + np.einsum("jr,jr->j", L @ square - 2.0 * across, L)
        psi = (self.b + 0.5 * n * np.maximum(left, 0.0)) / (self.a + 1.0 + 0.5 * n)
        assert psi.shape == (d,)
        return Loadings(mean, L, psi)

    def _mean(self, q: Loadings, sums: Moments) -> Array:
        """Solves (n R + I / v) mu = R total, as (n I + Sigma / v) mu = total."""
        diagonal, L = sums.n + q.psi / self.mean_variance, q.L / np.sqrt(self.mean_variance)
        inner = np.eye(L.shape[1]) + L.T @ (L / diagonal[:, None])
        out: Array = sums.total / diagonal
        return out - (L @ np.linalg.solve(inner, L.T @ out)) / diagonal

    def bound(self, q: Loadings, sums: Moments) -> float:
        """Log density of rows and of the estimates."""
        n, d = sums.n, q.mean.size
        S = sums.about(q.mean)
        fit = np.sum(np.diag(S) / q.psi) - np.sum((S @ q.root) * q.root)
        prior = (
            -0.5 * (q.L.size + d) * LOG_2PI
            - 0.5 * np.sum(q.L**2)
            - 0.5 * (d * np.log(self.mean_variance) + q.mean @ q.mean / self.mean_variance)
            + d * (self.a * np.log(self.b) - gammaln(self.a))
            - np.sum((self.a + 1.0) * np.log(q.psi) + self.b / q.psi)
        )
        return float(-0.5 * (n * (d * LOG_2PI + q.logdet) + fit) + prior)

    def draw(self, q: Loadings, sums: Moments, rng: np.random.Generator) -> Loadings:
        return q
