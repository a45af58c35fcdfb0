"""Convergence diagnostics of Markov chains: R-hat and the effective number of draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from ..core.types import Array


def _split(x: Array) -> Array:
    """Halve each chain: ``(chains, draws, ...)`` to ``(2 chains, draws / 2, ...)``."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, x.shape[1] - half :]], axis=0)


def r_hat(x: Array) -> Array:
    """R-hat of draws ``(chains, draws, ...)``, near 1 when chains agree.

    Chains are split in halves, and draws are replaced by normal scores of their ranks, so that
    moments need not exist; the result is the maximum over draws and distances from the median
    (Vehtari et al., 2021).
    """
    if x.shape[1] < 4:
        return np.full(x.shape[2:], np.nan)  # too few draws
    s = _split(np.asarray(x, dtype=float))
    centre = np.median(s, axis=(0, 1), keepdims=True)
    return np.maximum(_plain_r_hat(_scores(s)), _plain_r_hat(_scores(np.abs(s - centre))))


def indicator_r_hat(x: Array) -> Array:
    """R-hat of binary draws ``(chains, draws, ...)``, without ranks.

    Rare values differ between chains by chance alone, so the variance is at least the variance of
    one switch in a chain.
    """
    if x.shape[1] < 4:
        return np.full(x.shape[2:], np.nan)
    s = _split(x)
    on, n = s.mean(axis=1), s.shape[1]  # the mean gives the variance
    within = np.maximum((on * (1.0 - on)).mean(axis=0) * n / (n - 1), 1.0 / n)
    return np.sqrt((n - 1) / n + on.var(axis=0, ddof=1) / within)


def chains_agree(r_hat: float, limit: float = 1.1) -> bool:
    """Whether chains have converged, by their largest R-hat."""
    return r_hat <= limit


def r_hat_of(draws: Any, max_draws: int = 4000) -> Array:
    """R-hat of each coefficient, or of its inclusion indicator under a selection prior.

    At most about ``max_draws`` draws of each chain are used.
    """
    if draws.inclusion is not None:  # indicators mix slowest
        return indicator_r_hat(draws.theta != 0)
    return r_hat(draws.theta[:, :: max(1, draws.theta.shape[1] // max_draws)])


def _scores(s: Array) -> Array:
    ranks = rankdata(s.reshape(s.shape[0] * s.shape[1], -1), axis=0)
    return ndtri((ranks - 0.375) / (ranks.shape[0] + 0.25)).reshape(s.shape)


def _plain_r_hat(s: Array) -> Array:
    n = s.shape[1]
    within = s.var(axis=1, ddof=1).mean(axis=0)
    between = s.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.sqrt((n - 1) / n + between / within)
    return np.where(within == 0, np.where(between == 0, 1.0, np.inf), out)


def ess(x: Array) -> Array:
    """Effective number of draws by Geyer's initial monotone sequence over split chains."""
    if x.shape[1] < 4:
        return np.full(x.shape[2:], float(x.shape[0] * x.shape[1]))
    s = _split(np.asarray(x, dtype=float))
    m, n = s.shape[:2]
    flat = s.reshape(m, n, -1)
    centred = flat - flat.mean(axis=1, keepdims=True)
    size = 1 << (2 * n - 1).bit_length()
    power = np.abs(np.fft.rfft(centred, size, axis=1)) ** 2
    cov = np.fft.irfft(power, size, axis=1)[:, :n] / n  # (m, n, k)
    within = cov[:, 0].mean(axis=0) * n / (n - 1)
    total = within * (n - 1) / n + (flat.mean(axis=1).var(axis=0, ddof=1) if m > 1 else 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1.0 - (within - cov.mean(axis=0)) / total  # (n, k)
    rho[0] = 1.0
    even = (n // 2) * 2
    pairs = rho[0:even:2] + rho[1:even:2]  # sums of neighbours are positive and fall for a chain
    alive = np.minimum.accumulate(pairs > 0, axis=0)
    pairs = np.minimum.accumulate(np.where(alive, pairs, 0.0), axis=0)
    tau = np.maximum(-1.0 + 2.0 * pairs.sum(axis=0), 1.0 / np.log10(m * n + 10))
    out = np.where(np.isfinite(total) & (total > 0), m * n / tau, m * n)
    return out.reshape(x.shape[2:])
