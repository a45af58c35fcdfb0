"""Answers by quadrature under the bridge, Laplace-zero and spike-and-slab priors.

Two coefficients go through ``exact.integrate``; the priors are peaked at zero, hence panels that
end there.  Spike-and-slab models are enumerated, each of at most three coefficients: the last is
cut at the kinks of the hinge, after which the integrand is smooth in the others.
"""

import itertools
from typing import NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.special import betaln, gammaln, logsumexp

from .exact import LOG2PI, geometric_edges, integrate, panels


def log_bridge(z, alpha, scale):
    """log density 1 / (2 scale Gamma(1 + 1/alpha)) exp(-|z / scale|^alpha), (P) eq. 5 corrected."""
    return -np.log(2 * scale) - gammaln(1 + 1 / alpha) - np.abs(z / scale) ** alpha


def log_bridge_marginal(z, alpha, s, a, b):
    """log p(z_1, ..., z_k), z_j bridge of scale nu s_j, nu^-alpha ~ Gamma(a, b) integrated out.

    ``z`` has the coefficients along the last axis.  With theta = nu^-alpha,
    int theta^(k/alpha) exp(-theta sum |z_j/s_j|^alpha) Gamma(theta; a, b) dtheta.
    """
    s = np.broadcast_to(np.asarray(s, float), np.shape(z)[-1:])
    k = len(s)
    constant = -np.log(2 * s).sum() - k * gammaln(1 + 1 / alpha)
    constant += a * np.log(b) - gammaln(a) + gammaln(a + k / alpha)
    return constant - (a + k / alpha) * np.log(b + (np.abs(z / s) ** alpha).sum(-1))


def precision_mean(z, alpha, s, a, b):
    """E[nu^-alpha | z] under the prior of ``log_bridge_marginal``."""
    k = np.shape(z)[-1]
    return (a + k / alpha) / (b + (np.abs(z / s) ** alpha).sum(-1))


def bridge_edges(reach, smallest=0.05):
    """Panels ending at zero; for alpha other than 1 and 2 they must shrink towards it."""
    return geometric_edges(0.0, smallest, reach, ratio=1.6)


def bridge_pair(x, y, log_prior, c=None, reach=60.0, smallest=0.05, nodes=10):
    """``exact.Posterior`` of (b0, u) under any ``log_prior`` that peaks at zero."""
    edges = bridge_edges(reach, smallest)
    return integrate(x, y, c, log_prior, edges, edges, nodes)


def lasso_both(x, y, s, a, b, c=None, nodes=10):
    """Both coefficients lasso of scales nu s_j, 1/nu ~ Gamma(a, b)."""
    return bridge_pair(
        x, y, lambda b0, u: log_bridge_marginal(np.stack([b0, u], -1), 1.0, s, a, b), c, nodes=nodes
    )


class Alpha(NamedTuple):
    """Answers with alpha uniform on (low, high): of the data, and of the exponent."""

    log_evidence: float
    alpha: float
    beta: np.ndarray
    beta2: np.ndarray


def bridge_unknown_alpha(x, y, nu, low=0.15, high=2.0, c=None, outer=16, nodes=8):
    """Both coefficients bridge of scale nu and one exponent, uniform on (low, high)."""
    alphas, weight = panels(np.array([low, high]), outer)
    logs, firsts, seconds = [], [], []
    for alpha in alphas:
        posterior = bridge_pair(
            x,
            y,
            lambda b0, u, alpha=alpha: log_bridge(b0, alpha, nu) + log_bridge(u, alpha, nu),
            c,
            smallest=1e-5,
            nodes=nodes,
        )
        logs.append(posterior.log_evidence)
        firsts.append([posterior.mean(lambda b0, u: b0), posterior.mean(lambda b0, u: u)])
        seconds.append([posterior.mean(lambda b0, u: b0**2), posterior.mean(lambda b0, u: u**2)])
    logs = np.array(logs) + np.log(weight / (high - low))
    total = logsumexp(logs)
    p = np.exp(logs - total)
    return Alpha(float(total), float(p @ alphas), p @ np.array(firsts), p @ np.array(seconds))


# Laplace-zero, one gated slope


def log_laplace_ig(v, A, B):
    """log density of v, v | sigma^2 Laplace of scale sigma, sigma^2 ~ IG(A, B).

    With t = 1/sigma: B^A / Gamma(A) int t^2A exp(-|v| t - B t^2) dt.  Gauss-Legendre around the
    peak of the integrand, whose curvature in t is at least 2 B.
    """
    shape = np.shape(v)
    v, back = np.unique(np.abs(np.ravel(v)), return_inverse=True)
    peak = 4 * A / (v + np.sqrt(v**2 + 16 * A * B))
    width = 1 / np.sqrt(2 * A / peak**2 + 2 * B)
    edges = np.linspace(np.maximum(peak - 14 * width, 0), peak + 14 * width, 15, axis=-1)
    edges = np.maximum(edges, 0)
    edges[:, 0] = 0
    t, weight = panels(edges, 16)
    with np.errstate(divide="ignore"):
        inside = 2 * A * np.log(t) - v[:, None] * t - B * t**2
    value = logsumexp(inside, b=weight, axis=-1) + A * np.log(B) - gammaln(A)
    return value[back].reshape(shape)


def log_laplace_ig_by_quadrature(v, A, B):
    """The same, adaptively, at one v."""
    total = quad(
        lambda t: t ** (2 * A) * np.exp(-abs(v) * t - B * t**2), 0, np.inf, epsabs=0, epsrel=1e-11
    )[0]
    return np.log(total) + A * np.log(B) - gammaln(A)


class LaplaceZero(NamedTuple):
    log_evidence: float
    inclusion: float  # P(gamma = 1 | y)
    b0: float  # E[b0]
    slope: float  # E[gamma v]
    slope2: float  # E[gamma v^2]
    positive: float  # P(v > 0 | gamma = 1, y)


def laplace_zero(x, y, var_b0, rho, A, B, c=None, nodes=10):
    """b0 ~ N(0, var_b0), f = b0 + gamma v x: both values of gamma by quadrature."""
    c = np.ones(len(y)) if c is None else np.asarray(c, float)

    def log_b0(b0):
        return -LOG2PI / 2 - np.log(var_b0) / 2 - b0**2 / (2 * var_b0)

    sd = np.sqrt(var_b0)
    edges = geometric_edges(0.0, min(0.25, 0.25 * sd), 12 * sd)
    inside = integrate(
        x,
        y,
        c,
        lambda b0, u: log_b0(b0) + log_laplace_ig(u, A, B),
        edges,
        bridge_edges(1e3),
        nodes,
    )
    b0, weight = panels(np.unique(np.concatenate([edges, y])), nodes)
    loglik = -2 * (c[:, None] * np.maximum(0, 1 - y[:, None] * b0)).sum(0)
    outside = log_b0(b0) + loglik + np.log(weight)
    logs = np.array([np.log(rho) + inside.log_evidence, np.log1p(-rho) + logsumexp(outside)])
    inclusion = float(np.exp(logs[0] - logsumexp(logs)))
    b0_mean = inclusion * inside.mean(lambda b0, u: b0)
    b0_mean += (1 - inclusion) * (np.exp(outside - logsumexp(outside)) @ b0)
    return LaplaceZero(
        float(logsumexp(logs)),
        inclusion,
        float(b0_mean),
        inclusion * inside.mean(lambda b0, u: u),
        inclusion * inside.mean(lambda b0, u: u**2),
        inside.mean(lambda b0, u: u > 0),
    )


# Spike and slab, all models


def gaussian_slab(precision):
    """log prior of the included coefficients, independent N(0, 1 / precision_j)."""
    precision = np.asarray(precision, float)

    def log_prior(beta, columns):
        q = precision[list(columns)]
        return (np.log(q) - LOG2PI).sum() / 2 - (q * beta**2).sum(-1) / 2

    return log_prior


def student_slab(s, A, B, always=(), always_precision=1.0):
    """The same with precision 1 / (nu s_j)^2, nu^2 ~ IG(A, B) integrated out.

    The columns in ``always`` have their own known precision and tell nothing of nu.
    """
    s = np.asarray(s, float)

    def log_prior(beta, columns):
        own = np.array([j in always for j in columns], bool)
        k = int((~own).sum())
        slab = s[list(columns)][~own]
        value = (own.sum() / 2) * (np.log(always_precision) - LOG2PI)
        value = value - always_precision * (beta[..., own] ** 2).sum(-1) / 2
        value = value + A * np.log(B) - gammaln(A) + gammaln(A + k / 2) - k / 2 * LOG2PI
        value = value - np.log(slab).sum()
        return value - (A + k / 2) * np.log(B + ((beta[..., ~own] / slab) ** 2).sum(-1) / 2)

    return log_prior


def bernoulli_model(pi):
    """log P(gamma), gamma_j ~ Bernoulli(pi_j); pi_j = 1 forces j in."""
    pi = np.asarray(pi, float)

    def log_prior(gamma):
        with np.errstate(divide="ignore"):
            return float(np.where(gamma, np.log(pi), np.log1p(-pi)).sum())

    return log_prior


def beta_model(a, b, always=()):
    """log P(gamma), gamma_j ~ Bernoulli(pi), pi ~ Beta(a, b) integrated out."""

    def log_prior(gamma):
        free = np.array([j not in always for j in range(len(gamma))])
        if not np.all(np.asarray(gamma)[~free]):
            return -np.inf
        k, size = int(free.sum()), int(np.asarray(gamma)[free].sum())
        return betaln(a + size, b + k - size) - betaln(a, b)

    return log_prior


def log_evidence(X, y, c, columns, log_slab, reach=12.0, nodes=5, ratio=1.5):
    """log p(y | gamma) and E[beta | gamma, y], E[beta^2 | ...], ``columns`` those with gamma = 1.

    Each of the first coefficients runs over fixed panels, the last over panels that also end at
    the kinks beta = (1 - y_i f_i) / (y_i x_i) of the rows.
    """
    k = len(columns)
    Xs = y[:, None] * X[:, list(columns)]
    edges = geometric_edges(0.0, 0.25, reach, ratio)
    if k == 0:
        return -2 * float(c.sum()), np.zeros(0), np.zeros(0)
    point, weight = panels(edges, nodes)
    outer = np.array(list(itertools.product(point, repeat=k - 1)))
    outer_weight = np.array([np.prod(w) for w in itertools.product(weight, repeat=k - 1)])
    last = Xs[:, -1]
    moving = last != 0
    kinks = (1 - outer @ Xs[moving, :-1].T) / last[moving]
    ends = np.hstack([np.tile(edges, (len(outer), 1)), np.clip(kinks, edges[0], edges[-1])])
    inner, inner_weight = panels(np.sort(ends, axis=1), nodes)
    beta = np.concatenate(
        [np.broadcast_to(outer[:, None, :], inner.shape + (k - 1,)), inner[..., None]], axis=-1
    )
    logp = log_slab(beta, columns)
    for row, ci in zip(Xs, c):
        logp = logp - 2 * ci * np.maximum(0, 1 - beta @ row)
    total = outer_weight[:, None] * inner_weight
    value = logsumexp(logp, b=total)
    p = total * np.exp(logp - value)
    first, second = (np.einsum("ij,ijk->k", p, beta**power) for power in (1, 2))
    return float(value), first, second


class Models(NamedTuple):
    gamma: np.ndarray  # models x columns
    probability: np.ndarray  # models
    inclusion: np.ndarray  # columns
    beta: np.ndarray  # E[beta], averaged over models
    beta2: np.ndarray
    log_evidence: float


def enumerate_models(X, y, log_slab, log_model, c=None, **quadrature):
    """Every subset of the columns of ``X``: ``Models``."""
    n, K = X.shape
    c = np.ones(n) if c is None else np.asarray(c, float)
    gammas = np.array(list(itertools.product([False, True], repeat=K)))
    logs = np.full(len(gammas), -np.inf)
    first, second = np.zeros((len(gammas), K)), np.zeros((len(gammas), K))
    for i, gamma in enumerate(gammas):
        prior = log_model(gamma)
        if prior == -np.inf:
            continue
        columns = tuple(np.flatnonzero(gamma))
        value, m1, m2 = log_evidence(X, y, c, columns, log_slab, **quadrature)
        logs[i], first[i, gamma], second[i, gamma] = prior + value, m1, m2
    total = logsumexp(logs)
    p = np.exp(logs - total)
    return Models(gammas, p, p @ gammas, p @ first, p @ second, float(total))
