r"""Training data of a process, and its posterior: precisions and means that maximise the bound.

For labels :math:`y_{ik}` of *K* classes against the rest, with contributions :math:`\ell` of the
likelihood (:meth:`.Likelihood.tight`), the bound of class *k* is

.. math:: \sum_i c_i\,\ell(y_{ik}, m_{ik}, v_i) - \mathrm{KL}_k .

Classes have separate means and share the precisions *w*, hence one covariance and one factorisation
per iteration.  Two classes need one binary model, and nothing is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..core import arrays
from ..core.types import Array, Contribution
from ..data import rows_of_all_classes
from ..inference.progress import Ascent, Monitor, Progress, Watch, silent
from ..kernels import squared_distances
from ..predictive.leave_one_out import effective, leave_one_out
from .posterior import ExactProcess, InducingProcess, inner

Site = Callable[[Array, Array, Array], Contribution]


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels -1 and +1 of rows, with their weights and points.

    ``y`` has shape (rows,), or (rows, classes) for several binary models.  Leaving a row out
    subtracts the weight ``unit``: see :class:`~bayesvm.inference.problem.Problem`.
    """

    y: Array
    c: Array
    at: Array
    points: int
    unit: Array | float = 1.0

    @property
    def Y(self) -> Array:
        """Labels of all binary models, ``(rows, classes)``."""
        return self.y if self.y.ndim == 2 else self.y[:, None]

    @property
    def effective(self) -> Array:
        """Weights for comparing losses; see :func:`.effective`."""
        return effective(self.c, self.unit)

    @cached_property
    def rows_of_points(self) -> Any:
        """The sparse incidence matrix, ``(points, rows)``."""
        n = self.at.size
        return sparse.csr_array((np.ones(n), (self.at, np.arange(n))), (self.points, n))

    def total(self, x: Array) -> Array:
        """Sums over the rows at each point, for a vector or for columns."""
        return np.asarray(self.rows_of_points @ x)

    def take(self, rows: Array) -> tuple[Labels, Array]:
        """A subset of rows, and the positions of their points."""
        points, at = np.unique(self.at[rows], return_inverse=True)
        unit = np.broadcast_to(self.unit, self.c.shape)[rows]
        return Labels(self.y[rows], self.c[rows], at, points.size, unit), points

    def local(self, site: Site, M: Array, v: Array) -> Contribution:
        """Contributions of the rows, multiplied by c, for moments at the points."""
        return site(self.Y, M[self.at], v[self.at][:, None]).times(self.c[:, None])


class Distinct(NamedTuple):
    """Distinct points, and distinct pairs of point and class with their total weights."""

    X: Array  # (points, p)
    at: Array  # (rows,) point of each merged row
    codes: Array  # (rows,) its class
    c: Array  # (rows,) its weight
    back: Array  # (n,) merged row of each original row
    unit: Array | float = 1.0  # (rows,) weight of one row: its class weight

    @property
    def copies(self) -> Array:
        """How often each merged row was copied, ``(rows,)``; one if equal rows are observations.

        After a join or a bootstrap, and with weights above one, equal rows (labels included) are
        copies of one observation.  But equal rows are separate observations if most rows occur
        once, or if columns have so few distinct values that at least one equal pair would be
        expected by chance if columns were independent.
        """
        count = self.c / self.unit
        pairs, share = 0.5 * count.sum() ** 2, count / count.sum()
        for x in self.X.T:
            value = np.unique(x, return_inverse=True)[1].reshape(-1)[self.at]
            pairs *= float(np.square(np.bincount(value, share)).sum())
        once = share[count <= 1.0].sum()
        return np.maximum(count, 1.0) if once < 0.5 and pairs < 1.0 else np.ones_like(count)


def merge(X: Array, codes: Array, c: Array, unit: Array | float = 1.0) -> Distinct:
    """Merge equal rows of equal class; points are sorted by their distance from the mean.

    Weights are ``c``, including class weights ``unit``.  A row of weight two gives the same arrays
    as the row twice.  The order of points does not depend on the order of the rows or on the units
    of columns, so that folds stay the same.  Points at the same distance are ordered by class, then
    by value; only this last order depends on the signs of columns.
    """
    X = np.asarray(X, dtype=float) + 0.0  # minus zero becomes zero
    points, at = np.unique(X, axis=0, return_inverse=True)
    gap = np.abs(points - points.mean(axis=0))
    largest = np.max(gap, axis=0, initial=0.0)
    square = np.square(gap / np.where(largest > 0.0, largest, 1.0)).sum(axis=1)
    label = np.bincount(at.reshape(-1), c * codes) / np.bincount(at.reshape(-1), c)
    order = np.lexsort((label, np.round(square, 9)))
    classes = int(codes.max()) + 1
    pairs, back = np.unique(
        np.argsort(order)[at.reshape(-1)] * classes + codes, return_inverse=True
    )
    row_units = np.empty(pairs.size)
    row_units[back] = unit
    weight = np.bincount(back, c, pairs.size)
    return Distinct(points[order], pairs // classes, pairs % classes, weight, back, row_units)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Distinct points with the labels of all binary models, for the choice of a kernel."""

    X: Array  # (points, p), on the scale of the kernel
    labels: Labels
    codes: Array  # (rows,), classes from zero
    intercept_variance: float  # prior variance of the intercept of f
    extent: float  # squared size of the cloud of points: one per standardised column
    copies: Array | float = 1.0  # (rows,), see Distinct

    @staticmethod
    def of(points: Array, data: Distinct, intercept_variance: float, extent: float) -> TrainingData:
        """Drops classes without rows, which a stream may have."""
        codes, copies = np.unique(data.codes, return_inverse=True)[1].reshape(-1), data.copies
        Y = np.stack(list(arrays.one_against_rest(codes, int(codes.max()) + 1)), axis=1)
        labels = Labels(Y, data.c, data.at, len(points), data.unit * copies)
        return TrainingData(points, labels, codes, intercept_variance, extent, copies)

    def search_data(self) -> TrainingData:
        """Labels for the evidence of kernels: copies count once, classes are binary digits.

        The digits of the class numbers, ordered by size, distinguish all classes, and their number
        is only the logarithm of the number of classes.
        """
        labels, classes = self.labels, int(self.codes.max()) + 1
        Y = labels.Y
        if classes > 2:
            number = np.argsort(np.argsort(np.bincount(self.codes, labels.c), kind="stable"))
            codes = number[self.codes]
            digits = range(int(classes - 1).bit_length())
            Y = np.stack([np.where(codes >> j & 1, 1.0, -1.0) for j in digits], axis=1)
        return replace(self, labels=replace(labels, y=Y, c=labels.c / self.copies))

    def take(self, points: Array) -> TrainingData:
        """A subset of the points, in the given order, and their rows."""
        keep = np.zeros(len(self.X), dtype=bool)
        keep[points] = True
        rows = np.flatnonzero(keep[self.labels.at])
        copies = np.broadcast_to(self.copies, self.codes.shape)[rows]
        labels, codes = self.labels.take(rows)[0], self.codes[rows]
        return replace(self, X=self.X[keep], labels=labels, codes=codes, copies=copies)

    def subset(self, most: int) -> TrainingData:
        """A deterministic subset of at most ``most`` points from all classes.

        Sampling classes in other proportions changes only the intercept of the log odds (Prentice &
        Pyke 1979), so rows keep their weights.
        """
        if len(self.X) <= most:
            return self
        return self.take(rows_of_all_classes(self.point_codes, most, np.random.default_rng(0)))

    def neighbourhoods(self, most: int, size: int, reach: Array) -> TrainingData:
        """At most ``most`` points: a subset of all classes, and the ``size`` nearest to each.

        A random subset of points is too sparse to show how f varies between neighbours.  ``reach``
        is the unit of distance along each column.
        """
        if len(self.X) <= most:
            return self
        rng = np.random.default_rng(0)
        centres = rows_of_all_classes(self.point_codes, most // size, rng)
        D = squared_distances(self.X[centres] / reach, self.X / reach)
        return self.take(np.argpartition(D, size - 1, axis=1)[:, :size].ravel())

    @property
    def point_codes(self) -> Array:
        """The class of each point; the rarest if it has several."""
        size = np.bincount(self.codes, self.labels.c)
        out = np.empty(len(self.X), dtype=int)
        order = np.argsort(-size[self.codes], kind="stable")
        out[self.labels.at[order]] = self.codes[order]
        return out


def extent_of(X: Array, standardised: bool, groups: Sequence[int] | None = None) -> float:
    """Squared size of a cloud of points: the sum of the variances of its columns.

    Indicators of one categorical column, which form a group, together count as one column; constant
    columns do not count.
    """
    if standardised:
        varies = np.flatnonzero(np.ptp(X, axis=0) > 0)
        return float(len(set(varies if groups is None else np.asarray(groups)[varies])) or 1.0)
    return float(X.var(axis=0).sum() or 1.0)


# ---------------------------------------------------------------------------------------------
# The posterior


class Sites(NamedTuple):
    """Precisions and potentials of the points' sites, ``(points,)`` or ``(points, classes)``."""

    w: Array
    b: Array


@dataclass(frozen=True, eq=False)
class SiteFit:
    """Moments of f at the points for all classes, and the bounds."""

    w: Array  # (points,), precisions
    M: Array  # (points, classes), means
    A: Array  # (points, classes), weights of the points: M = K A
    posterior: Any
    bounds: Array  # (classes,)
    residual: Array | float  # component of v that no observation can reduce
    passes: int = 0
    path: list[Array] = field(default_factory=list)
    converged: bool = True
    change: float = np.inf

    @property
    def v(self) -> Array:
        out: Array = self.posterior.v
        return out

    @property
    def sites(self) -> Sites:
        return Sites(self.w, self.A + self.w[:, None] * self.M)

    @property
    def bound(self) -> float:
        return float(self.bounds.sum())

    def leave_one_out(self, labels: Labels, site: Site) -> tuple[Array, Array]:
        """Leave-one-out moments of f at each row, with the other sites fixed, ``(rows, classes)``.

        Of a row with large leverage, at most the precision in the posterior can be removed.
        """
        residual = np.broadcast_to(self.residual, self.v.shape)[labels.at][:, None]
        m, v = self.M[labels.at], np.broadcast_to(self.v[labels.at][:, None], labels.Y.shape)
        local = site(labels.Y, m, v)
        now = labels.total(labels.c[:, None] * local.w)
        share = np.divide(self.w[:, None], now, out=np.ones_like(now), where=now > 0.0)
        local = local._replace(w=local.w * share[labels.at])
        removed = np.minimum(labels.c, labels.unit)  # the weight that leave-one-out subtracts
        m, v = leave_one_out(m, v - residual, local, removed[:, None])
        return m, v + residual


def target_sites(m: Array, v: Array, labels: Labels, site: Site) -> Sites:
    """The sites of one binary model that touch the bound, for these moments of f at the points."""
    local = labels.local(site, m[:, None], v)
    w = labels.total(local.w[:, 0])
    return Sites(w, labels.total(local.g[:, 0]) + w * m)


def fit_sites(
    process: ExactProcess | InducingProcess,
    labels: Labels,
    site: Site,
    start: Sites | None = None,
    tol: float = 1e-6,
    max_iter: int = 100,
    power: float = 2.0,
    watch: Watch = silent,
) -> SiteFit:
    """Maximise the bounds alternately in means and precisions; stop at a gain of ``tol`` a row.

    An iteration factorises once for the variances, maximises over the means given the variances,
    and finds the precisions that touch the bounds there.  A step of the precisions that lowers the
    bound is halved.  Classes share the power mean of their optimal precisions: with ``power`` 1 the
    sum of the bounds is maximised, and its gradient in the kernel is the gradient at fixed
    precisions; but at the boundary of two of many classes the mean is far too small for both.
    """
    K, watch = labels.Y.shape[1], Monitor.of(watch)
    enough = tol * K * float(labels.c.sum())
    first = start or first_sites(labels, site)
    run = watch.begin(first) or Ascent(first, -np.inf, [])
    (w, B), path = run.state, list[Array]()
    fit: SiteFit | None = None
    wanted, rate, change = w, 1.0, np.inf
    for passes in range(run.n_iter + 1, max(max_iter, run.n_iter + 1) + 1):
        q = process.given(w)
        if fit is None:
            A = q.solve(B.reshape(w.size, K))[0]
        left = enough if fit is None else max(0.1 * enough, 0.02 * abs(change))
        M, A, local = maximise_means(labels, site, q, A, left / K)
        bounds = local.bound.sum(axis=0) - q.kl(A, M)
        if not np.isfinite(bounds.sum()):
            raise ValueError(
                f"the lower bound (ELBO) is {bounds.sum()} at the initial value. Check for extreme "
                "weights, kernel values or prior variances, and bring them nearer to one."
            )
        change = float(bounds.sum()) - (-np.inf if fit is None else fit.bound)
        fell = change < -1e-11 * abs(bounds.sum()) and (K == 1 or power == 1.0)
        if fit is not None and fell and rate > 1e-3:
            rate, A = 0.5 * rate, fit.A  # the step of the precisions was too large
            w = np.exp((1.0 - rate) * np.log(fit.w) + rate * np.log(wanted))
            continue
        path.append(bounds)
        converged = run.converged or abs(change) < enough * rate
        fit = SiteFit(
            w, M, A, q, bounds, process.residual, passes, path, converged, change,
        )  # fmt: skip
        if run.converged:  # a finished fit with stored sites
            return replace(fit, passes=run.n_iter)
        run.path.append(float(bounds.sum()))
        stop = watch(Progress("vb", passes, max_iter, fit.bound, change), None)
        watch.keep(Ascent(fit.sites, fit.bound, run.path, passes, converged, change))
        if converged or stop:
            break
        W, rate = np.maximum(labels.total(local.w), np.finfo(float).tiny), min(1.0, 2.0 * rate)
        top = W.max(axis=1)  # powers of single-precision numbers may underflow
        wanted = top * np.mean((W / top[:, None]) ** power, axis=1) ** (1.0 / power)
        w = np.exp((1.0 - rate) * np.log(w) + rate * np.log(wanted))
    assert fit is not None
    last = Ascent(fit.sites, fit.bound, run.path, fit.passes, fit.converged, fit.change)
    watch.keep(last, now=True)
    return fit


def first_sites(labels: Labels, site: Site) -> Sites:
    """Initial sites: f has the signs of the labels and unit variance."""
    weight = labels.total(labels.c)
    M = 2.0 * labels.total(labels.c[:, None] * labels.Y) / weight[:, None]
    local = labels.local(site, M, np.ones(labels.points))
    w = labels.total(local.w).mean(axis=1)
    return Sites(w, labels.total(local.g) + w[:, None] * M)


def maximise_means(
    labels: Labels, site: Site, q: Any, A: Array, enough: float, steps: int = 50
) -> tuple[Array, Array, Contribution]:
    r"""Means that maximise the bounds at fixed variances, their weights, and contributions.

    Conjugate gradients (Polak & Ribière) in the inner product of K, with Newton's step length.  The
    preconditioner is :math:`(I + WK)^{-1}` of the posterior ``q``; the first step is a Newton step
    if W are the curvatures H.  The iteration ends when the next step would gain less than
    ``enough``, or less than a hundredth of the total gain.
    """

    def bound_at(A: Array) -> tuple[Array, Contribution, Array]:
        M = q.means(A)
        local = labels.local(site, M, q.v)
        return M, local, local.bound.sum(axis=0) - 0.5 * inner(A, M)

    M, local, bound = bound_at(A)
    first, r, p, Kp = bound, np.zeros_like(A), np.zeros_like(A), np.zeros_like(M)
    size = np.full(len(bound), np.inf)
    for _ in range(steps):
        before, r = r, labels.total(local.g) - A
        z, Kz = q.solve(r)
        gain = inner(r, Kz)
        if np.all(0.5 * gain <= np.maximum(enough, 0.01 * (bound - first))):
            break
        ratio = np.maximum((gain - inner(before, Kz)) / size, 0.0)
        p, Kp, size = z + ratio * p, Kz + ratio * Kp, np.maximum(gain, np.finfo(float).tiny)
        bend = inner(labels.total(local.h) * Kp + p, Kp)
        length = np.divide(inner(r, Kp), bend, out=np.zeros_like(gain), where=bend > 0.0)
        while True:
            proposal = bound_at(A + length * p)
            worse = ~(proposal[2] >= bound) & (length != 0.0)
            if not worse.any():
                break
            length[worse] = np.where(np.abs(length[worse]) > 1e-3, 0.5 * length[worse], 0.0)
        A, (M, local, bound) = A + length * p, proposal
        if not length.any():
            break
    return M, A, local
