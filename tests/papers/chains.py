"""Many Gibbs chains side by side, for the small problems whose answers quadrature gives.

The first axis is the chain.  Chains are independent, so that a z-score needs no estimate of
autocorrelation: the mean of each chain is one observation.

``bridge``: (P) section 4.1 with the steps in the order that leaves the posterior invariant, or as
printed.  ``spike_slab``: (P) section 4.2.  ``laplace_zero``: (L) Appendix B, collapsed: gamma is
drawn with (beta, v) integrated out, and excluded v_k are not needed.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln, logit

from .gibbs import W_MAX, inverse_gaussian


def draw_w(u, c, rng):
    """1/a_i | theta ~ inverse Gaussian(c_i / |u_i|, c_i^2), chains x rows, all c > 0."""
    return np.minimum(inverse_gaussian(np.abs(u) / c, c**2, rng), W_MAX)


def statistics(X, y, c, w):
    """G = X'WX and h = X'((c + w) y) of every chain."""
    return np.einsum("ij,ti,ik->tjk", X, w, X), np.einsum("ij,ti->tj", X, (c + w) * y)


def draw_gaussian(Q, h, rng):
    """theta ~ N(Q^-1 h, Q^-1) for every chain, and Q^-1 h."""
    scale = 1 / np.sqrt(np.einsum("tjj->tj", Q))
    L = np.linalg.cholesky(scale[:, :, None] * Q * scale[:, None, :])
    LT = np.swapaxes(L, 1, 2)
    half = np.linalg.solve(L, (scale * h)[..., None])
    noise = rng.standard_normal(half.shape)
    mean = scale * np.linalg.solve(LT, half)[..., 0]
    return mean + scale * np.linalg.solve(LT, noise)[..., 0], mean


def z_score(draws, expected):
    """(mean - expected) / standard error, ``draws`` being sweeps x chains (x anything)."""
    means = np.asarray(draws, float).mean(axis=0)
    return (means.mean(0) - expected) / (means.std(0, ddof=1) / np.sqrt(len(means)))


# The bridge prior


def tilted_stable(z, alpha, rng):
    """T of density proportional to exp(-z^2 T) times the positive stable law of index alpha/2.

    The law of the stable T_0 is E exp(-t T_0) = exp(-t^(alpha/2)).  T is the sum of N
    independent terms N^(-2/alpha) T_0, each tilted by rejection: accepted with probability
    exp(-z^2 term), which is exp(-|z|^alpha / N) on average, at least 1/e for N >= |z|^alpha.
    T_0 is Kanter's (1975) form, in logs.  ``alpha`` may vary along with ``z``.
    """
    z, alpha = np.broadcast_arrays(np.abs(np.asarray(z, float)), np.asarray(alpha, float))
    shape, z, h = z.shape, z.ravel(), alpha.ravel() / 2
    terms = np.maximum(1, np.ceil(z ** (2 * h))).astype(int)
    owner = np.repeat(np.arange(len(z)), terms)
    total = np.zeros(len(z))
    while len(owner):
        hh, N = h[owner], terms[owner]
        U, E = rng.uniform(0, np.pi, len(owner)), rng.exponential(size=len(owner))
        log_t = np.log(np.sin(hh * U)) - np.log(np.sin(U)) / hh
        log_t += (1 - hh) / hh * (np.log(np.sin((1 - hh) * U)) - np.log(E))
        t = np.exp(np.minimum(log_t - np.log(N) / hh, 700.0))
        accept = -np.log(rng.random(len(owner))) >= z[owner] ** 2 * t
        np.add.at(total, owner[accept], t[accept])
        owner = owner[~accept]
    return total.reshape(shape)


def draw_omega_inverse(z, alpha, rng):
    """1/omega_j | beta_j, z = beta_j / (nu s_j): E = alpha |z|^(alpha - 2).

    alpha = 2: the constant 2 ((P) has 1).  alpha = 1: inverse Gaussian(1/|z|, 1).  Otherwise 2T.
    """
    if np.ndim(alpha) == 0 and alpha == 2:
        return np.full(np.shape(z), 2.0)
    if np.ndim(alpha) == 0 and alpha == 1:
        return inverse_gaussian(np.abs(z), 1.0, rng)
    return 2 * tilted_stable(z, alpha, rng)


def slice_bounded(log_density, x, low, high, rng):
    """Slice update on (low, high), every chain: the bracket starts whole and shrinks to x."""
    level = log_density(x) - rng.exponential(size=x.shape)
    left, right = np.full(x.shape, low), np.full(x.shape, high)
    new, waiting = x.copy(), np.ones(x.shape, bool)
    while waiting.any():
        proposal = left + (right - left) * rng.random(x.shape)
        inside = waiting & (log_density(proposal) > level)
        new[inside] = proposal[inside]
        waiting &= ~inside
        below = proposal < x
        left = np.where(waiting & below, proposal, left)
        right = np.where(waiting & ~below, proposal, right)
    return new


class Bridge(NamedTuple):
    beta: np.ndarray  # sweeps x chains x columns
    vartheta: np.ndarray  # nu^-alpha, sweeps x chains
    alpha: np.ndarray  # sweeps x chains


def bridge(
    X, y, penalised, rng, sweeps, chains, s=1.0, alpha=1.0, nu=None, a=None, b=None, pi0=1.0,
    alpha_range=None, c=None, burn=100, printed_order=False,
):  # fmt: skip
    """(P) section 4.1.  Give nu, or a and b (vartheta = nu^-alpha ~ Gamma(a, rate b)).

    ``alpha_range``: alpha is uniform on it and drawn, nu being known.  Step 3 draws vartheta (and
    alpha) with omega integrated out, so omega must come between it and the next beta; as printed
    omega is drawn before vartheta, which changes the stationary law.
    """
    (n, K), penalised = X.shape, np.asarray(penalised, bool)
    c = np.ones(n) if c is None else np.asarray(c, float)
    s = np.broadcast_to(np.asarray(s, float), K)[penalised]
    k = int(penalised.sum())
    beta, alphas = np.zeros((chains, K)), np.full(chains, float(alpha))
    vartheta = np.full(chains, 1.0 if nu is None else float(nu) ** -alpha)
    inverse_omega = np.ones((chains, k))
    kept = Bridge(
        np.empty((sweeps, chains, K)), np.empty((sweeps, chains)), np.empty((sweeps, chains))
    )

    def nus():
        return np.full(chains, nu) if nu is not None else vartheta ** (-1 / alpha)

    def draw_omega():
        z = beta[:, penalised] / (nus()[:, None] * s)
        exponent = alpha if alpha_range is None else alphas[:, None]
        return draw_omega_inverse(z, exponent, rng)

    for sweep in range(-burn, sweeps):
        w = draw_w(1 - y * (beta @ X.T), c, rng)
        pi = np.full((chains, K), float(pi0))
        pi[:, penalised] = inverse_omega / (nus()[:, None] * s) ** 2
        G, h = statistics(X, y, c, w)
        beta, _ = draw_gaussian(G + pi[:, :, None] * np.eye(K), h, rng)
        if printed_order:
            inverse_omega = draw_omega()
        if nu is None:
            size = (np.abs(beta[:, penalised] / s) ** alpha).sum(1)
            vartheta = rng.gamma(a + k / alpha, size=chains) / (b + size)
        if alpha_range is not None:
            z = np.abs(beta[:, penalised]) / (nu * s)

            def log_density(al):
                return -k * gammaln(1 + 1 / al) - (z ** al[:, None]).sum(1)

            alphas = slice_bounded(log_density, alphas, *alpha_range, rng)
        if not printed_order:
            inverse_omega = draw_omega()
        if sweep >= 0:
            kept.beta[sweep], kept.vartheta[sweep], kept.alpha[sweep] = beta, vartheta, alphas
    return kept


# Selection


def masked(G, h, precision, gamma):
    """Q and h of the included columns; an excluded one is cut off: unit diagonal, h = 0."""
    on = gamma.astype(float)
    Q = G * on[:, :, None] * on[:, None, :]
    diagonal = np.where(gamma, precision, 1.0)
    return Q + diagonal[:, :, None] * np.eye(G.shape[1]), h * on


def log_model_evidence(G, h, precision, gamma):
    """log p(gamma | w) but for the prior of gamma, (P) eq. 17, of every chain."""
    Q, h = masked(G, h, precision, gamma)
    quadratic = np.einsum("tj,tj->t", h, np.linalg.solve(Q, h[..., None])[..., 0])
    logs = np.where(gamma, np.log(precision), 0.0).sum(1)
    return (logs - np.linalg.slogdet(Q)[1] + quadratic) / 2


def flip_log_odds(G, h, precision, gamma, j, logit_pi):
    """log odds of gamma_j = 1 given the other gamma and w, the coefficients integrated out."""
    others = gamma.copy()
    others[:, j] = False
    Q, h_A = masked(G, h, precision, others)
    g = G[:, j] * others
    solved = np.linalg.solve(Q, np.stack([g, h_A], -1))
    r = G[:, j, j] + precision[:, j] - np.einsum("tj,tj->t", g, solved[..., 0])
    e = h[:, j] - np.einsum("tj,tj->t", g, solved[..., 1])
    return logit_pi + np.log(precision[:, j] / r) / 2 + e**2 / (2 * r)


def draw_gamma(G, h, precision, gamma, free, logit_pi, rng):
    """One pass over the ``free`` columns in random order: gamma, and P(gamma_j = 1 | rest)."""
    gamma, chance = gamma.copy(), np.ones(gamma.shape)
    for j in rng.permutation(free):
        chance[:, j] = expit(flip_log_odds(G, h, precision, gamma, j, logit_pi[:, j]))
        gamma[:, j] = rng.random(len(gamma)) < chance[:, j]
    return gamma, chance


class Selection(NamedTuple):
    beta: np.ndarray  # sweeps x chains x columns, zero where excluded
    gamma: np.ndarray  # sweeps x chains x columns
    inclusion: np.ndarray  # P(gamma_j = 1 | rest) when it was drawn: averages to P(gamma_j = 1 | y)
    scale2: np.ndarray  # nu^2 or sigma^2, sweeps x chains
    pi: np.ndarray  # prior inclusion, sweeps x chains


def keep(sweeps, chains, K):
    cube = (sweeps, chains, K)
    return Selection(
        np.empty(cube), np.empty(cube, bool), np.empty(cube), np.empty(cube[:2]), np.empty(cube[:2])
    )


def store(kept, sweep, *values):
    if sweep >= 0:
        for array, value in zip(kept, values):
            array[sweep] = value


def spike_slab(
    X, y, rng, sweeps, chains, pi=0.5, s=1.0, nu=1.0, ig=None, beta_prior=None, always=(),
    always_precision=1.0, c=None, burn=100,
):  # fmt: skip
    """(P) section 4.2: slab N(0, (nu s_j)^2), nu known or nu^2 ~ IG(*ig); pi known or Beta.

    The columns in ``always`` are in every model with a known precision.
    """
    n, K = X.shape
    c = np.ones(n) if c is None else np.asarray(c, float)
    s = np.broadcast_to(np.asarray(s, float), K)
    own = np.isin(np.arange(K), always)
    free = np.flatnonzero(~own)
    beta, gamma = np.zeros((chains, K)), np.ones((chains, K), bool)
    nu2, prior = np.full(chains, float(nu) ** 2), np.full(chains, float(pi))
    kept = keep(sweeps, chains, K)
    for sweep in range(-burn, sweeps):
        w = draw_w(1 - y * (beta @ X.T), c, rng)
        G, h = statistics(X, y, c, w)
        precision = np.where(own, always_precision, 1 / (nu2[:, None] * s**2))
        logit_pi = np.broadcast_to(logit(prior)[:, None], (chains, K))
        gamma, chance = draw_gamma(G, h, precision, gamma, free, logit_pi, rng)
        Q, h_on = masked(G, h, precision, gamma)
        beta = np.where(gamma, draw_gaussian(Q, h_on, rng)[0], 0.0)
        size = gamma[:, free].sum(1)
        if ig is not None:
            S = ((beta / s)[:, free] ** 2).sum(1)
            nu2 = (ig[1] + S / 2) / rng.gamma(ig[0] + size / 2)
        if beta_prior is not None:
            prior = rng.beta(beta_prior[0] + size, beta_prior[1] + len(free) - size)
        store(kept, sweep, beta, gamma, chance, nu2, prior)
    return kept


def laplace_zero(X, D, y, precision_beta, rho, A, B, rng, sweeps, chains, c=None, burn=100):
    """(L) Appendix B, collapsed.  ``beta`` of the result holds (beta, gamma * v)."""
    C = np.hstack([X, D])
    (n, K), p = C.shape, X.shape[1]
    c = np.ones(n) if c is None else np.asarray(c, float)
    theta, gamma = np.zeros((chains, K)), np.ones((chains, K), bool)
    b, sigma2 = np.ones((chains, K - p)), np.ones(chains)
    logit_pi = np.full((chains, K), logit(rho))
    kept = keep(sweeps, chains, K)
    for sweep in range(-burn, sweeps):
        w = draw_w(1 - y * (theta @ C.T), c, rng)
        G, h = statistics(C, y, c, w)
        fixed = np.broadcast_to(np.asarray(precision_beta, float), (chains, p))
        precision = np.hstack([fixed, b / sigma2[:, None]])
        gamma, chance = draw_gamma(G, h, precision, gamma, np.arange(p, K), logit_pi, rng)
        Q, h_on = masked(G, h, precision, gamma)
        theta = np.where(gamma, draw_gaussian(Q, h_on, rng)[0], 0.0)
        on, v = gamma[:, p:], theta[:, p:]
        included = inverse_gaussian(np.abs(v) / np.sqrt(sigma2)[:, None], 1.0, rng)
        b = np.where(on, included, 1 / rng.exponential(2.0, on.shape))
        sigma2 = (B + (b * v**2).sum(1) / 2) / rng.gamma(A + on.sum(1) / 2)
        store(kept, sweep, theta, gamma, chance, sigma2, rho)
    return kept
