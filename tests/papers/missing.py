"""(L) Algorithm 4: mean field variational Bayes with missing predictors, with case weights.

Model: f = X beta + D u, beta ~ N(0, P_beta^-1), u ~ N(0, sigma^2 I), sigma^2 ~ IG(A, B), rows
d_i ~ N(mu_d, Sigma_d), mu_d ~ N(0, s_mu I), Sigma_d ~ IW(Psi, nu).  Factorisation q(beta, u)
q(sigma^2) prod q(a_i) prod q(d_i,mis) q(mu_d) q(Sigma_d).

A weight c_i multiplies the loss only; k_i says how many rows a row stands for, each with missing
entries of its own.  Everything is dense and row by row, after section 3.3 and its errata: the sweep
is theta, d, a, mu_d, Sigma_d, sigma^2, from w = c k, tau = 1, missing entries at mean 0 with
variance 1, and q(mu_d), q(Sigma_d) that belong to these.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, multigammaln

from .luts import LOG2PI, entropy, gaussian_prior_term


class Sweep(NamedTuple):
    mu: np.ndarray
    Sigma: np.ndarray
    tau: float
    D: np.ndarray  # rows with missing entries at their means
    V: np.ndarray  # (n, d, d), zero where observed
    mu_mu: np.ndarray
    Sigma_mu: np.ndarray
    Psi_q: np.ndarray
    elbo: float


def chi(C, y, mu, Sigma, V, p):
    """E[u_i] and E[u_i^2]."""
    ubar = 1 - y * (C @ mu)
    out = ubar**2
    for i, c in enumerate(C):
        out[i] += c @ Sigma @ c + mu[p:] @ V[i] @ mu[p:] + np.trace(Sigma[p:, p:] @ V[i])
    return ubar, out


def row_sums(D, V, k, mu, Sigma_mu):
    """T: expected scatter of the rows about mu_d."""
    T = k.sum() * Sigma_mu
    for i in range(len(k)):
        gap = D[i] - mu
        T = T + k[i] * (np.outer(gap, gap) + V[i])
    return T


def algorithm4(X, D, y, P_beta, A, B, Psi, nu, s_mu, c=None, k=None, sweeps=50):
    """List of ``Sweep``; NaN in D is missing."""
    (n, p), d = X.shape, D.shape[1]
    c = np.ones(n) if c is None else np.asarray(c, float)
    k = np.ones(n) if k is None else np.asarray(k, float)
    gone = np.isnan(D)
    D = np.where(gone, 0.0, D)
    V = np.array([np.diag(row.astype(float)) for row in gone])
    w, tau, N = c.copy(), 1.0, k.sum()
    mu_mu = (k @ D) / N
    Sigma_mu = np.eye(d) / (N + 1 / s_mu)
    Psi_q = Psi + row_sums(D, V, k, mu_mu, Sigma_mu)
    history = []
    for _ in range(sweeps):
        C = np.hstack([X, D])
        Q = np.zeros((p + d, p + d))
        Q[:p, :p] = P_beta
        Q[range(p, p + d), range(p, p + d)] = tau
        for i in range(n):
            Q += k[i] * w[i] * np.outer(C[i], C[i])
            Q[p:, p:] += k[i] * w[i] * V[i]
        Sigma = np.linalg.inv(Q)
        Sigma = (Sigma + Sigma.T) / 2
        mu = Sigma @ (C.T @ (k * (c + w) * y))

        R = (nu + N) * np.linalg.inv(Psi_q)
        Omega = Sigma + np.outer(mu, mu)
        for i in np.flatnonzero(gone.any(axis=1)):
            M, seen = np.flatnonzero(gone[i]), np.flatnonzero(~gone[i])
            Lam = R + w[i] * Omega[p:, p:]
            ell = R @ mu_mu + y[i] * (c[i] + w[i]) * mu[p:] - w[i] * Omega[p:, :p] @ X[i]
            V[i][np.ix_(M, M)] = np.linalg.inv(Lam[np.ix_(M, M)])
            D[i, M] = V[i][np.ix_(M, M)] @ (ell[M] - Lam[np.ix_(M, seen)] @ D[i, seen])

        C = np.hstack([X, D])
        ubar, x = chi(C, y, mu, Sigma, V, p)
        w = c / np.sqrt(x)

        Sigma_mu = np.linalg.inv(np.eye(d) / s_mu + N * R)
        mu_mu = Sigma_mu @ R @ (k @ D)
        T = row_sums(D, V, k, mu_mu, Sigma_mu)
        Psi_q = Psi + T
        S = mu[p:] @ mu[p:] + np.trace(Sigma[p:, p:])
        Aq, Bq = A + d / 2, B + S / 2
        tau = Aq / Bq

        value = -(k * c * (ubar + np.sqrt(x))).sum()
        value += gaussian_prior_term(P_beta, np.zeros(p), mu[:p], Sigma[:p, :p]) + entropy(Sigma)
        value += -d / 2 * LOG2PI + A * np.log(B) - gammaln(A) - Aq * np.log(Bq) + gammaln(Aq)
        value += -tau * S / 2 - B * tau + Bq * tau
        value += -N * d / 2 * np.log(np.pi) + nu / 2 * np.linalg.slogdet(Psi)[1]
        value += multigammaln((nu + N) / 2, d) - multigammaln(nu / 2, d)
        value -= (nu + N) / 2 * np.linalg.slogdet(Psi_q)[1]
        value += d / 2 - d / 2 * np.log(s_mu) + np.linalg.slogdet(Sigma_mu)[1] / 2
        value -= (mu_mu @ mu_mu + np.trace(Sigma_mu)) / (2 * s_mu)
        for i in np.flatnonzero(gone.any(axis=1)):
            M = np.flatnonzero(gone[i])
            own = V[i][np.ix_(M, M)]
            value += k[i] / 2 * (len(M) * (1 + LOG2PI) + np.linalg.slogdet(own)[1])
        history.append(
            Sweep(mu, Sigma, tau, D.copy(), V.copy(), mu_mu, Sigma_mu, Psi_q, float(value))
        )
    return history
