"""Data of a sparse kernel machine: merged rows, candidates, folds, the tuned kernel, the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.precision import scaled_cholesky
from ..core.types import Array
from ..data import rows_of_all_classes
from ..data.checkpoint import Checkpoint
from ..gp.evidence import is_scale
from ..gp.kernel_search import KernelSearch, fold_weights, search_kernel
from ..gp.sites import Distinct, TrainingData, extent_of
from ..inference.progress import Progress, Run
from ..kernels import Function, Scaled, groups_of, with_columns
from ..likelihoods import Logistic
from ..linalg.covariances import FullCovariance
from ..predictive.leave_one_out import LooMoments, effective
from ..predictive.links import CalibratedLink

# ----- what a solver returns


class Sparse(NamedTuple):
    """A Gaussian approximation of the nonzero weights."""

    columns: Array  # (k,) indices of the columns with a weight
    mean: Array  # (k + 1,) their weights, then the bias
    precision: Array  # (k + 1, k + 1) of Laplace's approximation
    value: float  # log posterior density, or log evidence
    path: list[float]
    n_iter: int
    converged: bool = True
    change: float = 0.0

    def moments(self, Phi: Array) -> tuple[Array, Array]:
        """Mean and variance of f at rows, from the values of *all* columns."""
        C = np.column_stack([Phi[:, self.columns], np.ones(Phi.shape[0])])
        return C @ self.mean, self.covariance().quad(C)

    def covariance(self) -> FullCovariance:
        return FullCovariance(*scaled_cholesky(self.precision))

    def with_columns_times(self, factor: Array | float) -> Sparse:
        """The same f after the columns are multiplied by a factor."""
        s = np.append(np.broadcast_to(factor, self.columns.shape), 1.0)
        return self._replace(mean=self.mean / s, precision=self.precision * np.outer(s, s))


class Result(NamedTuple):
    """The binary models of all classes, their kernel, and moments of f for calibration."""

    kernel: Any  # None if precomputed
    sparse: list[Sparse]  # column indices refer to candidates
    held_out: list[LooMoments | None]


# ----- progress and checkpoint


class Journal:
    """Reports progress to callbacks and stores intermediate results in a checkpoint, if any.

    Calling it reports progress; it returns whether a callback has stopped the fit.
    """

    def __init__(self, report: Run | None = None, store: Checkpoint | None = None) -> None:
        self.report, self.store = report, store

    def folder(self, name: str) -> Journal:
        """A journal whose keys have this prefix."""
        return Journal(self.report, None if self.store is None else self.store.part(name))

    @property
    def stopped(self) -> bool:
        return self.report is not None and self.report.stopped

    def __call__(self, progress: Progress, state: Any = None) -> bool:
        return self.report is not None and self.report(progress)

    def cached(self, key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The arrays in the checkpoint, or else the computed ones, which are then stored.

        Nothing is stored after a callback has stopped the fit, because a resumed fit would have
        continued.
        """
        if self.store is None:
            return compute()
        found: dict[str, Any] = self.store.get(key)
        if not found:
            found = compute()
            if not self.stopped:
                self.store.put(key, lambda: found, now=True)
        return found


SILENT = Journal()


# ----- rows


class Fold(NamedTuple):
    """Training rows and held-out rows, with candidates among the former, and weights."""

    rows: Array
    out: Array
    keep: Array  # indices of candidates
    c: Array  # weights of the training rows
    c_out: Array  # effective weights of the held-out rows


class MergedRows(NamedTuple):
    """Merged rows with weights, labels for each binary model, and candidate vectors."""

    points: Array  # (points, p), standardised; kernel values if precomputed
    at: Array  # (rows,) point of each row
    c: Array  # (rows,) weight
    codes: Array  # (rows,) class
    labels: list[Array]  # -1 and +1, for each binary model
    candidates: Array  # (m,) rows
    by_label: bool = True  # whether a point with two labels gives two candidates
    unit: Array | float = 1.0  # (rows,) class weights, included in c

    def values(self, kernel: Any, rows: Any = slice(None), columns: Any = slice(None)) -> Array:
        """Kernel values of rows (by default all) with candidates, ``(rows, m)``."""
        points, at = self.points[self.at[rows]], self.at[self.candidates[columns]]
        K: Array = points[:, at] if kernel is None else kernel(points, self.points[at])
        if not np.all(np.isfinite(K)):
            raise ValueError(
                f"the kernel {kernel} is not finite at the data; check its parameters and inputs."
            )
        return K

    def folds(self, most: int) -> list[Fold]:
        """At most this number of folds of the rows; none if a class is too small.

        A row of sample weight seven can be split like seven rows; class weights, and weights below
        one, do not split rows.
        """
        piece = self.unit * min(1.0, float((self.c / self.unit).mean()))
        units = self.c / piece
        weights = np.bincount(self.codes, units)
        count = min(most, int(weights.min() + 1e-9))
        if count < 2 or weights.size < 2:
            return []
        share, folds = float(effective(self.c, self.unit).sum() / self.c.sum()), []
        for out in fold_weights(units, self.codes, count).T:
            left = units - out
            left[left < 1e-9 * units] = 0.0  # a row held out leaves no rounding behind
            candidates = left if self.by_label else np.bincount(self.at, left)[self.at]
            train, test = np.flatnonzero(left), np.flatnonzero(out)
            keep = np.flatnonzero(candidates[self.candidates])
            c, c_out = left * piece, out * piece * share
            folds.append(Fold(train, test, keep, c[train], c_out[test]))
        return folds


def choose_candidates(
    data: Distinct, most: int | str, by_label: bool, rng: np.random.Generator
) -> Array:
    """Rows that may become vectors: all, or a random subset of every class.

    ``"auto"`` is 3000 rows, fewer if their kernel matrix would exceed 3e7 entries, at least 500.
    """
    rows = np.arange(data.c.size)
    if not by_label:
        rows = rows[np.unique(data.at, return_index=True)[1]]
    if most == "auto":
        most = min(3000, max(500, 3 * 10**7 // data.c.size))
    return rows[rows_of_all_classes(data.codes[rows], min(int(most), rows.size), rng)]


def held_out_moments(
    y: Array,
    folds: Sequence[Fold],
    predict: Callable[[Fold], tuple[Array, Array]],
    journal: Journal = SILENT,
    key: str = "folds",
) -> LooMoments:
    """Moments of f at the held-out rows of each fold."""

    def compute() -> dict[str, Array]:
        parts = [(y[fold.out], *predict(fold), fold.c_out) for fold in folds]
        return LooMoments(*(np.concatenate(part) for part in zip(*parts, strict=True)))._asdict()

    return LooMoments(**journal.cached(key, compute))


def weighted_losses(held_out: LooMoments) -> Array:
    """Weighted log losses of rows under the link fitted to all of them."""
    y, m, v, c = held_out
    p = CalibratedLink.fit(*held_out).proba(m, v)
    out: Array = -c * np.log(np.where(y > 0, p, 1.0 - p))
    return out


# ----- the kernel


def tune_kernel(
    kernel: Any,
    per_column: bool,
    data: MergedRows,
    standardised: bool,
    journal: Journal = SILENT,
) -> tuple[Any, float]:
    """The kernel with most evidence under a logistic Gaussian process, and its amplitude.

    The kernel keeps its initial amplitude; the returned amplitude is relative to it.
    ``per_column`` allows a length scale for every column.
    """
    weight = kernel.weight if isinstance(kernel, Scaled) else 1.0
    plain = kernel.kernel if isinstance(kernel, Scaled) else kernel

    def search() -> dict[str, Any]:
        extent = extent_of(data.points, standardised, groups_of(kernel))
        rows = Distinct(data.points, data.at, data.codes, data.c, np.empty(0), data.unit)
        seen = TrainingData.of(data.points, rows, 9.0, extent)  # sd 3 of the intercept of f
        start = Scaled(1.0, plain)
        found = search_kernel(start, seen, Logistic(), KernelSearch(), per_column, watch=journal)
        return {"theta": found.kernel.theta, "amplitude": np.array(found.weight)}

    found = journal.cached("kernel", search)
    if plain.theta.size != found["theta"].size:
        plain = with_columns(plain, data.points.shape[1])
    plain = plain.with_theta(found["theta"])
    kernel = Scaled(weight, plain) if isinstance(kernel, Scaled) else plain
    return kernel, float(found["amplitude"]) / weight


def has_length_scale(kernel: Any) -> bool:
    return kernel is not None and bool(np.any(is_scale(kernel)))


def stretched(kernel: Any, log_factor: float) -> Any:
    """The kernel with all its length scales multiplied by ``exp(log_factor)``."""
    return kernel.with_theta(kernel.theta + log_factor * is_scale(kernel))


def is_positive(kernel: Any, K: Array) -> bool:
    """Whether kernel values at candidates are positive semidefinite, so that f has a norm.

    Only user functions and matrices are tested: for symmetry and, up to rounding, positivity.
    """
    if kernel is not None and not isinstance(kernel, Function):
        return True
    slack = 1e-8 * float(np.abs(K).max(initial=np.finfo(float).tiny))
    symmetric = np.allclose(K, K.T, rtol=0.0, atol=slack)
    return symmetric and bool(np.linalg.eigvalsh(K)[0] >= -slack)
