r"""The relevance vector machine: the sequential algorithm and EM.

.. math:: w_j \sim N(0, 1/\alpha_j), \qquad \hat\alpha = \arg\max \log Z(\alpha),

with the evidence *Z* by Laplace's approximation at the mode of the weights.  At its maximum most
precisions are infinite: those weights are zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from ..core.precision import scaled_cholesky
from ..core.types import Array
from ..inference.progress import Progress, Watch, silent
from ..likelihoods import Likelihood
from ..predictive.leave_one_out import effective, leave_one_out
from .callback import SILENT, Journal
from .candidates import MergedRows
from .folds import Fold, Held
from .newton import FLAT, PROBIT, PenalisedLikelihood
from .sparse import Found, Sparse

PRUNED = 1e9  # precision from which a weight is zero, with columns of unit size
LEAST = 1e-12  # smallest precision
EQUAL = 1e-9  # relative difference of two numbers that may be rounding
WIDE = 100  # most columns of a wide start,
SPANNED = 1e-6  # which ends where they leave this share of the largest column's square,
VARIANCE = 4.0  # and has this prior variance of f
ROUNDS = 10.0  # rounds of EM that are compared with one round of the sequential algorithm
HIGHER = 1e-6  # nats by which the end of one start must exceed that of another
LOOSE = 0.1  # tolerance of machines that are fitted to folds


class Start(NamedTuple):
    """Precisions, infinite for weights that are zero; weights, then the bias."""

    alpha: Array  # (m,)
    theta: Array  # (m + 1,)


class Mode(NamedTuple):
    """Mode of the weights given precisions, and Laplace's approximation of the evidence there."""

    at: Start
    active: Array  # columns of finite precision
    C: Array  # (n, k + 1) these columns and the constant
    precision: Array
    L: Array  # lower Cholesky factor of the precision
    g: Array  # (n,) gradient of each row's log-likelihood
    h: Array  # (n,) its curvature
    evidence: float

    def sparse(self, path: list[float], n_iter: int, converged: bool, change: float) -> Sparse:
        theta = self.at.theta[np.append(self.active, -1)]
        how = (path, n_iter, converged, change)
        return Sparse(self.active, theta, self.precision, self.evidence, *how)


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of about unit size, labels and weights of the rows, prior precision of the bias.

    The likelihood is probit or, Tipping's own, logistic.
    """

    Phi: Array  # (n, m)
    y: Array
    c: Array
    bias: float = FLAT
    likelihood: Likelihood = PROBIT

    def mode(self, start: Start) -> Mode:
        r"""Mode and :math:`\log Z = \log p(y | w) - \frac12 w^\top Aw + \frac12\log|A\Sigma|`."""
        active = np.flatnonzero(np.isfinite(start.alpha))
        kept = np.append(active, start.alpha.size)
        C = np.column_stack([self.Phi[:, active], np.ones(self.y.size)])
        P = np.append(start.alpha[active], self.bias)
        given = (C, self.y, self.c, np.zeros(P.size), P)
        model = PenalisedLikelihood(*given, signed=False, likelihood=self.likelihood)
        theta = np.zeros_like(start.theta)
        theta[kept], _ = model.newton(start.theta[kept], 1e-10)
        z = C @ theta[kept]
        row = model.local(z)
        precision = model.curvature(row.h)
        L, _ = scaled_cholesky(precision)
        evidence = model.value(theta[kept], z) + 0.5 * float(np.log(P).sum())
        evidence -= float(np.log(np.diag(L)).sum())
        at = Start(start.alpha, theta)
        return Mode(at, active, C, precision, L, row.g, row.h, evidence)

    @cached_property
    def _squares(self) -> Array:
        return self.Phi**2

    def factors(self, mode: Mode) -> tuple[Array, Array]:
        r"""Sparsity :math:`s_j` and quality :math:`q_j` of every column, Tipping & Faul, eqs 23-25.

        They are those of the model without the column.
        """
        B = (mode.C * mode.h[:, None]).T @ self.Phi
        T = solve_triangular(mode.L, B, lower=True, check_finite=False)
        s = mode.h @ self._squares - np.einsum("ij,ij->j", T, T)
        s, q = np.maximum(s, np.finfo(float).tiny), self.Phi.T @ mode.g
        on = mode.active
        rest = np.maximum(1.0 - s[on] / mode.at.alpha[on], 1e-12)
        s[on], q[on] = s[on] / rest, q[on] / rest
        return s, q


def gain_of(alpha: Array, s: Array, q: Array) -> Array:
    r"""What a column adds to the log evidence, eq. 16 of Tipping & Faul; 0 at infinity.

    .. math:: \ell(\alpha) = \tfrac12\Big[\log\frac{\alpha}{\alpha + s}
        + \frac{q^2}{\alpha + s}\Big]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        out = 0.5 * (q * q / (alpha + s) - np.log1p(s / alpha))
    return np.where(np.isinf(alpha), 0.0, out)


def first_of_the_best(x: Array) -> int:
    """The first of the largest entries; those of symmetric columns differ by rounding only."""
    top = float(x.max())
    return int(np.argmax(x >= top - EQUAL * abs(top)))


def wide_start(Phi: Array, c: Array) -> Start:
    """Up to 100 columns that nearly span the others, each with the same share of f's variance.

    They are the pivots of a Cholesky factorisation: the next has the largest residual.
    """
    n, M = Phi.shape
    A = (Phi - c @ Phi / c.sum()) * np.sqrt(c)[:, None]
    size: Array = np.einsum("ij,ij->j", A, A)
    left, Q, alpha = size.copy(), np.zeros((min(WIDE, M), n)), np.full(M, np.inf)
    for k in range(len(Q)):
        j = first_of_the_best(left)
        if left[j] <= SPANNED * size.max():
            break
        rest = A[:, j] - Q[:k].T @ (Q[:k] @ A[:, j])
        Q[k] = rest / np.linalg.norm(rest)
        left = np.maximum(left - (Q[k] @ A) ** 2, 0.0)
        left[j], alpha[j] = 0.0, size[j] / c.sum()
    chosen = np.isfinite(alpha)
    alpha[chosen] *= chosen.sum() / VARIANCE
    return Start(alpha, np.zeros(M + 1))


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
    the evidence at the new mode is no higher, the round makes the single best change instead;
    changes that failed are not tried again before another has succeeded.  So the evidence never
    falls.  It has many local maxima: from no columns, where pairs are needed, the first may be a
    poor one (see :func:`wide_start`).
    """
    M = columns.Phi.shape[1]
    mode = columns.mode(start or Start(np.full(M, np.inf), np.zeros(M + 1)))
    path, barred = [mode.evidence], np.zeros(M, dtype=bool)
    n_iter, converged, most = 0, False, np.inf
    for n_iter in range(1, max_iter + 1):
        alpha, (s, q) = mode.at.alpha, columns.factors(mode)
        wanted = np.where(q * q > s, s * s / np.maximum(q * q - s, LEAST), np.inf)
        wanted = np.where(wanted > PRUNED, np.inf, np.maximum(wanted, LEAST))
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

    The update of MacKay and Tipping (2001), which Chen et al. compare with.  Stops when nothing was
    pruned and ten rounds like the last would change the log evidence by less than ``tol``.
    """
    M = columns.Phi.shape[1]
    mode = columns.mode(start or Start(np.full(M, 1.0 / M), np.zeros(M + 1)))
    path, n_iter, change, pruned = [mode.evidence], 0, np.inf, True
    for n_iter in range(1, max_iter + 1):
        if not pruned:
            change = ROUNDS * abs(path[-1] - path[-2])
            if change < tol:
                break
        on = mode.active
        root = solve_triangular(mode.L, np.eye(on.size + 1), lower=True, check_finite=False)
        known = 1.0 - mode.at.alpha[on] * np.einsum("ij,ij->j", root, root)[:-1]
        square = np.maximum(mode.at.theta[on] ** 2, np.finfo(float).tiny)
        new = np.maximum(np.maximum(known, LEAST) / square, LEAST)
        alpha = np.full(M, np.inf)
        alpha[on] = np.where(new < PRUNED, new, np.inf)
        pruned = bool(np.any(new >= PRUNED))
        mode = columns.mode(Start(alpha, mode.at.theta))
        path.append(mode.evidence)
        if watch(Progress("rounds", n_iter, max_iter, path[-1], change), mode.at):
            break
    return mode.sparse(path, n_iter, change < tol, change)


SOLVERS = {"sequential": sequential, "em": em}


def best_of_starts(
    columns: Columns, solver: str, journal: Journal = SILENT, key: str = "", **how: Any
) -> Sparse:
    """The machine of most evidence; the sequential algorithm has two starts.

    With a ``key``, progress is reported and the states are kept under it.
    """
    best: Sparse | None = None
    for name in ("none", "wide") if solver == "sequential" else ("none",):
        if key and best is not None and journal.stopped:
            break
        held = journal.recall(key + name) if key else {}
        start = Start(**held) if held else None
        if name == "wide" and start is None:
            start = wide_start(columns.Phi, columns.c)
        watch = journal.keeping(key + name) if key else silent
        found = SOLVERS[solver](columns, start=start, watch=watch, **how)
        if best is None or found.value > best.value + HIGHER:
            best = found
    assert best is not None
    return best


def fit_machines(
    kernel: Any,
    data: MergedRows,
    journal: Journal,
    rng: np.random.Generator,
    *,
    n_folds: int,
    bias: float,
    tol: float,
    likelihood: Likelihood = PROBIT,
    **how: Any,
) -> Found:
    """The machines of all classes, and moments of f at rows held out by folds.

    With ``n_folds=0``, or where a callback stops the folds, leave-one-out moments of the fit.
    """
    K = data.values(kernel)
    size = float(np.abs(K).max()) or 1.0  # precisions are limited for columns of about one
    K = K / size
    folds = data.folds(n_folds, rng)
    found: list[Sparse] = []
    held: list[Held | None] = []
    for j, y in enumerate(data.labels):
        columns = Columns(K, y, data.c, bias, likelihood)
        sparse = best_of_starts(columns, journal=journal, key=f"machine{j}/", tol=tol, **how)
        moments = leave_one_out_moments(columns, sparse, data.unit)
        if folds and not journal.stopped:
            notes, how_fold = journal.folder(f"folds{j}"), {"tol": max(LOOSE, tol), **how}
            part = held_out_moments(columns, folds, notes, sparse.value, **how_fold)
            moments = part or moments
        found.append(sparse.with_columns_times(size))
        held.append(moments)
    return Found(kernel, found, held)


def held_out_moments(
    columns: Columns, folds: list[Fold], journal: Journal, value: float, **how: Any
) -> Held | None:
    """Moments of f at the rows of each fold, from a machine fitted to the others.

    ``None`` if a callback stops the fit in between; ``value`` is reported with the progress.
    """
    parts, K, y = [], columns.Phi, columns.y
    for k, fold in enumerate(folds, 1):
        rows, out, keep = fold.rows, fold.out, fold.keep
        held = journal.recall(f"fold{k}")
        if not held:
            inside = replace(columns, Phi=K[np.ix_(rows, keep)], y=y[rows], c=fold.left)
            sparse = best_of_starts(inside, **how)
            held = dict(zip("mv", sparse.moments(K[np.ix_(out, keep)]), strict=True))
            journal.note(f"fold{k}", **held)
        parts.append((y[out], held["m"], held["v"], fold.held))
        if journal(Progress("folds", k, len(folds), value, 0.0)):
            return None
    y, m, v, c = (np.concatenate(part) for part in zip(*parts, strict=True))
    return y, m, v, c


def leave_one_out_moments(columns: Columns, sparse: Sparse, unit: Array | float = 1.0) -> Held:
    """Leave-one-out moments of f from the fit itself; ``unit`` are class weights."""
    m, v = sparse.moments(columns.Phi)
    local = columns.likelihood.augmented(columns.y, m, 0.0)
    m, v = leave_one_out(m, v, local._replace(w=local.h), np.minimum(columns.c, unit))
    return columns.y, m, v, effective(columns.c, unit)
