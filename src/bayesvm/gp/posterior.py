r"""A Gaussian process at points, and its posterior given Gaussian sites.

A site is a Gaussian factor at a point, with precision *w* and potential *b*.  :class:`Process` is
the prior; ``process.at(X)`` is its distribution at points, exact or through inducing points, and
``.given(w)`` its posterior for site precisions *w*, which several classes may share.  With
:math:`f \sim N(0, K)`:

.. math::

    m = K\alpha, \quad \alpha = (I + WK)^{-1} b = b - wm, \qquad
    V = K - K W^{1/2} B^{-1} W^{1/2} K, \quad B = I + W^{1/2} K W^{1/2},

    2\,\mathrm{KL}(q \,\|\, p) = \log|B| - w^\top v + \alpha^\top m .

Through inducing points *Z* with :math:`K_{mm} + \epsilon I = L L^\top`, the whitened columns of a
row are :math:`\phi_i = L^{-1} k_m(x_i)`, including the intercept; the residual variance is
:math:`\tilde k_i = k_{ii} - \|\phi_i\|^2`.  Then :math:`K = \Phi\Phi^\top + \mathrm{diag}(d)`:

- with :math:`d = \tilde k` under FITC, which is not the exact process;
- with :math:`d = 0` under the variational approximation; :math:`\tilde k` is added to *v* as a
  residual that no site reduces; the bound is a bound on the evidence of the exact process.

With :math:`\tau = 1 + dw`, :math:`\tilde w = w/\tau` and :math:`B = I + \Phi^\top\tilde W\Phi`,

.. math::

    V = T\,\Phi B^{-1}\Phi^\top T + \mathrm{diag}(d/\tau), \qquad T = \mathrm{diag}(1/\tau),
    \qquad |I + WK| = |B| \prod_i \tau_i .
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, lapack, solve_triangular

from ..core.types import Array

EPS = float(np.finfo(float).eps)
JITTER = 1e-6  # added to the diagonal of a kernel matrix, times its mean: part of the model
MOST_JITTER = 1e-2


@dataclass(frozen=True, eq=False)
class Process:
    """A Gaussian process: a kernel, the variance of the intercept, and inducing points if any."""

    kernel: Any
    intercept_variance: float
    Z: Array | None = None
    fitc: bool = False

    def at(self, X: Array) -> ExactProcess | InducingProcess:
        """The process at points ``X`` of shape (n, p), on the scale of the kernel."""
        if self.Z is not None:
            return InducingProcess.of(self.kernel, self.Z, X, self.intercept_variance, self.fitc)
        return ExactProcess.of(self.kernel, X, self.intercept_variance)


def kernel_factor(kernel: Any, Z: Array) -> tuple[Array, float]:
    """Cholesky factor of the kernel matrix of points, and the jitter on its diagonal.

    The jitter grows tenfold until the factorisation succeeds.
    """
    K: Array = kernel(Z)
    if not np.isfinite(K).all():
        raise ValueError(
            f"the kernel {kernel} is not finite at the data; check its parameters and the inputs."
        )
    share, mean = JITTER, float(np.diag(K).mean())
    while share <= MOST_JITTER:
        propped = K + 0.0
        propped[np.diag_indices_from(K)] += share * mean
        try:
            return cholesky(propped, True, overwrite_a=True, check_finite=False), share * mean
        except np.linalg.LinAlgError:
            share *= 10.0
    raise np.linalg.LinAlgError(
        f"the kernel matrix of {Z.shape[0]} points is not positive definite even with "
        f"{MOST_JITTER:g} of its diagonal added. Drop duplicate or collinear inducing points, or "
        "check that the kernel is positive definite."
    )


def factor(K: Array, w: Array) -> Array:
    """Lower Cholesky factor of ``B = I + W^1/2 K W^1/2``.

    With very large precisions rounding can cancel the identity; about that much is added.
    """
    s = np.sqrt(w)
    B = K * s
    B *= s[:, None]
    diagonal = np.diag_indices_from(B)
    B[diagonal] += 1.0
    try:
        return np.asarray(cholesky(B.T, lower=True, check_finite=False))
    except np.linalg.LinAlgError:
        B[diagonal] *= 1.0 + 1e4 * EPS
        return np.asarray(cholesky(B.T, lower=True, overwrite_a=True, check_finite=False))


def inner(A: Array, M: Array) -> Array:
    """Inner products of corresponding columns of two matrices."""
    return np.asarray(np.einsum("ij,ij->j", A, M))


def gram_of_lower(R: Array) -> Array:
    """``R' R`` for a lower triangular R with zeros above its diagonal."""
    half = lapack.dlauum(R, lower=1)[0]
    half[np.diag_indices_from(half)] *= 0.5
    return np.asarray(half + half.T)


# ---------------------------------------------------------------------------------------------
# The exact process


@dataclass(frozen=True, eq=False)
class ExactProcess:
    """The process at points, as a covariance matrix K; the kernel is needed for gradients."""

    K: Array
    kernel: Any = None
    X: Array | None = None

    residual = 0.0  # variance that no observation can reduce

    @staticmethod
    def of(kernel: Any, X: Array, intercept_variance: float) -> ExactProcess:
        values = kernel(X)
        K = values + intercept_variance
        K[np.diag_indices_from(K)] += JITTER * float(np.mean(np.diag(values)))
        return ExactProcess(K, kernel, X)

    def given(self, w: Array) -> ExactPosterior:
        return ExactPosterior(self.K, w)

    def gradient(self, fit: Any, moves: bool = False) -> Array:
        """Gradient of a fit's bounds in the kernel's log parameters, summed over classes."""
        s = np.sqrt(fit.w)
        G = fit.posterior.inverse * (-s[:, None] * s * fit.A.shape[1])
        G += fit.A @ fit.A.T
        G *= 0.5
        G[np.diag_indices_from(G)] += JITTER * np.trace(G) / len(G)  # derivative of the jitter
        return np.asarray(self.kernel.pull(G, self.X))


class ExactPosterior:
    """The posterior of an exact process for site precisions; means are ``K alpha``.

    Columns of M are means of classes, ``(points, classes)``; columns of A are their weights.
    """

    def __init__(self, K: Array, w: Array) -> None:
        self.K, self.w, self.s = K, w, np.sqrt(w)
        self.L = factor(K, w)
        self.R, prior_variance = lapack.dtrtri(self.L, lower=1)[0], np.diag(K)
        # share of the prior variance that the sites remove
        share = 1.0 - np.einsum("ij,ij->j", self.R, self.R)
        self.v = share / np.maximum(w, np.finfo(float).tiny)
        weak = np.flatnonzero(share < np.sqrt(EPS))  # differences of nearly equal numbers
        if weak.size:
            T = self.R @ (self.s[:, None] * K[:, weak])
            self.v[weak] = prior_variance[weak] - np.einsum("ij,ij->j", T, T)
        self.v = np.maximum(self.v, 1e-12 * prior_variance)
        self.half_log_det = float(np.log(np.diag(self.L)).sum())

    @cached_property
    def inverse(self) -> Array:
        """The inverse of B."""
        return gram_of_lower(self.R)

    def kl(self, A: Array, M: Array) -> Array:
        """Kullback-Leibler divergence from the prior, ``(classes,)``."""
        return np.asarray(self.half_log_det + 0.5 * (inner(A, M) - self.w @ self.v))

    def means(self, A: Array) -> Array:
        """Means at the points for weights A."""
        return np.asarray(self.K @ A)

    def solve(self, x: Array) -> tuple[Array, Array]:
        """Weights ``(I + WK)^-1 x``, and the means for them."""
        s = self.s[:, None]
        A = x - s * (self.R.T @ (self.R @ (s * (self.K @ x))))
        return A, self.K @ A

    def predict(self, cross: Array, prior_variance: Array) -> Array:
        """Variances at other points, from kernel values with the points and prior variances."""
        T = self.R @ (self.s[:, None] * cross.T)
        v = prior_variance - np.einsum("ij,ij->j", T, T)
        return np.asarray(np.maximum(v, 1e-12 * prior_variance))


# ---------------------------------------------------------------------------------------------
# Through inducing points


@dataclass(frozen=True, eq=False)
class InducingProcess:
    """The process at points ``X`` through inducing points ``Z``."""

    kernel: Any
    X: Array
    Z: Array
    L: Array  # Cholesky factor of the kernel matrix of Z
    C: Array  # (n, 1 + m), whitened columns, the intercept first
    d: Array  # (n,), independent variance of each point, which its site reduces
    residual: Array  # (n,), variance that no observation can reduce
    fitc: bool

    @staticmethod
    def of(
        kernel: Any, Z: Array, X: Array, intercept_variance: float, fitc: bool = False
    ) -> InducingProcess:
        L, _ = kernel_factor(kernel, Z)
        C = np.empty((len(X), len(Z) + 1))
        C[:, 0] = np.sqrt(intercept_variance)
        C[:, 1:] = solve_triangular(L, kernel(Z, X), lower=True, check_finite=False).T
        residual = np.maximum(kernel.diag(X) - np.einsum("ij,ij->i", C[:, 1:], C[:, 1:]), 0.0)
        none = np.zeros_like(residual)
        independent, irreducible = (residual, none) if fitc else (none, residual)
        return InducingProcess(kernel, X, Z, L, C, independent, irreducible, fitc)

    def given(self, w: Array) -> InducingPosterior:
        return InducingPosterior(self, w)

    def gradient(self, fit: Any, moves: bool = False) -> Array:
        r"""Gradient in the kernel's log parameters and, with ``moves``, in the inducing points.

        With :math:`G = \frac12(\alpha\alpha^\top - K^{-1}) + \mathrm{diag}\,\delta` the gradient
        with respect to :math:`\Phi\Phi^\top` and :math:`-\delta` with respect to the diagonal,
        :math:`\bar K_{nm} = 2 G \Phi L^{-1}` and
        :math:`\bar K_{mm} = -L^{-\top}\Phi^\top G \Phi L^{-1}`.
        """
        Phi, classes, A = self.C[:, 1:], fit.A.shape[1], fit.A
        w = fit.posterior.own_w
        inverse = self.C @ fit.posterior.inverse  # Phi B^-1
        delta = 0.5 * classes * fit.w
        if self.fitc:
            informed = w - w**2 * np.einsum("ij,ij->i", inverse, self.C)
            delta = 0.5 * (classes * informed - np.square(A).sum(axis=1))
        product = 0.5 * (A @ (A.T @ Phi) - classes * w[:, None] * inverse[:, 1:])
        product += delta[:, None] * Phi
        cross = 2.0 * solve_triangular(self.L, product.T, lower=True, trans=1).T
        inner = Phi.T @ product
        half = solve_triangular(self.L, inner + inner.T, lower=True, trans=1)
        among = -0.5 * solve_triangular(self.L, half.T, lower=True, trans=1)
        among[np.diag_indices_from(among)] += JITTER * np.trace(among) / len(among)
        theta: Array = self.kernel.pull(cross, self.X, self.Z) + self.kernel.pull(among, self.Z)
        theta = theta - self.kernel.pull_diag(delta, self.X)
        if not moves:
            return theta
        left, right = self.kernel.pull_points(among, self.Z)
        to_Z = self.kernel.pull_points(cross, self.X, self.Z)[1] + left + right
        return np.concatenate([theta, to_Z.ravel()])


class InducingPosterior:
    """The posterior through inducing points for site precisions; see :class:`ExactPosterior`."""

    def __init__(self, process: InducingProcess, w: Array) -> None:
        self.C, self.d, self.w = process.C, process.d, w
        self.tau = 1.0 + self.d * w
        self.own_w = w / self.tau
        A = self.C * np.sqrt(self.own_w)[:, None]
        B = A.T @ A
        B[np.diag_indices_from(B)] += 1.0
        self.L = cholesky(B, lower=True, overwrite_a=True, check_finite=False)
        self.residual = process.residual
        self.half_log_det = float(np.log(np.diag(self.L)).sum() + 0.5 * np.log(self.tau).sum())

    @cached_property
    def informed(self) -> Array:
        """The component of the variances that observations reduce."""
        T = solve_triangular(self.L, self.C.T, lower=True, check_finite=False)
        return np.asarray(np.einsum("ij,ij->j", T, T) / self.tau**2 + self.d / self.tau)

    @cached_property
    def v(self) -> Array:
        return np.asarray(np.maximum(self.informed + self.residual, np.finfo(float).tiny))

    @cached_property
    def inverse(self) -> Array:
        return gram_of_lower(lapack.dtrtri(self.L, lower=1)[0])

    def kl(self, A: Array, M: Array) -> Array:
        return np.asarray(self.half_log_det + 0.5 * (inner(A, M) - self.w @ self.informed))

    def means(self, A: Array) -> Array:
        return np.asarray(self.C @ (self.C.T @ A) + self.d[:, None] * A)

    def solve(self, x: Array) -> tuple[Array, Array]:
        tau = self.tau[:, None]
        a = self.C @ cho_solve((self.L, True), self.C.T @ (x / tau), check_finite=False)
        M = (a + self.d[:, None] * x) / tau
        return x - self.w[:, None] * M, M
