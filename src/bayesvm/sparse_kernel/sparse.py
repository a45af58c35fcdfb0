"""A sparse machine: the columns with a weight, their coefficients and their covariance."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core.precision import scaled_cholesky
from ..core.types import Array, Coef
from ..linalg.covariances import FullCovariance
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

    def among(self, columns: Array, width: int) -> Coef:
        """The coefficients in a design of so many columns, those of this machine and others."""
        mean = np.zeros(width)
        mean[columns] = self.mean
        return Coef(mean, SparseCovariance(*scaled_cholesky(self.precision), columns, width))

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
class SparseCovariance(FullCovariance):
    """Covariance of some of a design's coefficients; the others are zero."""

    columns: Array = field(default_factory=lambda: np.arange(0))
    width: int = 0

    @cached_property
    def root(self) -> Array:
        out = np.zeros((self.width, self.L.shape[0]))
        out[self.columns] = FullCovariance(self.L).root
        return out

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"columns": self.columns, "width": self.width}
