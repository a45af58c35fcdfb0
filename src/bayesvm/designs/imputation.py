r"""Gaussian distributions of rows, from which missing entries are inferred.

Both classes use the same sums over rows (:class:`RowSums`), on the scale of the model's columns:
standardised (for which the defaults are meant) or, with ``standardize=False``, the scale of the
input.  Both provide a precision matrix *R* of the entries of a row, expected or drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh
from scipy.special import gammaln, multigammaln
from scipy.stats import invwishart

from ..core.distributions import LOG_2PI
from ..core.types import Array


@dataclass(frozen=True)
class RowSums:
    """Count, sum and sum of squares of rows, in expectation over latent entries."""

    n: float
    total: Array  # (d,)
    square: Array  # (d, d)

    def __add__(self, other: RowSums) -> RowSums:
        return RowSums(self.n + other.n, self.total + other.total, self.square + other.square)

    def about(self, mu: Array) -> Array:
        """The sum of squares of rows minus ``mu``."""
        cross = np.outer(self.total, mu)
        out: Array = self.square - cross - cross.T + self.n * np.outer(mu, mu)
        return out


# ---------------------------------------------------------------------------------------------
# Any covariance


@dataclass(frozen=True)
class Wishart:
    r"""Variational factors of the mean and of the covariance of rows, or a draw of both.

    :math:`\mu_d \sim N(\text{mean}, \text{mean\_cov})` and
    :math:`\Sigma_d \sim \mathrm{IW}(\text{scale}, \text{df})`, so that
    :math:`R = E[\Sigma_d^{-1}] = \text{df}\,\text{scale}^{-1}`; a draw has ``df`` 1.
    """

    mean: Array
    mean_cov: Array | float
    scale: Array
    df: float

    @cached_property
    def R(self) -> Array:
        out: Array = self.df * np.linalg.inv(self.scale)
        return 0.5 * (out + out.T)


@dataclass(frozen=True)
class Unstructured:
    r"""Gaussian distribution of rows with an unstructured covariance.

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
    max_joint: ClassVar[float] = np.inf  # columns, see Factors

    def begin(self, sums: RowSums) -> Wishart:
        mean_cov = np.eye(sums.total.size) / (sums.n + 1.0 / self.mean_variance)
        return self._wishart(sums, sums.total / sums.n, mean_cov)

    def _wishart(self, sums: RowSums, mean: Array, mean_cov: Any) -> Wishart:
        d = mean.size
        scale = sums.about(mean) + sums.n * mean_cov + self.psi * np.eye(d)
        return Wishart(mean, mean_cov, 0.5 * (scale + scale.T), d + self.extra_df + sums.n)

    def _mean_cov(self, q: Wishart, n: float) -> Array:
        """The covariance of the mean given the covariance of rows."""
        return np.linalg.inv(n * q.R + np.eye(q.mean.size) / self.mean_variance)

    def update(self, q: Wishart, sums: RowSums) -> Wishart:
        """Luts & Ormerod, Algorithm 4: q(mu), then q(Sigma_d)."""
        mean_cov = self._mean_cov(q, sums.n)
        return self._wishart(sums, mean_cov @ (q.R @ sums.total), mean_cov)

    def draw(self, q: Wishart, sums: RowSums, rng: np.random.Generator) -> Wishart:
        """Luts & Ormerod, Appendix C, with the scale of the covariance made symmetric."""
        d, mean_cov = q.mean.size, self._mean_cov(q, sums.n)
        mean = mean_cov @ (q.R @ sums.total)
        mean = mean + np.linalg.cholesky(mean_cov) @ rng.standard_normal(d)
        given = self._wishart(sums, mean, 0.0)
        sigma = invwishart.rvs(given.df, given.scale, random_state=rng)
        return Wishart(mean, 0.0, np.reshape(sigma, (d, d)), 1.0)

    def bound(self, q: Wishart, sums: RowSums) -> float:
        n, d, nu = sums.n, q.mean.size, q.mean.size + self.extra_df
        logdet = np.linalg.slogdet(q.scale)[1]
        of_mean = (
            np.linalg.slogdet(q.mean_cov)[1]
            - (q.mean @ q.mean + np.trace(q.mean_cov)) / self.mean_variance
            + d * (1.0 - np.log(self.mean_variance))
        )
        expected = sums.about(q.mean) + n * q.mean_cov + self.psi * np.eye(d) - q.scale
        of_covariance = (
            0.5 * nu * d * np.log(self.psi)
            - multigammaln(0.5 * nu, d)
            + multigammaln(0.5 * (nu + n), d)
            - 0.5 * (q.df * logdet + np.sum(q.R * expected))
        )
        return float(of_covariance + 0.5 * (of_mean - n * d * np.log(np.pi)))


# ---------------------------------------------------------------------------------------------
# Few factors


@dataclass(frozen=True)
class FactorCovariance:
    r"""Point estimates of the mean and of :math:`\Sigma_d = LL^\top + \mathrm{diag}\,\psi`."""

    mean: Array  # (d,)
    L: Array  # (d, r)
    psi: Array  # (d,)

    @cached_property
    def R(self) -> Array:
        out: Array = np.linalg.inv(self.L @ self.L.T + np.diag(self.psi))
        return 0.5 * (out + out.T)

    def scores(self, Z: Array, known: Array) -> tuple[Array, Array]:
        """Means (n, r) and covariances (n, r, r) of the factors given the observed entries."""
        d, r = self.L.shape
        scaled = self.L / self.psi[:, None]
        square = (scaled[:, :, None] * self.L[:, None, :]).reshape(d, r * r)
        cov = np.linalg.inv(np.eye(r) + (known @ square).reshape(len(Z), r, r))
        gap = np.where(known > 0, Z - self.mean, 0.0)
        return np.einsum("nij,nj->ni", cov, gap @ scaled), cov

    def given(self, Z: Array) -> tuple[Array, Array]:
        """Rows with missing entries at their conditional mean, and the conditional variances."""
        is_missing = np.isnan(Z)
        z, cov = self.scores(Z, 1.0 - is_missing)
        spread = np.einsum("nij,di,dj->nd", cov, self.L, self.L, optimize=True)
        mean = np.where(is_missing, self.mean + z @ self.L.T, Z)
        return mean, np.where(is_missing, self.psi + spread, 0.0)


@dataclass(frozen=True)
class Factors:
    r"""Factor-analytic distribution of rows, for tables too wide for an unstructured covariance.

    .. math::

        d_i = \mu_d + L z_i + e_i, \qquad z_i \sim N(0, I_r), \qquad
        e_i \sim N(0, \mathrm{diag}\,\psi), \qquad
        L_{jk} \sim N(0, 1), \quad \psi_j \sim \mathrm{IG}(a, b) .

    The factors are integrated out.  Means, loadings and noise are point estimates, updated by a
    few EM steps in each sweep; Gibbs sampling fixes them at their variational estimates.

    Parameters
    ----------
    rank : int, default=10
        Number of factors.
    a, b : float, default=1.0 and 0.05
        Shape and rate of the inverse gamma prior of the noise variances.
    mean_variance : float, default=1e4
        Prior variance of the means.
    steps : int, default=5
        EM steps per sweep: EM converges slowly, but is cheap compared with sums over rows.
    max_joint : int, default=300
        Largest number of columns whose missing cells are inferred together with the coefficients.
    """

    rank: int = 10
    a: float = 1.0
    b: float = 0.05
    mean_variance: float = 1e4
    steps: int = 5
    max_joint: int = 300

    def begin(self, sums: RowSums) -> FactorCovariance:
        d = sums.total.size
        mean = sums.total / sums.n
        S = sums.about(mean) / sums.n
        value, vector = eigh(S, subset_by_index=[d - min(self.rank, d), d - 1])
        psi = np.maximum(np.diag(S) - (vector**2) @ value * 0.9, 0.05)
        return FactorCovariance(mean, vector * np.sqrt(np.maximum(0.9 * value, 1e-3)), psi)

    def learn(
        self, Z: Array, count: Array, max_iter: int = 30, tol: float = 0.02
    ) -> FactorCovariance:
        """Estimates from rows with missing entries (NaN), without a d by d matrix.

        EM with latent factors and missing entries integrated out, until the log noise of every
        column changes by less than ``tol``.  Each row has the weight ``count``.
        """
        known = (~np.isnan(Z)).astype(float)
        X, weight = np.where(known > 0, Z, 0.0), known * count[:, None]
        n = weight.sum(axis=0)
        # start from principal components, with missing entries at column means
        mean = (weight * X).sum(axis=0) / n
        gap = known * (X - mean) * np.sqrt(count)[:, None]
        r = max(1, min(self.rank, X.shape[0] - 1, X.shape[1]))
        _, U = eigh(gap @ gap.T, subset_by_index=[X.shape[0] - r, X.shape[0] - 1])
        L = 0.95 * (gap.T @ U) / np.sqrt(count.sum())  # 0.9 of the variance, as in ``begin``
        psi = np.maximum(np.einsum("ij,ij->j", gap, gap) / n - np.sum(L**2, axis=1), 0.05)
        q = FactorCovariance(mean, L, psi)
        for _ in range(max_iter):
            z, cov = q.scores(X, known)
            mean = (weight * (X - z @ q.L.T)).sum(axis=0) / (n + q.psi / self.mean_variance)
            gap = known * (X - mean)
            second = (cov + z[:, :, None] * z[:, None, :]).reshape(-1, r * r)
            square = (weight.T @ second).reshape(-1, r, r)  # (d, r, r)
            across = (count[:, None] * gap).T @ z  # (d, r)
            old, q = q, self._maximised(q, mean, count @ gap**2, across, square, n)
            if float(np.max(np.abs(np.log(q.psi / old.psi)))) < tol:
                break
        # the variance of a new entry is the residual variance of the n rows times (n + e)/(n - e),
        # where e is the effective number of parameters: loadings less their shrinkage, and the mean
        shrunk = np.linalg.inv(square + old.psi[:, None, None] * np.eye(r))
        spent = 1.0 + r - q.psi * np.trace(shrunk, axis1=1, axis2=2)
        return replace(q, psi=q.psi * (n + spent) / np.maximum(n - spent, 1.0))

    def _maximised(
        self, q: FactorCovariance, mean: Array, total: Array, across: Array, square: Array, n: Any
    ) -> FactorCovariance:
        """M step: loadings, then noise.

        Sums over ``n`` rows: ``total``, squares of entries about the mean; ``across``, products
        with the expected factors; ``square``, E[z z'] for each column or for all columns.
        """
        lhs = square + q.psi[:, None, None] * np.eye(across.shape[1])
        L = np.linalg.solve(lhs, across[:, :, None])[:, :, 0]
        fit = (L[:, None, :] @ square)[:, 0, :]
        left = total + np.einsum("dr,dr->d", fit - 2.0 * across, L)
        psi = (self.b + 0.5 * np.maximum(left, 0.0)) / (self.a + 1.0 + 0.5 * n)
        return FactorCovariance(mean, L, psi)

    def update(self, q: FactorCovariance, sums: RowSums) -> FactorCovariance:
        """EM steps with latent factors."""
        n, r = sums.n, q.L.shape[1]
        for _ in range(self.steps):
            precision = n * q.R + np.eye(sums.total.size) / self.mean_variance
            mean = np.linalg.solve(precision, q.R @ sums.total)
            S = sums.about(mean)
            B = q.L.T @ q.R  # E[z | d] = B (d - mean), (r, d)
            across = S @ B.T
            square = n * (np.eye(r) - B @ q.L) + B @ across
            q = self._maximised(q, mean, np.diag(S), across, 0.5 * (square + square.T), n)
        return q

    def draw(
        self, q: FactorCovariance, sums: RowSums, rng: np.random.Generator
    ) -> FactorCovariance:
        return q

    def bound(self, q: FactorCovariance, sums: RowSums) -> float:
        """Log density of the rows and of the estimates under their prior."""
        n, d = sums.n, q.mean.size
        S = sums.about(q.mean)
        fit = np.sum(S * q.R) - np.linalg.slogdet(q.R)[1] * n
        prior = (
            -0.5 * (q.L.size + d) * LOG_2PI
            - 0.5 * np.sum(q.L**2)
            - 0.5 * (d * np.log(self.mean_variance) + q.mean @ q.mean / self.mean_variance)
            + d * (self.a * np.log(self.b) - gammaln(self.a))
            - np.sum((self.a + 1.0) * np.log(q.psi) + self.b / q.psi)
        )
        return float(-0.5 * (n * d * LOG_2PI + fit) + prior)
