"""Points of a process: distinct rows, and inducing points among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans, kmeans_plusplus

from ..core import arrays
from ..core.types import Array
from ..kernels import Precomputed, Scaled, column_scales
from .process import LowRank

TELLING = 64  # columns by which rows are told apart, if they can be
ROUNDS = 3  # of distinguishing points by those around them
TIED = 1e-9  # difference of two marks of spread one that may be rounding
FLAT = 1e-6  # spread of numbers, in units of the largest, below which they count as equal
ROUNDING = 1e-12  # of the largest value of a column: a narrower one counts as constant

PLACES = ("kmeans", "optimise", "random")
ALL_ROWS = 5000  # up to here every distinct row is an inducing point, unless few are enough,
TERM_ROWS = 1000  # and in a term among others, whose fit factorises at every step
FIRST_INDUCING = 100
MOST_INDUCING = 500
RESIDUAL = 1.0  # prior variance that inducing points may leave unexplained,
RESIDUAL_SHARE = 0.1  # and as a share of it all
KMEANS_ROWS = 2000  # at most,
ROWS_A_POINT = 20  # or so many for each point; more rows or passes leave no less variance
KMEANS_PASSES = 5
KMEANS_MOVED = 1e-4  # squared, in units of the mean variance of a column: less ends the passes
FEW_POINTS = 200
FEW_DISTANCES = 2**21  # of rows and means, up to which NumPy takes less time than scikit-learn


# ---------------------------------------------------------------------------------------------
# Distinct rows


class Distinct(NamedTuple):
    """Distinct points, and distinct pairs of point and class with their total weights."""

    X: Array  # (points, p)
    at: Array  # (rows,) point of each merged row
    codes: Array  # (rows,) its class
    c: Array  # (rows,) its weight
    back: Array  # (n,) merged row of each row given
    unit: Array | float = 1.0  # (rows,) class weights, which are in c

    def weighing(self, unit: Array | float) -> Distinct:
        """With the class weights of the rows given."""
        if isinstance(unit, float):
            return self
        own = np.empty_like(self.c)
        own[self.back] = unit
        return self._replace(unit=own)


def merge(X: Array, codes: Array, c: Array) -> Distinct:
    """Merge equal rows of equal class; the order depends on nothing but their values.

    A row of weight two and the row twice are the same data, and become the same arrays.  Other
    units, signs or another order of columns, other names of classes, or rounding in the last
    digits, leave the order as it is: what is drawn by the numbers of rows, as folds are, stays the
    same.  Only points that these could exchange with each other, as mirror images, keep the order
    in which they were given.
    """
    X = np.asarray(X, dtype=float) + 0.0  # minus zero is zero
    points, first, at = X, np.arange(len(X)), np.arange(len(X))
    if not _all_differ(X):
        points, first, at = np.unique(X, axis=0, return_index=True, return_inverse=True)
    order = _ranked(points, at, codes, c, first)
    return _paired(points[order], np.argsort(order)[at], codes, c)


def _all_differ(X: Array) -> bool:
    """Whether a sum over some columns tells rows apart; equal rows have the same one."""
    mark = np.zeros(len(X))
    with np.errstate(all="ignore"):
        for j, column in enumerate(X.T[:TELLING]):
            mark += np.sqrt(2.0 + j) * column  # not a product of all, which may round rows unlike
    return np.unique(mark).size == mark.size  # infinities are equal


def merge_values(K: Array, codes: Array, c: Array) -> Distinct:
    """The same for rows known by their kernel values with each other, a symmetric matrix.

    Points are again kernel values, of the distinct rows with each other.
    """
    K = np.asarray(K, dtype=float) + 0.0
    _, first, at = np.unique(K, axis=0, return_index=True, return_inverse=True)
    points = K[np.ix_(first, first)]
    order = np.argsort(points.sum(axis=1), kind="stable")
    return _paired(points[np.ix_(order, order)], np.argsort(order)[at], codes, c)


def _paired(points: Array, point: Array, codes: Array, c: Array) -> Distinct:
    classes = int(codes.max()) + 1
    pairs, back = np.unique(point * classes + codes, return_inverse=True)
    weight = np.bincount(back, c, pairs.size)
    return Distinct(points, pairs // classes, pairs % classes, weight, back)


def _ranked(points: Array, point: Array, codes: Array, c: Array, given: Array) -> Array:
    """An order of points that other signs, units or another order of columns do not change.

    By a number made of inner products of points, columns being measured from their mean in units of
    their spread, and of which points share a class; those that are equal in it by where they were
    given first.
    """
    k = int(codes.max()) + 1
    _, at, own, weight, *_ = _paired(points, point, codes, c)  # two classes at a point: two pairs
    share = weight / c.sum()
    w = np.bincount(at, share)
    Z = _standardised(points, w)
    square, rows = np.square(Z), Z[at]
    mark = _unit(square.sum(axis=1) + 0.3 * np.einsum("ij,ij->i", square, np.abs(Z)), w)
    for _ in range(ROUNDS):
        weighted = rows * (mark[at] * share)[:, None]
        ends = np.stack([weighted[own == j].sum(axis=0) for j in range(k)])
        same = np.einsum("ij,ij->i", rows, ends[own])
        within = np.bincount(at, share * same) / w
        mark = _unit(mark + 0.7 * (Z @ ends.sum(axis=0)) + 0.9 * within, w)
    order = np.argsort(mark, kind="stable")
    group = np.empty(len(Z), dtype=np.intp)
    group[order] = np.cumsum(np.diff(mark[order], prepend=-np.inf) > TIED)
    return np.lexsort((given, group))


def _standardised(points: Array, w: Array) -> Array:
    """Columns about their mean, in units of their spread; those that do not vary are zero."""
    low, high = points.min(axis=0), points.max(axis=0)
    width = high / 2.0 - low / 2.0  # halves, lest the range of huge values overflow
    varies = width > ROUNDING * np.maximum(np.abs(low), np.abs(high))
    place = np.zeros_like(points)
    np.divide(points / 2.0 - low / 2.0, width, out=place, where=varies)
    place -= w @ place
    return np.asarray(place / np.where(varies, np.sqrt(w @ np.square(place)), 1.0))


def _unit(x: Array, w: Array) -> Array:
    """Numbers of mean zero and spread one; zeros where they are equal but for rounding."""
    gap = x - w @ x
    spread = float(np.sqrt(w @ np.square(gap)))
    return gap / spread if spread > FLAT * float(np.abs(x).max(initial=0.0)) else 0.0 * gap


# ---------------------------------------------------------------------------------------------
# Inducing points


def inducing_points(
    inducing: Any,
    n_inducing: Any,
    X: Array,
    kernel: Any,
    inputs: Any,
    rng: np.random.Generator,
    every: int = ALL_ROWS,
    place: Callable[[Array], Any] = arrays.as_it_is,
) -> Array:
    """Inducing points on the standardised scale; ``X`` itself where every row is one.

    By default that is up to ``every`` rows.  K-means are computed where ``place`` puts rows.
    """
    if not isinstance(inducing, str):
        return _given_points(inducing, inputs)
    if inducing not in PLACES:
        raise ValueError(
            f"inducing={inducing!r} is not known; choose 'kmeans', 'optimise', 'random' or give an "
            "array of points."
        )
    m, auto, n = n_inducing, isinstance(n_inducing, str) and n_inducing == "auto", X.shape[0]
    whole = isinstance(m, int | np.integer) and not isinstance(m, bool) and m >= 1
    if not (whole or m is None or auto):
        raise ValueError(
            f"n_inducing must be a whole number of at least 1, 'auto' or None; got {m!r}."
        )
    if m is None or (auto and n <= every):
        return X
    if not auto:
        return choose_points(X, int(m), inducing, kernel, rng, place)
    m, sample = FIRST_INDUCING, X[rng.choice(n, min(n, 1000), replace=False)]
    allowed = min(RESIDUAL, RESIDUAL_SHARE * kernel.diag(sample).mean())
    while True:
        Z = choose_points(X, m, inducing, kernel, rng, place)
        left = LowRank.of(kernel, Z, sample, 0.0, False).rest.mean()
        if 2 * m > MOST_INDUCING or left < allowed:
            return Z
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


def choose_points(
    X: Array,
    m: int,
    how: str,
    kernel: Any,
    rng: np.random.Generator,
    place: Callable[[Array], Any] = arrays.as_it_is,
    rows: int | None = None,
    c: Array | None = None,
) -> Array:
    """Inducing points among distinct rows ``X``: all of them if no more than ``m``.

    By k-means in units of the kernel's length scale along each column, from where points that are
    optimised start too, or drawn from the rows.  Means are of so many ``rows``, with weights ``c``.
    """
    if X.shape[0] <= m:
        return X
    if how == "random":
        return X[np.sort(rng.choice(X.shape[0], m, replace=False))]
    if isinstance(kernel.kernel if isinstance(kernel, Scaled) else kernel, Precomputed):
        return pivots(kernel, X, m, rng)  # there are no rows to take means of
    reach = column_scales(kernel, X.shape[1])
    some, most = X / reach, kmeans_rows(m) if rows is None else rows
    if X.shape[0] > most:
        drawn = np.sort(rng.choice(X.shape[0], most, replace=False))
        some, c = some[drawn], None if c is None else c[drawn]
    seed = int(rng.integers(2**31 - 1))
    if arrays.is_foreign(there := place(some)):
        return np.asarray(arrays.to_numpy(means_there(there, m, seed)) * reach)
    if c is not None or some.shape[0] * m <= FEW_DISTANCES:
        return means_here(some, m, seed, c) * reach
    start: Any = "k-means++" if m <= FEW_POINTS else first_means(some, m, seed)
    means = KMeans(m, init=start, n_init=1, max_iter=KMEANS_PASSES, random_state=seed).fit(some)
    return np.asarray(means.cluster_centers_ * reach)


def kmeans_rows(m: int) -> int:
    """Rows that m means are computed of, at most."""
    return max(KMEANS_ROWS, ROWS_A_POINT * m)


def trials(m: int) -> int:
    """Rows tried for each first mean: scikit-learn's number, and two for many points.

    512 points then take half the time and leave half a per cent more variance unexplained.
    """
    return 2 + int(np.log(m)) if m <= FEW_POINTS else 2


def first_means(X: Array, m: int, seed: int) -> Array:
    """Rows that k-means begins with."""
    rows: Array = kmeans_plusplus(X, m, random_state=seed, n_local_trials=trials(m))[0]
    return rows


def means_here(X: Array, m: int, seed: int, c: Array | None = None) -> Array:
    """K-means of few rows, which may have weights, by the steps of scikit-learn's ``KMeans``.

    From the same draws.  A mean that loses all its rows stays where it is.
    """
    draws, n = np.random.RandomState(seed), X.shape[0]
    c = np.ones(n) if c is None else c
    centre, one = c @ X / c.sum(), np.ones((n, 1))
    X = X - centre
    size = arrays.squares(X)[:, None]
    own, other = np.hstack([X, one, size]), np.ascontiguousarray(np.hstack([-2.0 * X, size, one]).T)
    chosen = np.empty(m, dtype=np.intp)
    chosen[0] = draws.choice(n, p=c / c.sum())
    shares = draws.uniform(size=(m - 1, trials(m)))
    near = np.maximum(own[chosen[:1]] @ other, 0.0)[0]
    for k in range(m - 1):  # the best of a few rows drawn by their squared distances
        sums = np.cumsum(c * near)
        at = np.minimum(np.searchsorted(sums, shares[k] * sums[-1]), n - 1)
        after = own[at] @ other
        np.minimum(after, near, out=after)
        np.maximum(after, 0.0, out=after)
        losses = after @ c  # equal for two rows that are nearest to each other: the first of them
        best = int(np.argmax(np.isclose(losses, losses.min())))
        near, chosen[k + 1] = after[best], at[best]
    Z, weighted = X[chosen], c[:, None] * np.hstack([X, one])
    tol = KMEANS_MOVED * float(X.var(axis=0).mean())
    for _ in range(KMEANS_PASSES):
        nearest = np.argmin((-2.0 * Z) @ X.T + arrays.squares(Z)[:, None], axis=0)
        sums = csr_matrix((one[:, 0], nearest, np.arange(n + 1)), shape=(n, m)).T @ weighted
        new = np.where(sums[:, -1:] > 0.0, sums[:, :-1] / np.maximum(sums[:, -1:], 1e-300), Z)
        moved, Z = float(np.square(new - Z).sum()), new
        if moved <= tol:
            break
    return np.asarray(Z + centre)


def means_there(X: Any, m: int, seed: int) -> Any:
    """K-means of rows on a device, by the steps of scikit-learn's ``KMeans`` from the same draws.

    No number is brought to the host while first means are drawn.  A mean that loses all its rows
    stays where it is.
    """
    xp, draws, n = arrays.of(X), np.random.RandomState(seed), X.shape[0]
    centre = xp.mean(X, axis=0)
    X = X - centre
    tol = KMEANS_MOVED * float(xp.mean(xp.var(X, axis=0)))

    def sides(A: Any) -> tuple[Any, Any]:
        """Columns whose product is all squared distances: (a, 1, |a|^2) and (-2a, |a|^2, 1)."""
        size, one = arrays.squares(A)[:, None], arrays.constant(A, 1.0, 1)
        return xp.concat([A, one, size], axis=1), xp.concat([-2.0 * A, size, one], axis=1)

    own, other = sides(X)
    other = other.T
    first = draws.choice(n, p=np.full(n, 1.0 / n))
    some = [own[first : first + 1, :]]
    shares = arrays.like(draws.uniform(size=(m - 1, trials(m))), X)
    near = xp.clip(some[0] @ other, 0.0, None)[0, :]
    for k in range(m - 1):  # the best of a few rows drawn by their squared distances
        sums = xp.cumulative_sum(near)
        at = xp.clip(xp.searchsorted(sums, shares[k, :] * sums[-1]), None, n - 1)
        tried = arrays.pick(own, at)
        after = xp.minimum(xp.clip(tried @ other, 0.0, None), near)
        best = xp.reshape(xp.argmin(xp.sum(after, axis=1)), (1,))
        near = arrays.pick(after, best)[0, :]
        some.append(arrays.pick(tried, best))
    Z = xp.concat(some)[:, : X.shape[1]]
    every = arrays.index(np.arange(m)[:, None], X)
    for _ in range(KMEANS_PASSES):
        nearest = xp.argmin(sides(Z)[0] @ other, axis=0)
        theirs = xp.astype(nearest == every, xp.float64)  # products add up in a fixed order
        count = xp.sum(theirs, axis=1)[:, None]
        new = xp.where(count > 0.0, theirs @ X / xp.clip(count, 1.0, None), Z)
        moved, Z = float(xp.sum((new - Z) ** 2)), new
        if moved <= tol:
            break
    return Z + centre


def pivots(kernel: Any, X: Array, m: int, rng: np.random.Generator) -> Array:
    """Rows chosen by kernel values alone, with probability by the variance not yet explained.

    They are pivots, drawn at random, of a Cholesky factor.
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
