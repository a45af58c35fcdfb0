"""What was learned about theta, whichever scheme learned it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from .stats import moments
from .types import Array, Coef, Columns, Rows


class NoPosterior(AttributeError, ValueError):
    """Asked for the spread of a point estimate."""


class Posterior(Protocol):
    """Moments of theta and of f, quantiles of f, and draws."""

    @property
    def mean(self) -> Array: ...
    def variance(self) -> Array: ...
    def covariance(self) -> Array: ...
    def moments(self, C: Columns) -> tuple[Array, Array]: ...
    def quantiles(self, C: Columns, levels: tuple[float, ...]) -> Array: ...
    def sample(self, n: int, rng: np.random.Generator) -> Array: ...


@dataclass(frozen=True)
class GaussianPosterior:
    """Variational posterior."""

    coef: Coef

    @property
    def mean(self) -> Array:
        return self.coef.mean

    def variance(self) -> Array:
        return self.coef.cov.diag()

    def covariance(self) -> Array:
        return self.coef.cov.dense()

    def moments(self, C: Columns) -> tuple[Array, Array]:
        m, v = moments(Rows(C), self.coef)
        return m, np.broadcast_to(v, m.shape)

    def quantiles(self, C: Columns, levels: tuple[float, ...]) -> Array:
        m, v = self.moments(C)
        return m + np.sqrt(v) * ndtri(np.array(levels))[:, None]

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return self.coef.mean + self.coef.cov.sample(n, rng)


@dataclass(frozen=True)
class DrawsPosterior:
    """Draws from a sampler, ``(chains, draws, K)``."""

    theta: Array

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

    def covariance(self) -> Array:
        return self._root.T @ self._root

    def moments(self, C: Columns) -> tuple[Array, Array]:
        T = C @ self._root.T
        return C @ self.mean, np.einsum("ij,ij->i", T, T)

    def quantiles(self, C: Columns, levels: tuple[float, ...]) -> Array:
        size = max(1, 2**22 // self.flat.shape[0])
        parts = [
            np.quantile(C[i : i + size] @ self.flat.T, levels, axis=1)
            for i in range(0, C.shape[0], size)
        ]
        return np.concatenate(parts, axis=1) if parts else np.empty((len(levels), 0))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return self.flat[rng.integers(self.flat.shape[0], size=n)]


@dataclass(frozen=True)
class PointPosterior:
    """A point estimate: it has no spread to report, and says so."""

    mean: Array

    def _refuse(self) -> NoPosterior:
        return NoPosterior(
            "inference='em' gives a point estimate without a posterior, so there are no standard "
            "deviations, intervals or draws. Fit with inference='vb', 'svi' or 'gibbs' for those."
        )

    def variance(self) -> Array:
        raise self._refuse()

    def covariance(self) -> Array:
        raise self._refuse()

    def moments(self, C: Columns) -> tuple[Array, Array]:
        m = C @ self.mean
        return m, np.zeros_like(m)

    def quantiles(self, C: Columns, levels: tuple[float, ...]) -> Array:
        raise self._refuse()

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        raise self._refuse()
