"""Variational Bayes of the linear discriminative factor model, line by line, in plain NumPy.

Section 5 of Henao, Yuan & Carin (2014) with a level of f, every factor of q updated in turn.  No
import from the package.
"""

import numpy as np
from scipy.special import digamma, gammaln


def vldfm(X, y, A, W, V, psi, *, nu=1.0, a0=1.0, b0=1.0, level=1 / 9, precision=1.0, sweeps=50):
    """Mean-field updates from loadings A, scores N(W, V) and noise precision; bound a sweep.

    Order: loadings, their variances, noise, coefficients, scores.
    """
    n, d = X.shape
    K = A.shape[1]
    r = np.sqrt(2 * nu)
    G = np.diag([level] + [precision] * K)
    mu, Sigma = np.zeros(K + 1), np.zeros((K + 1, K + 1))
    C = np.column_stack([np.ones(n), W])
    CC = C[:, :, None] * C[:, None, :]
    CC[:, 1:, 1:] += V
    shrink = r / np.abs(A)
    path = []
    for _ in range(sweeps):
        WW = CC[:, 1:, 1:].sum(axis=0)
        covs = np.linalg.inv(psi * WW + np.eye(K) * shrink[:, :, None])
        A = psi * np.einsum("ijk,ik->ij", covs, X.T @ W)
        second = A**2 + np.diagonal(covs, axis1=1, axis2=2)
        shrink = r / np.sqrt(second)
        AA = A.T @ A + covs.sum(axis=0)
        energy = np.sum(X**2) - 2 * np.sum(X * (W @ A.T)) + np.sum(AA * WW)
        shape, rate = a0 + n * d / 2, b0 + energy / 2
        psi = shape / rate
        # s_n = E (1 - y f)^2; w = 1 / sqrt(s)
        bb = np.outer(mu, mu) + Sigma
        w = 1 / np.sqrt(1 - 2 * y * (C @ mu) + np.einsum("jk,ijk->i", bb, CC))
        Sigma = np.linalg.inv(G + np.einsum("i,ijk->jk", w, CC))
        mu = Sigma @ (C.T @ (y * (w + 1)))
        bb = np.outer(mu, mu) + Sigma
        V = np.linalg.inv(np.eye(K) + psi * AA + w[:, None, None] * bb[1:, 1:])
        info = psi * X @ A + (y * (w + 1))[:, None] * mu[1:] - w[:, None] * bb[0, 1:]
        W = np.einsum("ijk,ik->ij", V, info)
        C = np.column_stack([np.ones(n), W])
        CC = C[:, :, None] * C[:, None, :]
        CC[:, 1:, 1:] += V
        path.append(_bound(X, y, A, covs, shrink, r, shape, rate, a0, b0, mu, Sigma, G, W, V, CC))
    return {"A": A, "W": W, "V": V, "psi": psi, "mu": mu, "Sigma": Sigma, "path": np.array(path)}


def _bound(X, y, A, covs, shrink, r, shape, rate, a0, b0, mu, Sigma, G, W, V, CC):
    n, d = X.shape
    K = A.shape[1]
    psi, log_psi = shape / rate, digamma(shape) - np.log(rate)
    AA = A.T @ A + covs.sum(axis=0)
    energy = np.sum(X**2) - 2 * np.sum(X * (W @ A.T)) + np.sum(AA * CC[:, 1:, 1:].sum(axis=0))
    second = A**2 + np.diagonal(covs, axis1=1, axis2=2)
    xi = r / shrink
    fit = n * d / 2 * (log_psi - np.log(2 * np.pi)) - psi / 2 * energy
    sparse = np.sum(np.log(r / 2) - r / 2 * (second / xi + xi))
    entropy = 0.5 * np.sum(np.linalg.slogdet(2 * np.pi * np.e * covs)[1])
    kl_psi = (shape - a0) * digamma(shape) - gammaln(shape) + gammaln(a0)
    kl_psi += a0 * (np.log(rate) - np.log(b0)) + shape * (b0 - rate) / rate
    kl_w = 0.5 * np.sum(np.trace(V, axis1=1, axis2=2) + np.sum(W**2, axis=1) - K)
    kl_w -= 0.5 * np.sum(np.linalg.slogdet(V)[1])
    kl_b = 0.5 * (np.trace(G @ Sigma) + mu @ G @ mu - K - 1)
    kl_b -= 0.5 * (np.linalg.slogdet(Sigma)[1] + np.linalg.slogdet(G)[1])
    C = CC[:, 0]
    s = 1 - 2 * y * (C @ mu) + np.einsum("jk,ijk->i", np.outer(mu, mu) + Sigma, CC)
    margin = np.sum(y * (C @ mu) - 1 - np.sqrt(s))
    return fit + sparse + entropy - kl_psi - kl_w - kl_b + margin
