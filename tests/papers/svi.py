"""Minibatch natural-gradient variational Bayes for (L) Algorithms 1 and 2.

Stochastic variational inference (Hoffman et al., JMLR 14, 2013) on the model of (L):
the natural parameters of q(theta) and B_q of q(sigma^2) move a fraction rho towards
the values Algorithm 2 would give them, the sum over rows being scaled up by n / |I|.
"""

from typing import NamedTuple

import numpy as np


class State(NamedTuple):
    Lambda: np.ndarray  # Sigma^-1
    eta: np.ndarray  # Sigma^-1 mu
    mu: np.ndarray
    B_q: np.ndarray  # one per variance block


class Variance(NamedTuple):
    """Columns of the design with N(0, sigma^2) coefficients, sigma^2 ~ IG(A, B)."""

    columns: np.ndarray
    A: float
    B: float

    @property
    def A_q(self):
        return self.A + len(self.columns) / 2


def prior_precision(P, variances, B_q):
    """P with tau_b = A_q / B_q on the diagonal of each variance block."""
    P = np.array(P, float)
    for variance, b in zip(variances, B_q):
        P[variance.columns, variance.columns] = variance.A_q / b
    return P


def history(C, y, P, minibatches, rates, variances=(), m0=None, c=None, start=None):
    """States after each minibatch, the start included: list of ``State``.

    ``P`` is the prior precision outside the variance blocks (zero inside them).
    ``minibatches`` are index arrays, ``rates`` the rho_t.  Everything in a step is
    computed from the state before it: w, S and tau.  Start: Lambda = I, eta = 0 and
    B_q = A_q (tau = 1), or ``start`` = (Lambda, eta, B_q).
    """
    n, K = C.shape
    c = np.ones(n) if c is None else np.asarray(c, float)
    m0 = np.zeros(K) if m0 is None else np.asarray(m0, float)
    if start is None:
        start = np.eye(K), np.zeros(K), np.array([v.A_q for v in variances], float)
    Lambda, eta, B_q = start
    states = [State(Lambda, eta, np.linalg.solve(Lambda, eta), np.array(B_q, float))]
    for rows, rho in zip(minibatches, rates):
        Sigma = np.linalg.inv(Lambda)
        mu = Sigma @ eta
        # local step: (L) Algorithm 1 line 3 on the rows of the minibatch
        X, t, k = C[rows], y[rows], c[rows]
        chi = (1 - t * (X @ mu)) ** 2 + np.diag(X @ Sigma @ X.T)
        w = k / np.sqrt(chi)
        # global step: Algorithm 2 lines 2-4, as if the data
        # were n / |I| copies of the minibatch
        scale = n / len(rows)
        P_full = prior_precision(P, variances, B_q)
        S = [(mu[v.columns] ** 2 + np.diag(Sigma)[v.columns]).sum() for v in variances]
        Lambda_hat = P_full + scale * X.T @ np.diag(w) @ X
        eta_hat = P_full @ m0 + scale * X.T @ ((k + w) * t)
        B_hat = np.array([v.B + s / 2 for v, s in zip(variances, S)])
        Lambda = (1 - rho) * Lambda + rho * Lambda_hat
        eta = (1 - rho) * eta + rho * eta_hat
        B_q = (1 - rho) * np.asarray(B_q) + rho * B_hat
        states.append(State(Lambda, eta, np.linalg.solve(Lambda, eta), B_q))
    return states
