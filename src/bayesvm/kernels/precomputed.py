"""Precomputed kernel matrices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.types import Array
from .algebra import Kernel


@dataclass(frozen=True, eq=False, repr=False)
class Precomputed(Kernel):
    """A precomputed kernel of *n* training rows; only its variance can be learned.

    Rows are given by their number (an array with one column) or by their kernel values with all
    training rows (*n* columns).  The diagonal value of a new row is not known; it is assumed to be
    the mean of the training diagonal, which is correct for every stationary kernel.

    Parameters
    ----------
    K : array of shape (n, n)
        Kernel matrix of the training rows.
    unit : float, default=1.0
        Number by which all values are divided.

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


def skew(K: Array) -> float:
    """Asymmetry of a matrix; 0 if it is symmetric up to rounding error."""
    gap, rounding = float(np.abs(K - K.T).max()), 1e-5 if K.dtype == np.float32 else 1e-8
    return gap if gap > rounding * float(np.abs(K).max()) else 0.0


def check_gram(K: Any) -> Array:
    """The kernel matrix of the training rows, checked for symmetry and a nonnegative diagonal."""
    own, gap = np.diag(K), skew(K)
    if np.any(own < 0) or gap > 0:
        raise ValueError(
            "kernel='precomputed' needs a symmetric matrix with a diagonal of at least 0; this one "
            f"has a smallest diagonal entry of {own.min():.3g} and differs from its transpose by "
            f"up to {gap:.3g}."
        )
    K = np.asarray(K, dtype=float)
    return 0.5 * K + 0.5 * K.T
