"""The data of a vector machine: merged rows, candidates, kernel values, the tuned kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array
from ..data import rows_of_all_classes
from ..gp.data import Distinct, TrainingData, extent_of
from ..gp.evidence import Reporter, is_scale
from ..gp.kernel_search import KernelSearch, maximise_evidence
from ..kernels import Function, Scaled, groups_of, with_columns
from ..likelihoods import Logistic
from ..predictive.leave_one_out import effective
from .callback import SILENT, Journal
from .folds import Fold, fold_count, held_out

MOST = 3000  # candidates by default,
VALUES = 3 * 10**7  # or so many kernel values of all rows with them,
FEWEST = 500  # but no fewer
LEVEL = 3.0  # prior standard deviation of the bias of the process that tunes the kernel


class MergedRows(NamedTuple):
    """Merged rows with weights, labels of each machine, and the rows that may become vectors."""

    points: Array  # (points, p), standardised; kernel values if precomputed
    at: Array  # (rows,) point of each row
    c: Array  # (rows,) weight
    codes: Array  # (rows,) class
    labels: list[Array]  # -1 and +1, for each machine
    candidates: Array  # (m,) rows
    by_label: bool = True  # whether a point that occurs with two labels is two candidates
    unit: Array | float = 1.0  # (rows,) class weights, which are in c

    def values(self, kernel: Any) -> Array:
        """Kernel values of all rows with the candidates, ``(rows, m)``."""
        at = self.at[self.candidates]
        K = self.points[:, at] if kernel is None else kernel(self.points, self.points[at])
        if not np.all(np.isfinite(K)):
            raise ValueError(
                f"the kernel {kernel} is not finite at the data; check its parameters and inputs."
            )
        return K if np.array_equal(self.at, np.arange(len(K))) else K[self.at]

    def folds(self, most: int, rng: np.random.Generator) -> list[Fold]:
        """At most so many folds of the rows; none where a class is too small."""
        count, folds = fold_count(self.codes, self.c / self.unit, most), []
        share = float(effective(self.c, self.unit).sum() / self.c.sum())
        for h in held_out(self.codes, self.c, count, rng, self.unit).T if count else ():
            left = self.c - h
            own = left if self.by_label else np.bincount(self.at, left)[self.at]
            rows, out = np.flatnonzero(left > 0), np.flatnonzero(h > 0)
            keep = np.flatnonzero(own[self.candidates] > 0)
            folds.append(Fold(rows, out, keep, left[rows], h[out] * share))
        return folds


def choose_candidates(
    data: Distinct, most: int | str, by_label: bool, rng: np.random.Generator
) -> Array:
    """Rows that may become vectors: all, or a random part of every class."""
    rows = np.arange(data.c.size)
    if not by_label:
        rows = rows[np.unique(data.at, return_index=True)[1]]
    if most == "auto":
        most = min(MOST, max(FEWEST, VALUES // data.c.size))
    return rows[rows_of_all_classes(data.codes[rows], min(int(most), rows.size), rng)]


def tune_kernel(
    kernel: Any,
    per_column: bool,
    data: MergedRows,
    standardised: bool,
    rng: np.random.Generator,
    journal: Journal = SILENT,
) -> tuple[Any, float]:
    """The kernel of most evidence under a logistic Gaussian process, and the amplitude there.

    The kernel keeps the amplitude it came with; the one returned is in units of it.
    ``per_column`` allows a length scale for every column.
    """
    weight = kernel.weight if isinstance(kernel, Scaled) else 1.0
    plain = kernel.kernel if isinstance(kernel, Scaled) else kernel
    held = journal.recall("kernel")
    if not held:
        extent = extent_of(data.points, standardised, groups_of(kernel))
        rows = Distinct(data.points, data.at, data.codes, data.c, np.empty(0), data.unit)
        seen = TrainingData.of(data.points, rows, LEVEL**2, extent)
        search = (Logistic(), KernelSearch(), per_column, Reporter(journal))
        found = maximise_evidence(Scaled(16.0, plain), seen, *search)
        held = {"theta": found.kernel.theta, "amplitude": np.array(found.weight)}
        journal.note("kernel", **held)
    if plain.theta.size != held["theta"].size:
        plain = with_columns(plain, data.points.shape[1])
    plain = plain.with_theta(held["theta"])
    kernel = Scaled(weight, plain) if isinstance(kernel, Scaled) else plain
    return kernel, float(held["amplitude"]) / weight


def has_length_scale(kernel: Any) -> bool:
    return kernel is not None and bool(np.any(is_scale(kernel)))


def keeps_size(kernel: Any, X: Array) -> bool:
    """Whether the size of f does not depend on length scales, as it does with inner products."""
    return bool(np.allclose(kernel.diag(X), stretched(kernel, 1.0).diag(X)))


def stretched(kernel: Any, log_factor: float) -> Any:
    """The kernel with all its length scales multiplied by ``exp(log_factor)``."""
    if log_factor == 0.0 or not has_length_scale(kernel):
        return kernel
    return kernel.with_theta(kernel.theta + log_factor * is_scale(kernel))


def is_positive(kernel: Any, K: Array) -> bool:
    """Whether kernel values at candidates are those of a positive kernel, so that f has a norm.

    Only functions and matrices from users are tested: symmetric and, but for rounding, positive.
    """
    if kernel is not None and not isinstance(kernel, Function):
        return True
    size = float(np.abs(K).max(initial=np.finfo(float).tiny))
    if not np.allclose(K, K.T, rtol=0.0, atol=1e-8 * size):
        return False
    try:
        np.linalg.cholesky(K + 1e-8 * size * np.eye(len(K)))
    except np.linalg.LinAlgError:
        return False
    return True
