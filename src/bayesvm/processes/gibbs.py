r"""Gibbs sampling of a Gaussian process and of its kernel's parameters.

Given the latent weights the rows are Gaussian, of precision *w* and potential *b*, and f can be
integrated out of the density of the kernel's log parameters :math:`\vartheta`:

.. math::

    \log p(\vartheta \mid w) = \log p(\vartheta) - \tfrac12\log|B|
      - \tfrac12\sum_i\log\tau_i + \tfrac12\Big(\tilde b^\top\Phi B^{-1}\Phi^\top\tilde b
      + \sum_i \tilde k_i b_i^2/\tau_i\Big) + \text{const}

in the letters of :mod:`.lowrank`.  A sweep draws the weights, then each parameter by a slice
of that density, then f; and then each parameter again by a slice of the likelihood with the
*whitened* f held and the weights integrated out, for weights that are given pin the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.linalg import cho_solve, cholesky, solve_triangular

from ..core.distributions import slice_sample
from ..core.random import stream
from ..core.types import Array
from ..designs.columns import Standardised
from ..inference.draws import worth_keeping
from ..inference.gibbs import Gibbs
from ..inference.progress import Progress, Watch, silent
from .evidence import FARTHEST, LogNormal
from .gram import Labels, Sites
from .lowrank import LowRank
from .whitened import whiten

WIDTH = 1.5  # first interval of a slice, in log parameters
SPARED = 1000  # draws of f at the rows that are kept


@dataclass(frozen=True, eq=False)
class Sampled:
    """What is sampled: a process of a kernel at points, its labels, and the prior of the kernel.

    Without a ``prior`` the kernel stays as it is.
    """

    kernel: Any
    X: Array
    Z: Array
    bias: float
    fitc: bool
    labels: Labels
    likelihood: Any
    prior: LogNormal | None = None

    def process(self, theta: Array) -> LowRank:
        plain = Standardised(np.zeros(self.X.shape[1]), np.ones(self.X.shape[1]))
        design = whiten(self.kernel.with_theta(theta), self.Z, plain)
        low = LowRank.of(design, self.X, self.bias, self.fitc)
        # without FITC a chain sees the low-rank function itself
        return low if self.fitc else replace(low, rest=np.zeros_like(low.rest))


class At(NamedTuple):
    """Where a chain stands: log parameters, whitened coefficients, each row's own, likelihood."""

    theta: Array
    z: Array  # (1 + m,), a priori standard normal; the level's first
    e: Array  # (points,), likewise
    likelihood: Any
    process: LowRank

    def f(self, process: LowRank | None = None) -> Array:
        """The process at the points; of another kernel with the same whitened values."""
        low = process or self.process
        out: Array = low.C @ self.z
        return out + np.sqrt(low.rest) * self.e if low.fitc else out


class Chains(NamedTuple):
    """Kept draws: kernel parameters, whitened coefficients, scales; f at the rows of some."""

    theta: Array  # (chains, draws, k)
    z: Array  # (chains, draws, 1 + m)
    scale: Array  # (chains, draws), of the likelihood; empty if not drawn
    f: Array  # (chains, some, points)
    fit: Array  # (chains, draws), log pseudo-likelihood


def factor_given(low: LowRank, sites: Sites) -> tuple[Array, Array, float]:
    """Factor of B, mean of the coefficients, and log density of the rows with f integrated out."""
    seen, tau = low.through(sites)
    A = low.C * np.sqrt(seen.w)[:, None]
    B = A.T @ A
    B[np.diag_indices_from(B)] += 1.0
    L = cholesky(B, lower=True, overwrite_a=True, check_finite=False)
    h = low.C.T @ seen.b
    mean = cho_solve((L, True), h, check_finite=False)
    value = 0.5 * (float(h @ mean) + float((low.rest * sites.b) @ seen.b if low.fitc else 0.0))
    value -= np.log(np.diag(L)).sum() + 0.5 * np.log(tau).sum()
    return L, mean, float(value)


def log_likelihood(what: Sampled, likelihood: Any, f: Array) -> float:
    labels = what.labels
    return float(labels.c @ likelihood.log_prob(labels.y, f[labels.at]))


def sweep(what: Sampled, at: At, rng: np.random.Generator) -> At:
    """Weights, kernel, f, kernel again, and the scale of the likelihood if that is drawn."""
    labels = what.labels
    f = at.f()[labels.at]
    local = at.likelihood.draw(labels.y, f, labels.c, rng)
    w = labels.total(local.w)
    sites = Sites(w, labels.total(local.g + local.w * f))

    def collapsed(theta: Array, low: LowRank) -> float:
        return factor_given(low, sites)[2]

    at = _move(what, at, collapsed, rng)
    low = at.process
    L, mean, _ = factor_given(low, sites)
    noise = rng.standard_normal(mean.size)
    z = mean + solve_triangular(L, noise, lower=True, trans=1, check_finite=False)
    e = at.e
    if low.fitc:  # f given the coefficients, row by row
        a, tau = low.C @ z, low.through(sites)[1]
        own = rng.standard_normal(e.size)
        e = np.sqrt(low.rest) * (sites.b - sites.w * a) / tau + own / np.sqrt(tau)
    at = at._replace(z=z, e=e)

    def ancillary(theta: Array, low: LowRank) -> float:
        return log_likelihood(what, at.likelihood, at.f(low))

    at = _move(what, at, ancillary, rng)
    if what.likelihood.is_learned:
        f = at.f()
        lean = float(labels.c @ (1.0 - labels.y * f[labels.at]))
        fit = log_likelihood(what, at.likelihood, f)
        at = at._replace(likelihood=at.likelihood.redraw(fit, lean, float(labels.c.sum()), rng))
    return at


def _move(what: Sampled, at: At, value: Any, rng: np.random.Generator) -> At:
    """Each parameter in turn, by a slice of ``value`` and the prior."""
    prior = what.prior
    if prior is None:
        return at
    for j in range(at.theta.size):
        known: dict[float, LowRank] = {float(at.theta[j]): at.process}
        theta = at.theta.copy()

        def moved(x: float, theta: Array = theta, j: int = j) -> Array:
            out = theta.copy()
            out[j] = x
            return out

        def log_density(x: float, known: dict[float, LowRank] = known, moved: Any = moved) -> float:
            there = moved(x)
            if np.max(np.abs(there - prior.mean)) > FARTHEST:
                return -np.inf
            try:
                low = known.get(x) or what.process(there)
            except np.linalg.LinAlgError:  # a kernel that is no longer one in floating point
                return -np.inf
            known[x] = low
            return float(value(there, low) + prior.value(there))

        x = slice_sample(log_density, float(at.theta[j]), rng, WIDTH)
        at = at._replace(theta=moved(x), process=known[x])
    return at


def run_chain(
    what: Sampled, scheme: Gibbs, seed: tuple[int, ...], start: Array, watch: Watch = silent
) -> tuple[Chains, bool]:
    """One chain, from coefficients drawn around ``start``'s, and whether a callback stopped it."""
    rng = stream(seed[0], "process chain", *seed[1:])
    low = what.process(what.kernel.theta)
    e: Array = rng.standard_normal((what.X.shape[0],))
    z = start + 0.3 * rng.standard_normal(start.size)
    at = At(what.kernel.theta.copy(), z, e, what.likelihood, low)
    total = scheme.burn_in + scheme.draws * scheme.thin
    every = max(1, -(-scheme.draws * scheme.chains // SPARED))
    kept: dict[str, list[Any]] = {name: [] for name in Chains._fields}
    stop = False
    for t in range(total):
        at = sweep(what, at, rng)
        now = at.f()
        value = log_likelihood(what, at.likelihood, now)
        progress = Progress(f"gibbs, chain {seed[-1] + 1}", t + 1, total, value, np.nan)
        stop = watch(progress, at)
        due = t >= scheme.burn_in and (t - scheme.burn_in) % scheme.thin == 0
        if due or (stop and not kept["z"]):  # of a chain stopped at once, where it stands
            if len(kept["z"]) % every == 0:
                kept["f"].append(now)
            kept["theta"].append(at.theta)
            kept["z"].append(at.z)
            kept["fit"].append(value)
            if what.likelihood.is_learned:
                kept["scale"].append(at.likelihood.scale)
        if stop:
            break
    return Chains(**{name: np.array(x) for name, x in kept.items()}), stop


def run_chains(
    what: Sampled,
    scheme: Gibbs,
    rng: np.random.Generator,
    start: Array,
    watch: Watch = silent,
    n_jobs: int | None = None,
) -> Chains:
    """All chains side by side; ``start`` are whitened coefficients to begin from."""
    seed = int(rng.integers(2**32))
    if n_jobs in (None, 1):
        parts = []
        for k in range(scheme.chains):
            part, stopped = run_chain(what, scheme, (seed, k), start, watch)
            parts.append(part)
            if stopped:
                break
    else:
        chains = Parallel(n_jobs=n_jobs)(
            delayed(run_chain)(what, scheme, (seed, k), start) for k in range(scheme.chains)
        )
        parts = [part for part, _ in chains]
    parts = worth_keeping(parts, [part.fit.size for part in parts])
    least = [min(len(x) for x in field) for field in zip(*parts, strict=True)]
    fields = zip(zip(*parts, strict=True), least, strict=True)
    return Chains(*(np.stack([x[:m] for x in field]) for field, m in fields))
