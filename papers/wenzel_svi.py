r"""Algorithm 1 of Wenzel et al. (2017) with section 4.3, line by line, in plain NumPy.

Inducing values u, :math:`q(u) = N(\mu, \zeta)`, minibatches scaled up to all rows, the adaptive
rate; after every ten updates of q one step up the bound in the logarithms of the kernel's
parameters (eq. 12), by the gradient of appendix A.3 with q and :math:`\alpha` held.  The kernel is
:math:`\gamma\exp(-\lVert x - x'\rVert^2/\theta^2)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.spatial.distance import cdist

from bayesvm.core.types import Array
from bayesvm.inference import SVI
from bayesvm.inference.svi import Drift

JITTER = 1e-6
EVERY = 10  # updates of q between two steps in the kernel
BATCH = 10


class Kernels(NamedTuple):
    """Matrices of some rows and the points, and their derivatives in log theta and log gamma."""

    inverse: Array  # of Kmm
    Kmm: Array
    Knm: Array
    own: Array  # diagonal of Knn
    slopes: tuple[tuple[Array, Array, Array], ...]  # of Kmm, Knm and own, one each parameter

    @property
    def kappa(self) -> Array:
        return self.Knm @ self.inverse  # type: ignore[no-any-return]


def kernels(X: Array, Z: Array, log_theta: float, log_gamma: float = 0.0) -> Kernels:
    s, g = np.exp(-2.0 * log_theta), np.exp(log_gamma)
    Dm, Dn = cdist(Z, Z, "sqeuclidean"), cdist(X, Z, "sqeuclidean")
    Kmm, Knm = g * (np.exp(-s * Dm) + JITTER * np.eye(len(Z))), g * np.exp(-s * Dn)
    own = np.full(len(X), g)
    inverse = cho_solve((cholesky(Kmm, lower=True), True), np.eye(len(Z)))
    scale = 2.0 * s * Dm * Kmm, 2.0 * s * Dn * Knm, np.zeros(len(X))
    return Kernels(inverse, Kmm, Knm, own, (scale, (Kmm, Knm, own)))


def residual(k: Kernels) -> Array:
    """Diagonal of K tilde."""
    return np.maximum(k.own - np.sum(k.kappa * k.Knm, axis=1), 0.0)


def scales(k: Kernels, y: Array, mu: Array, zeta: Array) -> Array:
    """alpha of line 7."""
    f, v = k.kappa @ mu, np.sum((k.kappa @ zeta) * k.kappa, axis=1)
    return (1.0 - y * f) ** 2 + v + residual(k)


def bound(k: Kernels, y: Array, alpha: Array, mu: Array, zeta: Array) -> float:
    """Eq. 8 with the Bessel function that belongs there, up to a constant."""
    w, P = alpha**-0.5, k.inverse
    f, second = k.kappa @ mu, mu[:, None] * mu + zeta
    size = 1.0 - alpha - 2.0 * y * f + np.sum((k.kappa @ second) * k.kappa, axis=1) + residual(k)
    prior = np.linalg.slogdet(zeta)[1] - np.linalg.slogdet(k.Kmm)[1]
    prior -= np.sum(P * zeta) + mu @ P @ mu
    return float(0.5 * prior + y @ f - np.sum(np.sqrt(alpha)) - 0.5 * w @ size)


def slope(k: Kernels, y: Array, alpha: Array, mu: Array, zeta: Array, scale: float = 1.0) -> Array:
    """Appendix A.3, one number a parameter; sums over rows are taken ``scale`` times."""
    P, kappa, w = k.inverse, k.kappa, alpha**-0.5
    second = np.outer(mu, mu) + zeta
    out = []
    for Jmm, Jnm, own in k.slopes:
        iota = (Jnm - kappa @ Jmm) @ P
        prior = np.sum((P @ Jmm) * (np.eye(len(mu)) - P @ zeta).T) - mu @ P @ Jmm @ P @ mu
        rows = np.sum(kappa * (iota @ second - Jnm), axis=1)
        rows += np.sum(iota * (kappa @ second - k.Knm), axis=1) + own
        rows = w @ rows - 2.0 * ((1.0 + w) * y) @ (iota @ mu)
        out.append(-0.5 * (prior + scale * rows))
    return np.array(out)


@dataclass(frozen=True, eq=False)
class Tuned:
    """Where the length scale went, one number a step in it."""

    theta: float
    path: Array


def tune(
    X: Array, y: Array, Z: Array, theta: float, steps: int, rate: float, rng: np.random.Generator
) -> Tuned:
    """Updates of q by minibatches, and ``steps`` steps of eq. 12 in log theta.

    ``rate`` is that of the first step, for the bound of one row; it falls as 1 / sqrt(t).
    """
    n, m, at, path = len(y), len(Z), float(np.log(theta)), []
    eta1, eta2 = np.zeros(m), -0.5 * kernels(X[:1], Z, at).inverse
    schedule, drift, order, t = SVI(), Drift(np.zeros((m, m + 1))), np.empty(0, int), 0
    for step in range(1, steps + 1):
        for _ in range(EVERY):
            if order.size < BATCH:
                order = rng.permutation(n)
            rows, order = order[:BATCH], order[BATCH:]
            zeta = -0.5 * np.linalg.inv(eta2)
            mu, k = zeta @ eta1, kernels(X[rows], Z, at)
            alpha, kappa, scale = scales(k, y[rows], mu, zeta), k.kappa, n / len(rows)
            new1 = scale * kappa.T @ (y[rows] * (alpha**-0.5 + 1.0))
            new2 = -0.5 * (k.inverse + scale * kappa.T @ (alpha[:, None] ** -0.5 * kappa))
            gradient, seen = np.column_stack([new2 - eta2, new1 - eta1]), drift.seen + 1
            window = float(seen) if seen <= 10 else drift.window  # the first ten are averaged
            mean = drift.mean + (gradient - drift.mean) / window
            square = drift.square + (np.vdot(gradient, gradient) - drift.square) / window
            rho = schedule.rate(t)
            if seen > 10:
                rho = min(1.0, float(np.vdot(mean, mean) / square))
                window = window * (1.0 - rho) + 1.0
            drift = Drift(mean, float(square), window, seen)
            eta1, eta2, t = (1.0 - rho) * eta1 + rho * new1, (1.0 - rho) * eta2 + rho * new2, t + 1
        zeta = -0.5 * np.linalg.inv(eta2)
        mu, k = zeta @ eta1, kernels(X, Z, at)
        up = slope(k, y, scales(k, y, mu, zeta), mu, zeta)[0]
        at += float(np.clip(rate / np.sqrt(step) * up / n, -1.0, 1.0))
        path.append(at)
    return Tuned(float(np.exp(at)), np.exp(path))
