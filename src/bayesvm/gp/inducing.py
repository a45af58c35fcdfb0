r"""Inducing points: the process as columns of a design matrix, and the choice of the points.

With :math:`K_{mm} + \epsilon I = L L^\top` at *m* points *Z*, a row's whitened columns are
:math:`c_i = L^{-1} k_m(x_i)` and their coefficients are a priori independent with unit variance.
The columns leave the variance :math:`\tilde k_i = k_{ii} - \|c_i\|^2` of f unexplained.  With every
distinct row among the points the process is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.cluster import KMeans

from ..core import arrays
from ..core.arrays import like
from ..core.types import Array, Columns, Design
from ..kernels import Precomputed, Scaled, column_scales
from .posterior import InducingProcess, kernel_factor


@dataclass(frozen=True, eq=False)
class Whitened(Design):
    """Whitened kernel values at the points ``Z``, which are on the scale of ``inputs``.

    The Cholesky factor is computed on first use; files contain only the points.
    """

    has_residual: ClassVar[bool] = True

    kernel: Any
    Z: Array
    inputs: Any  # design of the input: centre and scale

    def __getstate__(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "Z": self.Z, "inputs": self.inputs}

    @property
    def width(self) -> int:
        return int(self.Z.shape[0])

    @cached_property
    def factor(self) -> tuple[Array, float]:
        """Cholesky factor of the kernel matrix of the points, and the jitter on its diagonal."""
        return kernel_factor(self.kernel, self.Z)

    @property
    def L(self) -> Array:
        return self.factor[0]

    @cached_property
    def inverse(self) -> Array:
        """L^-1: multiplying by it is twice as fast as solving; L is never worse than 1e4."""
        return solve_triangular(self.L, np.eye(self.width), lower=True, check_finite=False)

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        """In float64 whatever the type of ``out``: L^-1 amplifies rounding errors of the kernel."""
        inputs = self.inputs.columns(X)
        cross = self.kernel(inputs, like(self.Z, inputs))
        C: Columns = cross @ like(self.inverse.T, cross)
        if out is None:
            return C
        out[:, :] = like(C, out)
        return out

    def residual(self, X: Any, C: Array) -> Array:
        """Variance of f that the columns do not explain."""
        xp, total = arrays.of(C), self.kernel.diag(self.inputs.columns(X))
        out: Array = xp.clip(total - arrays.double((C * C).sum(axis=1)), 0.0, None)
        return out

    def joint(self, X: Any, theta: Array, rng: np.random.Generator) -> Array:
        """Joint draws of f at rows, one for each row of coefficients ``theta``.

        The component of f that the columns do not explain is drawn from its prior.
        """
        C = self.columns(X)
        residual = self.kernel(self.inputs.columns(X)) - C @ C.T
        residual[np.diag_indices_from(residual)] += 1e-6 * float(np.mean(self.kernel.diag(self.Z)))
        try:
            root = cholesky(residual, lower=True, check_finite=False)
        except np.linalg.LinAlgError:  # only rounding error is left
            root = np.diag(np.sqrt(np.maximum(np.diag(residual), 0.0)))
        return theta @ C.T + rng.standard_normal((len(theta), C.shape[0])) @ root.T


@dataclass(frozen=True, eq=False)
class Smooth(Whitened):
    """Whitened kernel values without residual variance: point estimates, learned amplitudes."""

    has_residual = False


# ---------------------------------------------------------------------------------------------
# Choice of the points


class PointCount(NamedTuple):
    r"""The number of points: doubled until they explain enough of the prior variance.

    The unexplained variance :math:`\tilde k` at the rows ``X``, whose sites have precision *w*,
    costs the bound :math:`\tfrac12 w^\top\tilde k`: at most ``tol`` nats a row.  If a quarter of
    the rows would not suffice, all rows are points, up to ``limit``.  A fit of *m* points to *n*
    rows costs :math:`nm^2`, at most the cost of ``limit`` rows that are all points; ``least``
    points are always allowed.
    """

    X: Array
    w: Array
    n: int
    tol: float = 0.01
    first: int = 128
    least: int = 512
    limit: int = 5000

    def points(self, rows: Array, method: str, kernel: Any, rng: np.random.Generator) -> Array:
        """Points among distinct rows; ``rows`` itself if every row is a point."""
        m, most = self.first, max(self.least, int(np.sqrt(self.limit**3 / self.n)))
        while True:
            Z = choose_points(rows, m, method, kernel, rng)
            residual = InducingProcess.of(kernel, Z, self.X, 1.0).residual
            if 0.5 * float(np.mean(self.w * residual)) <= self.tol:
                return Z
            if 4 * m > len(rows) and len(rows) <= self.limit:
                return rows
            if 2 * m > most:
                return Z
            m *= 2


def inducing_points(
    inducing: Any,
    n_inducing: Any,
    X: Array,
    kernel: Any,
    inputs: Any,
    rng: np.random.Generator,
    count: PointCount | None = None,
) -> Array:
    """Inducing points on the standardised scale; ``X`` itself if every row is a point.

    They are chosen among distinct rows X, or given on the scale of the input and mapped by
    ``inputs``.  ``"auto"`` uses the number by ``count``, or every row.
    """
    if not isinstance(inducing, str):
        return _given_points(inducing, inputs)
    if inducing not in ("kmeans", "optimise", "random"):
        raise ValueError(
            f"inducing={inducing!r} is not known; choose 'kmeans', 'optimise', 'random' or give an "
            "array of points."
        )
    m, auto = n_inducing, isinstance(n_inducing, str) and n_inducing == "auto"
    whole = isinstance(m, int | np.integer) and not isinstance(m, bool) and m >= 1
    if not (whole or m is None or auto):
        raise ValueError(
            f"n_inducing must be a whole number of at least 1, 'auto' or None; got {m!r}."
        )
    if whole:
        return choose_points(X, int(m), inducing, kernel, rng)
    return X if m is None or count is None else count.points(X, inducing, kernel, rng)


def _given_points(points: Any, inputs: Any) -> Array:
    """Inducing points given by the user, made distinct and mapped to the scale of the fit."""
    try:
        Z = np.asarray(points, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "inducing must be 'kmeans', 'optimise', 'random' or an array of points; "
            f"got {points!r:.60}."
        ) from error
    if Z.ndim != 2 or Z.shape[0] < 1 or Z.shape[1] != inputs.width or not np.all(np.isfinite(Z)):
        raise ValueError(
            f"inducing must be an array of finite points of shape (m, {inputs.width}); "
            f"got shape {Z.shape}."
        )
    return np.asarray(inputs.columns(np.unique(Z, axis=0)))


def choose_points(X: Array, m: int, method: str, kernel: Any, rng: np.random.Generator) -> Array:
    """Inducing points among distinct rows ``X``: all of them if no more than ``m``.

    Methods: k-means on at most twenty rows per point, in units of the kernel's length scale along
    each column (also the start of optimised points); or a random sample of rows.  K-means are
    deterministic given the rows.
    """
    if len(X) <= m:
        return X
    if method == "random":
        return X[np.sort(rng.choice(len(X), m, replace=False))]
    if isinstance(kernel.kernel if isinstance(kernel, Scaled) else kernel, Precomputed):
        return pivots(kernel, X, m)  # without coordinates there are no means
    reach, most = column_scales(kernel, X.shape[1]), max(2000, 20 * m)
    sample = X / reach
    if len(X) > most:
        sample = sample[np.sort(np.random.default_rng(0).choice(len(X), most, replace=False))]
    means = KMeans(m, n_init=1, max_iter=5, random_state=0).fit(sample)
    return np.asarray(np.unique(means.cluster_centers_, axis=0) * reach)


def pivots(kernel: Any, X: Array, m: int) -> Array:
    """Rows chosen by kernel values alone: pivots of a Cholesky factor, largest first."""
    prior_variance = kernel.diag(X)
    remaining, C = prior_variance.astype(float), np.empty((len(X), 0))
    chosen: list[int] = []
    while len(chosen) < m and remaining.max() > 1e-10 * prior_variance.max():
        k = int(np.argmax(remaining))
        c = kernel(X, X[k : k + 1])[:, 0] - C @ C[k]
        C = np.column_stack([C, c / np.sqrt(remaining[k])])
        remaining = np.maximum(remaining - C[:, -1] ** 2, 0.0)
        remaining[k] = 0.0
        chosen.append(k)
    return X[np.sort(chosen)]
