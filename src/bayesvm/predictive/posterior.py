"""Posterior distributions of theta: Gaussian, draws, or a point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.special import logsumexp, ndtri

from ..core.arrays import to_numpy
from ..core.types import Array, Coef, Columns, Covariance, Rows
from ..inference.draws import Pair
from ..inference.latent import LatentRows, latent_rows, predict_rows
from ..inference.model import Model, State
from ..inference.problem import Problem, moments
from ..linalg.columns import plain
from ..linalg.covariances import Point, covariance
from .leave_one_out import leave_one_out, leave_one_out_draws

HELD = 2**22  # entries of f, rows times draws, in memory at once


class NoPosterior(AttributeError, ValueError):
    """The posterior variance of a point estimate was requested."""


class Posterior(Protocol):
    """Moments of theta and of f, quantiles of f, and draws."""

    has_spread: ClassVar[bool]

    @property
    def mean(self) -> Array: ...
    @property
    def pairs(self) -> tuple[Pair, ...]: ...  # draws with parameters of latent entries
    def variance(self) -> Array: ...
    def covariance(self, where: slice | None = None) -> Array: ...  # of a slice of the coefficients
    def moments(self, C: Columns) -> tuple[Array, Array]: ...
    def reported_moments(self, C: Columns) -> tuple[Array, Array]: ...  # with robust covariance
    def quantiles(
        self, C: Columns, levels: tuple[float, ...], extra: Array | float = 0.0
    ) -> Array: ...  # extra: variance of f outside theta
    def sample(self, n: int, rng: np.random.Generator) -> Array: ...
    def left_out(self, problem: Problem) -> tuple[Array, Array]: ...  # leave-one-out moments


@dataclass(frozen=True)
class GaussianPosterior:
    """Variational posterior.

    ``response`` is the inverse Hessian of the bound: the change of the mean with the gradient of a
    row after all other rows have been updated.  Under the augmented bound the covariance is
    smaller, which matters for rows in small groups.  Under the tight bound both are equal at the
    optimum; near the optimum, rows with leverage near one need the response.  All reported
    variances are multiplied by ``scale``.
    """

    has_spread: ClassVar[bool] = True
    pairs: ClassVar[tuple[Pair, ...]] = ()

    coef: Coef
    response: Covariance | None = None
    scale: float = 1.0

    @property
    def mean(self) -> Array:
        return self.coef.mean

    def variance(self) -> Array:
        return self.scale * self.coef.cov.diag()

    def covariance(self, where: slice | None = None) -> Array:
        cov = self.coef.cov
        return self.scale * (cov.dense() if where is None else cov.block(where))

    def moments(self, C: Columns) -> tuple[Array, Array]:
        m, v = moments(Rows(C), self.coef)
        return m, self.scale * v + 0.0 * m  # in the array library of m

    def reported_moments(self, C: Columns) -> tuple[Array, Array]:
        return self.moments(C)

    def blocks(self, where: slice, r: int) -> Array:
        """Covariances of the random effects of each group, ``(groups, r, r)``."""
        return self.scale * self.coef.cov.blocks(where, r)

    def quantiles(self, C: Columns, levels: tuple[float, ...], extra: Array | float = 0.0) -> Array:
        m, v = self.reported_moments(C)
        return m + np.sqrt(v + extra) * ndtri(np.array(levels))[:, None]

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return self.coef.mean + np.sqrt(self.scale) * self.coef.cov.sample(n, rng)

    def left_out(self, problem: Problem) -> tuple[Array, Array]:
        y, removed = problem.y, problem.removed
        m, v = problem.moments(self.coef)
        local = problem.model.likelihood.expected(y, m, v)
        residual = problem.residual()
        # a row affects only coefficients
        centre, left = leave_one_out(m, v - residual, local, removed)
        if self.response is not None:
            reach = problem.moments(Coef(self.coef.mean, self.response))[1] - residual
            centre = leave_one_out(m, reach, local._replace(w=local.h), removed)[0]
        m, v = centre, left + residual
        if problem.latents:
            for part in _incomplete(problem):
                m[part.at], v[part.at] = self._without_label(problem, part)
        return m, v

    def _without_label(self, problem: Problem, part: LatentRows) -> tuple[Array, Array]:
        """Leave-one-out moments of f at rows with latent entries.

        The row's quadratic contribution, in its imputed columns, is removed from the coefficients;
        its latent entries are predicted from its observed entries.
        """
        model, coef = problem.model, self.coef
        new = predict_rows(model, part.X, tuple(each and each.params for each in problem.latents))
        local = model.likelihood.expected(part.y, *moments(part.rows, coef)).times(part.removed)
        variance: Any = coef.cov.quad(part.rows.C)
        denominator, across = np.maximum(1.0 - local.w * variance, 1e-6), variance
        gap = plain(new.C) - plain(part.rows.C)
        for h in part.rows.V:
            cross = coef.cov.cross(part.rows.C, h.where)
            across = across + np.sum(gap[:, h.where] * cross, axis=1)
        m, v = moments(new, coef)
        return m - across * local.g / denominator, v + local.w * across**2 / denominator


def response(problem: Problem, state: State, max_ratio: float = 100.0) -> Covariance | None:
    """Inverse Hessian of the augmented bound at a state, for leave-one-out means.

    ``None`` if a variance exceeds the posterior variance by more than a factor ``max_ratio``.
    """
    problem = replace(problem, latents=state.latents)
    y, c = map(to_numpy, (problem.y, problem.c))
    H = problem.gram(c * problem.model.likelihood.expected(y, *problem.moments(state.coef)).h)
    P, old = problem.model.precision(state.priors), state.coef.cov
    try:
        inverse = covariance(H, P, retry=False)
    except np.linalg.LinAlgError:  # too few rows have curvature
        return None
    # separated classes have none, and along a flat prior the mean would diverge
    return None if np.max(inverse.diag() / old.diag()) > max_ratio else inverse


@dataclass(frozen=True)
class CentredPosterior(GaussianPosterior):
    r"""Variational posterior of one of K classes with a joint likelihood.

    Moments of f are for independent :math:`\theta_k`.  Reported coefficients are differences to the
    mean over classes, with covariance

    .. math:: \Big(1 - \frac2K\Big)\Sigma_k + \frac1{K^2}\sum_j\Sigma_j .
    """

    every: tuple[Coef, ...] = ()  # all classes,
    number: int = 0  # and the index of this class

    def _centred(self, own: Array, each: Iterator[Any]) -> Array:
        K = len(self.every)
        return (1.0 - 2.0 / K) * own + np.sum(list(each), axis=0) / K**2

    def variance(self) -> Array:
        return self._centred(self.coef.cov.diag(), (coef.cov.diag() for coef in self.every))

    def covariance(self, where: slice | None = None) -> Array:
        at = slice(None) if where is None else where
        return self._centred(self.coef.cov.block(at), (coef.cov.block(at) for coef in self.every))

    def blocks(self, where: slice, r: int) -> Array:
        own = self.coef.cov.blocks(where, r)
        return self._centred(own, (coef.cov.blocks(where, r) for coef in self.every))

    def reported_moments(self, C: Columns) -> tuple[Array, Array]:
        m, v = self.moments(C)
        return m, self._centred(v, (moments(Rows(C), coef)[1] for coef in self.every))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return self.sample_all(n, rng)[self.number]

    def sample_all(self, n: int, rng: np.random.Generator) -> Array:
        """Joint draws of all classes, ``(classes, n, K)``."""
        theta = np.stack([coef.mean + coef.cov.sample(n, rng) for coef in self.every])
        return theta - theta.mean(axis=0)


@dataclass(frozen=True)
class DrawsPosterior:
    """Draws from a sampler, ``(chains, draws, K)``."""

    has_spread: ClassVar[bool] = True

    theta: Array
    pairs: tuple[Pair, ...] = ()
    conditional: tuple[Array, Array] | None = None  # mean and variance, by conditional moments

    @property
    def flat(self) -> Array:
        return self.theta.reshape(-1, self.theta.shape[-1])

    @cached_property
    def mean(self) -> Array:
        return self.flat.mean(axis=0) if self.conditional is None else self.conditional[0]

    @cached_property
    def root(self) -> Array:
        """R with R'R the covariance of the draws."""
        gap = self.flat - self.flat.mean(axis=0)
        return np.linalg.qr(gap, mode="r") / np.sqrt(self.flat.shape[0])

    def variance(self) -> Array:
        return self.flat.var(axis=0) if self.conditional is None else self.conditional[1]

    def covariance(self, where: slice | None = None) -> Array:
        R = self.root[:, slice(None) if where is None else where]
        return R.T @ R

    def moments(self, C: Columns) -> tuple[Array, Array]:
        T = C @ self.root.T
        return C @ self.mean, np.einsum("ij,ij->i", T, T)

    def reported_moments(self, C: Columns) -> tuple[Array, Array]:
        return self.moments(C)

    def quantiles(self, C: Columns, levels: tuple[float, ...], extra: Array | float = 0.0) -> Array:
        size, f = max(1, HELD // self.flat.shape[0]), np.empty((len(levels), C.shape[0]))
        for i in range(0, C.shape[0], size):
            block = slice(i, i + size)
            f[:, block] = np.quantile(C[block] @ self.flat.T, levels, axis=1)
        if not np.any(extra):
            return f
        # the variance outside theta is Gaussian: rescale the draws to include it
        m, v = self.moments(C)
        return m + (f - m) * np.sqrt(1.0 + extra / np.maximum(v, 1e-300))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return self.flat[rng.integers(self.flat.shape[0], size=n)]

    def left_out(
        self, problem: Problem, max_draws: int = 1000, max_pairs: int = 200
    ) -> tuple[Array, Array]:
        """Importance weights of the draws are one over the likelihood of the label.

        Latent entries of rows are integrated out first, so that weights vary less.  About
        ``max_draws`` draws are used, ``max_pairs`` of them at rows with latent entries.
        """
        lik, flat = problem.model.likelihood, self.flat
        flat = flat[:: max(1, flat.shape[0] // max_draws)]
        parts = []
        size = max(1, HELD // flat.shape[0])
        y, removed = problem.y, problem.removed
        for b in replace(problem.blocks, size=size):
            f = problem.rows(b).C @ flat.T
            parts.append(leave_one_out_draws(f, lik.log_prob(y[b.at, None], f), removed[b.at]))
        m, v = (np.concatenate(part) for part in zip(*parts, strict=True))
        pairs = self.pairs[:: max(1, len(self.pairs) // max_pairs)]
        for part in _incomplete(problem) if problem.latents else ():
            mean, var = by_pairs(problem.model, part.X, pairs)
            log_weight = -part.removed * lik.log_mean(part.y, mean, var)
            weight = np.exp(log_weight - logsumexp(log_weight, axis=0))
            m[part.at], v[part.at] = mixture(mean, var, weight)
        return m, v


@dataclass(frozen=True)
class PointPosterior:
    """A point estimate; methods that need a posterior variance raise an error.

    ``curvature`` is the covariance under the smoothed loss: for leverages of the link, and as the
    prior of a stream that continues from the estimate.  ``eps`` is the smoothing for this
    covariance.
    """

    has_spread: ClassVar[bool] = False
    pairs: ClassVar[tuple[Pair, ...]] = ()

    mean: Array
    curvature: Covariance
    eps: float = 0.1

    def _refuse(self, *args: Any, **options: Any) -> Array:
        raise NoPosterior(
            "inference='em' gives a point estimate without a posterior, so there are no standard "
            "deviations, intervals or draws. Fit with inference='vb', 'svi' or 'gibbs' for those."
        )

    variance = covariance = quantiles = sample = _refuse

    def moments(self, C: Columns) -> tuple[Array, Array]:
        m = C @ self.mean
        return m, np.zeros_like(m)

    def reported_moments(self, C: Columns) -> tuple[Array, Array]:
        return self.moments(C)

    def left_out(self, problem: Problem) -> tuple[Array, Array]:
        y, removed = problem.y, problem.removed
        m, v = problem.moments(Coef(self.mean, self.curvature))
        local = problem.model.likelihood.expected(y, m, self.eps**2)
        m, _ = leave_one_out(m, v, local, removed)
        return m, np.zeros_like(m)  # a point estimate has no variance


# ---------------------------------------------------------------------------------------------
# Rows with latent entries


def _incomplete(problem: Problem) -> Iterator[LatentRows]:
    parts = (latent_rows(problem, b) for b in problem.blocks)
    return (part for part in parts if part.at.size)


def by_pairs(model: Model, X: Any, pairs: tuple[Pair, ...]) -> tuple[Array, Array]:
    """Mean and variance of f for each draw of coefficients and parameters: ``(draws, n)``."""
    each, last, rows = [], None, Rows(None)
    for theta, params in pairs:
        if params is not last:
            last, rows = params, predict_rows(model, X, params)
        each.append(moments(rows, Coef(theta, Point(theta.size))))
    mean = np.stack([m for m, _ in each])
    return mean, np.stack([np.broadcast_to(v, mean.shape[1:]) for _, v in each])


def mixture(m: Array, v: Array, weight: Array | None = None) -> tuple[Array, Array]:
    """Mean and variance of Gaussian mixtures along the first axis."""
    share = np.full(m.shape, 1.0 / m.shape[0]) if weight is None else weight
    mean = np.sum(share * m, axis=0)
    return mean, np.sum(share * (v + (m - mean) ** 2), axis=0)
