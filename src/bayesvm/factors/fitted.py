"""What a fit of a factor model leaves behind, whichever machine and scheme it was.

All four kinds answer the same questions: scores of rows without a label, moments of f there, the
same moments at the rows learned from with each row's label left out, loadings with their spread,
and how much f changes along each factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.optimize import linear_sum_assignment

from ..designs.latent import predicted
from ..inference.loop import State
from ..model import Problem
from ..stats import moments
from ..types import Array, Rows
from .kernel import KernelDraw, KernelFactors, KernelState, collapse
from .linear import LinearDraw
from .loadings import Loadings, project
from .sheet import Scores, Sheet

Pair = tuple[Array, Array]


class Fitted(Protocol):
    """A fitted factor model with its machines."""

    def scores(self, sheet: Sheet) -> Pair: ...  # mean and standard deviation, (n, K)
    def moments(self, sheet: Sheet) -> Pair: ...  # of f, (n, machines)
    def left_out(self, sheet: Sheet) -> Pair: ...  # at the rows learned from
    def loadings(self) -> Pair: ...  # mean and standard deviation, (d, K)
    def slopes(self) -> Array: ...  # mean square of the slope of f along each factor, (K,)

    @property
    def psi(self) -> float: ...  # noise precision


def spread_of(scores: Scores) -> Array:
    """Standard deviations of scores, ``(n, K)``."""
    assert scores.cov is not None
    sd = np.sqrt(np.diagonal(scores.cov, axis1=-2, axis2=-1))
    return np.array(np.broadcast_to(sd, scores.mean.shape))


def mixed(parts: list[Pair]) -> Pair:
    """Mean and variance of an equal mixture."""
    m = np.stack([p[0] for p in parts])
    v = np.mean([p[1] for p in parts], axis=0) + m.var(axis=0)
    return m.mean(axis=0), v


# ---------------------------------------------------------------------------------------------
# Linear machines


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Variational: the state of the common engine."""

    problem: Problem
    state: State

    @property
    def params(self) -> Loadings:
        design = self.problem.model.terms[-1].design
        held = self.state.latents[-1].params if self.state.latents else design.q
        return held  # type: ignore[no-any-return]

    def _rows(self, X: Array) -> Rows:
        model = self.problem.model
        return predicted(model, X, (None, self.params)) if self.state.latents else model.rows(X)

    def scores(self, sheet: Sheet) -> Pair:
        found = project(sheet, self.params)
        return found.mean, spread_of(found)

    def moments(self, sheet: Sheet) -> Pair:
        m, v = moments(self._rows(sheet.table()), self.state.coef)
        return m[:, None], np.broadcast_to(v, m.shape)[:, None]

    def left_out(self, sheet: Sheet) -> Pair:
        """One copy of a row leaves the coefficients, and its scores forget its label."""
        problem = self.problem.at(self.state.latents)
        model, coef = problem.model, self.state.coef
        blocks = problem.blocks
        rows = [problem.rows(b) for b in blocks]
        trained = Rows(np.concatenate([r.C for r in rows]))
        V = np.zeros((blocks.n, model.width, model.width))
        if self.state.latents:
            where = model.slices[-1]
            V[:, where, where] = self.state.latents[-1].cells[0].cov
        m, v = problem.moments(coef)
        copies = np.broadcast_to(blocks.copies, blocks.c.shape)
        once = blocks.c / np.maximum(copies, 1.0)
        local = model.likelihood.expected(blocks.y, m, v).times(once)
        C = trained.C
        pull = local.w[:, None, None] * (C[:, :, None] * C[:, None, :] + V)
        Q = np.linalg.inv(coef.cov.dense())
        cov = np.linalg.inv(Q - pull)
        b = local.g + local.w * m
        mean = np.einsum("ijk,ik->ij", cov, Q @ coef.mean - b[:, None] * C)
        new = self._rows(sheet.table())
        spread = np.einsum("ij,ijk,ik->i", new.C, cov, new.C, optimize=True)
        for where, cells in new.V:
            square = cov[:, where, where] + mean[:, where, None] * mean[:, None, where]
            spread += np.einsum("ijk,ijk->i", square, cells[0].cov)
        return np.einsum("ij,ij->i", new.C, mean)[:, None], spread[:, None]

    def loadings(self) -> Pair:
        q = self.params
        return q.mean, np.sqrt(np.diagonal(q.cov, axis1=1, axis2=2))

    def slopes(self) -> Array:
        coef = self.state.coef
        return np.asarray(coef.mean[1:] ** 2 + coef.cov.diag()[1:])

    @property
    def psi(self) -> float:
        return self.params.psi


@dataclass(frozen=True, eq=False)
class ProjectedScores:
    """Scores of a factor model that labels do not touch, as plain columns."""

    q: Loadings

    @property
    def width(self) -> int:
        return int(self.q.mean.shape[1])

    def columns(self, X: Any, out: Array | None = None) -> Array:
        W = project(Sheet.of(X), self.q).mean
        if out is None:
            return W
        out[:] = W
        return out


# ---------------------------------------------------------------------------------------------
# Draws


class _Draws:
    """What draws of either machine share: factors in the same order and with the same signs."""

    draws: list[Any]

    @cached_property
    def order(self) -> list[Pair]:
        """Of each draw, which of its factors stands where, and with which sign."""
        return aligned([d.loadings.A for d in self.draws])

    def scores(self, sheet: Sheet) -> Pair:
        parts = []
        for draw, (at, sign) in zip(self.draws, self.order, strict=True):
            found = project(sheet, draw.loadings)
            parts.append((found.mean[:, at] * sign, spread_of(found)[:, at] ** 2))
        mean, var = mixed(parts)
        return mean, np.sqrt(var)

    def loadings(self) -> Pair:
        A = self.loading_draws()
        return A.mean(axis=0), A.std(axis=0)

    def loading_draws(self) -> Array:
        """``(draws, d, K)``, aligned."""
        pairs = zip(self.draws, self.order, strict=True)
        return np.stack([d.loadings.A[:, at] * sign for d, (at, sign) in pairs])

    @property
    def psi(self) -> float:
        return float(np.mean([d.loadings.psi for d in self.draws]))


@dataclass(frozen=True, eq=False)
class LinearDraws(_Draws):
    """Draws of coefficients and loadings."""

    draws: list[LinearDraw]
    problem: Problem

    def _moments(self, sheet: Sheet, draw: LinearDraw) -> Pair:
        found = project(sheet, draw.loadings)
        beta = draw.theta[1:]
        assert found.cov is not None
        v = np.einsum("j,...jk,k->...", beta, found.cov, beta)
        m = draw.theta[0] + found.mean @ beta
        return m[:, None], np.broadcast_to(v, m.shape)[:, None]

    def moments(self, sheet: Sheet) -> Pair:
        return mixed([self._moments(sheet, draw) for draw in self.draws])

    def left_out(self, sheet: Sheet) -> Pair:
        """Draws weighted by one over what they gave the row's label."""
        y, lik = self.problem.blocks.y, self.problem.model.likelihood
        m, v = (np.stack(x)[:, :, 0] for x in zip(*[self._moments(sheet, d) for d in self.draws]))
        # given the label-free scores, a row's own label says little of theta: K numbers, n rows
        log_w = -lik.log_prob(y, m)
        w = np.exp(log_w - log_w.max(axis=0))
        w /= w.sum(axis=0)
        mean = np.sum(w * m, axis=0)
        var = np.sum(w * (v + (m - mean) ** 2), axis=0)
        return mean[:, None], var[:, None]

    def slopes(self) -> Array:
        pairs = zip(self.draws, self.order, strict=True)
        return np.mean([d.theta[1:][at] ** 2 for d, (at, _) in pairs], axis=0)


@dataclass(frozen=True, eq=False)
class KernelDraws(_Draws):
    """Draws of everything but f, which is integrated out."""

    draws: list[KernelDraw]
    problem: KernelFactors
    dice: Array  # (draws, K): new rows share a draw's deviation, so that each is judged alone

    def moments(self, sheet: Sheet) -> Pair:
        return mixed([self._at(sheet, d, z, False) for d, z in zip(self.draws, self.dice)])

    def left_out(self, sheet: Sheet) -> Pair:
        return mixed([self._at(sheet, d, z, True) for d, z in zip(self.draws, self.dice)])

    def _at(self, sheet: Sheet, draw: KernelDraw, z: Array, out: bool) -> Pair:
        found = project(sheet, draw.loadings)
        assert found.cov is not None
        W = found.mean + np.einsum("...jk,k->...j", np.linalg.cholesky(found.cov), z)
        return kernel_moments(self.problem, draw.kernel, W, draw.W, draw.sites, out)

    def slopes(self) -> Array:
        parts = []
        for draw, (at, _) in zip(self.draws, self.order, strict=True):
            K = self.problem.gram(draw.kernel, draw.W)
            alphas = [collapse(K, s).alpha for s in draw.sites]
            parts.append(kernel_slopes(self.problem, draw.kernel, draw.W, draw.W, alphas)[1][at])
        return np.mean(parts, axis=0)


# ---------------------------------------------------------------------------------------------
# Kernel machines


@dataclass(frozen=True, eq=False)
class KernelFit:
    """Variational EM."""

    problem: KernelFactors
    state: KernelState

    def scores(self, sheet: Sheet) -> Pair:
        found, s = project(sheet, self.state.loadings), self._unit
        return found.mean / s, spread_of(found) / s

    @cached_property
    def _unit(self) -> float:
        return self.problem.spread(self.state.W)

    def moments(self, sheet: Sheet) -> Pair:
        return self._at(sheet, False)

    def left_out(self, sheet: Sheet) -> Pair:
        return self._at(sheet, True)

    def _at(self, sheet: Sheet, out: bool) -> Pair:
        """Moments at the mean scores, and to first order what their spread adds."""
        problem, state = self.problem, self.state
        found = project(sheet, state.loadings)
        sites = [fit.sites for fit in state.fits]
        m, v = kernel_moments(problem, state.kernel, found.mean, state.W, sites, out)
        alphas = [fit.alpha for fit in state.fits]
        slopes, _ = kernel_slopes(problem, state.kernel, found.mean, state.W, alphas)
        return m, v + np.einsum("nja,...ab,njb->nj", slopes, found.cov, slopes, optimize=True)

    def loadings(self) -> Pair:
        q, s = self.state.loadings, self._unit
        return q.mean * s, np.sqrt(np.diagonal(q.cov, axis1=1, axis2=2)) * s

    def slopes(self) -> Array:
        problem, state = self.problem, self.state
        alphas = [fit.alpha for fit in state.fits]
        return kernel_slopes(problem, state.kernel, state.W, state.W, alphas)[1] * self._unit**2

    @property
    def psi(self) -> float:
        return self.state.loadings.psi


def kernel_moments(
    problem: KernelFactors, kernel: Any, new: Array, W: Array, sites: Any, out: bool
) -> Pair:
    r"""Moments of f at new scores; with ``out``, those of the training rows, each row's own site
    weakened by one copy.

    With :math:`P = C^{-1}`, :math:`C = K + W^{-1}`, and :math:`\alpha = Pt`, weakening site i adds
    to :math:`C_{ii}` and so takes :math:`\rho_i P_i P_i^\top` from *P*, with
    :math:`\rho_i = 1/(P_{ii} + w_i(c_i - 1)_+)`: all of row i where it counts once.
    """
    K = problem.gram(kernel, W)
    cross, diag = problem.cross(kernel, new, W)
    means, spreads = [], []
    for each in sites:
        part = collapse(K, each)
        T = cross @ part.inverse
        m, v = cross @ part.alpha, diag - np.einsum("ij,ij->i", T, cross)
        if out:
            own = np.einsum("ii->i", T)
            left = each.w * np.maximum(problem.sheet.c - 1.0, 0.0)
            rho = 1.0 / (np.diag(part.inverse) + left)
            m, v = m - rho * own * part.alpha, v + rho * own * own
        means.append(m)
        spreads.append(np.maximum(v, 1e-12 * diag))
    return np.stack(means, axis=1), np.stack(spreads, axis=1)


def kernel_slopes(
    problem: KernelFactors, kernel: Any, new: Array, W: Array, alphas: list[Array]
) -> Pair:
    """Slopes of the mean of f at new scores, ``(n, machines, K)``, and their mean square."""
    s = problem.spread(W)
    parts = []
    for alpha in alphas:
        G = np.broadcast_to(alpha, (new.shape[0], alpha.size))
        parts.append(kernel.pull_points(G, new / s, W / s)[0] / s)
    slopes = np.stack(parts, axis=1)
    return slopes, np.mean(slopes**2, axis=(0, 1))


# ---------------------------------------------------------------------------------------------
# Factors of different draws


def aligned(loadings: list[Array]) -> list[Pair]:
    """Permutation and signs that bring each draw's factors closest to the average of all."""
    reference = loadings[-1]
    K = reference.shape[1]
    order = [(np.arange(K), np.ones(K))] * len(loadings)
    for _ in range(2):
        order = [_match(A, reference) for A in loadings]
        reference = np.mean([A[:, at] * sign for A, (at, sign) in zip(loadings, order)], axis=0)
    return order


def _match(A: Array, reference: Array) -> Pair:
    cross = reference.T @ A
    _, at = linear_sum_assignment(-np.abs(cross))
    return at, np.where(cross[np.arange(at.size), at] < 0, -1.0, 1.0)
