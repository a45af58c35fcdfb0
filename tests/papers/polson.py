"""(P) EM-SVM and ECME-SVM with the ridge penalty (alpha = 2).

The penalty is 1/2 sum_j pi_j beta_j^2, pi_j = 2 / (nu s_j)^2 on penalised columns
((P) eq. 5 with alpha = 2, so that sum (beta_j / (nu s_j))^2 is minus the log prior)
and 0 on flat ones.  ``X`` holds the plain rows; a label-signed row is y_i x_i.
"""

from typing import NamedTuple

import numpy as np


class Step(NamedTuple):
    beta: np.ndarray
    w: np.ndarray  # the weights that gave beta
    tau: float  # precision of the penalised columns after the step (ECME; else nan)
    objective: float  # the smoothed objective at beta (and tau)


def ridge_precision(nu, s, penalised):
    """pi_j = 2 / (nu s_j)^2 where ``penalised``, else 0.

    (P) section 3.1 has omega_j = 1 for alpha = 2, which halves it; eq. 5 requires 1/2.
    """
    return np.where(penalised, 2 / (nu * np.asarray(s, float)) ** 2, 0.0)


def residual(beta, X, y):
    """u_i = 1 - y_i x_i' beta."""
    return 1 - y * (X @ beta)


def objective(beta, X, y, c, pi):
    """J = 2 sum c_i max(0, u_i) + 1/2 sum pi_j beta_j^2, minus the log of L times prior."""
    return 2 * (c * np.maximum(0, residual(beta, X, y))).sum() + (pi * beta**2).sum() / 2


def smoothed_objective(beta, X, y, c, pi, eps):
    """J_eps: 2 max(0, u) becomes u + sqrt(u^2 + eps^2); J <= J_eps <= J + eps sum c."""
    u = residual(beta, X, y)
    return (c * (u + np.sqrt(u**2 + eps**2))).sum() + (pi * beta**2).sum() / 2


def e_step(beta, X, y, c, eps):
    """EM-SVM, E-step ((P) eq. 14): w_i = E[1/lambda_i] = c_i / |u_i|, smoothed by eps."""
    return c / np.sqrt(residual(beta, X, y) ** 2 + eps**2)


def m_step(beta, X, y, c, pi, w):
    """EM-SVM, M-step: (Xs' W Xs + Pi) beta = Xs' (c + w), Xs the label-signed rows.

    Solved for the change of beta, which is the same equation with the large w
    multiplying the small u instead of 1.
    """
    Xs = y[:, None] * X
    u = 1 - Xs @ beta
    A = Xs.T @ (w[:, None] * Xs) + np.diag(pi)
    return beta + np.linalg.solve(A, Xs.T @ (c + w * u) - pi * beta)


def em_step(beta, X, y, c, pi, eps):
    """One E and one M step."""
    return m_step(beta, X, y, c, pi, e_step(beta, X, y, c, eps))


def em_history(X, y, pi, eps, c=None, beta=None, steps=200):
    """EM-SVM at fixed eps, from ``beta`` (default: the M-step of w = 1): list of ``Step``."""
    c = np.ones(len(y)) if c is None else np.asarray(c, float)
    w = np.where(c > 0, 1.0, 0.0)
    beta = m_step(np.zeros(X.shape[1]), X, y, c, pi, w) if beta is None else beta
    history = [Step(beta, w, np.nan, smoothed_objective(beta, X, y, c, pi, eps))]
    for _ in range(steps):
        w = e_step(beta, X, y, c, eps)
        beta = m_step(beta, X, y, c, pi, w)
        history.append(Step(beta, w, np.nan, smoothed_objective(beta, X, y, c, pi, eps)))
    return history


def ecme_tau(beta, penalised, A, B):
    """ECME-SVM, CME-step: mode of tau given beta ((P) section 3.3 prints the reciprocal).

    beta_j ~ N(0, 1/tau), tau ~ Gamma(A, rate B).  In (P)'s nu: tau = 2 nu^-2,
    A = a_nu and B = b_nu / 2.
    """
    m = int(np.sum(penalised))
    return (A + m / 2 - 1) / (B + (beta[penalised] ** 2).sum() / 2)


def ecme_objective(beta, tau, X, y, c, penalised, eps, A, B):
    """J_eps at precision tau, minus the parts of log p(beta, tau) that depend on tau."""
    m = int(np.sum(penalised))
    value = smoothed_objective(beta, X, y, c, tau * penalised, eps)
    return value - (A + m / 2 - 1) * np.log(tau) + B * tau


def ecme_history(X, y, penalised, A, B, eps, c=None, tau=1.0, steps=200):
    """ECME-SVM: E-, CM- and CME-step, from the M-step of w = 1: list of ``Step``."""
    c = np.ones(len(y)) if c is None else np.asarray(c, float)
    penalised = np.asarray(penalised, bool)
    w = np.where(c > 0, 1.0, 0.0)
    beta = m_step(np.zeros(X.shape[1]), X, y, c, tau * penalised, w)
    history = []
    for _ in range(steps):
        w = e_step(beta, X, y, c, eps)
        beta = m_step(beta, X, y, c, tau * penalised, w)
        tau = ecme_tau(beta, penalised, A, B)
        value = ecme_objective(beta, tau, X, y, c, penalised, eps, A, B)
        history.append(Step(beta, w, tau, value))
    return history
