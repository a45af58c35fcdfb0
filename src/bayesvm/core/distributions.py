"""Distributions that NumPy and SciPy do not have."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import expit, log_ndtr, ndtr, ndtri, ndtri_exp

from . import arrays
from .types import Array

LOG_2PI = float(np.log(2 * np.pi))


def mills(z: Array) -> Array:
    """Inverse Mills ratio ``N(z) / Phi(z)``, stable far into the left tail."""
    xp = arrays.of(z)
    special = arrays.special(xp)
    up, down = xp.clip(z, 0.0, None), xp.clip(z, None, 0.0)
    right = xp.exp(-0.5 * (up**2 + LOG_2PI) - special.log_ndtr(up))
    return xp.where(z < 0, math.sqrt(2 / math.pi) / special.erfcx(-down / math.sqrt(2)), right)


def inverse_gaussian(r: Array, shape: Array | float, rng: np.random.Generator) -> Array:
    """Draw from the inverse Gaussian with *reciprocal* mean ``r >= 0``.

    The root of Michael, Schucany and Haas is written without a subtraction: it is exact at
    ``r = 0`` (where ``1/x`` is a chi-square over the shape) and never overflows.  The textbook
    form returns nonpositive values for means above 1e8.
    """
    r = np.asarray(r, dtype=float)
    z = rng.standard_normal(r.shape) ** 2 / (2.0 * shape)
    x = 1.0 / (r + z + np.sqrt(z * (2.0 * r + z)))
    other = rng.random(r.shape) * (1.0 + x * r) > 1.0
    x[other] = 1.0 / (r[other] ** 2 * x[other])
    return x


def truncated_normal_positive(mean: Array, rng: np.random.Generator) -> Array:
    """Draw from ``N(mean, 1)`` restricted to the positive half line, by inversion in logs."""
    u = rng.random(np.shape(mean))
    # mean < 0: the upper tail is thin; work with log Phi(mean) there
    log_upper = log_ndtr(mean) + np.log1p(-u)
    tail = -ndtri_exp(log_upper)
    body = ndtri(ndtr(-mean) + u * ndtr(mean))
    return np.maximum(mean + np.where(mean < 0, tail, body), np.finfo(float).tiny)


def slice_sample(
    logp: Callable[[float], float],
    x0: float,
    rng: np.random.Generator,
    width: float = 0.5,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> float:
    """One update of Neal's univariate slice sampler (stepping out, then shrinking)."""
    level, (low, high) = logp(x0) + np.log(rng.random()), bounds
    left = x0 - width * rng.random()
    right = left + width
    for _ in range(50):
        if left <= low or logp(left) <= level:
            break
        left -= width
    for _ in range(50):
        if right >= high or logp(right) <= level:
            break
        right += width
    left, right = max(left, low), min(right, high)
    while True:
        x = left + (right - left) * rng.random()
        if logp(x) > level or right - left < 1e-12:
            return float(x)
        if x < x0:
            left = x
        else:
            right = x


def tilted_stable(h: float, tilt: Array, rng: np.random.Generator) -> Array:
    """Draw T from the positive stable law of index h, tilted by ``exp(-tilt T)``.

    The stable law has Laplace transform ``exp(-t**h)``.  T is a sum of N independent terms, each
    drawn by rejection from a stable variable divided by ``N**(1/h)``.  With N the integer above
    ``tilt**h`` the acceptance rate is at least 1/e.
    """
    tilt = np.asarray(tilt, dtype=float)
    count = np.maximum(1, np.ceil(tilt**h)).astype(int)
    owner = np.repeat(np.arange(tilt.size), count)
    log_scale = -np.log(count[owner]) / h
    out = np.empty(owner.size)
    todo = np.arange(owner.size)
    while todo.size:
        u = np.pi * rng.random(todo.size)
        log_e = np.log(rng.standard_exponential(todo.size))
        log_t = (
            np.log(np.sin(h * u)) - np.log(np.sin(u)) / h
            + (1 - h) / h * (np.log(np.sin((1 - h) * u)) - log_e)
            + log_scale[todo]
        )  # fmt: skip
        t = np.exp(log_t)
        good = rng.standard_exponential(todo.size) > tilt[owner[todo]] * t
        out[todo[good]] = t[good]
        todo = todo[~good]
    return np.bincount(owner, out, minlength=tilt.size)


def polya_gamma(z: Array, rng: np.random.Generator) -> Array:
    """Draw from the Polya-Gamma law PG(1, z) by Devroye's alternating-series rejection.

    ``PG(1, z) = J / 4`` with ``J`` the tilted Jacobi law; proposals are a truncated inverse
    Gaussian left of 0.64 and an exponential right of it; about 1.001 proposals are needed.
    """
    z = np.abs(np.asarray(z, dtype=float)) / 2.0
    out = np.empty(z.shape)
    todo = np.arange(z.size)
    t = 0.64
    rate = np.pi**2 / 8 + z**2 / 2
    # mass of the two proposal pieces: p/(p+q) goes to the exponential one
    log_p = np.log(np.pi / (2 * rate)) - rate * t
    root = 1 / np.sqrt(t)
    log_q = (
        np.log(2)
        - z
        + np.logaddexp(log_ndtr(root * (t * z - 1)), 2 * z + log_ndtr(-root * (t * z + 1)))
    )
    right = expit(log_p - log_q)
    while todo.size:
        zi, ki = z[todo], rate[todo]
        use_right = rng.random(todo.size) < right[todo]
        x = np.where(
            use_right,
            t + rng.standard_exponential(todo.size) / ki,
            _truncated_inverse_gaussian(zi, t, rng),
        )
        # alternating series: squeeze the acceptance between partial sums
        s = _jacobi_term(0, x, t)
        y = rng.random(todo.size) * s
        state = np.zeros(todo.size)  # 0 undecided, 1 accept, -1 reject
        n = 0
        while np.any(state == 0):
            n += 1
            term = _jacobi_term(n, x, t)
            s = s - term if n % 2 else s + term
            state = np.where(
                (state == 0) & ((y <= s) if n % 2 else (y > s)), 1.0 if n % 2 else -1.0, state
            )
        out[todo[state > 0]] = x[state > 0] / 4
        todo = todo[state < 0]
    return out


def polya_gamma_sum(
    b: Array, z: Array, rng: np.random.Generator, terms: int = 200, size: int = 10_000
) -> Array:
    """Draw from PG(b, z) with any b > 0, by its sum of gamma variables.

    The first ``terms`` of the infinite sum are drawn, for ``size`` variables at a time.  The rest
    has a standard deviation below 1e-5 times the root of b and is replaced by its mean.
    """
    out = np.empty(z.shape)
    k = (np.arange(terms) + 0.5) ** 2
    for i in range(0, z.size, size):
        some = slice(i, i + size)
        scale = k + np.square(z[some, None] / (2.0 * np.pi))
        drawn = (rng.standard_gamma(b[some, None], scale.shape) / scale).sum(axis=1)
        half = 0.5 * np.abs(z[some])
        mean = 0.5 * np.pi**2 * np.where(half < 1e-4, 1.0, np.tanh(half) / np.maximum(half, 1e-4))
        out[some] = (drawn + b[some] * (mean - (1.0 / scale).sum(axis=1))) / (2.0 * np.pi**2)
    return out


def _jacobi_term(n: int, x: Array, t: float) -> Array:
    k = n + 0.5
    with np.errstate(under="ignore"):
        left = np.pi * k * (2 / (np.pi * x)) ** 1.5 * np.exp(-2 * k * k / x)
        right = np.pi * k * np.exp(-0.5 * (k * np.pi) ** 2 * x)
    return np.where(x <= t, left, right)


def _truncated_inverse_gaussian(z: Array, t: float, rng: np.random.Generator) -> Array:
    """Inverse Gaussian with mean 1/z and shape 1, kept below t."""
    x = np.empty(z.shape)
    small = z < 1 / t  # mean beyond t: propose 1/chi-square below t, thin by exp(-z^2 x / 2)
    todo = np.flatnonzero(small)
    while todo.size:
        e1 = rng.standard_exponential(todo.size)
        e2 = rng.standard_exponential(todo.size)
        good = e1**2 <= 2 * e2 / t
        cand = t / (1 + t * e1) ** 2
        accept = good & (rng.random(todo.size) <= np.exp(-0.5 * z[todo] ** 2 * cand))
        x[todo[accept]] = cand[accept]
        todo = todo[~accept]
    todo = np.flatnonzero(~small)
    while todo.size:
        cand = inverse_gaussian(z[todo], 1.0, rng)
        accept = cand <= t
        x[todo[accept]] = cand[accept]
        todo = todo[~accept]
    return x
