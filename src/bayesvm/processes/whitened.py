r"""A Gaussian process as columns: whitened kernel values at inducing points.

With :math:`K_{mm} + \epsilon I = L L^\top` at *m* points *Z*, a row's columns are
:math:`c_i = L^{-1} k_m(x_i)` and their coefficients are a priori independent with unit variance.
What the columns cannot say is left as a variance, :math:`\tilde k_i = k_{ii} - \|c_i\|^2`.  With
every distinct row among the points the process is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ..core import arrays
from ..core.arrays import like
from ..core.types import Array, Columns, Design

JITTER = 1e-6  # of the mean diagonal of K_mm
MOST_JITTER = 1e-2


@dataclass(frozen=True, eq=False)
class Whitened(Design):
    """Whitened kernel values at the points ``Z``, which are on the scale of ``inputs``."""

    has_residual: ClassVar[bool] = True

    inputs: Any  # design of the input itself: centre and scale
    kernel: Any
    Z: Array
    L: Array

    def __getstate__(self) -> dict[str, Any]:
        """The factor is found again from the points."""
        return {"inputs": self.inputs, "kernel": self.kernel, "Z": self.Z}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, L=whiten(state["kernel"], state["Z"], state["inputs"]).L)

    @property
    def width(self) -> int:
        return int(self.Z.shape[0])

    @cached_property
    def inverse(self) -> Array:
        """L^-1: a product with it is twice as quick as a solve, and L is never worse than 1e4."""
        eye = np.eye(self.width)
        return solve_triangular(self.L, eye, lower=True, check_finite=False)

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        """In float64 whatever ``out`` holds: L^-1 would blow up the rounding of the kernel."""
        inputs = self.inputs.columns(X)
        cross = self.kernel(inputs, like(self.Z, inputs))
        C = cross @ like(self.inverse.T, cross)
        if out is None:
            return C
        out[:, :] = C if out.dtype == C.dtype else like(C, out)
        return out

    def residual(self, X: Any, C: Array) -> Array:
        """Variance of f that the columns leave."""
        rest = self.kernel.diag(self.inputs.columns(X)) - arrays.double(arrays.squares(C))
        return arrays.at_least(rest, 0.0)  # type: ignore[no-any-return]

    def joint(self, X: Any, theta: Array, rng: np.random.Generator) -> Array:
        """f jointly at rows, one draw for each row of coefficients ``theta``.

        What the columns leave is drawn from its prior, which is all that is known of it.
        """
        C = self.columns(X)
        rest = self.kernel(self.inputs.columns(X)) - C @ C.T
        rest[np.diag_indices_from(rest)] += 1e-6 * float(np.mean(self.kernel.diag(self.Z)))
        try:
            root = cholesky(rest, lower=True, check_finite=False)
        except np.linalg.LinAlgError:  # nothing but rounding is left
            root = np.diag(np.sqrt(np.maximum(np.diag(rest), 0.0)))
        return theta @ C.T + rng.standard_normal((len(theta), C.shape[0])) @ root.T


@dataclass(frozen=True, eq=False)
class Mixture(Design):
    """Draws of a process, each with a kernel of its own, as columns: those of f itself.

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
            yield whiten(self.kernel.with_theta(theta), self.Z, self.inputs)

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


def jitter(K: Array) -> float:
    """What is added to the diagonal of a kernel matrix: part of the model."""
    return JITTER * float(np.mean(np.diag(K)))


def whiten(kernel: Any, Z: Array, inputs: Any) -> Whitened:
    """The design with its factor; the jitter grows tenfold until the factorisation succeeds."""
    K = kernel(Z)
    if not np.all(np.isfinite(K)):
        raise ValueError(
            f"the kernel {kernel} is not finite at the data; check its parameters and the inputs."
        )
    base, share = float(np.mean(np.diag(K))), JITTER
    while share <= MOST_JITTER:
        propped = K.copy()
        propped[np.diag_indices_from(propped)] += share * base
        try:
            L = cholesky(propped, lower=True, overwrite_a=True, check_finite=False)
            return Whitened(inputs, kernel, Z, L)
        except np.linalg.LinAlgError:
            share *= 10.0
    raise np.linalg.LinAlgError(
        f"the kernel matrix of {Z.shape[0]} points is not positive definite even with "
        f"{MOST_JITTER:g} of its diagonal added. Drop duplicate or collinear inducing points, or "
        "check that the kernel is positive definite."
    )


# ---------------------------------------------------------------------------------------------
# Where the points are

LLOYD_ROWS = 2000  # at most,
ROWS_A_POINT = 20  # or so many for each point; more rows or passes leave no less variance
LLOYD_PASSES = 5


def choose_points(
    X: Array, m: int, how: Any, rng: np.random.Generator, reach: Array | float = 1.0
) -> Array:
    """Inducing points among distinct rows ``X``: all of them if no more than ``m``.

    Distances are in units of the kernel's ``reach`` along each column.
    """
    if X.shape[0] <= m:
        return X
    if how == "random":
        return X[np.sort(rng.choice(X.shape[0], m, replace=False))]
    some, most = X / reach, max(LLOYD_ROWS, ROWS_A_POINT * m)
    if X.shape[0] > most:
        some = some[np.sort(rng.choice(X.shape[0], most, replace=False))]
    return lloyd(some, spread(some, m, rng)) * reach


def scattered(kernel: Any, X: Array, m: int, rng: np.random.Generator) -> Array:
    """Rows chosen by kernel values alone, with probability by what is left unexplained of each.

    The kernel's own k-means++: pivots, drawn at random, of a Cholesky factor.
    """
    own = kernel.diag(X)
    left, C = own.astype(float), np.empty((X.shape[0], 0))
    chosen: list[int] = []
    while len(chosen) < min(m, X.shape[0]) and left.max() > 1e-10 * own.max():
        k = int(rng.choice(X.shape[0], p=left / left.sum()))
        c = kernel(X, X[k : k + 1])[:, 0] - C @ C[k]
        C = np.column_stack([C, c / np.sqrt(left[k])])
        left = np.maximum(left - C[:, -1] ** 2, 0.0)
        left[k] = 0.0
        chosen.append(k)
    return X[np.sort(chosen)]


def _gaps(X: Array, Z: Array, square: Array) -> Array:
    """Squared distances to the points, ``(n, m)``, less what no comparison needs."""
    return square + np.einsum("ij,ij->i", Z, Z) - 2.0 * (X @ Z.T)


def spread(X: Array, m: int, rng: np.random.Generator) -> Array:
    """k-means++: each point far from those already chosen, with probability by squared distance."""
    chosen = [int(rng.integers(X.shape[0]))]
    nearest = np.square(X - X[chosen[0]]).sum(axis=1)
    while len(chosen) < m:
        total = np.cumsum(nearest)
        if total[-1] <= 0:  # fewer distinct rows than points
            break
        chosen.append(int(np.searchsorted(total, rng.random() * total[-1])))
        nearest = np.minimum(nearest, np.square(X - X[chosen[-1]]).sum(axis=1))
    return X[np.sort(chosen)].copy()


def lloyd(X: Array, Z: Array, passes: int = LLOYD_PASSES) -> Array:
    """Move every point to the mean of the rows nearest to it, a few times."""
    square = np.einsum("ij,ij->i", X, X)[:, None]
    for _ in range(passes):
        size = max(1, 2**22 // Z.shape[0])
        near = np.concatenate(
            [
                _gaps(X[i : i + size], Z, square[i : i + size]).argmin(axis=1)
                for i in range(0, X.shape[0], size)
            ]
        )
        count = np.bincount(near, minlength=Z.shape[0])
        sums = np.stack([np.bincount(near, x, Z.shape[0]) for x in X.T], axis=1)
        Z = np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], Z)
    return Z
