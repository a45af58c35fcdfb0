"""(L) Appendix A: Gibbs sampler for the ridge SVM, with case weights and a scale move.

Model: f = X beta + Z r, beta ~ N(0, P_beta^-1) of known precision, r ~ N(0, sigma^2 I),
sigma^2 ~ IG(A, B) or sigma ~ half-Cauchy(s0).  One sweep draws w | theta, then
theta | w, sigma^2, then the scale move (w integrated out, so it must come before w is
drawn again), then sigma^2 | theta.
"""

from typing import NamedTuple

import numpy as np

W_MAX = 1e12


class Draws(NamedTuple):
    theta: np.ndarray  # draws x (columns of X, then of Z)
    sigma2: np.ndarray  # draws
    theta_rb: np.ndarray  # draws x columns: E[theta | w, sigma^2], averages to E[theta]


def inverse_gaussian(r, lam, rng):
    """Inverse Gaussian draw of mean 1/r and shape ``lam`` (Michael, Schucany, Haas 1976).

    The smaller root of their quadratic is written as a reciprocal, so that nothing is
    subtracted: exact at r = 0 (infinite mean), where 1/x ~ chi^2_1 / lam.
    """
    r = np.asarray(r, float)
    zeta = rng.standard_normal(r.shape) ** 2
    small = 1 / (r + zeta / (2 * lam) + np.sqrt(zeta * r / lam + zeta**2 / (4 * lam**2)))
    take_small = rng.random(r.shape) * (1 + small * r) <= 1
    large = 1 / np.where(take_small, 1.0, r**2 * small)
    return np.where(take_small, small, large)


def inverse_gamma(A, B, rng):
    """Draw with density proportional to x^(-A-1) exp(-B/x)."""
    return B / rng.gamma(A)


def draw_w(u, c, rng):
    """1/a_i | theta ~ inverse Gaussian(c_i / |u_i|, c_i^2), (P) Corollary 2; 0 where c_i = 0."""
    w = np.zeros(len(u))
    on = c > 0
    w[on] = inverse_gaussian(np.abs(u[on]) / c[on], c[on] ** 2, rng)
    return np.minimum(w, W_MAX)


def draw_theta(C, y, c, w, P, rng):
    """theta | w ~ N(Q^-1 h, Q^-1), Q = C'WC + P, h = C'((c + w) y); the draw and Q^-1 h."""
    Q = C.T @ (w[:, None] * C) + P
    scale = 1 / np.sqrt(np.diag(Q))
    L = np.linalg.cholesky(scale[:, None] * Q * scale)
    half = np.linalg.solve(L, scale * (C.T @ ((c + w) * y)))
    mean = scale * np.linalg.solve(L.T, half)
    noise = scale * np.linalg.solve(L.T, rng.standard_normal(len(P)))
    return mean + noise, mean


def slice_sample(log_density, x, rng, width=1.0):
    """One slice-sampling update: stepping out and shrinkage (Neal 2003, figures 3 and 5)."""
    level = log_density(x) - rng.exponential()
    left = x - width * rng.random()
    right = left + width
    while log_density(left) > level:
        left -= width
    while log_density(right) > level:
        right += width
    while True:
        new = left + (right - left) * rng.random()
        if log_density(new) > level:
            return new
        if new < x:
            left = new
        else:
            right = new


def log_scale_density(t, yf, c, beta_quadratic, p, A, B, sigma2):
    """log density of t in the move theta -> e^t theta, sigma^2 -> e^2t sigma^2.

    Terms: likelihood; prior of beta (``beta_quadratic`` = beta' P_beta beta); the IG(A, B)
    prior of sigma^2; the powers of e^t, where the m of p(r | sigma^2) cancels that of
    the Jacobian e^((p + m + 2) t).
    """
    grow = np.exp(t)
    loglik = -2 * (c * np.maximum(0, 1 - grow * yf)).sum()
    return loglik - grow**2 * beta_quadratic / 2 - B / (grow**2 * sigma2) + (p - 2 * A) * t


def sample(X, Z, y, P_beta, rng, draws, burn=500, A=None, B=None, s0=None, c=None, scale_move=True):
    """Run one chain.  Give A and B (inverse gamma) or s0 (half-Cauchy): ``Draws``."""
    (n, p), m = X.shape, Z.shape[1]
    C = np.hstack([X, Z])
    c = np.ones(n) if c is None else np.asarray(c, float)
    P = np.zeros((p + m, p + m))
    P[:p, :p] = P_beta
    theta, sigma2 = np.zeros(p + m), 1.0
    half_cauchy = s0 is not None
    if half_cauchy:
        A = 0.5  # sigma^2 | xi ~ IG(1/2, 1/xi), xi ~ IG(1/2, 1/s0^2)

    kept = Draws(np.empty((draws, p + m)), np.empty(draws), np.empty((draws, p + m)))
    for sweep in range(-burn, draws):
        w = draw_w(1 - y * (C @ theta), c, rng)

        P[range(p, p + m), range(p, p + m)] = 1 / sigma2
        theta, mean = draw_theta(C, y, c, w, P, rng)

        if half_cauchy:
            xi = inverse_gamma(1.0, s0**-2 + 1 / sigma2, rng)
            B = 1 / xi
        if scale_move:
            yf = y * (C @ theta)
            quadratic = theta[:p] @ P_beta @ theta[:p]
            t = slice_sample(
                lambda t: log_scale_density(t, yf, c, quadratic, p, A, B, sigma2), 0.0, rng
            )
            theta, sigma2 = np.exp(t) * theta, np.exp(2 * t) * sigma2

        sigma2 = inverse_gamma(A + m / 2, B + (theta[p:] ** 2).sum() / 2, rng)

        if sweep >= 0:
            kept.theta[sweep], kept.sigma2[sweep], kept.theta_rb[sweep] = theta, sigma2, mean
    return kept


def batch_means(x, batches=40):
    """Mean of a chain and its standard error from the means of consecutive batches."""
    x = np.asarray(x, float)
    size = len(x) // batches
    means = x[: size * batches].reshape(batches, size).mean(axis=1)
    return means.mean(), means.std(ddof=1) / np.sqrt(batches)
