"""(C) Probabilistic classification vector machines by EM, and the relevance vector machine.

z = Phi w + b, p(y | z) = Phi(y z), y_j w_j >= 0.  ``Phi`` holds the kernel values, one column per
row.  Functions that end in ``_printed`` keep what (C) prints; the others are corrected.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

BIAS = 1e-8  # precision of the bias: flat


class Step(NamedTuple):
    w: np.ndarray
    b: float
    objective: float


def mills(z):
    """N(z) / Phi(z)."""
    return np.exp(-(z**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(z))


def rbf(X, theta):
    """(C) eq. 13: exp(-r^2 / theta^2)."""
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / theta**2)


# ----- E-step


def latent_mean(z, y):
    """E[h | y], the mean of N(z, 1) on y's side of zero; (C) eq. 23 divided by Phi(y z)."""
    return z + y * mills(y * z)


def latent_mean_printed(z, y):
    """(C) eq. 23."""
    return z * ndtr(y * z) + y * norm.pdf(z)


def precision(w, c, d):
    """E[alpha | w] under alpha ~ Gamma(c, d); (C) eq. 24 has w^2 for w^2 / 2."""
    return (c + 0.5) / (w**2 / 2 + d)


def precision_printed(w, c, d):
    """(C) eq. 24."""
    return (c + 0.5) / (w**2 + d)


def log_student(w, c, d):
    """Log density of w under the mixture, up to a constant; (C) eq. 21."""
    return -(c + 0.5) * np.log(w**2 / 2 + d)


def log_posterior(Phi, y, w, b, c, d):
    """What EM ascends; the flat bias keeps its trace of precision."""
    fit = log_ndtr(y * (Phi @ w + b)).sum()
    return fit + log_student(w, c, d).sum() - BIAS * b**2 / 2


# ----- M-step


def q_function(Phi, h, w, b, alpha):
    """(C) eq. 7 halved, with the sign of w'Aw corrected and h'h completing the square."""
    return -((h - Phi @ w - b) ** 2).sum() / 2 - (alpha * w**2).sum() / 2 - BIAS * b**2 / 2


def m_step(Phi, y, h, alpha):
    """Maximise Q under the signs, w and b jointly: nonnegative least squares."""
    k = Phi.shape[1]
    A = np.column_stack([Phi * y, np.ones(len(h)), -np.ones(len(h))])  # b = b+ - b-
    ridge = np.diag(np.sqrt([*alpha, BIAS, BIAS]))
    x = nnls(np.vstack([A, ridge]), np.concatenate([h, np.zeros(k + 2)]), maxiter=100 * k)[0]
    return y * x[:k], x[k] - x[k + 1]


def m_step_clipped(Phi, y, h, alpha):
    """(C) eqs 11, 12 solved jointly, then wrong signs set to zero as in App. C."""
    A = np.column_stack([Phi, np.ones(len(h))])
    x = np.linalg.solve(A.T @ A + np.diag([*alpha, BIAS]), A.T @ h)
    return np.where(y * x[:-1] > 0, x[:-1], 0.0), x[-1]


def em_history(
    Phi, y, w, b=0.0, c=0.0, d=1e-3, steps=100, e=latent_mean, alpha=precision, m=m_step
):
    """EM with a chosen E-step, precision and M-step: list of ``Step``."""
    history = [Step(w, b, log_posterior(Phi, y, w, b, c, d))]
    for _ in range(steps):
        w, b = m(Phi, y, e(Phi @ w + b, y), alpha(w, c, d))
        history.append(Step(w, b, log_posterior(Phi, y, w, b, c, d)))
    return history


# ----- kernel width


def width_slope(Phi, dPhi, y, w, b):
    """d log p(y | w, b) / d theta; by Fisher's identity half the slope of (C) eq. 7."""
    z = Phi @ w + b
    return float(((latent_mean(z, y) - z)[:, None] * w * dPhi).sum())


def width_slope_printed(Phi, dPhi, y, w, b):
    """Half of (C) eq. 10."""
    h = latent_mean(Phi @ w + b, y)
    return float(((Phi @ w - h)[:, None] * w * dPhi).sum())


# ----- relevance vector machine (Tipping 2001), probit link


def relevance_mode(C, y, alpha, steps=100):
    """Mode of theta given precisions, and the precision matrix there (IRLS)."""
    theta = np.zeros(C.shape[1])
    for _ in range(steps):
        z = C @ theta
        r = y * mills(y * z)
        D = r * (r + z)
        Q = C.T @ (D[:, None] * C) + np.diag(alpha)
        step = np.linalg.solve(Q, C.T @ r - alpha * theta)
        theta = theta + step / max(1.0, np.abs(C @ step).max())  # z moves by one at most
    return theta, Q


def relevance_evidence(C, y, alpha):
    """Laplace's approximation of log p(y | alpha)."""
    theta, Q = relevance_mode(C, y, alpha)
    fit = log_ndtr(y * (C @ theta)).sum() - (alpha * theta**2).sum() / 2
    return fit + np.log(alpha).sum() / 2 - np.linalg.slogdet(Q)[1] / 2


def relevance_em(C, y, alpha, free, steps=200, most=1e9):
    """MacKay's update alpha_j <- (1 - alpha_j Sigma_jj) / theta_j^2 where not ``free``."""
    alpha = alpha.copy()
    for _ in range(steps):
        theta, Q = relevance_mode(C, y, alpha)
        variance = np.diag(np.linalg.inv(Q))
        new = np.clip((1 - alpha * variance) / np.maximum(theta**2, 1e-300), 1e-12, most)
        alpha = np.where(free, alpha, new)
    return alpha
