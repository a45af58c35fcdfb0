"""A kernel known by its values at the training rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.types import Array
from .algebra import Kernel


@dataclass(frozen=True, eq=False, repr=False)
class Precomputed(Kernel):
    """Kernel values of *n* training rows, of which no parameter can be learned but a weight.

    Rows are given by number, an array of one column, or by their kernel values with all training
    rows, *n* columns.  The value of a new row with itself is in neither; it is taken to be the mean
    of the training rows', which is right for every kernel of distances.

    Parameters
    ----------
    K : array of shape (n, n)
        Values of the training rows with each other.
    unit : float, default=1.0
        All values are taken in this unit.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.kernels import Precomputed
    >>> kernel = Precomputed(np.array([[1.0, 0.2], [0.2, 1.0]]))
    >>> kernel(np.array([[0]]), np.array([[0.5, 0.7]]))  # the first row with a new one
    array([[0.5]])
    """

    K: Array = field(repr=False)
    unit: float = 1.0

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        B = A if B is None else B
        if A.shape[1] == B.shape[1] == 1:
            return self.K[np.ix_(_numbers(A), _numbers(B))] / self.unit
        if B.shape[1] == 1:
            return A[:, _numbers(B)] / self.unit
        if A.shape[1] == 1:
            return B[:, _numbers(A)].T / self.unit
        raise ValueError(
            "kernel='precomputed' has no kernel values of new rows with each other; use "
            "training rows, or give the kernel as a function."
        )

    def diag(self, A: Array) -> Array:
        own = np.diag(self.K) / self.unit
        return own[_numbers(A)] if A.shape[1] == 1 else np.full(A.shape[0], own.mean())


def _numbers(A: Array) -> Array:
    return A[:, 0].astype(np.intp)


def check_square(K: Any) -> Array:
    """A matrix of kernel values of the training rows with each other."""
    K = np.asarray(K)
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            "kernel='precomputed' needs the square matrix of kernel values of the training rows; "
            f"got shape {K.shape}."
        )
    return K


def skew(K: Array) -> float:
    """How far a matrix is from its transpose; 0 where no more than rounding is between them."""
    gap, rounding = float(np.abs(K - K.T).max()), 1e-5 if K.dtype == np.float32 else 1e-8
    return gap if gap > rounding * float(np.abs(K).max()) else 0.0


def check_gram(K: Any) -> Array:
    """Kernel values of the training rows that may be those of a Gaussian process, symmetrised."""
    K = check_square(K)
    own, gap = np.diag(K), skew(K)
    if np.any(own < 0) or gap > 0:
        raise ValueError(
            "kernel='precomputed' needs a symmetric matrix with a diagonal of at least 0; this one "
            f"has a smallest diagonal entry of {own.min():.3g} and differs from its transpose by "
            f"up to {gap:.3g}."
        )
    K = np.asarray(K, dtype=float)
    return 0.5 * K + 0.5 * K.T
