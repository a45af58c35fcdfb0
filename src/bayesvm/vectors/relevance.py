r"""The relevance vector machine: a precision for every weight, most of them infinite.

.. math:: w_j \sim N(0, 1/\alpha_j), \qquad \hat\alpha = \arg\max \log Z(\alpha),

with the evidence by Laplace's approximation at the mode of the weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from ..core.types import Array
from ..gaussian.covariances import scaled_cholesky
from ..inference.progress import Progress, Watch, silent
from .machine import Sparse
from .newton import BIAS, PROBIT

GONE = 1e9  # precision at which a weight is pruned, with columns of unit size
WIDE = 100  # most columns of a wide start,
SPANNED = 1e-6  # which ends where they leave this share of the largest column's square,
ITS_SIZE = 4.0  # and gives f this variance a priori
EQUAL = 1e-9  # relative difference of two numbers that may be rounding
SLIGHT = 1e-12  # smallest precision
WORTH = 10.0  # rounds of EM that count as one of the others


class Standing(NamedTuple):
    """Where a solver stands: precisions, infinite without a weight; weights and the bias."""

    alpha: Array
    theta: Array


class Mode(NamedTuple):
    """Mode of the weights given precisions, and what the evidence needs there."""

    theta: Array
    Q: Array  # precision of Laplace's approximation
    L: Array  # its lower factor
    g: Array  # slope of each row
    h: Array  # curvature of each row
    evidence: float


def find_mode(C: Array, y: Array, c: Array, P: Array, theta: Array, max_iter: int = 100) -> Mode:
    """Newton's method for the mode; columns ``C``, prior precisions ``P``."""
    z = C @ theta

    def density(z: Array, theta: Array) -> float:
        return float(c @ PROBIT.log_prob(y, z) - 0.5 * (P * theta) @ theta)

    value = density(z, theta)
    for _ in range(max_iter):
        row = PROBIT.expected(y, z, 0.0).times(c)
        B = C * np.sqrt(row.h)[:, None]
        Q = B.T @ B
        Q.flat[:: P.size + 1] += P
        L, _ = scaled_cholesky(Q)
        slope = C.T @ row.g - P * theta
        half = solve_triangular(L, slope, lower=True, check_finite=False)
        gain = float(half @ half)
        if gain <= 1e-10:
            break
        step = solve_triangular(L, half, lower=True, trans=1, check_finite=False)
        dz, share = C @ step, 1.0
        new = density(z + dz, theta + step)
        while new < value + 0.1 * share * gain and share > 1e-8:
            share *= 0.5
            new = density(z + share * dz, theta + share * step)
        if new <= value:  # rounding
            break
        theta, z, value = theta + share * step, z + share * dz, new
    evidence = value + 0.5 * float(np.log(P).sum()) - float(np.log(np.diag(L)).sum())
    return Mode(theta, Q, L, row.g, row.h, evidence)


def gain_of(alpha: Array, s: Array, q: Array) -> Array:
    r"""What a column adds to the log evidence,
    :math:`\frac12[\log\frac{\alpha}{\alpha + s} + \frac{q^2}{\alpha + s}]`; 0 at infinity."""
    with np.errstate(divide="ignore", invalid="ignore"):
        out = 0.5 * (q * q / (alpha + s) - np.log1p(s / alpha))
    return np.where(np.isinf(alpha), 0.0, out)


def factors(Phi: Array, squares: Array, C: Array, mode: Mode) -> tuple[Array, Array]:
    r"""Sparsity :math:`S_j = \phi_j^\top C^{-1}\phi_j` and quality :math:`Q_j` of every column.

    ``squares`` are those of ``Phi``, which rounds share.
    """
    B = (C * mode.h[:, None]).T @ Phi
    T = solve_triangular(mode.L, B, lower=True, check_finite=False)
    S = mode.h @ squares - np.einsum("ij,ij->j", T, T)
    return np.maximum(S, np.finfo(float).tiny), Phi.T @ mode.g


def first_of_the_best(x: Array) -> int:
    """The first entry that is as large as any, but for rounding: symmetric columns tie."""
    top = float(x.max())
    return int(np.argmax(x >= top - EQUAL * abs(top)))


def wide_start(Phi: Array, c: Array) -> Standing:
    """Columns that together span nearly all of them, every one with the same share in f.

    Each is the one that those before it leave most of (a Cholesky factor with pivots).
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
    alpha[chosen] *= chosen.sum() / ITS_SIZE
    return Standing(alpha, np.zeros(M + 1))


def sequential(
    Phi: Array,
    y: Array,
    c: Array,
    tol: float = 1e-3,
    max_iter: int = 1000,
    start: Standing | None = None,
    watch: Watch = silent,
) -> Sparse:
    """Maximise the evidence by adding, re-estimating and deleting columns (Tipping & Faul 2003).

    Each round first re-estimates every precision in the model and adds the most promising column;
    if the evidence, re-linearised, did not rise, it makes the single best move instead, and moves
    that do not raise it are not tried again before another has.  So the evidence never falls.  It
    has many local maxima: from no columns at all, where pairs of them are needed, the first may be
    a poor one (see :func:`wide_start`).
    """
    M, squares = Phi.shape[1], Phi * Phi
    ones = np.ones((Phi.shape[0], 1))
    alpha, theta = start or Standing(np.full(M, np.inf), np.zeros(M + 1))
    bias, theta = float(theta[-1]), theta[:-1].copy()

    def build(alpha: Array, theta: Array, bias: float) -> tuple[Array, Array, Mode]:
        active = np.flatnonzero(np.isfinite(alpha))
        C = np.hstack([Phi[:, active], ones])
        P = np.append(alpha[active], BIAS)
        return active, C, find_mode(C, y, c, P, np.append(theta[active], bias))

    active, C, mode = build(alpha, theta, bias)
    path, barred, last = [mode.evidence], np.zeros(M, dtype=bool), np.inf
    for n_iter in range(1, max_iter + 1):
        s, q = factors(Phi, squares, C, mode)
        rest = np.maximum(1.0 - s[active] / alpha[active], 1e-12)
        s[active], q[active] = s[active] / rest, q[active] / rest
        wanted = np.where(q * q > s, s * s / np.maximum(q * q - s, SLIGHT), np.inf)
        wanted = np.where(wanted > GONE, np.inf, np.maximum(wanted, SLIGHT))
        gain = gain_of(wanted, s, q) - gain_of(alpha, s, q)
        gain[barred] = 0.0
        best = first_of_the_best(gain)
        last = float(gain[best])
        if last <= tol:
            return _finished(active, mode, path, n_iter, True, last)
        together = alpha.copy()
        together[active] = wanted[active]
        together[best] = wanted[best]
        alone = alpha.copy()
        alone[best] = wanted[best]
        theta[:] = 0.0
        theta[active] = mode.theta[:-1]
        for proposal in (together, alone):
            new = build(proposal, theta, float(mode.theta[-1]))
            if new[2].evidence > mode.evidence:
                alpha, (active, C, mode) = proposal, new
                barred[:] = False
                break
        else:
            barred[best] = True
        path.append(mode.evidence)
        progress = Progress("rounds", n_iter, max_iter, mode.evidence, last)
        if watch(progress, Standing(alpha, _spread(M, active, mode.theta))):
            return _finished(active, mode, path, n_iter, False, last)
    return _finished(active, mode, path, max_iter, False, last)


def em(
    Phi: Array,
    y: Array,
    c: Array,
    tol: float = 1e-3,
    max_iter: int = 1000,
    start: Standing | None = None,
    watch: Watch = silent,
) -> Sparse:
    r"""All columns at first; :math:`\alpha_j \leftarrow (1 - \alpha_j\Sigma_{jj})/w_j^2`, pruning.

    The update of MacKay and Tipping (2001), which Chen et al. compare with.  Stops when nothing was
    pruned and ten rounds like the last would move the log evidence by less than ``tol``.
    """
    M = Phi.shape[1]
    alpha, theta = start or Standing(np.full(M, 1.0 / M), np.zeros(M + 1))
    active = np.flatnonzero(np.isfinite(alpha))
    C = np.hstack([Phi[:, active], np.ones((Phi.shape[0], 1))])
    P, theta = np.append(alpha[active], BIAS), theta[np.append(active, M)]
    path: list[float] = []
    change, pruned = np.inf, True
    for n_iter in range(1, max_iter + 1):
        mode = find_mode(C, y, c, P, theta)
        path.append(mode.evidence)
        if not pruned and n_iter > 1:
            change = WORTH * abs(path[-1] - path[-2])
            if change < tol:
                return _finished(active, mode, path, n_iter, True, change)
        root = solve_triangular(mode.L, np.eye(P.size), lower=True, check_finite=False)
        known = 1.0 - P * np.einsum("ij,ij->j", root, root)
        square = np.maximum(mode.theta**2, np.finfo(float).tiny)
        new = np.maximum(np.maximum(known, SLIGHT) / square, SLIGHT)
        new[-1] = BIAS
        keep = new < GONE
        pruned = not keep.all()
        C, P, theta = C[:, keep], new[keep], mode.theta[keep]
        active = active[keep[:-1]]
        alpha = np.full(M, np.inf)
        alpha[active] = P[:-1]
        progress = Progress("rounds", n_iter, max_iter, path[-1], change)
        if watch(progress, Standing(alpha, _spread(M, active, theta))):
            max_iter = n_iter
            break
    mode = find_mode(C, y, c, P, theta)
    return _finished(active, mode, path, max_iter, False, change)


def _spread(M: int, active: Array, theta: Array) -> Array:
    out = np.zeros(M + 1)
    out[np.append(active, M)] = theta
    return out


def _finished(
    active: Array, mode: Mode, path: list[float], n_iter: int, converged: bool, change: float
) -> Sparse:
    return Sparse(active, mode.theta, mode.Q, mode.evidence, path, n_iter, converged, change)
