r"""The relevance vector machine: the sequential algorithm and EM.

.. math:: w_j \sim N(0, 1/\alpha_j), \qquad \hat\alpha = \arg\max \log Z(\alpha),

with the evidence *Z* by Laplace's approximation at the mode of the weights.  At its maximum most
precisions are infinite: those weights are zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from ..core.precision import scaled_cholesky
from ..core.types import Array
from ..inference.progress import Progress, Watch, silent
from ..likelihoods import Likelihood
from ..predictive.leave_one_out import LooMoments, effective
from .data import SILENT, Fold, Journal, MergedRows, Result, Sparse, held_out_moments
from .newton import FLAT, PROBIT, PenalisedLikelihood


class Start(NamedTuple):
    """Precisions, infinite for zero weights; weights, then the bias."""

    alpha: Array  # (m,)
    theta: Array  # (m + 1,)


class Mode(NamedTuple):
    """Mode of the weights for given precisions, and Laplace's approximation of the evidence."""

    at: Start
    active: Array  # columns with finite precision
    C: Array  # (n, k + 1) these columns and the constant
    precision: Array
    L: Array  # lower Cholesky factor of the precision
    g: Array  # (n,) gradient of each row's log-likelihood
    h: Array  # (n,) its curvature
    evidence: float

    def sparse(self, path: list[float], n_iter: int, converged: bool, change: float) -> Sparse:
        theta = self.at.theta[np.append(self.active, -1)]
        ended = (path, n_iter, converged, change)
        return Sparse(self.active, theta, self.precision, self.evidence, *ended)


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of size about one, labels and weights of the rows, prior precision of the bias.

    The likelihood is probit or, as in Tipping's work, logistic.
    """

    Phi: Array  # (n, m)
    y: Array
    c: Array
    bias: float = FLAT
    likelihood: Likelihood = PROBIT

    def model(self, columns: Array, precision: Array) -> PenalisedLikelihood:
        C = np.column_stack([self.Phi[:, columns], np.ones(self.y.size)])
        P = np.append(precision, self.bias)
        penalty = np.zeros(P.size), np.diag(P)
        return PenalisedLikelihood(C, self.y, self.c, *penalty, False, self.likelihood)

    def mode(self, start: Start) -> Mode:
        r"""Mode and :math:`\log Z = \log p(y | w) - \frac12 w^\top Aw + \frac12\log|A\Sigma|`."""
        active = np.flatnonzero(np.isfinite(start.alpha))
        model, kept = self.model(active, start.alpha[active]), np.append(active, start.alpha.size)
        theta = np.zeros_like(start.theta)
        theta[kept], _ = model.newton(start.theta[kept], 1e-10)
        z = model.A @ theta[kept]
        row = model.local(z)
        precision = model.curvature(row.h)
        L, _ = scaled_cholesky(precision)
        evidence = model.value(theta[kept], z) + 0.5 * float(np.log(np.diag(model.Q)).sum())
        evidence -= float(np.log(np.diag(L)).sum())
        at = Start(start.alpha, theta)
        return Mode(at, active, model.A, precision, L, row.g, row.h, evidence)

    def factors(self, mode: Mode) -> tuple[Array, Array]:
        r"""Sparsity :math:`s_j` and quality :math:`q_j` of every column, Tipping & Faul, eqs 23-25.

        They are for the model without the column.
        """
        B = (mode.C * mode.h[:, None]).T @ self.Phi
        T = solve_triangular(mode.L, B, lower=True, check_finite=False)
        s = mode.h @ self.Phi**2 - np.einsum("ij,ij->j", T, T)
        s, q = np.maximum(s, np.finfo(float).tiny), self.Phi.T @ mode.g
        on = mode.active
        denominator = np.maximum(1.0 - s[on] / mode.at.alpha[on], 1e-12)
        s[on], q[on] = s[on] / denominator, q[on] / denominator
        return s, q


def limited(alpha: Array) -> Array:
    """Precisions of at least 1e-12; above 1e9 a weight is zero, for columns of size one."""
    return np.where(alpha > 1e9, np.inf, np.maximum(alpha, 1e-12))


def gain_of(alpha: Array, s: Array, q: Array) -> Array:
    """Contribution of a column to the log evidence, eq. 16 of Tipping & Faul; 0 at infinity."""
    with np.errstate(divide="ignore", invalid="ignore"):
        out = 0.5 * (q * q / (alpha + s) - np.log1p(s / alpha))
    return np.where(np.isinf(alpha), 0.0, out)


def first_of_the_best(x: Array) -> int:
    """The first of the largest entries; entries of symmetric columns differ only by rounding."""
    top = float(x.max())
    return int(np.argmax(x >= top - 1e-9 * abs(top)))


def wide_start(
    Phi: Array, c: Array, most: int = 100, left_over: float = 1e-6, variance: float = 4.0
) -> Start:
    """Columns that nearly span the others, each with the same share of the prior variance of f.

    They are the pivots of a Cholesky factorisation: the next has the largest residual.  Stops after
    ``most`` columns, or if residuals are below a share ``left_over`` of the largest column.
    """
    A = (Phi - c @ Phi / c.sum()) * np.sqrt(c)[:, None]
    size, alpha = np.einsum("ij,ij->j", A, A), np.full(Phi.shape[1], np.inf)
    _, pivots, rank, _ = dpstrf(A.T @ A, tol=left_over * size.max())
    chosen = pivots[: min(rank, most)] - 1
    alpha[chosen] = size[chosen] / c.sum() * chosen.size / variance
    return Start(alpha, np.zeros(alpha.size + 1))


def sequential(
    columns: Columns,
    tol: float = 1e-3,
    max_iter: int = 1000,
    start: Start | None = None,
    watch: Watch = silent,
) -> Sparse:
    r"""Maximise the evidence by adding, re-estimating and deleting columns (Tipping & Faul 2003).

    The best precision of a column given all others is
    :math:`\alpha_j = s_j^2/(q_j^2 - s_j)` where :math:`q_j^2 > s_j` and infinite elsewhere.  Each
    round first re-estimates every precision in the model and adds the most promising column.  If
    the evidence at the new mode is not higher, the round makes the single best change instead;
    failed changes are not repeated before another has succeeded.  So the evidence never decreases.
    It has many local maxima: starting without columns may end in a poor one if pairs are needed
    (see :func:`wide_start`).
    """
    M = columns.Phi.shape[1]
    mode = columns.mode(start or Start(np.full(M, np.inf), np.zeros(M + 1)))
    path, barred = [mode.evidence], np.zeros(M, dtype=bool)
    n_iter, converged, most = 0, False, np.inf
    for n_iter in range(1, max_iter + 1):
        alpha, (s, q) = mode.at.alpha, columns.factors(mode)
        wanted = limited(np.where(q * q > s, s * s / np.maximum(q * q - s, 1e-12), np.inf))
        gain = np.where(barred, 0.0, gain_of(wanted, s, q) - gain_of(alpha, s, q))
        best = first_of_the_best(gain)
        most = float(gain[best])
        converged = most <= tol
        if converged:
            break
        alone, together = alpha.copy(), alpha.copy()
        alone[best] = together[best] = wanted[best]
        together[mode.active] = wanted[mode.active]
        for proposal in (together, alone):
            new = columns.mode(Start(proposal, mode.at.theta))
            if new.evidence > mode.evidence:
                mode = new
                barred[:] = False
                break
        else:
            barred[best] = True
        path.append(mode.evidence)
        if watch(Progress("rounds", n_iter, max_iter, mode.evidence, most), mode.at):
            break
    return mode.sparse(path, n_iter, converged, most)


def em(
    columns: Columns,
    tol: float = 1e-3,
    max_iter: int = 1000,
    start: Start | None = None,
    watch: Watch = silent,
) -> Sparse:
    r"""All columns at first; :math:`\alpha_j \leftarrow (1 - \alpha_j\Sigma_{jj})/w_j^2`, pruning.

    The update of MacKay and Tipping (2001), to which Chen et al. compare.  Stops when nothing was
    pruned and ten more rounds would change the log evidence by less than ``tol``.
    """
    M = columns.Phi.shape[1]
    mode = columns.mode(start or Start(np.full(M, 1.0 / M), np.zeros(M + 1)))
    path, n_iter, change, pruned = [mode.evidence], 0, np.inf, True
    for n_iter in range(1, max_iter + 1):
        if not pruned:
            change = 10.0 * abs(path[-1] - path[-2])
            if change < tol:
                break
        on, alpha = mode.active, np.full(M, np.inf)
        root = solve_triangular(mode.L, np.eye(on.size + 1), lower=True, check_finite=False)
        known = 1.0 - mode.at.alpha[on] * np.einsum("ij,ij->j", root, root)[:-1]
        square = np.maximum(mode.at.theta[on] ** 2, np.finfo(float).tiny)
        alpha[on] = limited(np.maximum(known, 1e-12) / square)
        pruned = bool(np.any(np.isinf(alpha[on])))
        mode = columns.mode(Start(alpha, mode.at.theta))
        path.append(mode.evidence)
        if watch(Progress("rounds", n_iter, max_iter, path[-1], change), mode.at):
            break
    return mode.sparse(path, n_iter, change < tol, change)


SOLVERS = {"sequential": sequential, "em": em}


class Settings(NamedTuple):
    """User settings."""

    solver: str = "sequential"
    likelihood: Likelihood = PROBIT
    n_folds: int = 0  # for held-out moments; 0: leave-one-out moments of the fit
    bias: float = FLAT  # prior precision of the bias
    tol: float = 1e-3
    max_iter: int = 1000


def best_of_starts(columns: Columns, settings: Settings, journal: Journal = SILENT) -> Sparse:
    """The binary model with most evidence; the sequential algorithm has two starts."""
    solve, starts = SOLVERS[settings.solver], [None, wide_start(columns.Phi, columns.c)]
    found: list[Sparse] = []
    for start in starts if settings.solver == "sequential" else starts[:1]:
        how = settings.tol, settings.max_iter, start
        found.append(solve(columns, *how, lambda progress, _: journal(progress)))
        if journal.stopped:
            break
    # equal optima differ by rounding
    return max(found, key=lambda one: round(one.value, 6))


def fit_machines(kernel: Any, data: MergedRows, journal: Journal, settings: Settings) -> Result:
    """The binary models of all classes, and cross-validated moments of f.

    Without folds, or if a callback stops them, leave-one-out moments of the fit.
    """
    K = data.values(kernel)
    size = float(np.abs(K).max()) or 1.0  # precisions are limited for columns of size one
    K, folds = K / size, data.folds(settings.n_folds)
    rough = settings._replace(tol=max(0.1, settings.tol))
    sparse: list[Sparse] = []
    held_out: list[LooMoments | None] = []
    for j, y in enumerate(data.labels):
        columns = Columns(K, y, data.c, settings.bias, settings.likelihood)
        found = best_of_starts(columns, settings, journal)
        model = columns.model(found.columns, np.ones(found.columns.size))
        loo = model.leave_one_out(*found.moments(K), data.unit)
        moments = LooMoments(y, *loo, effective(data.c, data.unit))

        def predict(fold: Fold, y: Array = y, columns: Columns = columns) -> tuple[Array, Array]:
            Phi = K[:, fold.keep]
            inside = replace(columns, Phi=Phi[fold.rows], y=y[fold.rows], c=fold.c)
            return best_of_starts(inside, rough).moments(Phi[fold.out])

        if folds and not journal.stopped:
            moments = held_out_moments(y, folds, predict, journal, f"folds{j}")
            journal(Progress("folds", j + 1, len(data.labels), found.value, 0.0))
        sparse.append(found.with_columns_times(size))
        held_out.append(moments)
    return Result(kernel, sparse, held_out)
