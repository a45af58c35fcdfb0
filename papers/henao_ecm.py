r"""ECM of Henao, Yuan & Carin (2014), section 3, line by line, in plain NumPy.

A Gaussian process with the kernel :math:`\exp(-\lVert x - x'\rVert^2/\theta^2)`, no amplitude and
no level, the hinge to the power :math:`\gamma` (:math:`\gamma_0 = 0`), and
:math:`\gamma \sim \mathrm{Ga}(a_0, b_0)`.  Updates of f and of gamma in turn, and every 20 of them
the length scale by the marginal likelihood of eq. 9.

The paper's :math:`\langle\lambda\rangle` is taken for :math:`1/\langle\lambda^{-1}\rangle = |u|`.
In the update of f that is right (the paper's mean of lambda is not); in the update of gamma it is
what makes it an estimate at all,

.. math:: \gamma = \frac{a_0 - 1 + N/2}{b_0 + 2\sum_n \max(u_n, 0)},

where the mean itself, :math:`|u| + 1/\gamma`, has the fixed point
:math:`(a_0 - 1)/(b_0 + 2\sum\max(u_n, 0))`: nothing but its prior keeps it from zero.

``fit_fitc`` is the same with pseudo-inputs: f under FITC, and every 20 updates the length scale and
the pseudo-inputs by the marginal likelihood of eq. 10 given :math:`\lambda` and :math:`\gamma`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize, minimize_scalar
from scipy.spatial.distance import cdist
from scipy.special import ndtr

from bayesvm.core.types import Array

from .targets import Fitc, Machine, signs, standardised

ROUNDS, EVERY = 10, 20  # 200 updates at most
SETTLED = 1e-3  # change of log theta and log gamma in a round that ends it
LEAST = 1e-6  # smallest |u|: the precision of a row on the margin is finite
PRIOR = 1.0, 1.0  # a0 and b0, which the paper does not give


@dataclass(frozen=True, eq=False)
class ECM:
    """What was learned: rows, dual variables, the factor of K + Lambda / gamma, parameters."""

    classes_: Array
    centre: Array
    scale: Array
    X: Array
    alpha: Array
    factor: Any
    theta: float
    gamma: float
    rounds: int
    updates: int  # of f and gamma, in all rounds

    def predict_proba(self, X: Array) -> Array:
        """By the probit link below eq. 11, with the root that it needs."""
        k = np.exp(-cdist((X - self.centre) / self.scale, self.X, "sqeuclidean") / self.theta**2)
        v = 1.0 - np.einsum("ij,ji->i", k, cho_solve(self.factor, k.T))
        p = ndtr(k @ self.alpha / np.sqrt(1.0 + np.maximum(v, 0.0)))
        return np.column_stack([1.0 - p, p])


def marginal(D: Array, t: Array, noise: Array, log_theta: float) -> float:
    """Minus the log of eq. 9, up to a constant; ``D`` are squared distances."""
    C = np.exp(-D * np.exp(-2.0 * log_theta))
    C[np.diag_indices_from(C)] += noise
    L = cho_factor(C, lower=True, overwrite_a=True, check_finite=False)
    return float(0.5 * t @ cho_solve(L, t) + np.log(np.diag(L[0])).sum())


def scale_of(u: Array) -> float:
    """Gamma given the residuals."""
    a0, b0 = PRIOR
    return float((a0 - 1.0 + 0.5 * u.size) / (b0 + 2.0 * np.maximum(u, 0.0).sum()))


def fit_ecm(X: Array, y: Array, rounds: int = ROUNDS, standardize: bool = True) -> ECM:
    """Labels are any two values."""
    classes, s = signs(y)
    Z, centre, scale = standardised(X, standardize)
    D = cdist(Z, Z, "sqeuclidean")
    n, updates = len(s), 0
    theta, gamma, u = float(np.sqrt(2.0 * Z.shape[1])), 1.0, np.ones(n)
    for done in range(1, rounds + 1):
        K, last = np.exp(-D / theta**2), np.log([theta, gamma])
        for _ in range(EVERY):
            lam = np.maximum(np.abs(u), LEAST)
            factor = cho_factor(K + np.diag(lam / gamma), lower=True, check_finite=False)
            alpha = cho_solve(factor, s * (1.0 + lam))
            old, u = u, 1.0 - s * (K @ alpha)
            gamma = scale_of(u)
            updates += 1
            if np.max(np.abs(u - old)) < 1e-4:
                break
        lam = np.maximum(np.abs(u), LEAST)
        at = np.log(theta)
        found = minimize_scalar(
            lambda x, lam=lam, gamma=gamma: marginal(D, s * (1.0 + lam), lam / gamma, x),
            bounds=(at - 1.0, at + 1.0), method="bounded", options={"xatol": 1e-3},
        )  # fmt: skip
        if done < rounds:
            theta = float(np.exp(found.x))
        if np.max(np.abs(np.log([theta, gamma]) - last)) < SETTLED:
            break
    return ECM(classes, centre, scale, Z, alpha, factor, theta, gamma, done, updates)


def fit_fitc(X: Array, y: Array, points: Array, standardize: bool = True) -> Machine:
    """Pseudo-inputs begin at ``points`` and move, in units of the columns as they are used."""
    classes, s = signs(y)
    Z, centre, scale = standardised(X, standardize)
    process = Fitc(Z, points)
    at, gamma, u = process.start(np.sqrt(2.0 * Z.shape[1])), 1.0, np.ones(len(s))
    held: list[Any] = [(0.0, 0.0)] + [(None, None)] * (at.size - 1)  # no amplitude
    for done in range(1, ROUNDS + 1):
        last = np.array([at[1], np.log(gamma)])
        for _ in range(EVERY):
            lam = np.maximum(np.abs(u), LEAST)
            seen = process.given(at, s * (1.0 + lam), lam / gamma)
            old, u = u, 1.0 - s * seen.mean
            gamma = scale_of(u)
            if np.max(np.abs(u - old)) < 1e-4:
                break
        if done == ROUNDS:
            break
        t, noise = s * (1.0 + np.maximum(np.abs(u), LEAST)), np.maximum(np.abs(u), LEAST) / gamma

        def minus_bound(x: Array, t: Array = t, noise: Array = noise) -> tuple[float, Array]:
            there = process.given(x, t, noise)
            return -there.log_marginal, -there.slope()

        how = {"maxiter": EVERY}
        at = minimize(minus_bound, at, jac=True, method="L-BFGS-B", bounds=held, options=how).x
        if np.max(np.abs([at[1] - last[0], np.log(gamma) - last[1]])) < SETTLED:
            break
    return Machine(classes, centre, scale, seen, at, {"gamma": gamma, "rounds": done})
