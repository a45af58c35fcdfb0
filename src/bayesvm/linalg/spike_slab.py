r"""Selection priors: coefficients :math:`\gamma_k \mathsf v_k` with :math:`\gamma_k \in \{0, 1\}`.

A variational sweep solves for :math:`\mathsf v` with sums over rows that account for the
inclusion probabilities (gates), and updates these one by one.  A Gibbs sweep draws the
indicators with the coefficients integrated out, then the coefficients.  Both need only sums over
rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import expit, logit

from ..core.precision import Precision, add_precision, scaled_cholesky, split
from ..core.types import Array, Coef, Stats
from .arrow import eliminate
from .covariances import GatedCovariance
from .forms import Bordered, Dense, Factored

OPEN = 40.0  # log odds of an inclusion probability of one

# ---------------------------------------------------------------------------------------------
# Variational inclusion probabilities


def gated_coef(coef: Coef, gate: Array | None) -> Coef:
    """The distribution of gamma v, from the distribution of v."""
    if gate is None:
        return coef
    cov = coef.cov if coef.cov.is_point else GatedCovariance(coef.cov, gate, coef.mean)
    return Coef(gate * coef.mean, cov)


def through_gates(stats: Stats, gate: Array, inner: Array) -> Stats:
    """Sums over rows for v, whose mean is ``inner``, given inclusion probabilities ``gate``."""
    own = gate * (1.0 - gate) * stats.S.diag()
    return replace(stats, S=stats.S.gated(gate), g=gate * stats.g - own * inner)


def update_gates(stats: Stats, old: Array, coef: Coef, odds: Array, gate: Array) -> Array:
    """Update the log odds of inclusion one by one (Luts & Ormerod, Algorithm 3, the loop over k).

    ``old`` is the mean at which the sums over rows were computed.
    """
    if isinstance(stats.S, Factored):
        return _update_by_rows(stats, old, coef, odds, gate)
    h, free = stats.g + stats.S @ old, np.flatnonzero(np.isfinite(odds))
    units = (np.arange(gate.size)[:, None] == free).astype(float)
    second = coef.cov.solve(units).T + np.outer(coef.mean[free], coef.mean)
    A, pull = stats.S.rows(free) * second, coef.mean * h
    gate, eta = gate.copy(), np.full(gate.size, np.inf)
    for a, k in zip(A, free, strict=True):
        eta[k] = odds[k] + pull[k] - 0.5 * a[k] - (a @ gate - a[k] * gate[k])
        gate[k] = expit(eta[k])
    return eta


def _update_by_rows(
    stats: Stats, old: Array, coef: Coef, odds: Array, gate: Array, together: int = 128
) -> Array:
    r""":func:`update_gates` for more columns than rows, without a K by K matrix.

    With :math:`\Sigma = D^{-1} - T^\top T` the sum over the other columns is

    .. math::

        \sum_{j \ne k} g_j S_{kj}(\Sigma_{kj} + \mu_k\mu_j)
            = c_k^\top W\Big(\mu_k \sum_j g_j\mu_j c_j
              - \sum_j g_j c_j t_j^\top\, t_k\Big) - \text{the summand of k},

    and the two sums over *j*, n and n by n, are updated for blocks of ``together`` columns.
    """
    cov: Any = coef.cov
    C, w, T, mu = stats.S.C, stats.S.w, cov.T, coef.mean
    push, own = mu * (stats.g + stats.S @ old), stats.S.diag()
    gate, eta = gate.copy(), np.full(gate.size, np.inf)
    f, M = C @ (gate * mu), (C * gate) @ T.T
    free = np.flatnonzero(np.isfinite(odds))
    for few in np.split(free, np.arange(together, free.size, together)):
        near, t, m, before = C[:, few], T[:, few], mu[few], gate[few]
        pulled = near * w[:, None]
        across = m * (pulled.T @ f) - np.einsum("ij,ij->j", pulled, M @ t)
        itself = own[few] * (m * m - np.einsum("ij,ij->j", t, t))
        alone = odds[few] + push[few] - 0.5 * (itself + own[few] / cov.P[few])
        alone += itself * before - across  # ignores changes of other columns in the block
        eta[few], change = alone, expit(alone) - before
        if np.max(np.abs(change)) > 1e-9:
            A = (pulled.T @ near) * (np.outer(m, m) - t.T @ t)
            for i, k in enumerate(few):
                eta[k] = alone[i] - A[i, :i] @ change[:i]
                change[i] = expit(eta[k]) - before[i]
        gate[few] = before + change
        f += near @ (m * change)
        M += (near * change) @ t.T
    return eta


# ---------------------------------------------------------------------------------------------
# Indicators drawn with the coefficients integrated out


class Integrated(NamedTuple):
    """The sums over rows of the dense columns, with group effects integrated out."""

    stats: Stats
    P: Array  # diagonal of the precision; the rest was added to S
    draw: Callable[[Array, np.random.Generator], Array]  # draws the effects given the coefficients


def integrated(stats: Stats, P: Precision, theta: Array) -> Integrated:
    groups, Q = eliminate(stats.S, P)
    q = Q.shape[0]
    corner, half = theta[:q], groups.inverse @ (stats.g - P * theta)[q:]
    diagonal, extra = split(P)[0][:q], np.zeros_like(Q)
    add_precision(extra, P)
    extra[np.diag_indices_from(extra)] -= diagonal
    g = stats.g[:q] - groups.U.T @ half - extra @ corner

    def draw(new: Array, rng: np.random.Generator) -> Array:
        out: Array = theta[q:] + groups.follow(half + rng.standard_normal(half.size), new - corner)
        return out

    return Integrated(Stats(Dense(Q + extra), g, stats.bound), diagonal, draw)


class Subset:
    r"""The Gaussian posterior of the active coefficients, updated when columns enter or leave.

    For an inactive column j, with Q the precision of the active ones,

    .. math::

        r_j = S_{jj} + P_j - S_{jA} Q^{-1} S_{Aj}, \qquad e_j = h_j - S_{jA} Q^{-1} h_A,

    and the log Bayes factor of including it is
    :math:`\frac12\log(P_j / r_j) + e_j^2 / 2r_j`.  For an active coefficient the values after its
    removal are :math:`r_j = 1 / (Q^{-1})_{jj}` and :math:`e_j = r_j \hat\beta_j`.  All of them
    are stored, so that decisions are free; a change costs :math:`O(|A| K)`, a rank-one step of the
    sweep operator.

    Coefficients with infinite prior odds are always active.
    """

    def __init__(self, stats: Stats, P: Array, theta: Array, odds: Array | None = None) -> None:
        if odds is not None:
            theta = np.where((theta == 0) & np.isposinf(odds), np.finfo(float).tiny, theta)
        self.S, self.P, self.active = stats.S, P, theta != 0
        A = self.columns = np.flatnonzero(theta)
        rows = self.S.rows(A)  # (m, K)
        Q = rows[:, A]
        Q[np.diag_indices_from(Q)] += P[A]
        self.inverse, self.slopes, self.mean = Q, rows, theta[A]  # if no column is active
        if A.size:
            L = scaled_cholesky(Q)[0]
            self.inverse = cho_solve((L, True), np.eye(A.size), check_finite=False)
            self.slopes = cho_solve((L, True), rows, check_finite=False)
            step = cho_solve((L, True), stats.g[A] - P[A] * theta[A], check_finite=False)
            self.mean = theta[A] + step
        gap = theta.copy()
        gap[A] -= self.mean
        self.e = stats.g + self.S @ gap
        self.r = self.S.diag() + P - np.einsum("ij,ij->j", rows, self.slopes)
        self._settle()

    def _settle(self) -> None:
        own = np.diag(self.inverse)
        self.r[self.columns], self.e[self.columns] = 1.0 / own, self.mean / own

    def evidence(self, j: Any) -> Array:
        """Log Bayes factor of including columns ``j``, each with the other columns unchanged."""
        r = np.maximum(self.r[j], self.P[j])  # less is rounding error
        return 0.5 * np.log(self.P[j] / r) + 0.5 * self.e[j] ** 2 / r

    def flip(self, k: int) -> None:
        """Include a column, or exclude it."""
        (self._leave if self.active[k] else self._enter)(k)
        self.active[k] = not self.active[k]
        self._settle()

    def _enter(self, k: int) -> None:
        r, e, row = max(self.r[k], self.P[k]), self.e[k], self.S.rows(np.array([k]))[0]
        c, v = row - row[self.columns] @ self.slopes, np.append(-self.slopes[:, k], 1.0)
        inverse, slopes, mean = np.outer(v, v / r), np.outer(v, c / r), v * (e / r)
        inverse[:-1, :-1] += self.inverse
        slopes[:-1] += self.slopes
        mean[:-1] += self.mean
        self.inverse, self.slopes, self.mean = inverse, slopes, mean
        self.r -= c * c / r
        self.e -= c * (e / r)
        self.columns = np.append(self.columns, k)

    def _leave(self, k: int) -> None:
        a, rest = int(np.flatnonzero(self.columns == k)[0]), self.columns != k
        own, r, e, mean = self.inverse[a, a], self.r[k], self.e[k], self.mean[a]
        b, column = self.slopes[a], self.inverse[rest, a] / own
        self.r += b * b / own
        self.e += b * (mean / own)
        self.r[k], self.e[k] = r, e
        slopes = self.slopes[rest]
        slopes -= np.outer(column, b)
        self.slopes = slopes
        self.mean = self.mean[rest] - column * mean
        self.inverse = self.inverse[np.ix_(rest, rest)] - np.outer(column, self.inverse[a, rest])
        self.columns = self.columns[rest]


def best_subset(stats: Stats, P: Precision, odds: Array, theta: Array, old: Array) -> Array:
    """Mask of the coefficients a greedy search from ``theta`` selects; sums are at mean ``old``."""
    shifted = replace(stats, g=stats.g + stats.S @ (old - theta))
    if isinstance(stats.S, Bordered):
        inner = integrated(shifted, P, theta)
        q = inner.stats.g.size
        kept = best_subset(inner.stats, inner.P, odds[:q], theta[:q], theta[:q])
        return np.concatenate([kept, np.ones(theta.size - q, dtype=bool)])
    subset, free = Subset(shifted, P, theta, odds), np.flatnonzero(np.isfinite(odds))
    for _ in range(4 * free.size):
        log_odds = odds[free] + subset.evidence(free)
        gain = np.where(subset.active[free], -log_odds, log_odds)
        worst = int(np.argmax(gain))
        if gain[worst] <= 0:
            break
        subset.flip(int(free[worst]))
    return subset.active


def draw_subset(
    stats: Stats, P: Precision, odds: Array, theta: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draw the indicators, then the coefficients; also returns inclusion probabilities.

    Columns are updated in random order with the coefficients integrated out (Polson & Scott,
    section 4.2); decisions between two changes are vectorised.
    """
    if isinstance(stats.S, Bordered):
        inner = integrated(stats, P, theta)
        q = inner.stats.g.size
        corner, inclusion = draw_subset(inner.stats, inner.P, odds[:q], theta[:q], rng)
        effects = inner.draw(corner, rng)
        return np.concatenate([corner, effects]), np.concatenate([inclusion, np.ones(effects.size)])
    subset, free = Subset(stats, P, theta, odds), np.flatnonzero(np.isfinite(odds))
    inclusion = np.ones(theta.size)
    order = rng.permutation(free)
    level = logit(rng.random(order.size))
    first = 0
    while first < order.size:
        rest = order[first:]
        log_odds = odds[rest] + subset.evidence(rest)
        changes = np.flatnonzero((level[first:] < log_odds) != subset.active[rest])
        count = int(changes[0]) + 1 if changes.size else rest.size
        inclusion[rest[:count]] = expit(log_odds[:count])
        if changes.size:
            subset.flip(int(rest[count - 1]))
        first += count
    return _draw_active(stats, P, theta, subset.active, rng), inclusion


def _draw_active(
    stats: Stats, P: Array, theta: Array, active: Array, rng: np.random.Generator
) -> Array:
    """Draw the active coefficients, from a new factorisation and in residual form."""
    A = np.flatnonzero(active)
    if not A.size:
        return np.zeros_like(theta)
    kept = np.where(active, theta, 0.0)
    Q = stats.S.rows(A)[:, A]
    Q[np.diag_indices_from(Q)] += P[A]
    L, _ = scaled_cholesky(Q)
    slope = stats.g[A] + (stats.S @ (theta - kept))[A] - P[A] * kept[A]
    z = solve_triangular(L, slope, lower=True, check_finite=False) + rng.standard_normal(A.size)
    out = np.zeros_like(theta)
    out[A] = kept[A] + solve_triangular(L, z, lower=True, trans=1, check_finite=False)
    return out
