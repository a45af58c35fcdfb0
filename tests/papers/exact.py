"""Answers by quadrature for the problems with two coefficients, f = b0 + u x.

The integrand is exp(-2 sum c_i max(0, 1 - y_i (b0 + u x_i))) times the prior.  It is
analytic except on the lines b0 = y_i - u x_i, so the plane is cut along them: at each
u the panels in b0 end on the lines, and the panels in u end where two lines cross.
Gauss-Legendre on each panel then reaches a relative accuracy of about 1e-11 (the tests
compare two numbers of nodes), which a grid that ignores the kinks would not.
"""

import itertools
from typing import NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.special import digamma, exp1, gammaln, log_ndtr, logsumexp

LOG2PI = np.log(2 * np.pi)


class Posterior(NamedTuple):
    """Quadrature nodes, and the log of (weight x prior x likelihood) at each."""

    b0: np.ndarray
    u: np.ndarray
    logp: np.ndarray

    @property
    def log_evidence(self):
        return float(logsumexp(self.logp))

    def mean(self, g):
        """Posterior mean of g(b0, u)."""
        probability = np.exp(self.logp - self.log_evidence)
        return float((probability * g(self.b0, self.u)).sum())


def panels(edges, nodes):
    """Gauss-Legendre nodes and weights on the intervals between ``edges`` (last axis)."""
    z, weight = np.polynomial.legendre.leggauss(nodes)
    left, right = edges[..., :-1, None], edges[..., 1:, None]
    points = (left + right) / 2 + (right - left) / 2 * z
    weights = (right - left) / 2 * weight
    flat = edges.shape[:-1] + (-1,)
    return points.reshape(flat), weights.reshape(flat)


def geometric_edges(centre, smallest, largest, ratio=1.3):
    """centre and centre +- smallest * ratio^k, up to +- largest."""
    steps = int(np.ceil(np.log(largest / smallest) / np.log(ratio))) + 1
    side = np.geomspace(smallest, largest, steps)
    return np.concatenate([centre - side[::-1], [centre], centre + side])


def integrate(x, y, c, log_prior, b_edges, u_edges, nodes=12):
    """Posterior of (b0, u) under ``log_prior(b0, u)``, within the outermost edges."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    c = np.ones(len(y)) if c is None else np.asarray(c, float)
    i, j = np.nonzero(x[:, None] != x[None, :])
    crossings = (y[i] - y[j]) / (x[i] - x[j])
    crossings = crossings[(crossings > u_edges[0]) & (crossings < u_edges[-1])]
    u, u_weight = panels(np.unique(np.concatenate([u_edges, crossings])), nodes)
    lines = np.clip(y - u[:, None] * x, b_edges[0], b_edges[-1])
    edges = np.hstack([np.tile(b_edges, (len(u), 1)), lines])
    b0, b_weight = panels(np.sort(edges, axis=1), nodes)
    u = np.broadcast_to(u[:, None], b0.shape)
    weight = u_weight[:, None] * b_weight
    keep = weight > 0  # lines outside the range, or equal, leave panels of width zero
    b0, u, weight = b0[keep], u[keep], weight[keep]
    logp = np.log(weight) + log_prior(b0, u)
    for xi, yi, ci in zip(x, y, c):
        logp -= 2 * ci * np.maximum(0, 1 - yi * (b0 + u * xi))
    return Posterior(b0, u, logp)


def fixed_prior(x, y, P=None, m0=(0.0, 0.0), c=None, nodes=12):
    """Model of (L) Algorithm 1: (b0, u) ~ N(m0, P^-1), P positive definite, default I."""
    P = np.eye(2) if P is None else np.asarray(P, float)
    sd = np.sqrt(np.diag(np.linalg.inv(P)))
    logdet = np.linalg.slogdet(P)[1]

    def log_prior(b0, u):
        d, e = b0 - m0[0], u - m0[1]
        quadratic = P[0, 0] * d**2 + 2 * P[0, 1] * d * e + P[1, 1] * e**2
        return -LOG2PI + logdet / 2 - quadratic / 2

    b_edges = geometric_edges(m0[0], min(0.25, 0.25 * sd[0]), 12 * sd[0])
    u_edges = geometric_edges(m0[1], min(0.25, 0.25 * sd[1]), 12 * sd[1])
    if u_edges[0] < 0 < u_edges[-1]:
        u_edges = np.unique(np.append(u_edges, 0.0))  # so that P(u > 0) is exact too
    return integrate(x, y, c, log_prior, b_edges, u_edges, nodes)


def log_slope_ig(u, A, B):
    """log density of u, u | s2 ~ N(0, s2), s2 ~ IG(A, B): Student t of 2A degrees."""
    constant = gammaln(A + 0.5) - gammaln(A) + A * np.log(B) - LOG2PI / 2
    return constant - (A + 0.5) * np.log(B + u**2 / 2)


def scaled_exp1(z):
    """F(z) = exp(z) E1(z), z > 0, by its asymptotic series from z = 50 on."""
    z = np.asarray(z, float)
    near = np.minimum(z, 50.0)
    far = np.maximum(z, 50.0)
    term, total = 1 / far, 1 / far
    for k in range(1, 16):
        term = -term * k / far
        total = total + term
    return np.where(z < 50, np.exp(near) * exp1(near), total)


def log_slope_half_cauchy(u, s0):
    """log density of u, u | s ~ N(0, s^2), s ~ half-Cauchy(s0) (the horseshoe marginal)."""
    z = u**2 / (2 * s0**2)
    return np.log(scaled_exp1(z)) - np.log(s0) - 0.5 * np.log(2 * np.pi**3)


def log_slope_by_quadrature(u, log_prior_s):
    """log of the integral of N(u; 0, s^2) over the density of s: adaptive, one u."""

    def integrand(t):
        s = np.exp(t)
        return np.exp(-0.5 * LOG2PI - t - u**2 / (2 * s**2) + log_prior_s(s) + t)

    pieces = [quad(integrand, a, a + 2, epsabs=0, epsrel=1e-12)[0] for a in range(-30, 30, 2)]
    return float(np.log(sum(pieces)))


def variance_prior(x, y, var_b0, A=None, B=None, s0=None, c=None, u_max=1e4, nodes=12):
    """Model of (L) Algorithm 2: b0 ~ N(0, var_b0), u ~ N(0, s2), s2 integrated out.

    Give A and B (s2 inverse gamma) or s0 (sqrt(s2) half-Cauchy).  The half-Cauchy
    density of u has a logarithmic peak at 0, hence panels shrinking towards it.
    """
    sd = np.sqrt(var_b0)

    def log_prior(b0, u):
        log_u = log_slope_ig(u, A, B) if s0 is None else log_slope_half_cauchy(u, s0)
        return -LOG2PI / 2 - np.log(sd) - b0**2 / (2 * var_b0) + log_u

    b_edges = geometric_edges(0.0, min(0.25, 0.25 * sd), 12 * sd)
    u_edges = geometric_edges(0.0, 0.1, u_max)
    if s0 is not None:
        u_edges = np.unique(np.append(u_edges, geometric_edges(0.0, 1e-13, 0.1, ratio=4)))
    return integrate(x, y, c, log_prior, b_edges, u_edges, nodes)


def precision_given_slope(u, A, B):
    """E[1/s2 | u] under IG(A, B).  (Under a half-Cauchy, E[1/s2 | y] is infinite.)"""
    return (A + 0.5) / (B + u**2 / 2)


def log_variance_given_slope(u, A, B):
    """E[log s2 | u] under IG(A, B)."""
    return np.log(B + u**2 / 2) - digamma(A + 0.5)


def shrinkage_given_slope(u, s0):
    """E[1 / (1 + s2 / s0^2) | u] under half-Cauchy(s0): 1 + z - 1/F(z)."""
    z = u**2 / (2 * s0**2)
    return 1 + z - 1 / scaled_exp1(z)


# The identity behind everything, and the class probabilities


def hinge_mixture(u, c):
    """Right side of exp(-2 c max(0, u)) = int c (2 pi a)^(-1/2) exp{-(u + c a)^2 / 2a} da.

    (P) Theorem 1, eq. 4 (there c = 1).  Returns the integral and E[1/a | u] (which is c / |u|;
    infinite at u = 0).  Substituting a = t^2 removes the singularity at 0.
    """

    def density(t):
        return 2 * c / np.sqrt(2 * np.pi) * np.exp(-((u / t + c * t) ** 2) / 2)

    peak = np.sqrt(max(abs(u), 1e-3) / c)
    cuts = [0, peak / 4, peak, 4 * peak, 4 * peak + 10 / c, 4 * peak + 60 / c]
    options = {"epsabs": 1e-15, "epsrel": 1e-12}
    pairs = list(itertools.pairwise(cuts))
    total = sum(quad(density, a, b, **options)[0] for a, b in pairs)
    if u == 0:
        return total, np.inf
    inverse = sum(quad(lambda t: density(t) / t**2, a, b, **options)[0] for a, b in pairs)
    return total, inverse / total


def log_mean_likelihood(m, s, y, c=1.0):
    """log E exp(-2 c max(0, 1 - y f)), f ~ N(m, s^2), closed form."""
    mu = 1 - y * m
    inside = log_ndtr(-mu / s)
    outside = -2 * c * mu + 2 * c**2 * s**2 + log_ndtr((mu - 2 * c * s**2) / s)
    return np.logaddexp(inside, outside)


def log_mean_likelihood_by_quadrature(m, s, y, c=1.0):
    """The same by Gauss-Legendre, cut at the kink f = y."""
    edges = np.linspace(m - 12 * s - 4 * c * s**2, m + 12 * s + 4 * c * s**2, 200)
    f, weight = panels(np.unique(np.append(edges, y)), 20)
    logp = -LOG2PI / 2 - np.log(s) - (f - m) ** 2 / (2 * s**2)
    return float(logsumexp(logp - 2 * c * np.maximum(0, 1 - y * f), b=weight))


def predictive_probability(m, s, c=1.0):
    """P(y = +1) of the pseudo-model, normalised over the two labels."""
    plus, minus = log_mean_likelihood(m, s, 1.0, c), log_mean_likelihood(m, s, -1.0, c)
    return 1 / (1 + np.exp(minus - plus))
