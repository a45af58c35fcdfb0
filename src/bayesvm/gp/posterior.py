r"""A Gaussian process at points, and its posterior given Gaussian sites.

A site is a Gaussian factor at a point, of precision *w* and potential *b*.  :class:`Process` is the
prior; ``process.at(X)`` is its distribution at points, exact or through inducing points, and
``.given(w)`` its posterior for site precisions *w*, which several classes may share.

:class:`ExactPosterior`, with :math:`f \sim N(0, K)`:

.. math::

    B = I + W^{1/2} K W^{1/2}, \qquad V = K - K W^{1/2} B^{-1} W^{1/2} K, \qquad
    m = K\alpha, \quad \alpha = (I + WK)^{-1} b = b - wm,

    2\,\mathrm{KL}(q \,\|\, p) = \log|B| - w^\top v + \alpha^\top m .

:class:`InducingPosterior`, with the whitened columns :math:`\Phi` of :mod:`.whitened` (the level's
among them), their coefficients :math:`\mu` and the variance :math:`\tilde k` that they leave:

.. math::

    B = I + \Phi^\top \tilde W \Phi, \qquad \mu = B^{-1}\Phi^\top \tilde b, \qquad
    s_i = \phi_i^\top B^{-1}\phi_i .

================  ==========================================  ==================================
                  variational                                 FITC
================  ==========================================  ==================================
prior of f        :math:`\Phi\Phi^\top`, and                  :math:`\Phi\Phi^\top +
                  :math:`\tilde k` that no row can reduce     \mathrm{diag}(\tilde k)`
:math:`\tau`      1                                           :math:`1 + \tilde k w`
m                 :math:`\Phi\mu`                             :math:`(\Phi\mu + \tilde k b)/\tau`
v                 :math:`s + \tilde k`                        :math:`s/\tau^2 + \tilde k/\tau`
2 KL              :math:`\log|B| - w^\top s + \mu^\top\mu`    :math:`\log|B| + \sum\log\tau -
                                                              w^\top v + \alpha^\top m`
================  ==========================================  ==================================

with :math:`\tilde w = w/\tau` and :math:`\tilde b = b/\tau`.  The first is a bound on the evidence
of the exact process; the second is that of another process, and may lie above.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, lapack, solve_triangular

from ..core.types import Array
from .whitened import JITTER, kernel_factor

EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Process:
    """A Gaussian process: a kernel, the variance of a level, and inducing points if any."""

    kernel: Any
    level: float
    Z: Array | None = None
    fitc: bool = False

    def with_theta(self, theta: Array) -> Process:
        return replace(self, kernel=self.kernel.with_theta(theta))

    def at(self, X: Array) -> ExactProcess | InducingProcess:
        """The process at points ``X`` of shape (n, p), on the scale of the kernel."""
        if self.Z is not None:
            return InducingProcess.of(self.kernel, self.Z, X, self.level, self.fitc)
        return ExactProcess.of(self.kernel, X, self.level)


def factor(K: Array, w: Array) -> Array:
    """Lower Cholesky factor of ``B = I + W^1/2 K W^1/2``.

    Very large precisions can leave less of the identity than rounding takes; that much is added.
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


def lower_inverse(L: Array) -> Array:
    """The inverse of a lower triangle."""
    return np.asarray(lapack.dtrtri(L, lower=1)[0]) if L.size else L


def gram_of_lower(R: Array) -> Array:
    """``R' R`` of a lower triangle R with zeros above its diagonal."""
    if not R.size:
        return R
    half = lapack.dlauum(R, lower=1)[0]
    half[np.diag_indices_from(half)] *= 0.5
    return np.asarray(half + half.T)


# ---------------------------------------------------------------------------------------------
# The exact process


@dataclass(frozen=True, eq=False)
class ExactProcess:
    """The process at points by its covariance matrix K; the kernel is needed for gradients."""

    K: Array
    kernel: Any = None
    X: Array | None = None
    values: Array | None = None  # of the kernel: K without level and jitter

    residual = 0.0  # variance that no row can reduce

    @staticmethod
    def of(kernel: Any, X: Array, level: float) -> ExactProcess:
        values = kernel(X)
        K = values + level
        K[np.diag_indices_from(K)] += JITTER * float(np.mean(np.diag(values)))
        return ExactProcess(K, kernel, X, values)

    def given(self, w: Array) -> ExactPosterior:
        return ExactPosterior(self.K, w)

    def gradient(self, fit: Any) -> Array:
        """Gradient in the kernel's log parameters of the bounds of a fit, summed over classes."""
        s = np.sqrt(fit.w)
        G = fit.posterior.inverse * (-s[:, None] * s * fit.A.shape[1])
        G += fit.A @ fit.A.T
        G *= 0.5
        G[np.diag_indices_from(G)] += JITTER * np.trace(G) / len(G)  # through the jitter
        return np.asarray(self.kernel.pull(G, self.X, None, self.values))


class ExactPosterior:
    """The posterior of an exact process for site precisions; means have weights alpha.

    Means of several classes are columns M, ``(points, classes)``, their weights are columns A.
    """

    def __init__(self, K: Array, w: Array) -> None:
        self.K, self.w, self.s = K, w, np.sqrt(w)
        self.L = factor(K, w)
        self.R, own = lower_inverse(self.L), np.diag(K)
        # share of the prior variance that the sites remove
        share = 1.0 - np.einsum("ij,ij->j", self.R, self.R)
        self.v = share / np.maximum(w, np.finfo(float).tiny)
        weak = np.flatnonzero(share < np.sqrt(EPS))  # a difference of near equals
        if weak.size:
            T = self.R @ (self.s[:, None] * K[:, weak])
            self.v[weak] = own[weak] - np.einsum("ij,ij->j", T, T)
        self.v = np.maximum(self.v, 1e-12 * own)
        self.half_log_det = float(np.log(np.diag(self.L)).sum())

    @cached_property
    def inverse(self) -> Array:
        """The inverse of B."""
        return gram_of_lower(self.R)

    def kl(self, A: Array, M: Array) -> Array:
        """Kullback-Leibler divergence from the prior, ``(classes,)``."""
        return np.asarray(self.half_log_det + 0.5 * (self.inner(A, A, M) - self.w @ self.v))

    def means(self, A: Array) -> Array:
        """Means at the points by their coordinates."""
        return np.asarray(self.K @ A)

    def pull(self, G: Array) -> Array:
        """Coordinates of the prior covariance times G."""
        return G

    def solve(self, x: Array) -> tuple[Array, Array]:
        """``(I + WK)^-1 x`` in coordinates, and its means."""
        s = self.s[:, None]
        A = x - s * (self.R.T @ (self.R @ (s * (self.K @ x))))
        return A, self.K @ A

    def inner(self, x: Array, A: Array, M: Array) -> Array:
        """Products of columns x and A in the inner product of K; M are the means of A."""
        return np.asarray(np.einsum("ij,ij->j", x, M))

    def weights(self, A: Array, G: Array) -> Array:
        """Weights of the points from coordinates; at an optimum they are the gradients G."""
        return A

    def predict(self, cross: Array, own: Array) -> Array:
        """Variances at other points, from kernel values with these and with themselves."""
        T = self.R @ (self.s[:, None] * cross.T)
        return np.asarray(np.maximum(own - np.einsum("ij,ij->j", T, T), 1e-12 * own))


# ---------------------------------------------------------------------------------------------
# Through inducing points


@dataclass(frozen=True, eq=False)
class InducingProcess:
    """The process at points ``X`` through inducing points ``Z``."""

    kernel: Any
    X: Array
    Z: Array
    L: Array  # factor of the kernel matrix of Z
    C: Array  # (n, 1 + m), whitened columns, the level's first
    rest: Array  # (n,), variance that the columns leave
    fitc: bool

    @staticmethod
    def of(kernel: Any, Z: Array, X: Array, level: float, fitc: bool = False) -> InducingProcess:
        L, _ = kernel_factor(kernel, Z)
        C = np.empty((len(X), len(Z) + 1))
        C[:, 0] = np.sqrt(level)
        C[:, 1:] = solve_triangular(L, kernel(Z, X), lower=True, check_finite=False).T
        rest = np.maximum(kernel.diag(X) - np.einsum("ij,ij->i", C[:, 1:], C[:, 1:]), 0.0)
        return InducingProcess(kernel, X, Z, L, C, rest, fitc)

    @property
    def residual(self) -> Array | float:
        """Variance that no row can reduce."""
        return 0.0 if self.fitc else self.rest

    def given(self, w: Array) -> InducingPosterior:
        return (FITCPosterior if self.fitc else InducingPosterior)(self, w)

    def gradient(self, fit: Any) -> Array:
        """Gradient in the kernel's log parameters of the bounds of a fit, summed over classes."""
        cross, own, among = self._gradients(fit)
        theta: Array = self.kernel.pull(cross, self.X, self.Z)
        return theta + self.kernel.pull_diag(own, self.X) + self.kernel.pull(among, self.Z)

    def gradients(self, fit: Any) -> tuple[Array, Array]:
        """The same gradient, and that in the inducing points, ``(m, p)``."""
        cross, own, among = self._gradients(fit)
        left, right = self.kernel.pull_points(among, self.Z)
        to_Z = self.kernel.pull_points(cross, self.X, self.Z)[1] + left + right
        theta = self.kernel.pull(cross, self.X, self.Z) + self.kernel.pull(among, self.Z)
        return theta + self.kernel.pull_diag(own, self.X), to_Z

    def _gradients(self, fit: Any) -> tuple[Array, Array, Array]:
        r"""Gradients in kernel values: of rows with points, with themselves, of points.

        With :math:`G = \frac12(\alpha\alpha^\top - (\Phi\Phi^\top + D)^{-1}) + \mathrm{diag}\,
        \delta` the gradient in :math:`\Phi\Phi^\top` and :math:`-\delta` that in the diagonal,
        :math:`\bar K_{nm} = 2 G \Phi L^{-1}` and
        :math:`\bar K_{mm} = -L^{-\top}\Phi^\top G \Phi L^{-1}`.
        """
        Phi, classes = self.C[:, 1:], fit.A.shape[1]
        w = fit.posterior.own_w
        inverse = self.C @ fit.posterior.inverse  # Phi B^-1
        G = fit.G if not self.fitc else fit.A  # alpha; equal to the slopes at the optimum
        if self.fitc:
            informed = w - w**2 * np.einsum("ij,ij->i", inverse, self.C)
            delta = -0.5 * (np.square(G).sum(axis=1) - classes * informed)
        else:
            delta = 0.5 * classes * fit.w
        product = 0.5 * (G @ (G.T @ Phi) - classes * w[:, None] * inverse[:, 1:])
        product += delta[:, None] * Phi
        cross = 2.0 * solve_triangular(self.L, product.T, lower=True, trans=1).T
        inner = Phi.T @ product
        half = solve_triangular(self.L, inner + inner.T, lower=True, trans=1)
        among = -0.5 * solve_triangular(self.L, half.T, lower=True, trans=1)
        among[np.diag_indices_from(among)] += JITTER * np.trace(among) / len(among)
        return cross, -delta, among


class InducingPosterior:
    """The posterior through inducing points for site precisions; means have coefficients mu."""

    def __init__(self, process: InducingProcess, w: Array) -> None:
        self.C, self.rest, self.w = process.C, process.rest, w
        self.tau = 1.0 + self.rest * w if process.fitc else np.ones_like(w)
        self.own_w = w / self.tau
        A = self.C * np.sqrt(self.own_w)[:, None]
        B = A.T @ A
        B[np.diag_indices_from(B)] += 1.0
        self.L = cholesky(B, lower=True, overwrite_a=True, check_finite=False)
        T = solve_triangular(self.L, self.C.T, lower=True, check_finite=False)
        self.spread = np.einsum("ij,ij->j", T, T)  # s
        self.half_log_det = float(np.log(np.diag(self.L)).sum())
        self.v = np.maximum(self.spread + self.rest, np.finfo(float).tiny)

    @cached_property
    def inverse(self) -> Array:
        return gram_of_lower(lower_inverse(self.L))

    def kl(self, A: Array, M: Array) -> Array:
        return np.asarray(self.half_log_det + 0.5 * (self.inner(A, A, M) - self.w @ self.spread))

    def means(self, A: Array) -> Array:
        return np.asarray(self.C @ A)

    def pull(self, G: Array) -> Array:
        return np.asarray(self.C.T @ G)

    def solve(self, x: Array) -> tuple[Array, Array]:
        A = cho_solve((self.L, True), x, check_finite=False)
        return A, self.C @ A

    def inner(self, x: Array, A: Array, M: Array) -> Array:
        return np.asarray(np.einsum("ij,ij->j", x, A))

    def weights(self, A: Array, G: Array) -> Array:
        return G


class FITCPosterior(InducingPosterior):
    """The posterior of FITC; means have weights alpha of the points."""

    def __init__(self, process: InducingProcess, w: Array) -> None:
        super().__init__(process, w)
        self.v = self.spread / self.tau**2 + self.rest / self.tau
        self.half_log_det += 0.5 * float(np.log(self.tau).sum())

    def kl(self, A: Array, M: Array) -> Array:
        return np.asarray(self.half_log_det + 0.5 * (self.inner(A, A, M) - self.w @ self.v))

    def means(self, A: Array) -> Array:
        return np.asarray(self.C @ (self.C.T @ A) + self.rest[:, None] * A)

    def pull(self, G: Array) -> Array:
        return G

    def solve(self, x: Array) -> tuple[Array, Array]:
        tau = self.tau[:, None]
        a = self.C @ cho_solve((self.L, True), self.C.T @ (x / tau), check_finite=False)
        M = (a + self.rest[:, None] * x) / tau
        return x - self.w[:, None] * M, M

    def inner(self, x: Array, A: Array, M: Array) -> Array:
        return np.asarray(np.einsum("ij,ij->j", x, M))

    def weights(self, A: Array, G: Array) -> Array:
        return A
