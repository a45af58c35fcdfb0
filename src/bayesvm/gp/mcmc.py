r"""Gibbs sampling of a Gaussian process and of its kernel's parameters.

Given the latent weights the rows are Gaussian with precision *w* and potential *b*, and f can be
integrated out of the density of the kernel's log parameters :math:`\vartheta`:

.. math::

    \log p(\vartheta \mid w) = \log p(\vartheta) - \tfrac12\log|B|
      - \tfrac12\sum_i\log\tau_i + \tfrac12\Big(\tilde b^\top\Phi B^{-1}\Phi^\top\tilde b
      + \sum_i \tilde k_i b_i^2/\tau_i\Big) + \text{const}

in the notation of :mod:`.posterior`.  A sweep draws the weights; each parameter by slice sampling
from this density; f; and each parameter again by slice sampling from the likelihood with *whitened*
f fixed and the weights integrated out, because given weights constrain the parameters strongly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import ndtr

from ..core.distributions import slice_sample
from ..core.types import Array, Coef, Columns, Design, Term
from ..inference.draws import LIKELIHOOD, Draws, run_chains, worth_keeping
from ..inference.gibbs import Gibbs
from ..inference.model import Model, State
from ..inference.progress import Ascent, Progress, Watch, silent, stream
from ..linalg.covariances import Point
from ..predictive.diagnostics import chains_agree, r_hat
from ..predictive.fitted import BinaryModel
from ..predictive.leave_one_out import LooMoments, leave_one_out_draws
from ..predictive.links import CalibratedLink, plain_link
from ..predictive.posterior import DrawsPosterior, Posterior
from ..predictive.robust_covariance import RobustCovariance, variance_factor_of
from ..priors import Fixed
from .evidence import LogNormal
from .inducing import Whitened
from .posterior import InducingProcess, Process
from .sites import Labels, Sites, fit_sites


@dataclass(frozen=True, eq=False)
class Sampled:
    """A process at points, with labels and the prior of the kernel's parameters.

    Without a ``prior`` the kernel is fixed.
    """

    process: Process
    X: Array
    labels: Labels
    likelihood: Any
    prior: LogNormal | None = None

    def at(self, theta: Array) -> InducingProcess:
        """The process at the points; without FITC, the low-rank approximation is sampled."""
        process, kernel = self.process, self.process.kernel.with_theta(theta)
        Z = cast(Array, process.Z)
        low = InducingProcess.of(kernel, Z, self.X, process.intercept_variance, process.fitc)
        return replace(low, residual=np.zeros_like(low.d))

    def log_likelihood(self, likelihood: Any, f: Array) -> float:
        return float(self.labels.c @ likelihood.log_prob(self.labels.y, f[self.labels.at]))


class ChainState(NamedTuple):
    """State of a chain: log parameters, whitened coefficients, residuals of rows, likelihood."""

    theta: Array
    z: Array  # (1 + m,), a priori standard normal; the intercept first
    e: Array  # (points,), a priori standard normal
    likelihood: Any
    process: InducingProcess

    def f(self, process: InducingProcess | None = None) -> Array:
        """f at the points; with another ``process``, for the same whitened values."""
        low = process or self.process
        out: Array = low.C @ self.z
        return out + np.sqrt(low.d) * self.e


class Chains(NamedTuple):
    """Stored draws: kernel parameters, whitened coefficients, scales; f for a subset of draws."""

    theta: Array  # (chains, draws, k)
    z: Array  # (chains, draws, 1 + m)
    scale: Array  # (chains, draws, k), parameters of the likelihood; empty if fixed
    f: Array  # (chains, subset of draws, points)
    fit: Array  # (chains, draws), log pseudo-likelihood


def factor_given(low: InducingProcess, sites: Sites) -> tuple[Array, Array, float]:
    """Factor of B, mean of the coefficients, and log marginal density of the rows."""
    q, b = low.given(sites.w), sites.b / (1.0 + low.d * sites.w)
    h = low.C.T @ b
    mean = cho_solve((q.L, True), h, check_finite=False)
    value = 0.5 * (float(h @ mean) + float((low.d * sites.b) @ b)) - q.half_log_det
    return q.L, mean, value


def sweep(target: Sampled, at: ChainState, rng: np.random.Generator) -> ChainState:
    """Draw weights, kernel, f, kernel again, and the scale of the likelihood if it is sampled."""
    labels = target.labels
    f = at.f()[labels.at]
    local = at.likelihood.draw(labels.y, f, labels.c, rng)
    sites = Sites(labels.total(local.w), labels.total(local.g + local.w * f))
    at = _move(target, at, lambda low: factor_given(low, sites)[2], rng)
    low = at.process
    L, mean, _ = factor_given(low, sites)
    noise = rng.standard_normal(mean.size)
    z = mean + solve_triangular(L, noise, lower=True, trans=1, check_finite=False)
    e = at.e
    if low.fitc:  # f given the coefficients, independently for each row
        a, tau = low.C @ z, 1.0 + low.d * sites.w
        noise = rng.standard_normal(e.size)
        e = np.sqrt(low.d) * (sites.b - sites.w * a) / tau + noise / np.sqrt(tau)
    now = at._replace(z=z, e=e)
    at = _move(target, now, lambda low: target.log_likelihood(now.likelihood, now.f(low)), rng)
    if target.likelihood.is_learned:
        f = at.f()
        lean = float(labels.c @ (1.0 - labels.y * f[labels.at]))
        fit = target.log_likelihood(at.likelihood, f)
        at = at._replace(likelihood=at.likelihood.redraw(fit, lean, float(labels.c.sum()), rng))
    return at


def _move(
    target: Sampled,
    at: ChainState,
    value: Callable[[InducingProcess], float],
    rng: np.random.Generator,
) -> ChainState:
    """Slice-sample each parameter in turn, under ``value`` and the prior."""
    prior = target.prior
    if prior is None:
        return at
    theta, mean = at.theta.copy(), prior.mean

    def log_density(x: float, j: int) -> float:
        there = np.where(np.arange(theta.size) == j, x, theta)
        if np.max(np.abs(there - mean)) > 12.0:
            return -np.inf
        try:
            return float(value(target.at(there)) + prior(there)[0])
        except np.linalg.LinAlgError:  # the matrix is numerically not positive definite
            return -np.inf

    for j in range(theta.size):
        theta[j] = slice_sample(partial(log_density, j=j), float(theta[j]), rng, 1.5)
    return at._replace(theta=theta, process=target.at(theta))


def run_chain(
    target: Sampled, scheme: Gibbs, seed: int, start: Array, k: int, watch: Watch = silent
) -> tuple[Chains, bool]:
    """One chain from random coefficients around ``start``, and whether a callback stopped it."""
    rng = stream(seed, "process chain", k)
    theta = target.process.kernel.theta
    low = target.at(theta)
    e: Array = rng.standard_normal((target.X.shape[0],))
    z = start + 0.3 * rng.standard_normal(start.size)
    at = ChainState(theta, z, e, target.likelihood, low)
    total = scheme.burn_in + scheme.draws * scheme.thin
    every = max(1, -(-scheme.draws * scheme.chains // 1000))  # thinning of f at the rows
    kept: dict[str, list[Any]] = {name: [] for name in Chains._fields}
    stop = False
    for t in range(total):
        at = sweep(target, at, rng)
        now = at.f()
        value = target.log_likelihood(at.likelihood, now)
        progress = Progress(f"gibbs, chain {k + 1}", t + 1, total, value, np.nan)
        stop = watch(progress, at)
        due = t >= scheme.burn_in and (t - scheme.burn_in) % scheme.thin == 0
        if due or (stop and not kept["z"]):  # a stopped chain has at least one draw
            if len(kept["z"]) % every == 0:
                kept["f"].append(now)
            kept["theta"].append(at.theta)
            kept["z"].append(at.z)
            kept["fit"].append(value)
            if target.likelihood.is_learned:
                kept["scale"].append(at.likelihood.numbers)
        if stop:
            break
    return Chains(**{name: np.array(x) for name, x in kept.items()}), stop


@dataclass(frozen=True, eq=False)
class Mixture(Design):
    """Draws of a process with different kernels, as columns: the values of f in each draw.

    One coefficient is one and the others are zero, each with the same probability.
    """

    has_residual: ClassVar[bool] = True

    inputs: Any
    kernel: Any
    Z: Array
    thetas: Array  # (draws, k), log parameters of the kernel
    values: Array  # (draws, 1 + m): the intercept, and whitened coefficients

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
        """Residual variance of f given a draw's columns, averaged over draws."""
        return np.mean([d.residual(X, d.columns(X)) for d in self._each()], axis=0)

    def joint(self, X: Any, theta: Array, rng: np.random.Generator) -> Array:
        """Joint draws of f at rows, for the draws that rows of ``theta`` select."""
        chosen, out = theta.argmax(axis=1), np.empty((len(theta), X.shape[0]))
        for s, design in enumerate(self._each()):
            mine = np.flatnonzero(chosen == s)
            if mine.size:
                values = np.broadcast_to(self.values[s, 1:], (mine.size, self.Z.shape[0]))
                out[mine] = self.values[s, 0] + design.joint(X, values, rng)
        return out


def machine_from_chains(
    target: Sampled,
    model: Model,
    scheme: Any,
    probability: str,
    covariance: str,
    rng: np.random.Generator,
    watch: Watch = silent,
    n_jobs: int | None = None,
) -> tuple[BinaryModel, Array, LooMoments]:
    """Run chains over f (and the kernel if it has a prior), started near the variational fit.

    Returns the binary model, each training row's probability of violating the margin, and its
    leave-one-out moments.
    """
    labels, likelihood = target.labels, target.likelihood
    process = target.at(target.process.kernel.theta)
    intercept_sd = np.sqrt(target.process.intercept_variance)
    fit = fit_sites(process, labels, likelihood.expected, tol=1e-4)
    start = factor_given(process, Sites(fit.w, fit.sites.b[:, 0]))[1]
    chain = partial(run_chain, target, scheme, int(rng.integers(2**32)), start)
    parts = run_chains(chain, scheme.chains, n_jobs, watch)
    parts = worth_keeping(parts, [part.fit.size for part in parts])
    least = [min(map(len, field)) for field in zip(*parts, strict=True)]  # some may be stopped
    fields = zip(zip(*parts, strict=True), least, strict=True)
    chains = Chains(*(np.stack([x[:m] for x in field]) for field, m in fields))
    hyper = {"kernel": chains.theta}
    if likelihood.is_learned:
        hyper[LIKELIHOOD] = chains.scale
        likelihood = likelihood.with_numbers(np.exp(np.log(chains.scale).mean(axis=(0, 1))))
    model = replace(model, likelihood=likelihood)
    if target.prior is None:
        theta = chains.z.copy()
        theta[..., 0] *= intercept_sd
        post: Posterior = DrawsPosterior(theta)
        compared = chains.f
    else:
        design, scale = model.terms[-1].design, np.ones(chains.z.shape[-1])
        scale[0] = intercept_sd
        thetas, z = (x.reshape(-1, x.shape[-1]) for x in (chains.theta, chains.z))
        chosen = np.unique(np.linspace(0, len(z) - 1, 100).astype(int))  # evenly over the chains
        mixture = Mixture(design.inputs, design.kernel, design.Z, thetas[chosen], z[chosen] * scale)
        model = Model((Term("gp", mixture, Fixed(1.0)),), likelihood)
        post = DrawsPosterior(np.eye(mixture.width)[None])
        every = -(-chains.theta.shape[1] // chains.f.shape[1])  # draws for which f was stored
        beside = chains.theta[:, ::every][:, : chains.f.shape[1]]
        compared = np.concatenate([chains.f, beside], axis=2)
    f = chains.f.reshape(-1, chains.f.shape[-1]).T[labels.at]  # (rows, draws)
    removed = np.minimum(labels.c, labels.unit)
    left_out = leave_one_out_draws(f, likelihood.log_prob(labels.y[:, None], f), removed)
    loo = LooMoments(labels.y, *left_out, labels.effective)
    link = plain_link(probability, likelihood)
    if link is None:
        link = CalibratedLink.fit(*loo)
    inflation = variance_factor_of(likelihood, loo, f.mean(axis=1), f.var(axis=1), unit=labels.unit)
    worst = float(np.max(r_hat(compared)))
    state = State(Coef(post.mean, Point(model.width)), model.init())
    path, n_draws = list(chains.fit.mean(axis=0)), chains.fit.shape[1]
    machine = BinaryModel(
        model,
        post,
        Ascent(state, np.nan, path, n_draws, chains_agree(worst), worst),
        link,
        draws=Draws(chains.z, hyper, chains.fit),
        robust_covariance=RobustCovariance(inflation) if covariance == "robust" else None,
    )
    spread = np.sqrt(np.maximum(f.var(axis=1), 1e-300))
    support = ndtr((1.0 - labels.y * f.mean(axis=1)) / spread)
    return machine, support, loo
