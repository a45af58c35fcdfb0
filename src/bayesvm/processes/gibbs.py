r"""Gibbs sampling of a Gaussian process and of its kernel's parameters.

Given the latent weights the rows are Gaussian, of precision *w* and potential *b*, and f can be
integrated out of the density of the kernel's log parameters :math:`\vartheta`:

.. math::

    \log p(\vartheta \mid w) = \log p(\vartheta) - \tfrac12\log|B|
      - \tfrac12\sum_i\log\tau_i + \tfrac12\Big(\tilde b^\top\Phi B^{-1}\Phi^\top\tilde b
      + \sum_i \tilde k_i b_i^2/\tau_i\Big) + \text{const}

in the letters of :mod:`.process`.  A sweep draws the weights, then each parameter by a slice
of that density, then f; and then each parameter again by a slice of the likelihood with the
*whitened* f held and the weights integrated out, for weights that are given pin the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from ..core.distributions import slice_sample
from ..core.random import stream
from ..core.types import Array, Columns, Design
from ..inference.draws import run_chains, worth_keeping
from ..inference.gibbs import Gibbs
from ..inference.progress import Progress, Watch, silent
from .evidence import FARTHEST, LogNormal
from .process import LowRank, Prior
from .sites import Labels, Sites
from .whitened import Whitened

WIDTH = 1.5  # first interval of a slice, in log parameters
SPARED = 1000  # draws of f at the rows that are kept


@dataclass(frozen=True, eq=False)
class Sampled:
    """A process at points, its labels, and the prior of the kernel's parameters.

    Without a ``prior`` the kernel stays as it is.
    """

    process: Prior
    X: Array
    labels: Labels
    likelihood: Any
    prior: LogNormal | None = None

    def at(self, theta: Array) -> LowRank:
        """The process at the points; without FITC the low-rank function itself is sampled."""
        kernel, how = self.process.kernel.with_theta(theta), self.process
        low = LowRank.of(kernel, cast(Array, how.Z), self.X, how.level, how.fitc)
        return low if how.fitc else replace(low, rest=np.zeros_like(low.rest))

    def log_likelihood(self, likelihood: Any, f: Array) -> float:
        return float(self.labels.c @ likelihood.log_prob(self.labels.y, f[self.labels.at]))


class At(NamedTuple):
    """The state of a chain: log parameters, whitened coefficients, each row's own, likelihood."""

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
    scale: Array  # (chains, draws, k), numbers of the likelihood; empty if not drawn
    f: Array  # (chains, some, points)
    fit: Array  # (chains, draws), log pseudo-likelihood


def factor_given(low: LowRank, sites: Sites) -> tuple[Array, Array, float]:
    """Factor of B, mean of the coefficients, and log density of the rows with f integrated out."""
    own, tau = low.through(sites)
    L, h = low.factor(own.w), low.C.T @ own.b
    mean = cho_solve((L, True), h, check_finite=False)
    value = 0.5 * (float(h @ mean) + float((low.rest * sites.b) @ own.b if low.fitc else 0.0))
    value -= np.log(np.diag(L)).sum() + 0.5 * np.log(tau).sum()
    return L, mean, float(value)


def sweep(what: Sampled, at: At, rng: np.random.Generator) -> At:
    """Weights, kernel, f, kernel again, and the scale of the likelihood if that is drawn."""
    labels = what.labels
    f = at.f()[labels.at]
    local = at.likelihood.draw(labels.y, f, labels.c, rng)
    sites = Sites(labels.total(local.w), labels.total(local.g + local.w * f))
    at = _move(what, at, lambda low: factor_given(low, sites)[2], rng)
    low = at.process
    L, mean, _ = factor_given(low, sites)
    noise = rng.standard_normal(mean.size)
    z = mean + solve_triangular(L, noise, lower=True, trans=1, check_finite=False)
    e = at.e
    if low.fitc:  # f given the coefficients, row by row
        a, tau = low.C @ z, low.through(sites)[1]
        own = rng.standard_normal(e.size)
        e = np.sqrt(low.rest) * (sites.b - sites.w * a) / tau + own / np.sqrt(tau)
    now = at._replace(z=z, e=e)
    at = _move(what, now, lambda low: what.log_likelihood(now.likelihood, now.f(low)), rng)
    if what.likelihood.is_learned:
        f = at.f()
        lean = float(labels.c @ (1.0 - labels.y * f[labels.at]))
        fit = what.log_likelihood(at.likelihood, f)
        at = at._replace(likelihood=at.likelihood.redraw(fit, lean, float(labels.c.sum()), rng))
    return at


def _move(what: Sampled, at: At, value: Callable[[LowRank], float], rng: np.random.Generator) -> At:
    """Each parameter in turn, by a slice of ``value`` and the prior."""
    prior = what.prior
    for j in range(at.theta.size if prior is not None else 0):
        made: dict[float, tuple[Array, LowRank]] = {float(at.theta[j]): (at.theta, at.process)}

        def log_density(x: float, theta: Array, j: int, made: Any) -> float:
            there = theta.copy()
            there[j] = x
            if np.max(np.abs(there - cast(LogNormal, prior).mean)) > FARTHEST:
                return -np.inf
            try:
                made[x] = made.get(x) or (there, what.at(there))
            except np.linalg.LinAlgError:  # a kernel that is no longer one in floating point
                return -np.inf
            return float(value(made[x][1]) + cast(LogNormal, prior)(there)[0])

        density = partial(log_density, theta=at.theta, j=j, made=made)
        theta, low = made[slice_sample(density, float(at.theta[j]), rng, WIDTH)]
        at = at._replace(theta=theta, process=low)
    return at


def run_chain(
    what: Sampled, scheme: Gibbs, seed: int, start: Array, k: int, watch: Watch = silent
) -> tuple[Chains, bool]:
    """One chain, from coefficients drawn around ``start``'s, and whether a callback stopped it."""
    rng = stream(seed, "process chain", k)
    theta = what.process.kernel.theta
    low = what.at(theta)
    e: Array = rng.standard_normal((what.X.shape[0],))
    z = start + 0.3 * rng.standard_normal(start.size)
    at = At(theta, z, e, what.likelihood, low)
    total = scheme.burn_in + scheme.draws * scheme.thin
    every = max(1, -(-scheme.draws * scheme.chains // SPARED))
    kept: dict[str, list[Any]] = {name: [] for name in Chains._fields}
    stop = False
    for t in range(total):
        at = sweep(what, at, rng)
        now = at.f()
        value = what.log_likelihood(at.likelihood, now)
        progress = Progress(f"gibbs, chain {k + 1}", t + 1, total, value, np.nan)
        stop = watch(progress, at)
        due = t >= scheme.burn_in and (t - scheme.burn_in) % scheme.thin == 0
        if due or (stop and not kept["z"]):  # of a chain stopped at once, where it stands
            if len(kept["z"]) % every == 0:
                kept["f"].append(now)
            kept["theta"].append(at.theta)
            kept["z"].append(at.z)
            kept["fit"].append(value)
            if what.likelihood.is_learned:
                kept["scale"].append(at.likelihood.numbers)
        if stop:
            break
    return Chains(**{name: np.array(x) for name, x in kept.items()}), stop


def sample_process(
    what: Sampled,
    scheme: Gibbs,
    rng: np.random.Generator,
    start: Array,
    watch: Watch = silent,
    n_jobs: int | None = None,
) -> Chains:
    """All chains side by side; ``start`` are whitened coefficients to begin from."""
    chain = partial(run_chain, what, scheme, int(rng.integers(2**32)), start)
    parts = run_chains(chain, scheme.chains, n_jobs, watch)
    parts = worth_keeping(parts, [part.fit.size for part in parts])
    least = [min(len(x) for x in field) for field in zip(*parts, strict=True)]
    fields = zip(zip(*parts, strict=True), least, strict=True)
    return Chains(*(np.stack([x[:m] for x in field]) for field, m in fields))


@dataclass(frozen=True, eq=False)
class Mixture(Design):
    """Draws of a process, each with its own kernel, as columns: the values of f of each draw.

    One coefficient is one and the others are zero, each with the same probability.
    """

    has_residual: ClassVar[bool] = True

    inputs: Any
    kernel: Any
    Z: Array
    thetas: Array  # (draws, k), log parameters of the kernel
    values: Array  # (draws, 1 + m): the level, and whitened coefficients

    @property
    def width(self) -> int:
        return int(self.values.shape[0])

    def _each(self) -> Iterator[Whitened]:
        for theta in self.thetas:
            yield Whitened(self.kernel.with_theta(theta), self.Z, self.inputs)

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        out = np.empty((X.shape[0], self.width)) if out is None else out
        for s, design in enumerate(self._each()):
            out[:, s] = self.values[s, 0] + design.columns(X) @ self.values[s, 1:]
        return out

    def residual(self, X: Any, C: Array) -> Array:
        """Variance of f that a draw's columns leave, on average."""
        return np.mean([d.residual(X, d.columns(X)) for d in self._each()], axis=0)

    def joint(self, X: Any, theta: Array, rng: np.random.Generator) -> Array:
        """f jointly at rows, for each of the draws that rows of ``theta`` point to."""
        chosen, out = theta.argmax(axis=1), np.empty((len(theta), X.shape[0]))
        for s, design in enumerate(self._each()):
            mine = np.flatnonzero(chosen == s)
            if mine.size:
                values = np.broadcast_to(self.values[s, 1:], (mine.size, self.Z.shape[0]))
                out[mine] = self.values[s, 0] + design.joint(X, values, rng)
        return out
