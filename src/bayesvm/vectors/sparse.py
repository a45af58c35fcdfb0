"""A sparse machine: the columns with a weight, their coefficients and their covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core.types import Array, Coef, Columns
from ..gaussian.covariances import FullCovariance, scaled_cholesky
from ..machines.posterior import GaussianPosterior
from ..model.model import Problem
from .folds import Held


class Sparse(NamedTuple):
    """What a solver returns: a Gaussian approximation of the weights that are not zero."""

    columns: Array  # (k,) numbers of the columns that have a weight
    mean: Array  # (k + 1,) their weights, then the bias
    precision: Array  # (k + 1, k + 1) of Laplace's approximation
    value: float  # log posterior density, or log evidence
    path: list[float]
    n_iter: int
    converged: bool = True
    change: float = 0.0

    def moments(self, Phi: Array) -> tuple[Array, Array]:
        """Mean and variance of f at rows whose values in *all* columns are given."""
        C = np.column_stack([Phi[:, self.columns], np.ones(Phi.shape[0])])
        return C @ self.mean, self.covariance().quad(C)

    def covariance(self) -> FullCovariance:
        return FullCovariance(*scaled_cholesky(self.precision))

    def with_columns_times(self, factor: Array | float) -> Sparse:
        """The same f when the columns are multiplied by a factor."""
        s = np.append(np.broadcast_to(factor, self.columns.shape), 1.0)
        return self._replace(mean=self.mean / s, precision=self.precision * np.outer(s, s))


class Found(NamedTuple):
    """The machines of all classes, their kernel, and moments of f to calibrate them."""

    kernel: Any  # None if precomputed
    sparse: list[Sparse]  # columns are numbers of candidates
    held: list[Held | None]  # labels, mean and variance of f, weights of held-out rows


@dataclass(frozen=True)
class SparsePosterior:
    """Gaussian posterior of some of a design's columns; the coefficients of the others are zero."""

    has_spread: ClassVar[bool] = True
    pairs: ClassVar[tuple[Any, ...]] = ()

    columns: Array
    inner: GaussianPosterior
    width: int

    @classmethod
    def of(cls, sparse: Sparse, columns: Array, width: int) -> SparsePosterior:
        return cls(columns, GaussianPosterior(Coef(sparse.mean, sparse.covariance())), width)

    def _scatter(self, values: Array) -> Array:
        out = np.zeros((*values.shape[:-1], self.width))
        out[..., self.columns] = values
        return out

    @property
    def mean(self) -> Array:
        return self._scatter(self.inner.mean)

    def variance(self) -> Array:
        return self._scatter(self.inner.variance())

    def covariance(self, where: slice | None = None) -> Array:
        out = np.zeros((self.width, self.width))
        out[np.ix_(self.columns, self.columns)] = self.inner.covariance()
        return out if where is None else out[where, where]

    def moments(self, C: Columns) -> tuple[Array, Array]:
        return self.inner.moments(C[:, self.columns])

    def quantiles(self, C: Columns, levels: tuple[float, ...], extra: Array | float = 0.0) -> Array:
        return self.inner.quantiles(C[:, self.columns], levels, extra)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return self._scatter(self.inner.sample(n, rng))

    def left_out(self, problem: Problem) -> tuple[Array, Array]:
        raise RuntimeError("links of vector machines are fitted on held-out rows")
