r"""Coefficients that may be exactly zero: gates.

A selection prior writes a coefficient as :math:`\gamma_k \mathsf v_k` with
:math:`\gamma_k \in \{0, 1\}`.  Rows never learn of it: they see the two moments of the product.
Schemes hardly do: a variational sweep solves for :math:`\mathsf v` with statistics that went
through the gates, a chain draws gates and coefficients together.  All that is in this file, and it
works from the sums over rows alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import expit, logit

from ..core.types import Array, Coef, Columns, Stats
from .arrow import Bordered
from .covariances import scaled_cholesky
from .elimination import eliminate
from .forms import Dense, Factored, GatedRows, scaled, squared
from .precision import Blocked, Precision, add_precision

TOGETHER = 128  # columns whose gates are updated in one go, where columns outnumber rows
SAME = 1e-9  # change of a gate that others in the same go need not know of
OPEN = 40.0  # log odds at which a gate is open to the last digit
SWAPS = {Dense: 8, Factored: 2}  # exchanges offered in a sweep: rows of S cost more if factored
KINSHIP = 4  # power of the squared correlation by which partners of an exchange are chosen
STRANGERS = 1e-3  # what uncorrelated columns have of it together

# ---------------------------------------------------------------------------------------------
# Variational gates


@dataclass(frozen=True)
class GatedCovariance:
    r"""Covariance of :math:`\gamma \odot \mathsf v` with independent gates of means ``gate``.

    :math:`gg^\top \odot \Sigma + \mathrm{diag}\{g(1-g)(\Sigma_{kk} + \mu_k^2)\}`, a sum without
    cancellation.
    """

    is_point: ClassVar[bool] = False
    by_rows: ClassVar[bool] = False

    base: Any  # covariance of v
    gate: Array
    inner: Array  # mean of v

    @cached_property
    def _own(self) -> Array:
        """What the gates add to the diagonal."""
        return self.gate * (1.0 - self.gate) * (self.base.diag() + self.inner**2)

    def quad(self, C: Columns) -> Array:
        out: Array = self.base.quad(scaled(C, self.gate)) + squared(C) @ self._own
        return out

    def cross(self, C: Columns, where: slice) -> Array:
        base = self.base.cross(scaled(C, self.gate), where)
        out: Array = self.gate[where] * base + C[:, where] * self._own[where]
        return out

    def block(self, where: slice) -> Array:
        g = self.gate[where]
        out: Array = g[:, None] * self.base.block(where) * g + np.diag(self._own[where])
        return out

    def blocks(self, where: slice, r: int) -> Array:
        g, own = self.gate[where].reshape(-1, r), self._own[where].reshape(-1, r)
        base = self.base.blocks(where, r)
        out: Array = g[:, :, None] * base * g[:, None, :] + own[:, :, None] * np.eye(r)
        return out

    @property
    def patched(self) -> bool:
        return bool(self.base.patched)

    def diag(self) -> Array:
        out: Array = self.gate**2 * self.base.diag() + self._own
        return out

    def dense(self) -> Array:
        out: Array = self.gate[:, None] * self.base.dense() * self.gate + np.diag(self._own)
        return out

    def solve(self, x: Array) -> Array:
        out: Array = (self.gate * self.base.solve((self.gate * x.T).T).T + self._own * x.T).T
        return out

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        open_ = rng.random((n, self.gate.size)) < self.gate
        return open_ * (self.inner + self.base.sample(n, rng)) - self.gate * self.inner

    @property
    def logdet(self) -> float:
        return float(np.linalg.slogdet(self.dense())[1])

    def vector(self) -> Array:
        return np.concatenate([self.base.vector(), self.inner, self.gate])

    def restore(self, vector: Array) -> GatedCovariance:
        base, inner, gate = np.split(vector, [-2 * self.gate.size, -self.gate.size])
        return GatedCovariance(self.base.restore(base), gate, inner)


def seen(coef: Coef, gate: Array | None) -> Coef:
    """The coefficients as rows see them."""
    if gate is None or coef.cov.is_point:
        return coef if gate is None else Coef(gate * coef.mean, coef.cov)
    return Coef(gate * coef.mean, GatedCovariance(coef.cov, gate, coef.mean))


def through(stats: Stats, gate: Array, inner: Array) -> Stats:
    """What rows say of gated coefficients, as said of those behind the gates."""
    own = gate * (1.0 - gate) * stats.S.diag()
    H = None if stats.H is None else _gated(stats.H, gate)
    return replace(stats, S=_gated(stats.S, gate), g=gate * stats.g - own * inner, H=H)


def _gated(S: Any, gate: Array) -> Any:
    r""":math:`S \odot E[\gamma\gamma^\top]`."""
    if isinstance(S, Bordered):
        return S.gated(gate)
    if isinstance(S, Factored):
        return GatedRows(S.C * gate, S.w, gate * (1.0 - gate) * S.diag())
    M = gate[:, None] * S.M * gate
    M[np.diag_indices_from(M)] += gate * (1.0 - gate) * S.diag()
    return Dense(M)


def reopen(stats: Stats, old: Array, coef: Coef, odds: Array, gate: Array) -> Array:
    """Log odds of the gates, updated one after the other; ``old`` is what rows had seen.

    Luts & Ormerod, Algorithm 3, the loop over k.
    """
    if isinstance(stats.S, Factored):
        return _reopen_by_rows(stats, old, coef, odds, gate)
    h, free = stats.g + stats.S @ old, np.flatnonzero(np.isfinite(odds))
    unit = np.zeros((gate.size, free.size))
    unit[free, np.arange(free.size)] = 1.0
    second = coef.cov.solve(unit).T + np.outer(coef.mean[free], coef.mean)
    A, pull = stats.S.rows(free) * second, coef.mean * h
    gate, eta = gate.copy(), np.full(gate.size, np.inf)
    for a, k in zip(A, free, strict=True):
        eta[k] = odds[k] + pull[k] - 0.5 * a[k] - (a @ gate - a[k] * gate[k])
        gate[k] = expit(eta[k])
    return eta


def _reopen_by_rows(stats: Stats, old: Array, coef: Coef, odds: Array, gate: Array) -> Array:
    r"""The same for more columns than rows, without a matrix of the columns.

    With :math:`\Sigma = D^{-1} - T^\top T` the sum over the other gates is

    .. math::

        \sum_{j \ne k} g_j S_{kj}(\Sigma_{kj} + \mu_k\mu_j)
            = c_k^\top W\Big(\mu_k \sum_j g_j\mu_j c_j
              - \sum_j g_j c_j t_j^\top\, t_k\Big) - \text{the summand of k},

    and the two sums over *j*, n and n by n, are kept up to date, a few columns at a time.
    """
    cov: Any = coef.cov
    C, w, T, mu = stats.S.C, stats.S.w, cov.root, coef.mean
    push, own = mu * (stats.g + stats.S @ old), stats.S.diag()
    gate, eta = gate.copy(), np.full(gate.size, np.inf)
    f, M = C @ (gate * mu), (C * gate) @ T.T
    free = np.flatnonzero(np.isfinite(odds))
    for few in np.split(free, np.arange(TOGETHER, free.size, TOGETHER)):
        near, t, m, before = C[:, few], T[:, few], mu[few], gate[few]
        pulled = near * w[:, None]
        across = m * (pulled.T @ f) - np.einsum("ij,ij->j", pulled, M @ t)
        itself = own[few] * (m * m - np.einsum("ij,ij->j", t, t))
        alone = odds[few] + push[few] - 0.5 * (itself + own[few] / cov.P[few])
        alone += itself * before - across  # as if no other of these few moved
        eta[few], change = alone, expit(alone) - before
        if np.max(np.abs(change)) > SAME:
            A = (pulled.T @ near) * (np.outer(m, m) - t.T @ t)
            for i, k in enumerate(few):
                eta[k] = alone[i] - A[i, :i] @ change[:i]
                change[i] = expit(eta[k]) - before[i]
        gate[few] = before + change
        f += near @ (m * change)
        M += (near * change) @ t.T
    return eta


# ---------------------------------------------------------------------------------------------
# Gates decided with the coefficients integrated out


class Integrated(NamedTuple):
    """What rows say of plain columns once the effects of groups are integrated out."""

    stats: Stats
    P: Array  # what other factors' precision has off its diagonal went into S
    legs: Callable[[Array, np.random.Generator], Array]  # draw of the effects, given the columns


def integrated(stats: Stats, P: Precision, theta: Array) -> Integrated:
    legs, Q = eliminate(stats.S, P)
    q = Q.shape[0]
    corner, own = theta[:q], (stats.g - P * theta)[q:]
    extra = np.zeros_like(Q)
    add_precision(extra, P)
    diagonal = P.d[:q] if isinstance(P, Blocked) else P[:q]
    extra[np.diag_indices_from(extra)] -= diagonal
    g = stats.g[:q] - legs.pull(own) - extra @ corner

    def draw(new: Array, rng: np.random.Generator) -> Array:
        noise = rng.standard_normal(own.size)
        out: Array = theta[q:] + legs.follow(own, new - corner, noise)
        return out

    return Integrated(Stats(Dense(Q + extra), g, stats.bound), diagonal, draw)


class Subset:
    r"""The Gaussian of the active coefficients, kept up to date as columns enter and leave.

    For an inactive column j, with Q the precision of the active ones,

    .. math::

        r_j = S_{jj} + P_j - S_{jA} Q^{-1} S_{Aj}, \qquad e_j = h_j - S_{jA} Q^{-1} h_A,

    and the log Bayes factor of letting it in is
    :math:`\frac12\log(P_j / r_j) + e_j^2 / 2r_j`.  For an active one the same numbers are those it
    would have outside: :math:`r_j = 1 / (Q^{-1})_{jj}`, :math:`e_j = r_j \hat\beta_j`.  All of them
    are held, so that a decision costs nothing and only a change costs
    :math:`O(|A| K)`: a rank-one step of the sweep operator.
    """

    def __init__(self, stats: Stats, P: Array, theta: Array) -> None:
        self.S, self.P, K = stats.S, P, theta.size
        self.columns = np.flatnonzero(theta)
        m = self.columns.size
        self.active = theta != 0
        rows = self.S.rows(self.columns)  # (m, K)
        Q = rows[:, self.columns]
        Q[np.diag_indices_from(Q)] += P[self.columns]
        room = m + 8
        self._inverse, self._slopes = np.zeros((room, room)), np.zeros((room, K))
        self._mean = np.zeros(room)
        self._rows: dict[int, Array] = {}
        factor = (scaled_cholesky(Q)[0], True) if m else None
        if factor is not None:
            self._inverse[:m, :m] = cho_solve(factor, np.eye(m), check_finite=False)
            self._slopes[:m] = cho_solve(factor, rows, check_finite=False)
            at = theta[self.columns]
            step = stats.g[self.columns] - P[self.columns] * at
            self._mean[:m] = at + cho_solve(factor, step, check_finite=False)
        gap = theta.copy()
        gap[self.columns] -= self._mean[:m]
        self.e = stats.g + self.S @ gap
        self.own = self.S.diag()
        self.r = self.own + P - np.einsum("ij,ij->j", rows, self._slopes[:m])
        self._settle()

    def _parts(self) -> tuple[Array, Array, Array]:
        m = self.columns.size
        return self._inverse[:m, :m], self._slopes[:m], self._mean[:m]

    def _settle(self) -> None:
        inverse, _, mean = self._parts()
        own = np.diag(inverse)
        self.r[self.columns], self.e[self.columns] = 1.0 / own, mean / own

    def evidence(self, j: Any) -> Array:
        """Log Bayes factor of columns ``j`` being in against out, the others as they are."""
        r = np.maximum(self.r[j], self.P[j])  # less is rounding
        return 0.5 * np.log(self.P[j] / r) + 0.5 * self.e[j] ** 2 / r

    def row(self, k: int) -> Array:
        """A row of S, kept: an exchange asks for it twice."""
        if k not in self._rows:
            self._rows[k] = self.S.rows(np.array([k]))[0]
        return self._rows[k]

    def flip(self, k: int) -> None:
        (self._leave if self.active[k] else self._enter)(k)
        self._settle()

    def _enter(self, k: int) -> None:
        m = self.columns.size
        if m == self._mean.size:
            self._grow()
        inverse, slopes, mean = self._parts()
        r, e = max(self.r[k], self.P[k]), self.e[k]
        row = self.row(k)
        c = row - row[self.columns] @ slopes
        u = slopes[:, k].copy()
        inverse += np.outer(u, u / r)
        self._inverse[m, :m] = self._inverse[:m, m] = -u / r
        self._inverse[m, m] = 1.0 / r
        slopes -= np.outer(u, c / r)
        self._slopes[m] = c / r
        mean -= u * (e / r)
        self._mean[m] = e / r
        self.r -= c * c / r
        self.e -= c * (e / r)
        self.columns = np.append(self.columns, k)
        self.active[k] = True

    def _leave(self, k: int) -> None:
        a, last = int(np.flatnonzero(self.columns == k)[0]), self.columns.size - 1
        inverse, slopes, mean = self._parts()
        own, r, e = inverse[a, a], self.r[k], self.e[k]
        b, column = slopes[a].copy(), inverse[:, a] / own
        self.r += b * b / own
        self.e += b * (mean[a] / own)
        self.r[k], self.e[k] = r, e
        slopes -= np.outer(column, b)
        mean -= column * mean[a]
        inverse -= np.outer(column, inverse[a].copy())
        slopes[a], mean[a], self.columns[a] = slopes[last], mean[last], self.columns[last]
        inverse[a], inverse[:, a] = inverse[last], inverse[:, last]
        self.columns = self.columns[:last]
        self.active[k] = False

    def _grow(self) -> None:
        m = self.columns.size
        more = 2 * m + 8
        inverse, slopes, mean = self._inverse, self._slopes, self._mean
        self._inverse, self._slopes = np.zeros((more, more)), np.zeros((more, slopes.shape[1]))
        self._mean = np.zeros(more)
        self._inverse[:m, :m], self._slopes[:m], self._mean[:m] = inverse[:m, :m], slopes, mean


def best_subset(stats: Stats, P: Precision, odds: Array, theta: Array, old: Array) -> Array:
    """Which coefficients a greedy search from ``theta`` keeps; ``old`` is what rows saw."""
    shifted = replace(stats, g=stats.g + stats.S @ (old - theta))
    if isinstance(stats.S, Bordered):
        inner = integrated(shifted, P, theta)
        q = inner.stats.g.size
        kept = best_subset(inner.stats, inner.P, odds[:q], theta[:q], theta[:q])
        return np.concatenate([kept, np.ones(theta.size - q, dtype=bool)])
    held = np.where((theta == 0) & np.isposinf(odds), np.finfo(float).tiny, theta)
    subset = Subset(shifted, P, held)
    free = np.flatnonzero(np.isfinite(odds))
    for _ in range(4 * free.size):
        lean = odds[free] + subset.evidence(free)
        regret = np.where(subset.active[free], -lean, lean)
        worst = int(np.argmax(regret))
        if regret[worst] <= 0:
            break
        subset.flip(int(free[worst]))
    return subset.active


def draw_subset(
    stats: Stats, P: Precision, odds: Array, theta: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draw which coefficients are zero, then the others; also each column's chance to be in.

    Columns are visited in random order with the coefficients integrated out (Polson & Scott,
    section 4.2); between two changes all decisions are made together.  Then a few exchanges of a
    column inside with a correlated one outside.
    """
    if isinstance(stats.S, Bordered):
        inner = integrated(stats, P, theta)
        q = inner.stats.g.size
        corner, chance = draw_subset(inner.stats, inner.P, odds[:q], theta[:q], rng)
        legs = inner.legs(corner, rng)
        return np.concatenate([corner, legs]), np.concatenate([chance, np.ones(legs.size)])
    free = np.flatnonzero(np.isfinite(odds))
    held = np.where((theta == 0) & np.isposinf(odds), np.finfo(float).tiny, theta)
    subset = Subset(stats, P, held)
    chance = np.ones(theta.size)
    order = rng.permutation(free)
    dice = logit(rng.random(order.size))
    first = 0
    while first < order.size:
        rest = order[first:]
        lean = odds[rest] + subset.evidence(rest)
        changes = np.flatnonzero((dice[first:] < lean) != subset.active[rest])
        count = int(changes[0]) + 1 if changes.size else rest.size
        chance[rest[:count]] = expit(lean[:count])
        if changes.size:
            subset.flip(int(rest[count - 1]))
        first += count
    for _ in range(SWAPS[type(stats.S)]):
        swap(subset, odds, free, rng)
    return _draw_active(stats, P, theta, subset.active, rng), chance


def swap(subset: Subset, odds: Array, free: Array, rng: np.random.Generator) -> None:
    """Offer to exchange a column inside with one outside, the likelier the more they correlate."""
    inside, outside = free[subset.active[free]], free[~subset.active[free]]
    if not inside.size or not outside.size:
        return
    i = int(rng.choice(inside))
    forth = _kinship(subset, i, outside)
    j = int(rng.choice(outside, p=forth / forth.sum()))
    back = _kinship(subset, j, np.append(outside[outside != j], i))
    subset.flip(i)
    lean = odds[[j, i]] + subset.evidence([j, i])
    ratio = lean[0] - lean[1] + np.log(forth.sum() / back.sum())
    subset.flip(j if -rng.standard_exponential() < ratio else i)


def _kinship(subset: Subset, i: int, others: Array) -> Array:
    size = np.maximum(subset.own[i] * subset.own[others], 1e-300)
    square = subset.row(i)[others] ** 2 / size
    out: Array = square**KINSHIP + STRANGERS / subset.P.size
    return out


def _draw_active(
    stats: Stats, P: Array, theta: Array, active: Array, rng: np.random.Generator
) -> Array:
    """Coefficients of the active columns, from a fresh factor and in residual form."""
    A = np.flatnonzero(active)
    if not A.size:
        return np.zeros_like(theta)
    kept = np.where(active, theta, 0.0)
    Q = stats.S.block(A)
    Q[np.diag_indices_from(Q)] += P[A]
    L, _ = scaled_cholesky(Q)
    slope = stats.g[A] + stats.S.times(theta - kept, A) - P[A] * kept[A]
    z = solve_triangular(L, slope, lower=True, check_finite=False) + rng.standard_normal(A.size)
    out = np.zeros_like(theta)
    out[A] = kept[A] + solve_triangular(L, z, lower=True, trans=1, check_finite=False)
    return out
