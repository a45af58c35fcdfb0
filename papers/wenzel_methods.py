"""The methods that Wenzel et al. (2017) compare, as they describe them, with one fixed kernel.

The kernel has weight one and a length scale of 5, the only one that the paper prints (for waveform
and for SUSY): exp(-|x - x'|² / 25), which is ``RBF(5 / √2)``.  Processes have mean zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import log_ndtr, ndtr
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process import kernels as theirs
from sklearn.svm import SVC

from bayesvm.core.types import Array
from bayesvm.gp.inducing import choose_points
from bayesvm.gp.posterior import kernel_factor
from bayesvm.inference import SVI
from bayesvm.kernels import RBF, Kernel, Scaled

from .ep import fit_ep

KERNEL = Scaled(1.0, RBF(5.0 / np.sqrt(2.0)))
BATCH = 10
COUNT = 0.2  # inducing points, of the rows


def stochastic(
    points: int,
    inducing: str,
    seed: int,
    passes: int = 8,
    adaptive: bool = True,
    batch: int = BATCH,
    kernel: Kernel = KERNEL,
) -> Any:
    """S-BSVM, Algorithm 1: minibatches, the adaptive rate, points by k-means or moving."""
    from bayesvm import BayesianSVC

    return BayesianSVC(
        kernel,
        points,
        inducing,
        inference=SVI(batch, passes, adaptive=adaptive),
        likelihood="hinge",
        tune=False,
        intercept_scale=1e-6,
        standardize=False,
        probability="probit",
        random_state=seed,
    )


def gpc() -> Any:
    """Gaussian process classification with the kernel as it is (Laplace's method)."""
    kernel = theirs.RBF(KERNEL.kernel.length_scale)
    return GaussianProcessClassifier(kernel, optimizer=None)


class PropagatedGPC(ClassifierMixin, BaseEstimator):
    """Gaussian process classification with the kernel as it is, by expectation propagation."""

    def fit(self, X: Array, y: Array) -> PropagatedGPC:
        theta = np.sqrt(2.0) * KERNEL.kernel.length_scale
        self.machine_ = fit_ep(X, y, theta, tune=False, standardize=False)
        self.classes_ = self.machine_.classes_
        return self

    def predict_proba(self, X: Array) -> Array:
        return self.machine_.predict_proba(X)


def svm() -> Any:
    """The support vector machine of the same kernel, with Platt's method.

    Its mode is that of the hinge exp(-2 max(0, 1 - yf)) if C is twice the weight of the kernel.
    """
    svc = SVC(C=2.0 * KERNEL.weight, gamma=0.5 / KERNEL.kernel.length_scale**2)
    return CalibratedClassifierCV(svc, ensemble=False)


class AllRows(ClassifierMixin, BaseEstimator):
    r"""B-BSVM (section 4.1), or with ``point`` the ECM of Henao et al. (section 3).

    Both repeat, from :math:`\lambda = 1`,

    .. math::

        m = K(K + \Lambda)^{-1} Y(1 + \lambda), \qquad
        \lambda_i = \sqrt{(1 - y_i m_i)^2 + v_i},

    where :math:`\lambda_i` stands for :math:`1 / E[\lambda_i^{-1}]` and :math:`v` is the diagonal
    of :math:`K - K(K + \Lambda)^{-1}K`, or zero for the point estimate of f.
    """

    def __init__(self, point: bool = False, max_iter: int = 100, tol: float = 1e-2) -> None:
        self.point = point
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: Array, y: Array) -> AllRows:
        self.classes_ = np.unique(y)
        self.X_, t = X, np.where(y == self.classes_[1], 1.0, -1.0)
        K, lam, old = KERNEL(X, X), np.ones(len(t)), np.zeros(len(t))
        own = np.diag(K).copy()
        for _ in range(self.max_iter):
            L = self._factor(K, lam)
            m = K @ cho_solve((L, True), t * (1.0 + lam), check_finite=False)
            v = 0.0 if self.point else own - np.sum(self._half(L, K) ** 2, axis=0)
            lam = np.sqrt((1.0 - t * m) ** 2 + v)
            if np.max(np.abs(m - old)) < self.tol:
                break
            old = m
        self.L_ = self._factor(K, lam)
        self.dual_ = cho_solve((self.L_, True), t * (1.0 + lam), check_finite=False)
        return self

    @staticmethod
    def _factor(K: Array, lam: Array) -> Array:
        A = K.copy()
        A[np.diag_indices_from(A)] += lam + 1e-8  # rows on the margin have a lambda of zero
        return cho_factor(A, lower=True, overwrite_a=True, check_finite=False)[0]

    @staticmethod
    def _half(L: Array, K: Array) -> Array:
        return solve_triangular(L, K, lower=True, check_finite=False)  # type: ignore[no-any-return]

    def predict_proba(self, X: Array) -> Array:
        """The averaged probit, with its root."""
        K = KERNEL(self.X_, X)
        v = np.ones(len(X)) - np.sum(self._half(self.L_, K) ** 2, axis=0)
        p = ndtr(K.T @ self.dual_ / np.sqrt(1.0 + v))
        return np.stack([1.0 - p, p], axis=1)


def adam(rate: float) -> Callable[[Array], Array]:
    """Steps of Adam (Kingma & Ba, 2015) up a stochastic gradient, one a call."""
    k, first, second = 0, np.zeros(()), np.zeros(())

    def step(slope: Array) -> Array:
        nonlocal k, first, second
        k += 1
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        size = rate * np.sqrt(1 - 0.999**k) / (1 - 0.9**k)
        return size * first / (np.sqrt(second) + 1e-8)  # type: ignore[no-any-return]

    return step


def adadelta(rate: float) -> Callable[[Array], Array]:
    """Steps of Adadelta (Zeiler, 2012), times a rate; one is the rule as published."""
    second, moved = np.zeros(()), np.zeros(())

    def step(slope: Array) -> Array:
        nonlocal second, moved
        second = 0.95 * second + 0.05 * slope**2
        move = np.sqrt((moved + 1e-6) / (second + 1e-6)) * slope
        moved = 0.95 * moved + 0.05 * move**2
        return rate * move  # type: ignore[no-any-return]

    return step


def plain(rate: float) -> Callable[[Array], Array]:
    """Steps of a constant rate along the gradient."""
    return lambda slope: rate * slope


RULES = {"Adam": adam, "Adadelta": adadelta, "gradient": plain}


class StochasticGPC(ClassifierMixin, BaseEstimator):
    r"""S-GPC: probit, inducing points by k-means, minibatches (Hensman et al., 2015).

    With whitened columns :math:`f_i = c_i^\top u + e_i` and :math:`q(u) = N(m, LL^\top)` the
    gradients of a minibatch scaled up to all rows are

    .. math::

        \nabla_m = \textstyle\sum_i g_i c_i - m, \qquad
        \nabla_L = \textstyle\sum_i h_i c_i c_i^\top L - L + \mathrm{diag}(1 / L_{jj}),

    with the expected first and second derivatives g and h of the log likelihood, by quadrature.
    ``rule`` is one of ``RULES``, by default Adam.
    """

    def __init__(
        self,
        points: int = 100,
        passes: int = 4,
        rule: str = "Adam",
        rate: float = 0.01,
        batch: int = BATCH,
        random_state: int = 0,
        kernel: Kernel = KERNEL,
    ) -> None:
        self.kernel = kernel
        self.points = points
        self.passes = passes
        self.rule = rule
        self.rate = rate
        self.batch = batch
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> StochasticGPC:
        self.classes_ = np.unique(y)
        rng = np.random.default_rng(self.random_state)
        t = np.where(y == self.classes_[1], 1.0, -1.0)
        Z = choose_points(X, self.points, "kmeans", self.kernel, rng)
        self.Z_, self.root_ = Z, kernel_factor(self.kernel, Z)[0]
        C, extra = self._columns(X)
        n, m = C.shape
        place = np.concatenate([np.zeros(m), np.eye(m).ravel()])
        step, lower = RULES[self.rule](self.rate), np.tri(m)
        for _ in range(self.passes):
            order = rng.permutation(n)
            for start in range(0, n, self.batch):
                rows = order[start : start + self.batch]
                place = place + step(gradient(place, C[rows], extra[rows], t[rows], n, lower))
        self.mean_, self.factor_ = place[:m], place[m:].reshape(m, m)
        return self

    def _columns(self, X: Array) -> tuple[Array, Array]:
        C = solve_triangular(self.root_, self.kernel(self.Z_, X), lower=True).T
        return C, np.maximum(1.0 - np.sum(C**2, axis=1), 0.0)

    def predict_proba(self, X: Array) -> Array:
        C, extra = self._columns(X)
        v = np.sum((C @ self.factor_) ** 2, axis=1) + extra
        p = ndtr(C @ self.mean_ / np.sqrt(1.0 + v))
        return np.stack([1.0 - p, p], axis=1)


NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def moments(place: Array, C: Array, extra: Array) -> tuple[Array, Array, Array]:
    """Factor of the covariance, and means and variances of f."""
    m = C.shape[1]
    L = place[m:].reshape(m, m)
    return L, C @ place[:m], np.sum((C @ L) ** 2, axis=1) + extra


def bound(place: Array, C: Array, extra: Array, t: Array) -> float:
    """Evidence lower bound of S-GPC on all rows."""
    L, mean, v = moments(place, C, extra)
    f = mean[:, None] + np.sqrt(v)[:, None] * NODES
    m, d = place[: len(L)], np.abs(np.diag(L))
    away = 0.5 * (np.sum(L**2) + m @ m - len(L)) - np.sum(np.log(d))
    return float(np.sum(log_ndtr(t[:, None] * f) @ WEIGHTS) - away)


def gradient(place: Array, C: Array, extra: Array, t: Array, n: int, lower: Array) -> Array:
    """Gradient of the bound of n rows, estimated from these; L is lower triangular."""
    L, mean, v = moments(place, C, extra)
    z = t[:, None] * (mean[:, None] + np.sqrt(v)[:, None] * NODES)
    r = np.exp(-0.5 * z**2 - log_ndtr(z)) / np.sqrt(2.0 * np.pi)
    g = t * (r @ WEIGHTS)
    h = -((r * (z + r)) @ WEIGHTS)
    scale = n / len(t)
    to_m = scale * (C.T @ g) - place[: len(L)]
    to_L = scale * (C.T @ (h[:, None] * (C @ L))) - L + np.diag(1.0 / np.diag(L))
    return np.concatenate([to_m, (lower * to_L).ravel()])
