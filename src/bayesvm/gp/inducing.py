"""Inducing points: where they are, and how many are enough."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from ..core.types import Array
from ..kernels import Precomputed, Scaled, column_scales
from .posterior import InducingProcess

PLACES = ("kmeans", "optimise", "random")


def inducing_points(
    inducing: Any,
    n_inducing: Any,
    X: Array,
    kernel: Any,
    inputs: Any,
    rng: np.random.Generator,
    every: int = 1000,
    weights: tuple[Array, Array] | None = None,
    limit: int = 4000,
) -> Array:
    """Inducing points on the standardised scale; ``X`` itself where every row is one.

    Parameters
    ----------
    inducing : {"kmeans", "optimise", "random"} or array of shape (m, n_features)
        How the points are chosen, or the points on the scale of the input.
    n_inducing : int, "auto" or None
        Their number; ``None`` takes every row, ``"auto"`` see :func:`enough_points`.
    X : array of shape (n, p)
        Distinct rows.
    kernel : Kernel
        Kernel whose length scales are the unit of distances.
    inputs : design
        Map from the input to the standardised scale.
    rng : numpy.random.Generator
        Generator of ``"random"``.
    every : int, default=1000
        With ``"auto"``, the number of rows up to which every row is a point.
    weights : tuple of arrays, optional
        Some rows and the precisions of their sites, by which the number is chosen.
    limit : int, default=4000
        With ``"auto"``, the number of rows up to which every row is a point if few points are not
        enough.
    """
    if not isinstance(inducing, str):
        return _given_points(inducing, inputs)
    if inducing not in PLACES:
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
    if m is None or (auto and len(X) <= every):
        return X
    if not auto:
        return choose_points(X, int(m), inducing, kernel, rng)
    some, w = weights or (X[:: 1 + len(X) // 1000], np.ones(1))
    return enough_points(X, kernel, some, w, inducing, rng, limit=limit)


def enough_points(
    X: Array,
    kernel: Any,
    some: Array,
    w: Array,
    how: str,
    rng: np.random.Generator,
    tol: float = 3e-3,
    first: int = 128,
    most: int = 512,
    limit: int = 4000,
) -> Array:
    r"""Inducing points, doubled until they miss little prior variance where rows inform f.

    The variance :math:`\tilde k` that points leave costs the bound
    :math:`\tfrac12 w^\top\tilde k`, with precisions *w* of the sites.

    Parameters
    ----------
    X : array of shape (n, p)
        Distinct rows.
    some, w : arrays of shape (k, p) and (k,)
        Rows at which the variance is computed, and their precisions.
    tol : float, default=3e-3
        Cost in nats a row that points may have.
    first, most : int
        The first number of points and the largest.
    limit : int, default=4000
        Every row is a point where ``most`` are not enough and rows are at most so many.
    """
    m = first
    while True:
        Z = choose_points(X, m, how, kernel, rng)
        lost = 0.5 * float(np.mean(w * InducingProcess.of(kernel, Z, some, 1.0).rest))
        if lost <= tol:
            return Z
        if 2 * m > most:
            return X if len(X) <= limit else Z
        m *= 2


def _given_points(points: Any, inputs: Any) -> Array:
    """Inducing points given by the user, distinct and on the scale of the fit."""
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


def choose_points(X: Array, m: int, how: str, kernel: Any, rng: np.random.Generator) -> Array:
    """Inducing points among distinct rows ``X``: all of them if no more than ``m``.

    By k-means of at most twenty rows a point, in units of the kernel's length scale along each
    column, from where points that are optimised start too, or drawn from the rows.  K-means depend
    on the rows alone.
    """
    if len(X) <= m:
        return X
    if how == "random":
        return X[np.sort(rng.choice(len(X), m, replace=False))]
    if isinstance(kernel.kernel if isinstance(kernel, Scaled) else kernel, Precomputed):
        return pivots(kernel, X, m)  # there are no rows to take means of
    reach, most = column_scales(kernel, X.shape[1]), max(2000, 20 * m)
    some = X / reach
    if len(X) > most:
        some = some[np.sort(np.random.default_rng(0).choice(len(X), most, replace=False))]
    means = KMeans(m, n_init=1, max_iter=5, random_state=0).fit(some)
    return np.asarray(np.unique(means.cluster_centers_, axis=0) * reach)


def pivots(kernel: Any, X: Array, m: int) -> Array:
    """Rows chosen by kernel values alone: pivots of a Cholesky factor, the largest first."""
    own = kernel.diag(X)
    left, C = own.astype(float), np.empty((len(X), 0))
    chosen: list[int] = []
    while len(chosen) < m and left.max() > 1e-10 * own.max():
        k = int(np.argmax(left))
        c = kernel(X, X[k : k + 1])[:, 0] - C @ C[k]
        C = np.column_stack([C, c / np.sqrt(left[k])])
        left = np.maximum(left - C[:, -1] ** 2, 0.0)
        left[k] = 0.0
        chosen.append(k)
    return X[np.sort(chosen)]
