"""A sparse machine: the columns that survived, their coefficients and their spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..core.types import Array, Coef, Columns
from ..gaussian.covariances import FullCovariance, scaled_cholesky
from ..machines.posterior import GaussianPosterior
from ..model.model import Problem


class Sparse(NamedTuple):
    """What a solver leaves behind.

    ``columns`` are the numbers of the surviving columns, ``mean`` their coefficients and the bias,
    ``precision`` the matrix of Laplace's approximation there.
    """

    columns: Array
    mean: Array
    precision: Array
    value: float  # log posterior density, or log evidence
    path: list[float]
    n_iter: int
    converged: bool
    change: float = 0.0

    def moments(self, Phi: Array) -> tuple[Array, Array]:
        """Mean and variance of f at rows whose kernel values with *all* columns are given."""
        C = np.column_stack([Phi[:, self.columns], np.ones(Phi.shape[0])])
        return C @ self.mean, self.covariance().quad(C)

    def covariance(self) -> FullCovariance:
        return FullCovariance(*scaled_cholesky(self.precision))

    def with_columns_times(self, factor: Array | float) -> Sparse:
        """The same machine of columns that are so many times as large."""
        s = np.append(np.broadcast_to(factor, self.columns.shape), 1.0)
        return self._replace(mean=self.mean / s, precision=self.precision * np.outer(s, s))


@dataclass(frozen=True)
class OnColumns:
    """A Gaussian posterior of some of the design's columns; the others are zero for certain."""

    has_spread: ClassVar[bool] = True

    columns: Array
    inner: GaussianPosterior
    width: int

    @classmethod
    def of(cls, sparse: Sparse, columns: Array, width: int) -> OnColumns:
        return cls(columns, GaussianPosterior(Coef(sparse.mean, sparse.covariance())), width)

    def _spread(self, values: Array) -> Array:
        out = np.zeros((*values.shape[:-1], self.width))
        out[..., self.columns] = values
        return out

    @property
    def mean(self) -> Array:
        return self._spread(self.inner.mean)

    def variance(self) -> Array:
        return self._spread(self.inner.variance())

    def covariance(self, where: slice | None = None) -> Array:
        out = np.zeros((self.width, self.width))
        out[np.ix_(self.columns, self.columns)] = self.inner.covariance()
        return out if where is None else out[where, where]

    def moments(self, C: Columns) -> tuple[Array, Array]:
        return self.inner.moments(C[:, self.columns])

    def quantiles(self, C: Columns, levels: tuple[float, ...], extra: Array | float = 0.0) -> Array:
        return self.inner.quantiles(C[:, self.columns], levels, extra)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return self._spread(self.inner.sample(n, rng))

    def left_out(self, problem: Problem) -> tuple[Array, Array]:
        raise RuntimeError("links of vector machines are fitted on rows held out")
