"""(P) with the bridge prior, alpha in (0, 2]: EM, ECME, variational Bayes and Gibbs.

The prior of a penalised coefficient is p(beta_j) = exp(-|beta_j / (nu s_j)|^alpha) over
2 nu s_j Gamma(1 + 1/alpha) ((P) eq. 5, its normaliser corrected), the lasso for alpha = 1.  As a
scale mixture, beta_j | omega_j ~ N(0, nu^2 s_j^2 omega_j).  nu is known or vartheta = nu^-alpha
~ Gamma(a, rate b).  Columns not penalised have a known precision ``pi0``, zero if flat.

Variational Bayes (derived here; in neither paper).  With q(theta) q(omega, vartheta),

    log q(omega, vartheta) = E_theta log p(beta, omega, vartheta) + const,

in which beta_j occurs only as beta_j^2, so that E_theta replaces it by m_j = E[beta_j^2].
Integrating omega out of a density in beta_j^2 gives the bridge density again, at sqrt(m_j):

    q(vartheta) propto Gamma(vartheta; a, b) vartheta^(k/alpha) exp(-vartheta S)
                = Gamma(a + k/alpha, b + S),   S = sum_j (m_j / s_j^2)^(alpha/2),

with no approximation beyond the factorisation of theta from the rest.  Given vartheta, q(omega_j)
is the posterior of omega_j at |beta_j| = sqrt(m_j): for alpha = 1, 1/omega_j is inverse Gaussian
of mean s_j / (vartheta sqrt(m_j)) and shape 1.  In general E[1/omega_j | vartheta, beta_j] =
alpha |beta_j / (nu s_j)|^(alpha - 2), so the precision that q(theta) needs is

    pi_j = E[nu^-2 / omega_j] / s_j^2 = alpha E[vartheta] m_j^(alpha/2 - 1) / s_j^alpha,

the E-step of EM with beta_j^2 replaced by its second moment.  (Factorising vartheta from omega as
well would give a worse bound, and q(vartheta) with vartheta^2 in its exponent.)  Right after that
update its share of the bound is the log of the normalising constant,

    F = log int p(vartheta) prod_j p(sqrt(m_j) | vartheta) dvartheta
      = -sum_j log{2 s_j Gamma(1 + 1/alpha)} + a log b - log Gamma(a) + log Gamma(a + k/alpha)
        - (a + k/alpha) log(b + S),

and for known nu F = sum_j log p(sqrt(m_j) | nu).  At a point q(theta), m_j = beta_j^2, this is
the log prior itself: VB is EM with both hinge and penalty smoothed by the posterior variance.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from .luts import LOG2PI, entropy, update_a, update_theta
from .polson import e_step, m_step, residual


class Step(NamedTuple):
    beta: np.ndarray
    w: np.ndarray  # the weights that gave beta
    pi: np.ndarray  # the precisions that gave beta
    vartheta: float  # nu^-alpha after the step
    objective: float  # the smoothed objective at beta (and vartheta)


class Sweep(NamedTuple):
    mu: np.ndarray
    Sigma: np.ndarray
    w: np.ndarray
    pi: np.ndarray  # E[precision] of each coefficient, after the sweep
    vartheta: float  # E[nu^-alpha]
    rate: float  # of q(vartheta); nan if nu is known
    elbo: float


# EM and ECME


def penalty_precision(square, vartheta, alpha, s):
    """E[precision of beta_j]; ``square`` is beta_j^2 smoothed (EM) or E[beta_j^2] (VB)."""
    return alpha * vartheta * square ** (alpha / 2 - 1) / s**alpha


def smoothed_square(beta, nu, alpha, s, eps):
    """beta_j^2 + (eps nu s_j)^2 for alpha < 2; the ridge penalty is smooth and left alone."""
    return beta**2 + ((eps * nu * s) ** 2 if alpha < 2 else 0.0)


def objective(beta, X, y, c, penalised, nu, alpha, s, pi0=0.0):
    """J = 2 sum c u+ + sum |beta_j / (nu s_j)|^alpha, and 1/2 pi0 beta_j^2 elsewhere."""
    value = 2 * (c * np.maximum(0, residual(beta, X, y))).sum()
    value += (np.abs(beta / (nu * s))[penalised] ** alpha).sum()
    return value + (pi0 * beta[~penalised] ** 2).sum() / 2


def smoothed_objective(beta, X, y, c, penalised, nu, alpha, s, eps, pi0=0.0):
    """J_eps: 0 <= J_eps - J <= eps sum c + (number penalised) eps^alpha."""
    u = residual(beta, X, y)
    value = (c * (u + np.sqrt(u**2 + eps**2))).sum()
    square = smoothed_square(beta, nu, alpha, s, eps)
    value += ((square / (nu * s) ** 2)[penalised] ** (alpha / 2)).sum()
    return value + (pi0 * beta[~penalised] ** 2).sum() / 2


def ridge_start(X, y, c, penalised, nu, s, pi0=0.0):
    """Where EM begins: w = 1 and the ridge precision 2 / (nu s_j)^2.  (Zero is a fixed point.)"""
    pi = np.where(penalised, 2 / (nu * s) ** 2, pi0)
    return m_step(np.zeros(X.shape[1]), X, y, c, pi, np.where(c > 0, 1.0, 0.0))


def em_history(X, y, penalised, nu, alpha, eps, s=1.0, pi0=0.0, c=None, beta=None, steps=200):
    """EM at fixed eps and nu: list of ``Step``, the first of them the start."""
    (n, K), penalised = X.shape, np.asarray(penalised, bool)
    c = np.ones(n) if c is None else np.asarray(c, float)
    s = np.broadcast_to(np.asarray(s, float), K)
    beta = ridge_start(X, y, c, penalised, nu, s, pi0) if beta is None else beta

    def value(beta):
        return smoothed_objective(beta, X, y, c, penalised, nu, alpha, s, eps, pi0)

    history = [Step(beta, np.empty(0), np.empty(0), nu**-alpha, value(beta))]
    for _ in range(steps):
        w = e_step(beta, X, y, c, eps)
        square = smoothed_square(beta, nu, alpha, s, eps)
        pi = np.where(penalised, penalty_precision(square, nu**-alpha, alpha, s), pi0)
        beta = m_step(beta, X, y, c, pi, w)
        history.append(Step(beta, w, pi, nu**-alpha, value(beta)))
    return history


def ecme_vartheta(beta, penalised, alpha, s, a, b, eps_nu=0.0):
    """CME-step: mode of vartheta = nu^-alpha given beta ((P) section 3.3 prints its reciprocal).

    ``eps_nu`` is eps nu, the smoothing, held fixed in this step.
    """
    k = int(np.sum(penalised))
    square = (beta**2 + (eps_nu * s) ** 2)[penalised]
    return (k / alpha + a - 1) / (b + (square ** (alpha / 2) / s[penalised] ** alpha).sum())


def ecme_objective(beta, vartheta, X, y, c, penalised, alpha, s, a, b, pi0=0.0):
    """2 sum c u+ + vartheta (b + sum |beta_j/s_j|^alpha) - (k/alpha + a - 1) log vartheta."""
    k, nu = int(np.sum(penalised)), vartheta ** (-1 / alpha)
    value = objective(beta, X, y, c, penalised, nu, alpha, s, pi0)
    return value - (k / alpha + a - 1) * np.log(vartheta) + b * vartheta


def ecme_history(
    X, y, penalised, alpha, a, b, delta, s=1.0, pi0=0.0, c=None, nu=1.0, beta=None, steps=300
):
    """ECME: E-, CM- and CME-step: list of ``Step``.

    The smoothing of the penalty is delta s_j in beta_j, the same at every nu, for then one
    objective falls in both steps; at a fixed nu it is that of EM with delta = eps nu.  The rows
    are smoothed by delta.
    """
    (n, K), penalised = X.shape, np.asarray(penalised, bool)
    c = np.ones(n) if c is None else np.asarray(c, float)
    s = np.broadcast_to(np.asarray(s, float), K)
    k, vartheta = int(penalised.sum()), nu**-alpha
    beta = ridge_start(X, y, c, penalised, nu, s, pi0) if beta is None else beta
    smooth = (delta * s) ** 2 if alpha < 2 else np.zeros(K)

    def value(beta, vartheta):
        u = residual(beta, X, y)
        total = (c * (u + np.sqrt(u**2 + delta**2))).sum()
        total += (pi0 * beta[~penalised] ** 2).sum() / 2
        penalty = ((beta**2 + smooth)[penalised] ** (alpha / 2) / s[penalised] ** alpha).sum()
        return total + vartheta * (penalty + b) - (k / alpha + a - 1) * np.log(vartheta)

    history = [Step(beta, np.empty(0), np.empty(0), vartheta, value(beta, vartheta))]
    for _ in range(steps):
        w = e_step(beta, X, y, c, delta)
        pi = np.where(penalised, penalty_precision(beta**2 + smooth, vartheta, alpha, s), pi0)
        beta = m_step(beta, X, y, c, pi, w)
        vartheta = ecme_vartheta(beta, penalised, alpha, s, a, b, delta if alpha < 2 else 0.0)
        history.append(Step(beta, w, pi, vartheta, value(beta, vartheta)))
    return history


# Variational Bayes


def bound_term(second, alpha, s, nu=None, a=None, b=None):
    """F of the module's docstring: the penalised coefficients' share of the bound."""
    scaled = (second / s**2) ** (alpha / 2)
    k = len(second)
    if nu is not None:
        return -(np.log(2 * nu * s) + gammaln(1 + 1 / alpha) + scaled / nu**alpha).sum()
    value = -(np.log(2 * s) + gammaln(1 + 1 / alpha)).sum()
    value += a * np.log(b) - gammaln(a) + gammaln(a + k / alpha)
    return value - (a + k / alpha) * np.log(b + scaled.sum())


def vb_history(
    X, y, penalised, alpha=1.0, s=1.0, nu=None, a=None, b=None, pi0=1.0, c=None, sweeps=500
):
    """Variational Bayes, sweep by sweep: theta, a, then (omega, vartheta); list of ``Sweep``.

    Started from w = 1 and unit precisions.  Give nu, or a and b.  ``pi0`` > 0 is the prior
    precision of the columns not penalised.
    """
    (n, K), penalised = X.shape, np.asarray(penalised, bool)
    c = np.ones(n) if c is None else np.asarray(c, float)
    s = np.broadcast_to(np.asarray(s, float), K)[penalised]
    k, m0 = int(penalised.sum()), np.zeros(K)
    w = np.where(c > 0, 1.0, 0.0)
    pi = np.where(penalised, 1.0, pi0)
    history = []
    for _ in range(sweeps):
        mu, Sigma = update_theta(X, y, c, w, np.diag(pi), m0)
        ubar, chi, w = update_a(X, y, c, mu, Sigma)
        second = mu**2 + np.diag(Sigma)
        rate = np.nan
        vartheta = None if nu is None else nu**-alpha
        if nu is None:
            rate = b + ((second[penalised] / s**2) ** (alpha / 2)).sum()
            vartheta = (a + k / alpha) / rate
        pi = np.full(K, float(pi0))
        pi[penalised] = penalty_precision(second[penalised], vartheta, alpha, s)
        elbo = -(c * (ubar + np.sqrt(chi))).sum() + entropy(Sigma)
        elbo += bound_term(second[penalised], alpha, s, nu, a, b)
        elbo += ((np.log(pi0) - LOG2PI) - pi0 * second[~penalised]).sum() / 2
        history.append(Sweep(mu, Sigma, w, pi, vartheta, rate, float(elbo)))
    return history
