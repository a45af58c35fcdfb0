r"""The relevance vector machine: the sequential algorithm and EM.

.. math:: w_j \sim N(0, 1/\alpha_j), \qquad \hat\alpha = \arg\max \log Z(\alpha),

with the evidence *Z* by Laplace's approximation at the mode of the weights.  At its maximum most
precisions are infinite: those weights are zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from ..core.types import Array
from ..gaussian.covariances import scaled_cholesky
from ..inference.progress import Progress, Watch, silent
from ..machines.calibration import leave_one_out
from .candidates import MergedRows
from .folds import Held, folds_of
from .journal import SILENT, Journal
from .newton import FLAT, PROBIT, PenalisedProbit
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

    theta: Array
    precision: Array
    L: Array  # lower Cholesky factor of the precision
    g: Array  # (n,) gradient of each row's log-likelihood
    h: Array  # (n,) its curvature
    evidence: float


def find_mode(C: Array, y: Array, c: Array, alpha: Array, theta: Array) -> Mode:
    r"""Mode and :math:`\log Z = \log p(y \mid w) - \frac12 w^\top Aw + \frac12\log|A\Sigma|`.

    ``C`` holds the columns and the constant, ``alpha`` their prior precisions.
    """
    model = PenalisedProbit(C, y, c, np.zeros(alpha.size), alpha, signed=False)
    theta, _ = model.newton(theta, 1e-10)
    z = C @ theta
    row = model.local(z)
    precision = model.curvature(row.h)
    L, _ = scaled_cholesky(precision)
    determinants = 0.5 * float(np.log(alpha).sum()) - float(np.log(np.diag(L)).sum())
    return Mode(theta, precision, L, row.g, row.h, model.value(theta, z) + determinants)


def gain_of(alpha: Array, s: Array, q: Array) -> Array:
    r"""What a column adds to the log evidence, eq. 16 of Tipping & Faul; 0 at infinity.

    .. math:: \ell(\alpha) = \tfrac12\Big[\log\frac{\alpha}{\alpha + s}
        + \frac{q^2}{\alpha + s}\Big]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        out = 0.5 * (q * q / (alpha + s) - np.log1p(s / alpha))
    return np.where(np.isinf(alpha), 0.0, out)


def factors(Phi: Array, squares: Array, C: Array, mode: Mode) -> tuple[Array, Array]:
    r"""Sparsity :math:`S_j = \phi_j^\top C^{-1}\phi_j` and quality :math:`Q_j` of every column.

    Tipping & Faul, eqs 24 and 25.  ``squares`` are those of ``Phi``, the same in all rounds.
    """
    B = (C * mode.h[:, None]).T @ Phi
    T = solve_triangular(mode.L, B, lower=True, check_finite=False)
    S = mode.h @ squares - np.einsum("ij,ij->j", T, T)
    return np.maximum(S, np.finfo(float).tiny), Phi.T @ mode.g


def first_of_the_best(x: Array) -> int:
    """The first of the largest entries; those of symmetric columns differ by rounding only."""
    top = float(x.max())
    return int(np.argmax(x >= top - EQUAL * abs(top)))


def wide_start(Phi: Array, c: Array) -> Start:
    """Up to 100 columns that nearly span the others, each with the same share of f's variance.

    A pivoted Cholesky factorisation: the next column is the one with the largest residual.
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
    Phi: Array,
    y: Array,
    c: Array,
    tol: float = 1e-3,
    max_iter: int = 1000,
    start: Start | None = None,
    watch: Watch = silent,
    bias: float = FLAT,
) -> Sparse:
    r"""Maximise the evidence by adding, re-estimating and deleting columns (Tipping & Faul 2003).

    The best precision of a column given all others is
    :math:`\alpha_j = s_j^2/(q_j^2 - s_j)` where :math:`q_j^2 > s_j` and infinite elsewhere.  Each
    round first re-estimates every precision in the model and adds the most promising column.  If
    the evidence at the new mode is no higher, the round makes the single best change instead;
    changes that failed are not tried again before another has succeeded.  So the evidence never
    falls.  It has many local maxima: from no columns, where pairs are needed, the first may be a
    poor one (see :func:`wide_start`).  ``bias`` is the prior precision of the bias.
    """
    M, squares = Phi.shape[1], Phi * Phi
    ones = np.ones((Phi.shape[0], 1))
    alpha, theta = start or Start(np.full(M, np.inf), np.zeros(M + 1))

    def at(alpha: Array, theta: Array) -> tuple[Array, Array, Mode]:
        active = np.flatnonzero(np.isfinite(alpha))
        C = np.hstack([Phi[:, active], ones])
        P = np.append(alpha[active], bias)
        return active, C, find_mode(C, y, c, P, theta[np.append(active, M)])

    active, C, mode = at(alpha, theta)
    path, barred = [mode.evidence], np.zeros(M, dtype=bool)
    n_iter, converged, best_gain = 0, False, np.inf
    while n_iter < max_iter and not converged:
        n_iter += 1
        s, q = factors(Phi, squares, C, mode)
        rest = np.maximum(1.0 - s[active] / alpha[active], 1e-12)  # eq. 23: without the column
        s[active], q[active] = s[active] / rest, q[active] / rest
        wanted = np.where(q * q > s, s * s / np.maximum(q * q - s, LEAST), np.inf)
        wanted = np.where(wanted > PRUNED, np.inf, np.maximum(wanted, LEAST))
        gain = np.where(barred, 0.0, gain_of(wanted, s, q) - gain_of(alpha, s, q))
        best = first_of_the_best(gain)
        best_gain = float(gain[best])
        converged = best_gain <= tol
        if converged:
            break
        theta = _full(M, active, mode.theta)
        alone, together = alpha.copy(), alpha.copy()
        alone[best] = together[best] = wanted[best]
        together[active] = wanted[active]
        for proposal in (together, alone):
            new = at(proposal, theta)
            if new[2].evidence > mode.evidence:
                alpha, (active, C, mode) = proposal, new
                barred[:] = False
                break
        else:
            barred[best] = True
        path.append(mode.evidence)
        progress = Progress("rounds", n_iter, max_iter, mode.evidence, best_gain)
        if watch(progress, Start(alpha, _full(M, active, mode.theta))):
            break
    how = (mode.evidence, path, n_iter, converged, best_gain)
    return Sparse(active, mode.theta, mode.precision, *how)


def em(
    Phi: Array,
    y: Array,
    c: Array,
    tol: float = 1e-3,
    max_iter: int = 1000,
    start: Start | None = None,
    watch: Watch = silent,
    bias: float = FLAT,
) -> Sparse:
    r"""All columns at first; :math:`\alpha_j \leftarrow (1 - \alpha_j\Sigma_{jj})/w_j^2`, pruning.

    The update of MacKay and Tipping (2001), which Chen et al. compare with.  Stops when nothing was
    pruned and ten rounds like the last would change the log evidence by less than ``tol``.
    """
    M = Phi.shape[1]
    alpha, theta = start or Start(np.full(M, 1.0 / M), np.zeros(M + 1))
    active = np.flatnonzero(np.isfinite(alpha))
    C = np.hstack([Phi[:, active], np.ones((Phi.shape[0], 1))])
    P, theta = np.append(alpha[active], bias), theta[np.append(active, M)]
    path: list[float] = []
    n_iter, change, pruned = 0, np.inf, True
    while True:
        mode = find_mode(C, y, c, P, theta)
        n_iter += 1
        if n_iter > max_iter:
            break
        path.append(mode.evidence)
        if not pruned and n_iter > 1:
            change = ROUNDS * abs(path[-1] - path[-2])
            if change < tol:
                break
        root = solve_triangular(mode.L, np.eye(P.size), lower=True, check_finite=False)
        known = 1.0 - P * np.einsum("ij,ij->j", root, root)
        square = np.maximum(mode.theta**2, np.finfo(float).tiny)
        new = np.maximum(np.maximum(known, LEAST) / square, LEAST)
        new[-1] = bias
        keep = new < PRUNED
        pruned = not keep.all()
        C, P, theta, active = C[:, keep], new[keep], mode.theta[keep], active[keep[:-1]]
        alpha = np.full(M, np.inf)
        alpha[active] = P[:-1]
        progress = Progress("rounds", n_iter, max_iter, path[-1], change)
        if watch(progress, Start(alpha, _full(M, active, theta))):
            max_iter = n_iter
    n_iter = min(n_iter, max_iter)
    how = (mode.evidence, path, n_iter, change < tol, change)
    return Sparse(active, mode.theta, mode.precision, *how)


def _full(M: int, active: Array, theta: Array) -> Array:
    out = np.zeros(M + 1)
    out[np.append(active, M)] = theta
    return out


SOLVERS: dict[str, Callable[..., Sparse]] = {"sequential": sequential, "em": em}


def best_of_starts(
    K: Array, y: Array, c: Array, solver: str, journal: Journal | None = None, **how: Any
) -> Sparse:
    """The machine of most evidence; the sequential algorithm has two starts.

    With a journal, the state of every start is kept, and the search stops with the callbacks.
    """
    starts: dict[str, Callable[[], Start | None]] = {"none": lambda: None}
    if solver == "sequential":
        starts["wide"] = lambda: wide_start(K, c)
    best: Sparse | None = None
    for name, begin in starts.items():
        if best is not None and journal is not None and journal.stopped:
            break
        held = journal.recall(name) if journal else {}
        start = Start(**held) if held else begin()
        watch = journal.keeping(name) if journal else silent
        found = SOLVERS[solver](K, y, c, start=start, watch=watch, **how)
        if best is None or found.value > best.value + HIGHER:
            best = found
    assert best is not None
    return best


def fit_machines(
    kernel: Any,
    data: MergedRows,
    *,
    solver: str,
    tol: float,
    max_iter: int,
    n_folds: int,
    bias: float,
    rng: np.random.Generator,
    journal: Journal = SILENT,
) -> Found:
    """The machines of all classes, and moments of f at rows held out by folds.

    With ``n_folds=0``, or where a callback stops the folds, leave-one-out moments of the fit.
    """
    K = data.values(kernel)
    size = float(np.abs(K).max()) or 1.0  # precisions are limited for columns of about one
    K = K / size
    H = folds_of(data.codes, data.c, n_folds, rng) if n_folds else None
    how: dict[str, Any] = {"solver": solver, "max_iter": max_iter, "bias": bias}
    found: list[Sparse] = []
    moments: list[Held | None] = []
    for j, y in enumerate(data.labels):
        place = journal.folder(f"machine{j}")
        sparse = best_of_starts(K, y, data.c, journal=place, tol=tol, **how)
        held = None
        if H is not None and not journal.stopped:
            how_fold = {"value": sparse.value, "tol": max(LOOSE, tol), **how}
            held = held_out_moments(K, data, y, H, journal.folder(f"folds{j}"), **how_fold)
        moments.append(held or leave_one_out_moments(sparse, K, y, data.c))
        found.append(sparse.with_columns_times(size))
    return Found(kernel, found, moments)


def held_out_moments(
    K: Array, data: MergedRows, y: Array, H: Array, journal: Journal, value: float, **how: Any
) -> Held | None:
    """Moments of f at the rows of each fold, from a machine fitted to the others.

    ``None`` if a callback stops the fit in between; ``value`` is reported with the progress.
    """
    parts = []
    for k, h in enumerate(H.T, 1):
        left = data.c - h
        rows, out = np.flatnonzero(left > 0), np.flatnonzero(h > 0)
        # a point is a candidate while any of its rows is left
        keep = np.flatnonzero(np.bincount(data.at, left)[data.at[data.candidates]] > 0)
        held = journal.recall(f"fold{k}")
        if not held:
            sparse = best_of_starts(K[np.ix_(rows, keep)], y[rows], left[rows], **how)
            held = dict(zip("mv", sparse.moments(K[np.ix_(out, keep)]), strict=True))
            journal.note(f"fold{k}", **held)
        parts.append((y[out], held["m"], held["v"], h[out]))
        if journal(Progress("folds", k, H.shape[1], value, 0.0)):
            return None
    y, m, v, c = (np.concatenate(part) for part in zip(*parts, strict=True))
    return y, m, v, c


def leave_one_out_moments(sparse: Sparse, K: Array, y: Array, c: Array) -> Held:
    """Leave-one-out moments of f from the fit itself, in closed form."""
    m, v = sparse.moments(K)
    row = PROBIT.expected(y, m, 0.0)
    return (y, *leave_one_out(m, v, row._replace(w=row.h), c), c)
