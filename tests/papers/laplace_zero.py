"""(L) Algorithm 3: mean field variational Bayes with the Laplace-zero prior, with case weights.

Model: f = X beta + D (gamma * v), beta ~ N(m0, P_beta^-1), v_k | b_k ~ N(0, sigma^2 / b_k),
b_k ~ IG(1, 1/2) (so that v_k | sigma^2 is Laplace of scale sigma), gamma_k ~ Bernoulli(rho_k),
sigma^2 ~ IG(A, B).  Factorisation q(beta, v) q(sigma^2) prod q(a_i) prod q(b_k) q(gamma_k).

The whole history is returned, started from w = 1, tau = 1, mu_b = 1 and a given mu_gamma; the
order of a sweep is theta, b, gamma (one k after the other), a, sigma^2.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln, logit, xlogy

from .luts import LOG2PI, entropy, gaussian_prior_term


class Sweep(NamedTuple):
    mu: np.ndarray  # mean of q(beta, v)
    Sigma: np.ndarray  # covariance of q(beta, v)
    w: np.ndarray  # E[1/a_i]
    mu_b: np.ndarray  # E[b_k]
    eta: np.ndarray  # logit of mu_gamma
    mu_gamma: np.ndarray  # P(gamma_k = 1) under q
    tau: float  # E[1/sigma^2]
    Bq: float  # q(sigma^2) = IG(A + m/2, Bq)
    elbo: float


def gate_moments(g):
    """E[gamma gamma'], ones among the gates or not: g g' with g on the diagonal."""
    Omega = np.outer(g, g)
    np.fill_diagonal(Omega, g)
    return Omega


def moments(C, y, g, mu, Sigma):
    """ubar_i = E[u_i] and chi_i = E[u_i^2], line by line as the definition says."""
    Omega_g, Omega_theta = gate_moments(g), Sigma + np.outer(mu, mu)
    f = C @ (g * mu)
    second = np.einsum("ij,jk,ik->i", C, Omega_g * Omega_theta, C)
    return 1 - y * f, 1 - 2 * y * f + second


def bound(C, y, c, p, m0, P_beta, rho, A, B, mu, Sigma, chi_q, w, mu_b, mu_gamma, Bq):
    """The evidence lower bound at any point of a sweep, summand by summand.

    ``chi_q`` is the parameter of q(a_i) = GIG(1/2, c_i^2, chi_q_i), whose mean of 1/a_i is w_i;
    ``mu_b`` that of q(b_k) = inverse Gaussian(mu_b_k, 1), whose mean of 1/b_k is 1 + 1/mu_b_k.
    """
    m = len(mu_b)
    g = np.concatenate([np.ones(p), mu_gamma])
    ubar, chi = moments(C, y, g, mu, Sigma)
    Aq, v = A + m / 2, slice(p, None)
    tau = Aq / Bq
    second = mu[v] ** 2 + np.diag(Sigma)[v]  # E[v_k^2]
    value = -(c * (ubar + np.sqrt(chi_q)) + w / 2 * (chi - chi_q)).sum()
    value += gaussian_prior_term(P_beta, m0, mu[:p], Sigma[:p, :p]) + entropy(Sigma)
    # E log p(v | b, sigma^2) with its m/2 E[log sigma^2] left to cancel in q(sigma^2), and with
    # 1/2 E[log b_k] left to cancel in q(b_k)
    value += -m / 2 * LOG2PI - tau * (mu_b * second).sum() / 2
    value += A * np.log(B) - gammaln(A) - B * tau - (Aq * np.log(Bq) - gammaln(Aq) - Bq * tau)
    # E log p(b) = -log 2 - 2 E[log b] - (1 + 1/mu_b) / 2, and, as E[(b - mu_b)^2 / b] = mu_b^2,
    # E log q(b) = -log(2 pi) / 2 - 3/2 E[log b] - 1/2; the logs: -2 + 3/2 and the 1/2 left above
    value += (LOG2PI / 2 - np.log(2) - 1 / (2 * mu_b)).sum()
    value -= (xlogy(mu_gamma, mu_gamma) - mu_gamma * np.log(rho)).sum()
    value -= (xlogy(1 - mu_gamma, 1 - mu_gamma) - (1 - mu_gamma) * np.log1p(-rho)).sum()
    return float(value)


def algorithm3(X, D, y, P_beta, rho, A, B, m0=None, c=None, start=1.0, sweeps=500):
    """(L) Algorithm 3 from mu_gamma = ``start``: list of ``Sweep``."""
    (n, p), m = X.shape, D.shape[1]
    C = np.hstack([X, D])
    c = np.ones(n) if c is None else np.asarray(c, float)
    rho = np.broadcast_to(np.asarray(rho, float), m)
    m0 = np.zeros(p) if m0 is None else np.asarray(m0, float)
    Pm0 = np.concatenate([P_beta @ m0, np.zeros(m)])
    w = np.where(c > 0, 1.0, 0.0)
    tau, mu_b, mu_gamma = 1.0, np.ones(m), np.broadcast_to(np.asarray(start, float), m).copy()
    g = np.concatenate([np.ones(p), mu_gamma])
    history = []
    for _ in range(sweeps):
        M = C.T @ (w[:, None] * C)
        h = C.T @ ((c + w) * y)
        P = np.zeros((p + m, p + m))
        P[:p, :p] = P_beta
        P[range(p, p + m), range(p, p + m)] = tau * mu_b
        Sigma = np.linalg.inv(M * gate_moments(g) + P)
        Sigma = (Sigma + Sigma.T) / 2
        mu = Sigma @ (g * h + Pm0)
        Omega_theta = Sigma + np.outer(mu, mu)

        mu_b = (tau * np.diag(Omega_theta)[p:]) ** -0.5

        eta = np.empty(m)
        for k in range(m):
            j = p + k
            others = np.delete(np.arange(p + m), j)
            cross = (M[j, others] * g[others] * Omega_theta[j, others]).sum()
            eta[k] = logit(rho[k]) + mu[j] * h[j] - M[j, j] * Omega_theta[j, j] / 2 - cross
            g[j] = expit(eta[k])  # the next k sees it
        mu_gamma = g[p:].copy()

        ubar, chi = moments(C, y, g, mu, Sigma)
        w = np.zeros(n)
        w[c > 0] = c[c > 0] / np.sqrt(chi[c > 0])

        S = (mu_b * np.diag(Omega_theta)[p:]).sum()
        Bq = B + S / 2
        tau = (A + m / 2) / Bq

        elbo = bound(C, y, c, p, m0, P_beta, rho, A, B, mu, Sigma, chi, w, mu_b, mu_gamma, Bq)
        history.append(Sweep(mu, Sigma, w, mu_b, eta, mu_gamma, tau, Bq, elbo))
    return history
