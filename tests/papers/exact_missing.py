"""Exact posteriors with missing predictors, by quadrature and by importance sampling."""

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from .exact import log_slope_ig, panels


def log_rows(x, Psi, nu, s_mu):
    """log p(x_1..x_n) of rows of one column, mean and variance integrated out; x is (n, m)."""
    n = x.shape[0]
    t, weight = panels(np.linspace(-6, 6, 25), 8)  # log of the variance
    v = np.exp(t)[:, None]
    # x ~ N(0, v I + s_mu 11'): one eigenvalue is v + n s_mu
    mean, inner = x.mean(axis=0), x.var(axis=0) * n
    log_normal = (
        -n / 2 * np.log(2 * np.pi)
        - (n - 1) / 2 * np.log(v)
        - 0.5 * np.log(v + n * s_mu)
        - inner / (2 * v)
        - n * mean**2 / (2 * (v + n * s_mu))
    )
    prior = stats.invgamma(nu / 2, scale=Psi / 2).logpdf(v) + t[:, None]
    return logsumexp(log_normal + prior, axis=0, b=weight[:, None])


def one_column(x, y, gone, var_b0, A, B, Psi, nu, s_mu, nodes=6):
    """Moments of (b0, u, d) with one missing entry of one column, and the log evidence."""
    b, wb = panels(np.linspace(-9, 11, 31), nodes)
    edges = np.unique(np.concatenate([np.linspace(-3, 7, 26), np.linspace(7, 40, 12)]))
    u, wu = panels(np.concatenate([[-30, -12, -6], edges]), nodes)
    d, wd = panels(np.linspace(-12, 12, 49), nodes)
    many = np.repeat(x[:, None], d.size, axis=1)
    many[gone] = d
    log_d = log_rows(many, Psi, nu, s_mu)
    base = stats.norm(0, np.sqrt(var_b0)).logpdf(b)[:, None] + log_slope_ig(u, A, B)
    for i in np.flatnonzero(np.arange(len(x)) != gone):
        base = base - 2 * np.maximum(0, 1 - y[i] * (b[:, None] + u * x[i]))
    # the kink of the missing row's hinge moves with u: integrate over d for each (b0, u)
    total, first = np.zeros(base.shape), np.zeros(base.shape)
    for dk, lk, wk in zip(d, log_d, wd):
        part = wk * np.exp(lk - 2 * np.maximum(0, 1 - y[gone] * (b[:, None] + u * dk)))
        total += part
        first += part * dk
    scale = base.max()
    mass = np.exp(base - scale) * wb[:, None] * wu
    Z = (mass * total).sum()
    return {
        "b0": (mass * total * b[:, None]).sum() / Z,
        "u": (mass * total * u).sum() / Z,
        "d": (mass * first).sum() / Z,
        "log_evidence": float(np.log(Z) + scale),
    }


def importance(D, y, precision, Psi, nu, s_mu, centre, spread, rows, draws, rng):
    """Weighted draws for two columns: intercept and slopes of known prior precision.

    Coefficients come from a Student distribution about ``centre`` with covariance ``spread``,
    Sigma_d from an inverse Wishart and mu_d from a Student about ``rows = (mean, scale, df)``,
    missing entries from their conditional given the rest of the row.  Returns a dictionary of
    draws, and log weights.
    """
    n, d = D.shape
    gone = np.isnan(D)
    law = stats.multivariate_t(centre, spread, df=8, seed=rng)
    theta = law.rvs(draws)
    mean, scale, df = rows
    wishart = stats.invwishart(df, scale, seed=rng)
    Sigma = wishart.rvs(draws)
    free = stats.multivariate_t(mean, 2 * scale / df / n, df=8, seed=rng)
    mu = free.rvs(draws)
    log_w = stats.norm(0, 1 / np.sqrt(precision)).logpdf(theta).sum(axis=1) - law.logpdf(theta)
    log_w += stats.norm(0, np.sqrt(s_mu)).logpdf(mu).sum(axis=1) - free.logpdf(mu)
    stacked = np.moveaxis(Sigma, 0, -1)
    log_w += stats.invwishart(nu, Psi).logpdf(stacked) - wishart.logpdf(stacked)
    cells = {}
    for i in range(n):
        row = np.tile(D[i], (draws, 1))
        here, M = np.flatnonzero(~gone[i]), np.flatnonzero(gone[i])
        if here.size == d:
            gap = row - mu
            inv = np.linalg.inv(Sigma)
            log_w -= 0.5 * np.einsum("si,sij,sj->s", gap, inv, gap)
            log_w -= 0.5 * np.linalg.slogdet(Sigma)[1] + d / 2 * np.log(2 * np.pi)
        elif here.size == 1:
            o, m = here[0], M[0]
            own = Sigma[:, o, o]
            log_w += stats.norm(mu[:, o], np.sqrt(own)).logpdf(D[i, o])
            slope = Sigma[:, m, o] / own
            at = mu[:, m] + slope * (D[i, o] - mu[:, o])
            left = Sigma[:, m, m] - slope * Sigma[:, m, o]
            row[:, m] = at + np.sqrt(left) * rng.standard_normal(draws)
        else:
            L = np.linalg.cholesky(Sigma)
            row = mu + np.einsum("sij,sj->si", L, rng.standard_normal((draws, d)))
        f = theta[:, 0] + np.einsum("si,si->s", row, theta[:, 1:])
        log_w -= 2 * np.maximum(0, 1 - y[i] * f)
        for m in M:
            cells[f"d{i}{m}"] = row[:, m]
    names = {f"theta{j}": theta[:, j] for j in range(d + 1)}
    names |= {f"mu{j}": mu[:, j] for j in range(d)} | {"logdet": np.linalg.slogdet(Sigma)[1]}
    return names | cells, log_w


def weighted(values, log_w):
    """Mean by self-normalised importance weights, its standard error, and the effective size."""
    w = np.exp(log_w - logsumexp(log_w))
    mean = w @ values
    return mean, np.sqrt((w**2) @ (values - mean) ** 2), 1 / (w**2).sum()
