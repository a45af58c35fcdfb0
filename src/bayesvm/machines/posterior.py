"""What was learned about theta, whichever scheme learned it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import ndtri

from ..core.types import Array, Coef, Columns, Covariance, Rows
from ..inference.draws import Pair
from ..model.model import Problem
from ..model.passes import is_curved, moments
from .calibration import leave_one_out, leave_one_out_draws
from .incomplete import left_out_by_coef, left_out_by_pairs

CALIBRATION_DRAWS = 1000
ROOT_COLUMNS = 500  # up to here a factor of the draws' covariance is quicker than the draws
HELD = 2**22  # entries of f, rows times draws, held at once
CURVATURE_EPS = 0.1  # smoothing at which a point estimate's leverages are measured


class NoPosterior(AttributeError, ValueError):
    """Asked for the spread of a point estimate."""


class Posterior(Protocol):
    """Moments of theta and of f, quantiles of f, and draws."""

    has_spread: ClassVar[bool]

    @property
    def mean(self) -> Array: ...
    def variance(self) -> Array: ...
    def covariance(self, where: slice | None = None) -> Array: ...  # of some coefficients
    def moments(self, C: Columns) -> tuple[Array, Array]: ...
    def quantiles(
        self, C: Columns, levels: tuple[float, ...], extra: Array | float = 0.0
    ) -> Array: ...  # extra: variance of f outside theta
    def sample(self, n: int, rng: np.random.Generator) -> Array: ...
    def left_out(self, problem: Problem) -> tuple[Array, Array]: ...  # moments without the row


@dataclass(frozen=True)
class GaussianPosterior:
    """Variational posterior.

    ``response`` is the inverse of the bound's curvature: how the mean follows a row's slope once
    all rows have answered anew.  A covariance built from precisions understates it, which matters
    where a row is one of few of its group.
    """

    has_spread: ClassVar[bool] = True

    coef: Coef
    response: Covariance | None = None

    @property
    def mean(self) -> Array:
        return self.coef.mean

    def variance(self) -> Array:
        return self.coef.cov.diag()

    def covariance(self, where: slice | None = None) -> Array:
        return self.coef.cov.dense() if where is None else self.coef.cov.block(where)

    def moments(self, C: Columns) -> tuple[Array, Array]:
        m, v = moments(Rows(C), self.coef)
        return m, v + 0.0 * m  # in whichever library m lives

    def quantiles(self, C: Columns, levels: tuple[float, ...], extra: Array | float = 0.0) -> Array:
        m, v = self.moments(C)
        return m + np.sqrt(v + extra) * ndtri(np.array(levels))[:, None]

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return self.coef.mean + self.coef.cov.sample(n, rng)

    def left_out(self, problem: Problem) -> tuple[Array, Array]:
        y, c = problem.blocks.y, problem.blocks.c
        m, v = problem.moments(self.coef)
        local, rest = problem.model.likelihood.expected(y, m, v), problem.outside()
        centre, left = leave_one_out(m, v - rest, local, c)  # a row moves coefficients only
        if self.response is not None:
            reach = problem.moments(Coef(self.coef.mean, self.response))[1]
            own = np.where(is_curved(local), local.h, 0.0)  # others have no part in it
            centre, _ = leave_one_out(m, reach, local._replace(w=own), c)
        m, v = centre, left + rest
        if problem.latents:
            left_out_by_coef(problem, self.coef, m, v)
        return m, v


@dataclass(frozen=True)
class DrawsPosterior:
    """Draws from a sampler, ``(chains, draws, K)``."""

    has_spread: ClassVar[bool] = True

    theta: Array
    pairs: tuple[Pair, ...] = ()  # some of them, with the parameters of latent entries beside

    @property
    def flat(self) -> Array:
        return self.theta.reshape(-1, self.theta.shape[-1])

    @cached_property
    def mean(self) -> Array:
        return self.flat.mean(axis=0)

    @cached_property
    def _root(self) -> Array:
        """R with R'R the covariance of the draws: rows need no more of them than that."""
        return np.linalg.qr(self.flat - self.mean, mode="r") / np.sqrt(self.flat.shape[0])

    def variance(self) -> Array:
        return self.flat.var(axis=0)

    def covariance(self, where: slice | None = None) -> Array:
        if where is not None:
            gap = self.flat[:, where] - self.mean[where]
            return gap.T @ gap / gap.shape[0]
        return self._root.T @ self._root

    def moments(self, C: Columns) -> tuple[Array, Array]:
        if self.theta.shape[-1] > ROOT_COLUMNS:
            parts = [np.var(f, axis=1) for f in self._predictors(C)]
            return C @ self.mean, np.concatenate(parts) if parts else np.empty(0)
        T = C @ self._root.T
        return C @ self.mean, np.einsum("ij,ij->i", T, T)

    def _predictors(self, C: Columns) -> Iterator[Array]:
        """f of every draw at a few rows at a time."""
        size = max(1, HELD // self.flat.shape[0])
        for i in range(0, C.shape[0], size):
            yield C[i : i + size] @ self.flat.T

    def quantiles(self, C: Columns, levels: tuple[float, ...], extra: Array | float = 0.0) -> Array:
        parts = [np.quantile(f, levels, axis=1) for f in self._predictors(C)]
        f = np.concatenate(parts, axis=1) if parts else np.empty((len(levels), 0))
        if not np.any(extra):
            return f
        # what lies outside theta is Gaussian: widen the draws' own spread by it
        m, v = self.moments(C)
        return m + (f - m) * np.sqrt(1.0 + extra / np.maximum(v, 1e-300))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return self.flat[rng.integers(self.flat.shape[0], size=n)]

    def left_out(self, problem: Problem) -> tuple[Array, Array]:
        lik, flat = problem.model.likelihood, self.flat
        flat = flat[:: max(1, flat.shape[0] // CALIBRATION_DRAWS)]
        parts = []
        size = max(1, HELD // flat.shape[0])
        problem = replace(problem, blocks=replace(problem.blocks, size=size))
        for b in problem.blocks:
            f = problem.rows(b).C @ flat.T
            parts.append(leave_one_out_draws(f, lik.log_prob(b.y[:, None], f), b.c))
        m, v = (np.concatenate(part) for part in zip(*parts, strict=True))
        if problem.latents:
            left_out_by_pairs(problem, self.pairs, m, v)
        return m, v


@dataclass(frozen=True)
class PointPosterior:
    """A point estimate: it has no spread to report, and says so.

    ``curvature`` is the covariance that the smoothed loss would give: leverages for the link, and a
    start for a stream.
    """

    has_spread: ClassVar[bool] = False

    mean: Array
    curvature: Covariance

    def _refuse(self) -> NoPosterior:
        return NoPosterior(
            "inference='em' gives a point estimate without a posterior, so there are no standard "
            "deviations, intervals or draws. Fit with inference='vb', 'svi' or 'gibbs' for those."
        )

    def variance(self) -> Array:
        raise self._refuse()

    def covariance(self, where: slice | None = None) -> Array:
        raise self._refuse()

    def moments(self, C: Columns) -> tuple[Array, Array]:
        m = C @ self.mean
        return m, np.zeros_like(m)

    def quantiles(self, C: Columns, levels: tuple[float, ...], extra: Array | float = 0.0) -> Array:
        raise self._refuse()

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        raise self._refuse()

    def left_out(self, problem: Problem) -> tuple[Array, Array]:
        y, c = problem.blocks.y, problem.blocks.c
        m, v = problem.moments(Coef(self.mean, self.curvature))
        local = problem.model.likelihood.expected(y, m, CURVATURE_EPS**2)
        m, _ = leave_one_out(m, v, local, c)
        return m, np.zeros_like(m)  # the estimate itself has no variance
