"""(L) Algorithms 1 and 2: mean field variational Bayes, with case weights.

Both functions return the whole history, one ``Sweep`` per sweep, started from
w = 1 and tau = 1.  The bound of a sweep is evaluated after its last update, in
the order theta, a, sigma^2 (and the half-Cauchy auxiliary, if there is one).
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

LOG2PI = np.log(2 * np.pi)


class Sweep(NamedTuple):
    mu: np.ndarray  # mean of q(theta)
    Sigma: np.ndarray  # covariance of q(theta)
    w: np.ndarray  # E[1/a_i]
    tau: np.ndarray  # E[1/sigma_b^2], one per block (empty in Algorithm 1)
    elbo: float


class IG(NamedTuple):
    """Block of columns r ~ N(0, sigma^2 I), sigma^2 ~ inverse gamma(A, B)."""

    Z: np.ndarray
    A: float
    B: float


class HalfCauchy(NamedTuple):
    """Block of columns r ~ N(0, sigma^2 I), sigma ~ half-Cauchy(s0)."""

    Z: np.ndarray
    s0: float


class Fixed(NamedTuple):
    """Block of columns r ~ N(0, I / tau), tau known."""

    Z: np.ndarray
    tau: float


def update_theta(C, y, c, w, P, m0):
    """Algorithm 1 line 2: q(theta) = N(mu, Sigma)."""
    Sigma = np.linalg.inv(C.T @ np.diag(w) @ C + P)
    Sigma = (Sigma + Sigma.T) / 2
    mu = Sigma @ (C.T @ ((c + w) * y) + P @ m0)
    return mu, Sigma


def update_a(C, y, c, mu, Sigma):
    """Algorithm 1 line 3: ubar_i = E[u_i], chi_i = E[u_i^2], w_i = c_i / sqrt(chi_i)."""
    ubar = 1 - y * (C @ mu)
    chi = ubar**2 + np.diag(C @ Sigma @ C.T)
    w = np.zeros(len(y))
    w[c > 0] = c[c > 0] / np.sqrt(chi[c > 0])  # a row of weight zero has no likelihood
    return ubar, chi, w


def log_pseudo_det(P):
    """log of the product of the positive eigenvalues of P, and how many are zero."""
    eig = np.linalg.eigvalsh(P)
    positive = eig > 1e-14 * max(eig.max(), 1e-300)
    return np.log(eig[positive]).sum(), int((~positive).sum())


def gaussian_prior_term(P, m0, mu, Sigma):
    """E_q[log N(theta; m0, P^-1)]; a flat direction of P has prior density 1."""
    logdet, flat = log_pseudo_det(P)
    quadratic = (mu - m0) @ P @ (mu - m0) + np.trace(P @ Sigma)
    return -(len(m0) - flat) / 2 * LOG2PI + logdet / 2 - quadratic / 2


def entropy(Sigma):
    """Entropy of N(mu, Sigma)."""
    return len(Sigma) / 2 * (1 + LOG2PI) + np.linalg.slogdet(Sigma)[1] / 2


def algorithm1(C, y, P, m0=None, c=None, sweeps=200):
    """(L) Algorithm 1 with theta ~ N(m0, P^-1): list of ``Sweep``.

    (L) prints P = 4 alpha I, m0 = 0, c = 1.  A zero row and column of P is a flat
    coefficient.  The bound is that of (L) section 2.3, whose constants cancel:
    the latent a_i contributes -c_i (ubar_i + sqrt(chi_i)).
    """
    n, K = C.shape
    c = np.ones(n) if c is None else np.asarray(c, float)
    m0 = np.zeros(K) if m0 is None else np.asarray(m0, float)
    w = np.where(c > 0, 1.0, 0.0)
    history = []
    for _ in range(sweeps):
        mu, Sigma = update_theta(C, y, c, w, P, m0)
        ubar, chi, w = update_a(C, y, c, mu, Sigma)
        elbo = -(c * (ubar + np.sqrt(chi))).sum()
        elbo += gaussian_prior_term(P, m0, mu, Sigma) + entropy(Sigma)
        history.append(Sweep(mu, Sigma, w, np.empty(0), float(elbo)))
    return history


def update_ig(block, S):
    """Algorithm 2 line 4: q(sigma^2) = IG(Aq, Bq); returns tau and the bound's F_b."""
    m = block.Z.shape[1]
    Aq, Bq = block.A + m / 2, block.B + S / 2
    tau = Aq / Bq
    prior = -m / 2 * LOG2PI - tau * S / 2  # with E[log sigma^2] left to the next lines,
    prior += block.A * np.log(block.B) - gammaln(block.A) - block.B * tau  # where it cancels
    q = Aq * np.log(Bq) - gammaln(Aq) - Bq * tau
    return tau, prior - q


def update_half_cauchy(block, S, xi):
    """sigma^2 | xi ~ IG(1/2, 1/xi), xi ~ IG(1/2, 1/s0^2); ``xi`` is E[1/xi].

    Updates q(sigma^2), then q(xi) = IG(1, B_xi); returns tau, the new E[1/xi], F_b.
    """
    m, s0 = block.Z.shape[1], block.s0
    Aq, Bq = (m + 1) / 2, xi + S / 2
    tau = Aq / Bq
    B_xi = s0**-2 + tau
    xi = 1 / B_xi
    prior = -m / 2 * LOG2PI - tau * S / 2 - np.log(np.pi) - xi * tau - np.log(s0) - xi / s0**2
    q_sigma = Aq * np.log(Bq) - gammaln(Aq) - Bq * tau
    q_xi = np.log(B_xi) - B_xi * xi
    return tau, xi, prior - q_sigma - q_xi


def fixed_term(block, S):
    """F_b of a block of known precision."""
    return block.Z.shape[1] / 2 * (np.log(block.tau) - LOG2PI) - block.tau * S / 2


def algorithm2(X, blocks, y, P_beta, m0=None, c=None, sweeps=500):
    """(L) Algorithm 2: f = X beta + sum_b Z_b r_b, beta ~ N(m0, P_beta^-1).

    ``blocks`` is a list of ``IG``, ``HalfCauchy`` or ``Fixed``; the columns of theta
    are X, then the blocks in order.  A half-Cauchy block starts from the q(xi) that
    belongs to tau = 1, i.e. E[1/xi] = 1 / (1/s0^2 + 1).  List of ``Sweep``.
    """
    n, p = X.shape
    C = np.hstack([X] + [block.Z for block in blocks])
    K = C.shape[1]
    c = np.ones(n) if c is None else np.asarray(c, float)
    m0 = np.zeros(p) if m0 is None else np.asarray(m0, float)
    m0_full = np.concatenate([m0, np.zeros(K - p)])
    ends = p + np.cumsum([block.Z.shape[1] for block in blocks])
    columns = [np.arange(end - block.Z.shape[1], end) for end, block in zip(ends, blocks)]

    w = np.where(c > 0, 1.0, 0.0)
    tau = [block.tau if isinstance(block, Fixed) else 1.0 for block in blocks]
    xi = [1 / (block.s0**-2 + 1) if isinstance(block, HalfCauchy) else None for block in blocks]
    history = []
    for _ in range(sweeps):
        P = np.zeros((K, K))
        P[:p, :p] = P_beta
        for t, cols in zip(tau, columns):
            P[cols, cols] = t
        mu, Sigma = update_theta(C, y, c, w, P, m0_full)
        ubar, chi, w = update_a(C, y, c, mu, Sigma)
        elbo = -(c * (ubar + np.sqrt(chi))).sum() + entropy(Sigma)
        elbo += gaussian_prior_term(P_beta, m0, mu[:p], Sigma[:p, :p])
        for b, (block, cols) in enumerate(zip(blocks, columns)):
            S = mu[cols] @ mu[cols] + np.trace(Sigma[np.ix_(cols, cols)])  # E ||r_b||^2
            if isinstance(block, IG):
                tau[b], F = update_ig(block, S)
            elif isinstance(block, HalfCauchy):
                tau[b], xi[b], F = update_half_cauchy(block, S, xi[b])
            else:
                F = fixed_term(block, S)
            elbo += F
        history.append(Sweep(mu, Sigma, w, np.array(tau), float(elbo)))
    return history
